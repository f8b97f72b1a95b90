"""The checker of English: what it finds, and what it leaves alone."""

from pathlib import Path

import pytest

from tools import prose


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("at most so many pairs", "so many"),
        ("the run is begun\nanew", "begun"),
        ("whoever gives a limit", "whoever"),
        ("somebody   else's file", "somebody else's"),
        ("Ties fall\notherwise here", "fall otherwise"),
        ("what is sampled", "what is sampled"),
    ],
)
def test_phrases_that_the_style_rules_out_are_found(text: str, phrase: str) -> None:
    assert phrase in [finding.phrase for finding in prose.check_words("page.md", text)]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("This page is for you if you train", "This page is for"),
        ("the page\nnames every flag", "page names"),
        ("The folder has a card", "folder has"),
        ("It is cut, and it is lost", "and it is"),
        ("the behaviour of the model", "behaviour"),
        ("Of course, texts stay", "Of course"),
    ],
)
def test_habits_are_found_on_pages_alone(text: str, phrase: str) -> None:
    assert phrase in [finding.phrase for finding in prose.check_words("docs/faq.md", text)]
    assert prose.check_words("dragoman/files.py", text) == []


@pytest.mark.parametrize(
    "text", ["one line has a tab", "the table named below", "The file is read, and its lines are counted."]
)
def test_plain_pages_are_left_alone(text: str) -> None:
    assert prose.check_words("docs/faq.md", text) == []


@pytest.mark.parametrize(
    "text",
    ["there were so many pairs that memory ran out", "the run has begun", "not so many", "a recommended amendment"],
)
def test_plain_english_with_the_same_words_is_left_alone(text: str) -> None:
    assert prose.check_words("page.md", text) == []


def test_comments_and_strings_of_python_are_prose_and_identifiers_are_not() -> None:
    source = '''
begun = "so" + "many"  # a fine
# comment, so
# many words
def anew() -> str:
    """Begun: first line.

    Once more, on line 7.
    """
    return f"{begun} whoever"
'''
    found = prose.check_words("file.py", prose.prose_of("file.py", source))
    assert [(one.line, one.phrase) for one in found] == [
        (3, "so many"),
        (6, "Begun"),
        (8, "Once more"),
        (10, "whoever"),
    ]


def test_code_and_link_targets_of_markdown_are_not_prose() -> None:
    page = "Text `begun`.\n\n```\nanew\n```\n\n[link](begun.md) and\n\n~~~sh\nmend\n~~~\nwhoever\n"
    found = prose.check_words("page.md", prose.prose_of("page.md", page))
    assert [(one.line, one.phrase) for one in found] == [(12, "whoever")]


def test_sentences_end_at_full_stops_but_not_inside_abbreviations_versions_and_file_names() -> None:
    text = "Use a tokenizer, e.g. Marian's, in v1.2 of run.py. Then go! Is it? Yes:\nThe end (at last.) `x` is one."
    assert [sentence.strip() for sentence in prose.split_sentences(text)] == [
        "Use a tokenizer, e.g. Marian's, in v1.2 of run.py.",
        "Then go!",
        "Is it?",
        "Yes:",
        "The end (at last.)",
        "`x` is one.",
    ]


def test_long_sentences_are_found_with_their_lines_outside_code_tables_and_front_matter() -> None:
    long = "word " * 36
    page = f"""---
title: {long}
---

# {long}

Short. Also
short. W{long[1:]}

| {long} |
|---|
| {long} |

```
{long}
```

- An item
- {long}

```{{note}}
Short.
{long}
```
"""
    assert [finding.line for finding in prose.check_sentences("page.md", page)] == [8, 19, 22]


def test_code_counts_as_one_word_and_a_url_as_none() -> None:
    sentences = [
        text for _, text in prose.sentences_of("Run `a b c` of [this page](x.md) and https://example.org/a now.")
    ]
    assert [prose.count_words(text) for text in sentences] == [7]


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        ("Add fuzzy matches to translate\n\nWhy.\n", []),
        ("# a comment\nAdd it\n", []),
        ("x" * 73, ["subject"]),
        ("fixup! " + "x" * 72, []),
        ("Merge " + "x" * 72, []),
        ("", ["subject"]),
        ("Add it\nand more", ["body"]),
        ("Start anew", ["word"]),
    ],
)
def test_commit_messages(message: str, rules: list[str]) -> None:
    assert [finding.rule for finding in prose.check_commit_message(message)] == rules


def test_a_commit_message_is_refused_by_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "message"
    file.write_text("x" * 80)
    assert prose.main(["--commit-message", str(file)]) == 1
    assert "80 characters, shorten it to at most 72" in capsys.readouterr().out
    file.write_text("Add it")
    assert prose.main(["--commit-message", str(file)]) == 0


def test_a_phrase_is_allowed_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("Our Company works.\n")
    found = prose.check_files(["one.md", "two.md"], [{"file": "one.md", "phrase": "company"}])
    assert [finding.path for finding in found] == ["two.md"]
