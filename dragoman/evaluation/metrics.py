"""BLEU, chrF and TER of detokenized text, computed by sacreBLEU, each with its signature (Post 2018).

Scores can only be compared if their signatures are equal, so no function returns a bare number.

With n-gram precisions p_n, hypothesis length c and reference length r, all summed over the test:

- BLEU = min(1, exp(1 - r / c)) * (p_1 p_2 p_3 p_4)^(1/4) on words (Papineni et al. 2002). A precision of 0 is smoothed
  ("exp", Chen and Cherry 2014).
- chrF2 = 5 P R / (4 P + R), where P and R are mean precision and recall of character n-grams up to 6, without spaces
  (Popović 2015).
- TER = edits / reference words, where an edit inserts, deletes or replaces a word, or moves a phrase (Snover et al.
  2006). Case is ignored.

Training validates with these functions, `dragoman evaluate` and `dragoman.evaluate` (`workflows/evaluation.py`) report
them, and `comparison` compares two systems. All work on lists of lines: hypotheses and references, in the same order.

References
----------
Papineni et al. (2002), BLEU: a method for automatic evaluation of machine translation, ACL.
Chen and Cherry (2014), A systematic comparison of smoothing techniques for sentence-level BLEU, WMT.
Popović (2015), chrF: character n-gram F-score for automatic MT evaluation, WMT.
Snover et al. (2006), A study of translation edit rate with targeted human annotation, AMTA.
Post (2018), A call for clarity in reporting BLEU scores, WMT.

Translations as files hold them: columns that `dragoman translate` appends, and other writing than the references.

Both lower the scores, and neither is a fault of the translations. `workflows/evaluation.py` leaves the columns out, and
notes a difference in writing. Scores are never computed on changed text, because they could not be compared then.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import DataError
from dragoman.evaluation import significance
from dragoman.evaluation.flags import FLAGS
from dragoman.evaluation.significance import Statistics
from dragoman.languages import main_language
from dragoman.records import Score

# Below this number a warning says that scores mean little.
FEW_SENTENCES = 100
_MOST_TER_WORDS = 200
"""Limit for the shorter line of a pair. The time of TER grows with the fourth power of the length: seconds here."""
# Tokenizers for languages without spaces. TER then counts characters instead of words.
_BY_CHARACTER = ("zh", "char")
_TOKENISED_SHARE = 0.5
# The share of equal outputs from which a model seems to ignore its input, and how much of the output is shown.
_SAME_SHARE, _SHOWN_CHARACTERS = 0.2, 40


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of one test in the order BLEU, chrF, TER, and warnings about their meaning.

    TER is left out, with a warning, if lines are so long that it would take minutes.
    """

    scores: tuple[Score, ...]
    warnings: tuple[str, ...]
    num_sentences: int


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """BLEU, 0 to 100, higher is better. `tokenize` is sacreBLEU's: 13a, zh, ja-mecab, ko-mecab, char, flores200 ..."""
    return _score(all_metrics(tokenize)[0], hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2, 0 to 100, higher is better (Popović 2015)."""
    return _score(CHRF(), hypotheses, references)


def score_outputs(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", *, intervals: bool = False
) -> Evaluation:
    """Score one test with all metrics.

    Parameters
    ----------
    hypotheses, references
        The outputs and the references, detokenized, one line for each sentence.
    tokenize
        sacreBLEU's tokenizer for BLEU.
    intervals
        Add a 95 % bootstrap interval to each score.

    Raises
    ------
    DataError
        If the numbers of lines differ or there is nothing to score.
    """
    metrics, notes = applicable_metrics(tokenize, hypotheses, references)
    scores, counted = [], []
    for metric in metrics:
        statistics = counts_of(metric, hypotheses, references)
        resampled = significance.resampled_scores(metric, statistics)[0] if intervals else None
        scores.append(make_score(metric, statistics, resampled))
        counted.append(statistics)
    return Evaluation(tuple(scores), (*notes, *warnings_about(counted[0], hypotheses, references)), len(hypotheses))


def all_metrics(tokenize: str) -> tuple[BLEU, CHRF, TER]:
    """BLEU, chrF and TER. sacreBLEU's own warning about tokenized text is off, see `_text_warnings`."""
    by_character = tokenize in _BY_CHARACTER  # otherwise TER would take a line without spaces for one word
    return BLEU(tokenize=tokenize, force=True), CHRF(), TER(normalized=by_character, asian_support=by_character)


def applicable_metrics(
    tokenize: str, hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics to compute for these lines, and a warning if TER is left out because lines are too long."""
    for number, pair in enumerate(zip(hypotheses, references, strict=False), start=1):
        if min(len(line) if tokenize in _BY_CHARACTER else len(line.split()) for line in pair) > _MOST_TER_WORDS:
            units = "characters" if tokenize in _BY_CHARACTER else "words"
            note = f"line {number} has more than {_MOST_TER_WORDS} {units}: TER would take minutes and is left out."
            return all_metrics(tokenize)[:2], (note,)
    return all_metrics(tokenize), ()


def counts_of(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """The statistics of `metric` for each sentence. Raises DataError if the numbers of lines differ or are 0."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"there are {len(hypotheses)} translations but {len(references)} references. "
            f"Give one reference per line, in the order of the translations."
        )
    if not hypotheses:
        raise DataError("there are no translations to score. Give at least one line and its reference.")
    return significance.statistics_of(metric, hypotheses, references)


def make_score(metric: Metric, statistics: Statistics, resampled: Statistics | None = None) -> Score:
    """The score of sentences with these counts. `resampled` scores add an interval, also to the signature."""
    value, signature = significance.score_of(metric, statistics.sum(0)), metric.get_signature()
    name = type(metric).__name__ if not isinstance(metric, CHRF) else f"chrF{metric.beta}"
    if resampled is None:
        return Score(name, value, str(signature))
    signature.update("bs", significance.RESAMPLES)
    signature.update("seed", significance.SEED)
    return Score(name, value, str(signature), significance.interval_of(resampled))


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each sentence, 0 to 100, for sorting. Do not report it: the mean is not the chrF of the corpus."""
    metric = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return [float(metric.sentence_score(hypothesis, [reference]).score) for hypothesis, reference in pairs]


def tokenizer_for(lang: str) -> str:
    """sacreBLEU's tokenizer for a target language: zh or char for languages without spaces, else the default 13a.

    sacreBLEU's ja-mecab and ko-mecab need further packages, so they are never chosen automatically.
    """
    by_language = {"zh": "zh", "yue": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}
    return by_language.get(main_language(lang), "13a")


def warnings_about(bleu_counts: Statistics, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[str, ...]:
    """Warnings about the scores of a test. `bleu_counts` are BLEU's statistics of each sentence."""
    return (*_size_warnings(bleu_counts), *_text_warnings(hypotheses, references))


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    return make_score(metric, counts_of(metric, hypotheses, references))


def _size_warnings(bleu_counts: Statistics) -> Iterator[str]:
    if len(bleu_counts) < FEW_SENTENCES:
        count = f"{len(bleu_counts)} sentence{'s' * (len(bleu_counts) != 1)}"
        yield f"the test has only {count}: scores on fewer than {FEW_SENTENCES} mean little."
    sums = bleu_counts.sum(0)  # lengths of both sides, n-grams that match, n-grams
    if sums[-1] == 0:
        yield "no translation has four words: BLEU is not defined here. Use chrF."
    elif sums[5] == 0:
        yield "no four words in a row match anywhere: BLEU is only its smoothing here. Use chrF."


def _text_warnings(hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    for name, lines in (("translations", hypotheses), ("references", references)):
        if _looks_tokenized(lines):
            yield f"the {name} look tokenized (a space before the full stop): scores need detokenized text."
        if empty := sum(not line.strip() for line in lines):
            yield f"{empty} of the {len(lines)} {name} are empty lines."
    most_alike = max(Counter(references).values(), default=0)
    for line, count in Counter(line for line in hypotheses if line.strip()).most_common(1):
        if count > max(_SAME_SHARE * len(hypotheses), most_alike, 10):
            shown = line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
            yield f"{count} of the {len(hypotheses)} translations are the same, {shown!r}: train for longer."


def _looks_tokenized(lines: Sequence[str]) -> bool:
    """Whether most lines that end in a full stop end in " ." (sacreBLEU's sign of tokenized text)."""
    stops = [line.rstrip() for line in lines if line.rstrip().endswith(".")]
    return sum(line.endswith(" .") for line in stops) > _TOKENISED_SHARE * len(stops)


_COLUMNS = {
    "--flags": re.compile(rf"\t(?:(?:{'|'.join(FLAGS)})(?:,(?!$)|$))*$"),
    "--alignment": re.compile(r" \|\|\|(?: \d+-\d+)* ?$"),
}
"""What these flags of `translate` append to every line, the outer column first."""
_SUBWORDS = re.compile(r"@@(?: |$)|\u2581")
_FEW, _MANY = 0.01, 0.5
_WRITINGS: tuple[tuple[str, float, str, Callable[[str], object]], ...] = (
    (
        "letters with separate accents (not Unicode NFC)",
        _FEW,
        "Convert this file to NFC, for example with `uconv -x nfc`, and score again",
        lambda line: not unicodedata.is_normalized("NFC", line),
    ),
    ("HTML entities such as `&amp;`", _FEW, "Decode them, and score again", lambda line: html.unescape(line) != line),
    ("tags such as `<b>`", _FEW, "Remove them, and score again", re.compile("<[^<> ][^<>]*>").search),
    ("subword markers such as `@@`", _FEW, "Join the subwords to words, and score again", _SUBWORDS.search),
    ("tabs", _FEW, "Keep only the column with the sentences, and score again", re.compile("\t").search),
    ("capitals", _MANY, "Score text with the capitals of its language", lambda line: line != line.lower()),
)
"""Ways of writing in which files differ, the share of lines that matters, advice, and a test of a line."""
_ALIKE = 0.1
"""A file is not written in a way if it has at most this share of the other file's lines that are."""


def without_columns(lines: Sequence[str], name: str, note: Callable[[str], None]) -> Sequence[str]:
    """The translations in the file `name`, without the columns of `translate` that every line has. Notes each column.

    Raises DataError if the file has JSON lines.
    """
    if lines and all(line.startswith('{"src": ') for line in lines):
        raise DataError(f"{name} has JSON lines, not translations. Rename it to end in .jsonl.")
    for flag, column in _COLUMNS.items():
        if lines and all(map(column.search, lines)):
            lines = [column.sub("", line) for line in lines]
            note(f"{name} has the column of `translate {flag}`, which is not scored")
    return lines


def writing_differences(outputs: Sequence[str], references: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    """A warning for each way in which only one file is written, so that equal words count as different.

    `names` has the names of the outputs and of the references.
    """
    for what, share, advice, has in _WRITINGS:
        lines = dict(zip(names, (outputs, references), strict=True))
        counts = {name: sum(map(bool, map(has, texts))) for name, texts in lines.items()}
        other, name = sorted(names, key=counts.__getitem__)
        if counts[name] > share * len(outputs) and counts[other] <= _ALIKE * counts[name]:
            yield (
                f"{counts[name]:,} of {len(outputs):,} lines of {name} have {what}, but {counts[other]:,} of {other}: "
                f"equal words count as different. {advice}."
            )
