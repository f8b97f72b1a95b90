"""BLEU, chrF and TER of detokenised text, all by sacreBLEU and each with its signature (Post 2018).

A score without its signature cannot be compared with anybody's, so there is no function that returns a bare number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as MetricScore
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import DataError
from dragoman.records import Score

FEW_SENTENCES = 100
_TOKENISED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of one test in the order BLEU, chrF, TER, and what to know before believing them."""

    scores: tuple[Score, ...]
    warnings: tuple[str, ...]
    num_sentences: int


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """BLEU, 0 to 100, higher is better. `tokenize` is sacreBLEU's: 13a, zh, ja-mecab, ko-mecab, char, flores200 ..."""
    return _score(_bleu_metric(tokenize), hypotheses, references)[0]


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2, 0 to 100, higher is better (Popović 2015)."""
    return _score(CHRF(), hypotheses, references)[0]


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Translation edit rate in percent, lower is better, may exceed 100 (Snover et al. 2006)."""
    return _score(TER(), hypotheses, references)[0]


def evaluate(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Evaluation:
    """All metrics of one test, with warnings in plain words.

    Raises DataError where the counts differ or there is nothing to score. `tokenize` is for BLEU alone.
    """
    bleu_score, matches = _score(_bleu_metric(tokenize), hypotheses, references)
    assert isinstance(matches, BLEUScore)
    scores = (bleu_score, chrf(hypotheses, references), ter(hypotheses, references))
    warnings = (*_size_warnings(len(hypotheses), matches), *_text_warnings(hypotheses, references))
    return Evaluation(scores, warnings, len(hypotheses))


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each sentence, 0 to 100: to sort sentences by, not to report. The mean is not the corpus' chrF."""
    metric = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return [float(metric.sentence_score(hypothesis, [reference]).score) for hypothesis, reference in pairs]


def tokenizer_for(lang: str) -> str:
    """sacreBLEU's tokenizer for a target language written without spaces; 13a, its default, for all others."""
    return {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}.get(
        lang.replace("_", "-").split("-")[0].lower(), "13a"
    )


def _bleu_metric(tokenize: str) -> Metric:
    return BLEU(tokenize=tokenize, force=True)  # the warning about tokenised text is ours


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[Score, MetricScore]:
    if len(hypotheses) != len(references):
        raise DataError(
            f"there are {len(hypotheses)} translations but {len(references)} references. "
            f"Give one reference a line, in the order of the translations."
        )
    if not hypotheses:
        raise DataError("there are no translations to score. Give at least one line and its reference.")
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(str(result.name), float(result.score), str(metric.get_signature())), result


def _size_warnings(num_sentences: int, matches: BLEUScore) -> Iterator[str]:
    if num_sentences < FEW_SENTENCES:
        yield f"the test has only {num_sentences} sentences: scores of fewer than {FEW_SENTENCES} say little."
    if matches.totals[-1] == 0:
        yield "no translation has four words: BLEU is not defined here, look at chrF."
    elif matches.counts[-1] == 0:
        yield "no four words in a row are right anywhere: BLEU is only its smoothing here, look at chrF."


def _text_warnings(hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    for name, lines in (("translations", hypotheses), ("references", references)):
        if _looks_tokenised(lines):
            yield f"the {name} look tokenised (a space before the full stop): scores need plain text."
        if empty := sum(not line.strip() for line in lines):
            yield f"{empty} of the {len(lines)} {name} are empty lines."


def _looks_tokenised(lines: Sequence[str]) -> bool:
    """sacreBLEU's sign, a line that ends in " .", in most of the lines that end in a full stop."""
    stops = [line.rstrip() for line in lines if line.rstrip().endswith(".")]
    return sum(line.endswith(" .") for line in stops) > _TOKENISED_SHARE * len(stops)
