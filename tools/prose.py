"""Checks the English of the project: long sentences, words that our style rules out, and commit messages.

Three ways to call it:

    python tools/prose.py                            # every tracked file, except those listed as pending
    python tools/prose.py --all                      # pending files too, and the number of findings per file
    python tools/prose.py --commit-message FILE      # the message of a commit; for the commit-msg hook

A finding is one line, `file:line: rule: phrase: advice`, and any finding makes the exit code 1. Two tables in
pyproject.toml, below `[tool.prose]`, make exceptions: `allow` permits a phrase in one file, and `pending` lists the
paths that are not clean yet.
"""

import argparse
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

ROOT = Path(__file__).parents[1]
MAX_SENTENCE_WORDS = 35
MAX_SUBJECT_CHARACTERS = 72

# Phrase (a regular expression in which a space also matches a line break) and what to write instead.
PHRASES: dict[str, str] = {
    r"(?<!not\s)so many\b(?!( [\w-]+){0,3} that\b)": "N, up to N",
    r"(?<!has\s)(?<!had\s)(?<!have\s)begun\b": "started",
    r"anew\b": "again, new",
    r"once more\b": "again",
    r"mend(s|ed|ing)?\b": "fix",
    r"who(so)?ever\b": "anyone who, if you ...",
    r"(?:those )?who gives?\b": "if you set ...",
    r"(some|any|every|no)(body|one|thing)( else's)\b": "another's, a third-party ...",
    r"(is|are|was|were) to be had\b": "is available",
    r"(there|where)(of|in|by|upon|with)\b": "repeat the noun",
    r"falls? otherwise\b": "may be resolved differently",
    r"draws? otherwise\b": "uses other random numbers",
    r"in the place of\b": "instead of",
    r"asked for\b": "requested, set",
    r"gives? nothing\b": "does not help (measured: ...)",
    r"company\b": "the other texts in the batch",
    r"a room's\b": "a package's",
    r"(for|of|by|to) whom\b": "name the person",
    r"by which\b": "rephrase with a verb",
    r"such as are\b": "that are",
    r"what (is|are|was|were) (drawn|sampled|read|given|kept|asked|meant|said)\b": "name the thing",
    r"(by|go|goes|went) way of\b": "through, with",
    r"of (its|their) own (making|accord)\b": "itself, automatically",
    r"(is|are) (none|nothing) the less\b": "still",
    r"(in|with) (the )?like manner\b": "in the same way",
    r"(where|there)to\b": "to which, to it: repeat the noun",
    r"and the like\b": "and similar ...",
    r"(comes?|came) through\b": "stays unchanged, is kept",
    r"but for\b": "except for",
    r"(go|goes|going|went) on\b": "continue",
}
# The same for pages alone: habits that make a page longer or harder to read.
HABITS: dict[str, str] = {
    r"this page is for\b": "the outcome in one sentence",
    r"for you if\b": "the case itself",
    r"(page|report|table|chapter|section|message|log|card|changelog|folder|line|note|warning|error) "
    r"(names|tells|says|knows)\b": "lists, shows, contains",
    r"(folder|report|archive) has\b": "contains",
    r"models? (knows?|knew)\b": "has learned",
    r"verbs?\b": "command",
    r"(?<=,\s)and (it|they|this|these|that|those) (is|are|was|has|have|does|can|may|will)\b": "two sentences",
    r"(simply|of course)\b": "leave it out",
    r"in all(?=[.,;:])": "leave it out",
    r"(licence|tokenise|learnt|spelt|optimise|colour|behaviour|normalise|recognise|centre|whilst|artefact)": (
        "American spelling"
    ),
}


def _compiled(phrases: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(r"\b" + each.replace(" ", r"\s+"), re.I), advice) for each, advice in phrases.items()]


_RULES, _PAGE_RULES = _compiled(PHRASES), _compiled(HABITS)

