"""One line about a finished training, for a newcomer: what the score means, what is weakest, what to do next.

The bands of BLEU come from Google Cloud's documentation, "Evaluate models", section "Interpretation"
(cloud.google.com/translate/docs/advanced/automl-evaluate). They are rough, and apply to BLEU on words, not characters.

`workflows/training/scoring.py` makes the `Outcome` at the end of a training, and the command prints the verdict.
The advice is the first that applies, from the most serious fault to "more text": see `_advice`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.evaluation.flags import text_flags
from dragoman.evaluation.metrics import FEW_SENTENCES, chrf

_BANDS = (
    (10.0, "almost useless"),
    (20.0, "the gist is hard to get"),
    (30.0, "the gist is clear, the grammar often wrong"),
    (40.0, "understandable to good"),
    (50.0, "high quality"),
    (60.0, "very high quality"),
)
"""Upper limits of BLEU. A higher score means that the test is too easy."""
# BLEU from which a model is good, and from which the test is too easy. So is a test with half of the outputs exact.
_GOOD_BLEU, _PERFECT_BLEU, _PERFECT_SHARE = 40.0, 60.0, 0.5
_WORSE_BLEU, _WORSE_SHARE = 0.5, 0.5
"""The loss of BLEU that counts as worse, and its share of the score before if there are few sentences."""
_SAME_SHARE = 0.1
"""The share of distinct outputs of distinct sources below which the model ignores its input."""
_MEMORISED_GAP = 1.0
"""Validation loss less training loss in nats per token, above which the model has memorized its text.

A gap of 1 means that validation tokens have about a third of the probability of training tokens.
"""
_IMPROVEMENT = 0.01
"""The relative gain over the best earlier score above which a score counts as better than noise."""
# What makes a group the weakest: points of chrF2 below the whole test, or the share of flagged outputs. A group needs
# at least 30 sentences, because the mean of fewer is mostly noise.
_CLEARLY_WEAKER_CHRF, _MANY_FLAGGED, _LEAST_IN_GROUP = 5.0, 0.05, 30
_FLAG_WORDS = {
    "loop": "repeat themselves",
    "copied": "copy the source",
    "short": "are too short",
    "long": "are too long",
    "number": "have a wrong number",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Facts about a finished training: its evaluation and its end.

    Attributes
    ----------
    part, held_out
        The name of the text it was scored on, and whether this text was taken from the training corpus.
    sentences
        The number of sentences of this text.
    bleu, by_character
        BLEU, 0 to 100, and whether it counts characters instead of words.
    exact
        The share of outputs equal to their reference, 0 to 1.
    distinct
        The number of distinct outputs divided by the number of distinct sources.
    train_pairs
        The number of sentence pairs for training.
    limit
        The key of the setting that ended training, such as ``train.max_minutes``, or "".
    is_improving
        Whether validation scores were still rising. None if there were too few validations to tell.
    within_warmup
        Whether training ended within its warm-up, or within that of the recipe.
    gap
        The validation loss less the training loss, in nats per token. None if one of them was not logged.
    weakest
        A clause from `weakest_group`, or "".
    start_bleu
        BLEU of the model that was fine-tuned, on the same text. None if there is none.
    enough
        The flag with a limit that allows a useful model, such as ``--train.max-minutes 20``, or "".
    continues
        Whether the run continues if `limit` is raised.
    """

    part: str
    sentences: int
    bleu: float
    by_character: bool
    exact: float
    distinct: float
    held_out: bool
    train_pairs: int
    limit: str
    is_improving: bool | None
    within_warmup: bool
    gap: float | None
    weakest: str
    start_bleu: float | None = None
    enough: str = ""
    continues: bool = True


def verdict(outcome: Outcome) -> str:
    """The line about a training, about 45 words at most."""
    parts = [f"{_meaning(outcome)}.", f"Weakest: {outcome.weakest}." if outcome.weakest else "", _advice(outcome)]
    return " ".join(part for part in parts if part)


