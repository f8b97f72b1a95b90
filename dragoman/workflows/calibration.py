"""Learning the lexicon of an existing model from parallel text (`dragoman calibrate`)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.bundle import Model
from dragoman.bundle.folder import is_in_package, replace_card
from dragoman.display import Facts, ShownRecord
from dragoman.errors import DataError, ModelError
from dragoman.text.corpus.opening import check_direction
from dragoman.text.lexicon import MAX_PAIRS, improve_lexicon, learn_tried_lexicon, left_out, linked_share
from dragoman.text.tokenization.encoding import BatchEncoderPair
from dragoman.workflows.evaluation import EvaluationTexts, ScoredTest, check_test_languages, read_test
from dragoman.workflows.models import find_folder, require_model
from dragoman.workflows.progress import QUIET, Progress

_FEWEST_PAIRS, _LONGEST = 50, 2000  # pairs, characters


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(ShownRecord):
    """What `calibrate_model` has changed.

    Attributes
    ----------
    folder
        The model folder.
    pairs
        The number of sentence pairs that its lexicon was learned from, earlier ones included.
    entries
        The number of translations in the lexicon.
    linked
        The share of target tokens that it links in pairs of the text that were left out for this purpose.
    """

    folder: Path
    pairs: int
    entries: int
    linked: float

    def __str__(self) -> str:
        return (
            f"{self.folder} has a lexicon of {self.entries:,} entries from {self.pairs:,} sentence pairs. In pairs "
            f"that were left out, it links {self.linked:.0%} of the target tokens."
        )

    def _facts(self) -> Facts:
        yield "folder", str(self.folder)
        yield "sentence pairs", f"{self.pairs:,}"
        yield "entries", f"{self.entries:,}"
        yield "linked tokens in other pairs of the text", f"{self.linked:.0%}"


def calibrate_model(path: str | Path, text: ScoredTest, progress: Progress = QUIET) -> Calibration:
    """Learn a lexicon from parallel text and store it in a model folder. A lexicon that it has is extended.

    Parameters
    ----------
    path
        A model folder, or a run, whose best model is changed.
    text
        The files of both sides, in the languages of the model. At most 200,000 different pairs are used.
    progress
        Receives notes about the folder and the languages, and the stages.

    Returns
    -------
    Calibration
        The folder and its new lexicon.

    Raises
    ------
    DataError
        If a file cannot be read or is clearly in another language, or if the text is not parallel or too short.
    ModelError
        If the model is missing, damaged, or part of the package.
    """
    require_model(path)
    folder = find_folder(path, progress)
    if is_in_package(folder):
        raise ModelError(f"{path} is part of the package and cannot be changed. Name the folder of a copy.")
    model = Model.load(folder, "cpu")
    if folder != Path(path):
        progress.note("other models of this run do not change, so calibrate after the last training")
    pairs, names = _read(text, model, progress), text.src if text.src == text.ref else f"{text.src} and {text.ref}"
    with progress.counting("learning the lexicon", len(pairs), "pairs"):
        encoders, tokenizers = BatchEncoderPair.of(model.tokenizers), model.tokenizers
        src, tgt = encoders.src.encode([src for src, _ in pairs]), encoders.tgt.encode([tgt for _, tgt in pairs])
        learned, coverage = learn_tried_lexicon(src, tgt, (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size))
    if coverage.pairs < _FEWEST_PAIRS:
        raise DataError(
            f"{names} must have at least {_FEWEST_PAIRS} different pairs to learn from, but the usable ones are "
            f"{coverage.pairs:,}. Add more text, such as the training text."
        )
    if not coverage.parallel:
        raise DataError(
            f"The sides of {names} do not translate each other, or {coverage.pairs:,} usable pairs are too few: their "
            f"lexicon links {coverage.unseen:.0%} of the tokens in other pairs, and {coverage.shifted:.0%} if these "
            "are mixed up. `dragoman check` shows misaligned lines. If there are none, add more text."
        )
    lexicon = improve_lexicon(model.lexicon, learned, coverage)
    if lexicon is None:
        raise DataError(
            f"{names}: {coverage.pairs:,} usable pairs are too few for a lexicon, or many are misaligned. It links "
            f"{coverage.unseen:.0%} of the tokens in other pairs, and {coverage.seen:.0%} in these. Add more text, or "
            "look for misaligned lines with `dragoman check`."
        )
    tried = left_out(src.lengths, tgt.lengths)
    linked = linked_share(lexicon, src.select(tried).to_lists(), tgt.select(tried).to_lists())
    count = coverage.pairs + model.card.lexicon_pairs
    changed = model.with_lexicon(lexicon, count)
    replace_card(folder, changed.card, lexicon=changed.lexicon_file)
    return Calibration(folder, count, len(lexicon.entries), linked)


def _read(text: ScoredTest, model: Model, progress: Progress) -> list[tuple[str, str]]:
    """The different pairs of the files, without empty and very long ones, in the languages of the model."""
    languages = model.card.src_lang or model.config.data.src_lang, model.card.tgt_lang or model.config.data.tgt_lang
    found = read_test(text.src, text.ref, text.layout, known=languages)
    check_direction(Path(text.src), Path(text.ref), *languages)
    if text.check_languages:
        known = (own or other for own, other in zip(languages, (found.src_lang, found.tgt_lang), strict=True))
        check_test_languages(EvaluationTexts(found.sources, found.references, *known), text, progress)
    different = dict.fromkeys(zip(found.sources, found.references, strict=True))
    pairs = [pair for pair in different if all(map(str.strip, pair)) and max(map(len, pair)) <= _LONGEST]
    return [pairs[round(place)] for place in np.linspace(0, len(pairs) - 1, min(len(pairs), MAX_PAIRS))]