_WHOLE_TEXT = {".md", ".toml", ".js", ".html", ".css", ".yml", ".yaml", ".cff", ".cfg", ""}
_PAGES_WITH_SENTENCES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "docs/*.md")
_ADMONITIONS = re.compile(r"\{(note|tip|warning|important|caution|hint|seealso|admonition|attention)\}")
_ABBREVIATION = re.compile(r"(\b(e\.g|i\.e|cf|vs|al|Fig|Eq|Sec|approx|ca|resp)|^\d+)\.$")
_SENTENCE_END = re.compile(r"[.!?][\"')\]*_]*(?=\s+[\"'(\[*_]*[A-Z`])|:(?=\n)")


@dataclass(frozen=True)
class Finding:
    """One line of output."""

    path: str
    line: int
    rule: str
    phrase: str
    advice: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: {self.rule}: "{self.phrase}": {self.advice}'


def is_page(path: str) -> bool:
    """Tell whether a file is a page of the documentation or of the project. The log is not."""
    return not path.startswith("docs/log/") and any(fnmatch.fnmatch(path, pattern) for pattern in _PAGES_WITH_SENTENCES)


def check_words(path: str, text: str) -> list[Finding]:
    """Return the ruled-out phrases in `text`, which contains prose only (see `prose_of`), and on pages the habits."""
    found = [
        Finding(path, text.count("\n", 0, match.start()) + 1, "word", " ".join(match[0].split()), f"write: {advice}")
        for pattern, advice in _RULES + (_PAGE_RULES if is_page(path) else [])
        for match in pattern.finditer(text)
    ]
    return sorted(found, key=lambda finding: finding.line)


def check_sentences(path: str, text: str) -> list[Finding]:
    """Return the sentences of a Markdown page that are longer than `MAX_SENTENCE_WORDS`."""
    return [
        Finding(path, line, "sentence", " ".join(sentence.split()[:6]) + " ...", f"{count} words, split it at 25 to 35")
        for line, sentence in sentences_of(text)
        if (count := count_words(sentence)) > MAX_SENTENCE_WORDS
    ]


def check_commit_message(text: str) -> list[Finding]:
    """Return what is wrong with the subject line of a commit message, and ruled-out phrases anywhere in it."""
    path = "commit message"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    subject = re.sub(r"^(fixup|squash|amend)! ", "", lines[0].strip()) if lines else ""
    findings = []
    if not subject:
        findings.append(Finding(path, 1, "subject", "", "write a subject in the imperative on the first line"))
    if len(subject) > MAX_SUBJECT_CHARACTERS and not subject.startswith(("Merge ", 'Revert "')):
        advice = f"{len(subject)} characters, shorten it to at most {MAX_SUBJECT_CHARACTERS}"
        findings.append(Finding(path, 1, "subject", subject[:30] + "...", advice))
    if len(lines) > 1 and lines[1].strip():
        findings.append(Finding(path, 2, "body", lines[1][:30], "leave the second line empty"))
    return findings + check_words(path, "\n".join(lines))


def prose_of(path: str, text: str) -> str:
    """Return `text` with the line breaks kept and everything that is not prose blanked out.

    Prose is comments and string literals in Python, and everything outside code and links in Markdown. Of other files
    it is the whole text.
    """
    if path.endswith(".py"):
        return _comments_and_strings(text)
    if path.endswith(".md"):
        return _without_code(text)
    return re.sub(r"(?m)^(\s*)#", r"\1 ", text)


def _comments_and_strings(text: str) -> str:
    """Return the comments and strings of Python source; NUL stands for code, so that no phrase spans two strings."""
    rows = [["\0" if not character.isspace() else character for character in line] for line in text.split("\n")]
    source = text.split("\n")
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in strings and token.type != tokenize.COMMENT:
            continue
        (first, start), (last, end) = token.start, token.end
        for number in range(first - 1, last):
            begin, stop = (start if number == first - 1 else 0), (end if number == last - 1 else len(source[number]))
            rows[number][begin:stop] = source[number][begin:stop]
        if token.type == tokenize.COMMENT:
            rows[first - 1][start] = " "
        elif first == last and re.match("[rR]?[fF]", token.string):  # before Python 3.12, with the code in the braces
            rows[first - 1][start:end] = re.sub(r"\{[^{}]*\}", lambda code: "\0" * len(code[0]), token.string)
    return "\n".join("".join(row) for row in rows)