def is_improving(scores: Sequence[float]) -> bool | None:
    """Whether the last third of the validation scores, in order, is clearly better. None for fewer than three."""
    if len(scores) < 3:
        return None
    cut = len(scores) - max(1, len(scores) // 3)
    before, since = max(scores[:cut]), max(scores[cut:])
    return since > before + _IMPROVEMENT * abs(before)


def weakest_group(sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> str:
    """A clause about the weakest group of sentences, or "" if no group is clearly weaker.

    A group is all outputs with one kind of flag, or a third of the sentences by source length, scored by chrF2. Flags
    come first, because they name a fault. Only flags in excess of those of the references count.
    """
    count = len(sources)
    if count < _LEAST_IN_GROUP:
        return ""
    flagged = [flag for pair in zip(sources, outputs, strict=True) for flag in text_flags(*pair)]
    natural = [flag for pair in zip(sources, references, strict=True) for flag in text_flags(*pair)]
    excess = {flag: (flagged.count(flag) - natural.count(flag)) / count for flag in _FLAG_WORDS}
    worst = max(excess, key=lambda flag: excess[flag])
    if excess[worst] >= _MANY_FLAGGED:
        return f"{excess[worst]:.0%} of the outputs {_FLAG_WORDS[worst]}"
    order = sorted(range(count), key=lambda row: len(sources[row]))
    if count < 3 * _LEAST_IN_GROUP:
        return ""
    whole = chrf(outputs, references).value
    scores = {}
    for place, third in enumerate(("short", "middling", "long")):
        rows = order[count * place // 3 : count * (place + 1) // 3]
        scores[third] = chrf([outputs[row] for row in rows], [references[row] for row in rows]).value
    name = min(scores, key=lambda each: scores[each])
    if scores[name] > whole - _CLEARLY_WEAKER_CHRF:
        return ""
    return f"{name} sentences (chrF2 {scores[name]:.0f}, all {whole:.0f})"


def _meaning(outcome: Outcome) -> str:
    """The score, and its band unless it is on characters, on too few sentences, or too high to be believed."""
    unit = " of characters" if outcome.by_character else ""
    plural = "s" * (outcome.sentences != 1)
    where = f"{outcome.sentences:,} {'held-out' if outcome.held_out else outcome.part} sentence{plural}"
    score = f"BLEU {outcome.bleu:.0f}{unit} on {where}"
    if outcome.sentences < FEW_SENTENCES:
        return f"{score} means little: there are too few"
    exact = f", {outcome.exact:.0%} of them word for word" if outcome.exact >= _PERFECT_SHARE else ""
    if outcome.by_character or outcome.bleu >= _PERFECT_BLEU:
        return score + exact
    return f"{score}{exact}: {next(word for most, word in _BANDS if outcome.bleu < most)}"


def _advice(outcome: Outcome) -> str:
    """The next step for the first problem that applies: a broken corpus, a training too short, then a lack of data."""
    how = "raise `{}` and repeat the command" if outcome.continues else "start a new run with a larger `{}`"
    raising = how.format(outcome.limit) if outcome.limit else ""
    start = outcome.start_bleu or 0.0
    if start - outcome.bleu > (_WORSE_BLEU if outcome.sentences >= FEW_SENTENCES else _WORSE_SHARE * start):
        return (
            f"Fine-tuning made it worse: BLEU was {start:.1f} before. Keep the earlier model, or start "
            "again with more text or a lower `train.learning_rate`."
        )
    if outcome.within_warmup and raising and outcome.bleu < _BANDS[0][0]:
        enough = f" {outcome.enough} allows enough steps." if outcome.enough else ""
        return f"It has barely trained: {raising}.{enough}"
    if outcome.distinct <= _SAME_SHARE:
        then = f"; if it does, {raising}" if raising else ""
        return f"Nearly every source gets the same output. Check that line n of both sides has the same content{then}."
    if outcome.bleu >= _PERFECT_BLEU or outcome.exact >= _PERFECT_SHARE:
        return (
            "Such a high score means that these sentences are very similar to the training text: score text from "
            "another source (`dragoman evaluate`) before you rely on it."
        )
    if outcome.limit and outcome.is_improving:
        return f"It was still improving: {raising}."
    if outcome.limit and outcome.is_improving is None:
        return f"Too few validations show whether it was still improving: {raising}."
    if outcome.sentences < FEW_SENTENCES:
        return f"Name a test of {FEW_SENTENCES} sentences or more (`--data.test FILE`)."
    if outcome.bleu >= _GOOD_BLEU:
        return "Good: try it on your own text."
    pairs = f"{outcome.train_pairs:,} training pairs"
    if outcome.gap is not None and outcome.gap >= _MEMORISED_GAP:
        return f"It has memorized its {pairs}: more text helps most, longer training does not."
    return f"It has stopped improving: more text than these {pairs} helps most."
