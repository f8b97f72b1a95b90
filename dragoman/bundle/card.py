"""The model card: training data, scores and size of a model, as JSON and as Markdown.

Training makes the card, `replace_card` adds the scores of the finished model, and fine-tuning and distillation add
their models to it. card.json is the one that is read again: by the server for languages, by fine-tuning for `lineage`,
and by the report of a run. card.md is never read.

Versions differ in their fields. So a missing field has its default, and an unknown field is ignored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from dragoman.config.fields import quote_value
from dragoman.display import Facts, ShownRecord, has_controls
from dragoman.errors import ModelError
from dragoman.files import read_regular_file
from dragoman.records import Score
from dragoman.text.lines import replace_surrogates

# A card has a few kB. The limit keeps a wrong file from filling the memory.
_MOST_BYTES = 1 << 20
_LARGEST = 1e300  # also refuses infinity and NaN
CorpusRow: TypeAlias = tuple[str, float, str, int, int, int, float]
CORPUS_COLUMNS = ("corpus", "weight", "tag", "read", "kept", "seen", "loss")
"""The meaning of a `CorpusRow`: `kept` pairs remain after cleaning, and `seen` counts a pair each time it is taken."""


@dataclass(frozen=True, slots=True, repr=False)
class Card(ShownRecord):
    """Facts about a model. An unknown fact keeps its default.

    Attributes
    ----------
    src_lang, tgt_lang
        Language codes. If the settings do not state them, training finds them in the text.
    parameters
        The number of trained numbers. A tied tensor counts once.
    src_vocab_size, tgt_vocab_size
        Entries of the vocabularies, control tokens included.
    train_pairs, dev_pairs, test_pairs
        Sentence pairs used for training, for validation and for the test.
    cleaning
        Rows (rule, pairs): "read", each rule with the number of pairs that it removed, and "kept".
    corpora
        Rows of several training corpora (`CORPUS_COLUMNS`). The loss is in nats per token, on at most 200 pairs that
        were held out of the corpus.
    steps, epochs, tgt_tokens, minutes
        The length of the training: optimizer steps, full passes over the data, target tokens, and time.
    device, precision
        Where, and in which number format, the model was trained.
    lexicon_pairs
        Sentence pairs that the lexicon for word alignments was learned from.
    averaged_steps
        The steps whose weights were averaged. With `ema_decay`, the one step at which the running mean was taken.
    ema_decay
        The decay of the running mean, or 0 without one.
    scores
        Rows (data set, metric, value, signature). Values have two decimals.
    versions
        Rows (package, version) of the programs that made the model.
    origin
        The source of an imported model.
    lineage
        The models that a fine-tuned model started from, oldest first.
    teachers
        The models that it was distilled from.
    credit
        The source and the license of the training text, in Markdown.
    """

    src_lang: str = ""
    tgt_lang: str = ""
    parameters: int = 0
    src_vocab_size: int = 0
    tgt_vocab_size: int = 0
    train_pairs: int = 0
    dev_pairs: int = 0
    test_pairs: int = 0
    cleaning: tuple[tuple[str, int], ...] = ()
    corpora: tuple[CorpusRow, ...] = ()
    steps: int = 0
    epochs: int = 0
    tgt_tokens: int = 0
    minutes: float = 0.0
    device: str = ""
    precision: str = ""
    lexicon_pairs: int = 0
    averaged_steps: tuple[int, ...] = ()
    ema_decay: float = 0.0
    scores: tuple[tuple[str, str, float, str], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    lineage: tuple[str, ...] = ()
    teachers: tuple[str, ...] = ()
    credit: str = ""

    def with_languages_of(self, *sides: Sequence[str]) -> "Card":
        """The card with each missing language found in the lines of its side, sources and targets, if it is clear."""
        from dragoman.text.doctor.languages import SURE_SHARE, language_of_side  # only training needs it

        found = [side.language if side.share >= SURE_SHARE else "" for side in map(language_of_side, sides)]
        return replace(self, src_lang=self.src_lang or found[0], tgt_lang=self.tgt_lang or found[1])

    def with_scores(self, data: str, scores: list[Score]) -> "Card":
        """The card with new scores on a data set, which replace earlier scores on it."""
        others = tuple(row for row in self.scores if row[0] != data)
        rows = tuple((data, score.name, round(score.value, 2), score.signature) for score in scores)
        return replace(self, scores=others + rows)

    def to_json(self) -> str:
        """The content of card.json."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """The content of card.md."""
        lines = [
            f"# Translation model, {self.languages}",
            "",
            f"A Transformer with {self.parameters:,} parameters, {'imported into' if self.origin else 'made with'} "
            f"Dragoman. Vocabularies: {self.src_vocab_size:,} (source) and {self.tgt_vocab_size:,} (target) entries.",
        ]
        lines += ["", f"It comes from {self.origin}. See its licence there."] if self.origin else []
        lines += ["", self._training()] if self.steps or not self.origin else []
        lines += ["", self.credit] if self.credit else []
        lines += ["", f"It was fine-tuned from {', then '.join(self.lineage)}."] if self.lineage else []
        lines += ["", f"It was distilled from {', '.join(self.teachers)}."] if self.teachers else []
        lines += ["", self.averaging()] if self.averaging() else []
        lexicon = f"Its lexicon for word alignments was learned from {self.lexicon_pairs:,} sentence pairs."
        lines += ["", lexicon] if self.lexicon_pairs else []
        lines += _table("Scores", ("data", "metric", "value", "signature"), self.scores)
        lines += _table("Cleaning of the training data", ("rule", "pairs"), self.cleaning)
        lines += _table("Training corpora", CORPUS_COLUMNS, self.corpora)
        lines += _table("Versions", ("package", "version"), self.versions)
        return "\n".join(lines) + "\n"

    @property
    def languages(self) -> str:
        """The languages, such as "en to de", with "?" for an unknown one."""
        return f"{self.src_lang or '?'} to {self.tgt_lang or '?'}"

    def scores_by_data(self) -> dict[str, dict[str, float]]:
        """The values by data set and metric, without their signatures."""
        found: dict[str, dict[str, float]] = {}
        for data, name, value, _ in self.scores:
            found.setdefault(data, {})[name] = value
        return found

    def scores_text(self) -> str:
        """All values on one line, without their signatures."""
        return "; ".join(f"{data}: {score_text(row)}" for data, row in self.scores_by_data().items())

    def _facts(self) -> Facts:
        for name, text in ShownRecord._facts(self):
            yield name, self.scores_text() if name == "scores" else text  # signatures would fill the screen

    def averaging(self) -> str:
        """A sentence that says which weights were averaged, or "" if the weights are those of one step."""
        if self.ema_decay:
            step = f"step {self.averaged_steps[0]:,}" if self.averaged_steps else "the last step"
            return f"The weights are their running mean with decay {self.ema_decay:g} at {step}."
        steps = ", ".join(map(str, self.averaged_steps))
        return f"The weights are the mean of the weights after steps {steps}." if steps else ""

    def _training(self) -> str:
        tested = f", tested on {self.test_pairs:,}." if self.test_pairs else "."
        return (
            f"Trained on {self.train_pairs:,} sentence pairs: {self.steps:,} steps, {self.epochs:,} epochs, "
            f"{self.tgt_tokens:,} target tokens in {self.minutes:.1f} minutes ({self.device}, {self.precision}). "
            f"Validated on {self.dev_pairs:,} pairs{tested}"
        )


def score_text(scores: Mapping[str, float]) -> str:
    """Scores by metric on one line, such as "BLEU 38.2, chrF2 63.1"."""
    return ", ".join(f"{name} {value:.1f}" for name, value in scores.items())


def read_card(folder: Path) -> Card:
    """Read the card of a model folder, or an empty card if there is none. Raises ModelError if it is malformed."""
    path = folder / "card.json"
    if not path.exists():
        return Card()
    hints = get_type_hints(Card)
    try:
        content = json.loads(read_regular_file(path, _MOST_BYTES).decode("utf-8"))
        known = {name: _frozen(value) for name, value in content.items() if name in hints}
    except OSError as error:
        raise ModelError(f"{path} is not a model card: {error.strerror}. Copy or download the model again.") from None
    except (ValueError, AttributeError, RecursionError):
        raise ModelError(f"{path} is not a model card. Copy or download the model again.") from None
    for name, value in known.items():
        if not _fits(value, hints[name]):
            raise ModelError(
                f"{path} is not a model card: its `{name}` is {quote_value(value)}. Copy or download the model again."
            )
    return Card(**known)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type of a field of the card: printable text, a finite number, or rows of these."""
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        if not isinstance(value, tuple):
            return False
        if kinds[-1] is Ellipsis:
            return all(_fits(item, kinds[0]) for item in value)
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if hint is str:
        return isinstance(value, str) and value == replace_surrogates(value) and not has_controls(value)
    return type(value) in (int, hint) and abs(value) < _LARGEST


def _frozen(value: Any) -> Any:
    """JSON lists as tuples, at every depth, because a card is immutable."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _table(title: str, head: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> list[str]:
    if not rows:
        return []
    lines = ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