def _without_code(text: str) -> str:
    """Blank out fenced code, inline code, and the targets of links in Markdown."""
    blank = re.compile(r"(?ms)^(?P<fence>[`~]{3,}).*?^(?P=fence)[`~]*\s*$|(?P<ticks>`+)[^`].*?(?P=ticks)|\]\([^)\n]*\)")
    return blank.sub(lambda match: re.sub(r"[^\n]", "\0", match[0]), text)


def sentences_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a Markdown page with their line numbers; code, tables, headings and URLs are left out."""
    parser = MarkdownIt("commonmark").enable("table").use(front_matter_plugin).use(dollarmath_plugin)
    inside = Counter[str]()
    for token in parser.parse(text):
        kind, _, side = token.type.rpartition("_")
        inside[kind] += token.nesting if side in ("open", "close") else 0
        if token.type == "fence" and _ADMONITIONS.match(token.info.strip()) and token.map:
            yield from ((token.map[0] + 1 + line, sentence) for line, sentence in sentences_of(token.content))
        if token.type == "inline" and token.map and not inside["table"] and not inside["heading"]:
            line = token.map[0] + 1
            for sentence in split_sentences("".join(map(_words_of, token.children or []))):
                yield line + len(sentence) - len(sentence.lstrip("\n")), sentence.strip()
                line += sentence.count("\n")


def _words_of(token: Token) -> str:
    """Return an inline token as text: code and formulas count as one word, URLs and pictures as none."""
    if token.type in ("code_inline", "math_inline", "math_inline_double"):
        return "`code`"
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    return re.sub(r"https?://\S+|^:::.*", "", token.content) if token.type == "text" else ""


def split_sentences(text: str) -> Iterator[str]:
    """Split after `.`, `!` or `?` before a capital, and after `:` at the end of a line; not after `e.g.` or `v1.`."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[start : match.start() + 1]):
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]


def count_words(sentence: str) -> int:
    """Count what is separated by spaces and contains a letter or a digit."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def check_files(paths: Iterable[str], allow: Sequence[dict[str, str]]) -> list[Finding]:
    """Check files, named relative to the root of the project; `allow` has a `file` and a `phrase` per entry."""
    allowed = {(entry["file"], entry["phrase"].lower()) for entry in allow}
    findings = []
    for path in paths:
        text = (ROOT / path).read_text(encoding="utf-8")
        found = check_words(path, prose_of(path, text))
        findings += [one for one in found if (path, one.phrase.lower()) not in allowed]
        if is_page(path):
            findings += check_sentences(path, text)
    return findings


def is_below(path: str, prefixes: Iterable[str]) -> bool:
    """Tell whether a path is one of the prefixes or inside one of these folders."""
    return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


def tracked_files() -> list[str]:
    """Return the files in git, new ones included, that contain words of ours."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(
        name
        for name in set(names)
        if (name.endswith(".py") or (Path(name).suffix in _WHOLE_TEXT and name)) and (ROOT / name).is_file()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Check the English of the project.")
    parser.add_argument("paths", nargs="*", help="files or folders to check instead of every tracked file")
    parser.add_argument("--all", action="store_true", help="include pending files and count findings per file")
    parser.add_argument("--commit-message", metavar="FILE", help="check the message of a commit")
    given = parser.parse_args(arguments)
    if given.commit_message:
        findings = check_commit_message(Path(given.commit_message).read_text(encoding="utf-8"))
    else:
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["prose"]
        paths = [path for path in tracked_files() if not is_below(path, settings["ignore"])]
        if given.paths:
            paths = [path for path in paths if is_below(path, given.paths)]
        elif not given.all:
            paths = [path for path in paths if not is_below(path, settings["pending"])]
        findings = check_files(paths, settings["allow"])
    for finding in findings:
        print(finding)
    if given.all:
        for path, count in Counter(finding.path for finding in findings).most_common():
            print(f"{count:5} {path}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
