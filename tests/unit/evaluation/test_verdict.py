"""The line at the end of training, case by case."""

from dataclasses import replace

import pytest

from dragoman.evaluation.verdict import Outcome, is_improving, verdict, weakest_group

GOOD = Outcome(
    part="test",
    sentences=1000,
    bleu=44.0,
    by_character=False,
    exact=0.08,
    distinct=0.98,
    held_out=False,
    train_pairs=160_000,
    limit="",
    is_improving=False,
    within_warmup=False,
    gap=0.3,
    weakest="",
)
LIMITED = replace(GOOD, limit="train.max_minutes", bleu=25.0)

CASES = {
    "good": (GOOD, ["BLEU 44 on 1,000 test sentences: high quality.", "Good: try it on your own text."]),
    "barely trained": (
        replace(LIMITED, bleu=0.4, within_warmup=True, is_improving=True),
        ["BLEU 0", "almost useless.", "It has barely trained: raise `train.max_minutes` and repeat the command."],
    ),
    "still improving at the limit": (
        replace(LIMITED, is_improving=True),
        ["the gist is clear", "It was still improving: raise `train.max_minutes` and repeat the command."],
    ),
    "level at the limit": (LIMITED, ["stopped improving: more text than these 160,000 training pairs helps most."]),
    "over-fitted": (
        replace(GOOD, bleu=12.0, gap=1.9, train_pairs=3000),
        ["the gist is hard to get", "It has memorized its 3,000 training pairs: more text helps most"],
    ),
    "too little text": (replace(GOOD, bleu=12.0, gap=None), ["It has stopped improving: more text"]),
    "perfect within a narrow corpus": (
        replace(LIMITED, bleu=99.6, exact=0.97, held_out=True, is_improving=True),
        [
            "1,000 held-out sentences, 97% of them word for word. Such a high score means",
            "score text from another source (`dragoman ev",
        ],
    ),
    "perfect on a text of its own": (
        replace(GOOD, bleu=99.6, exact=0.97),
        ["97% of them word for word. Such a high score", "very similar to the training text"],
    ),
    "one line for everything": (
        replace(LIMITED, bleu=0.1, distinct=0.01),
        ["Nearly every source gets the same output. Check that line n", "if it does, raise `train.max_minutes` and"],
    ),
    "one line for everything, because the run was too short": (
        replace(LIMITED, bleu=0.1, distinct=0.01, within_warmup=True, enough="`--train.max-minutes 20`"),
        ["It has barely trained: raise `train.max_minutes` and", "`--train.max-minutes 20` allows enough steps."],
    ),
    "too few validations": (
        replace(LIMITED, is_improving=None),
        ["Too few validations show whether it was still improving: raise `train.max_minutes` and"],
    ),
    "worse after fine-tuning": (
        replace(LIMITED, is_improving=True, start_bleu=39.2),
        ["BLEU 25", "Fine-tuning made it worse: BLEU was 39.2 before. Keep the earlier model, or start again with"],
    ),
    "as good after fine-tuning": (replace(GOOD, start_bleu=44.4), ["Good: try it on your own text."]),
    "improving on a schedule that ends": (
        replace(LIMITED, limit="train.max_steps", is_improving=True, continues=False),
        ["It was still improving: start a new run with a larger `train.max_steps`."],
    ),
    "few sentences": (
        replace(GOOD, sentences=9),
        ["BLEU 44 on 9 test sentences means little: there are too few. Name a test of 100 sentences or more"],
    ),
    "one sentence": (replace(GOOD, sentences=1), ["BLEU 44 on 1 test sentence means little: there are too few."]),
    "characters": (replace(GOOD, by_character=True), ["BLEU 44 of characters on 1,000 test sentences. Good"]),
    "weak group": (replace(GOOD, weakest="long sentences (chrF2 31, all 48)"), ["Weakest: long sentences (chrF2 31"]),
}


@pytest.mark.parametrize(("outcome", "parts"), CASES.values(), ids=CASES)
def test_the_line_says_what_it_means_and_what_to_do(outcome: Outcome, parts: list[str]) -> None:
    line = verdict(outcome)
    assert all(part in line for part in parts), line
    assert "\n" not in line
    assert len(verdict(replace(outcome, weakest="long sentences (chrF2 31, all 48)")).split()) <= 46


@pytest.mark.parametrize("limit", ["", "train.max_steps"])
def test_nobody_is_told_to_raise_a_limit_that_did_not_end_the_run(limit: str) -> None:
    for outcome, _ in CASES.values():
        assert ("raise" in verdict(replace(outcome, limit=limit))) <= bool(limit)


@pytest.mark.parametrize(
    ("scores", "improving"),
    [
        ([], None),
        ([1.0, 2.0], None),
        ([10.0, 20.0, 30.0, 35.0], True),
        ([10.0, 30.0, 30.1, 30.0, 30.2, 30.1], False),
        ([30.0, 20.0, 10.0], False),
        ([-4.0, -3.0, -2.5], True),
        ([-2.0, -2.0, -2.01], False),
    ],
)
def test_the_last_validations_decide_whether_it_improves(scores: list[float], improving: bool | None) -> None:
    assert is_improving(scores) == improving


def test_the_weakest_group_is_named_where_it_is_clearly_weaker() -> None:
    sources = [f"{'word ' * (row % 10 + 1)}{chr(97 + row % 26) * 3}" for row in range(300)]
    references = [source.upper() for source in sources]
    assert weakest_group(sources, references, references) == ""
    long = [text if len(text) < 40 else "SOMETHING ELSE ALTOGETHER, OF SOME LENGTH" for text in references]
    assert weakest_group(sources, references, long).startswith("long sentences (chrF2 ")
    plain = ["eins zwei drei vier fünf" for _ in sources]
    sources = [f"one two three four five {chr(97 + row % 26) * 3}" for row in range(300)]
    looping = [f"{text} x y x y x y" if row % 10 == 0 else text for row, text in enumerate(plain)]
    assert weakest_group(sources, plain, looping) == "10% of the outputs repeat themselves"
    assert weakest_group(sources, looping, looping) == "", "the references do so too"
    assert weakest_group(sources[:20], plain[:20], looping[:20]) == "", "too few to tell"
