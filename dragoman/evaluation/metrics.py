"""BLEU, chrF and TER of detokenized text, computed by sacreBLEU, each with its signature (Post 2018).

Scores can only be compared if their signatures are equal, so no function returns a bare number.

With n-gram precisions p_n, hypothesis length c and reference length r, all summed over the test:

- BLEU = min(1, exp(1 - r / c)) * (p_1 p_2 p_3 p_4)^(1/4) on words (Papineni et al. 2002). A precision of 0 is smoothed
  ("exp", Chen and Cherry 2014).
- chrF2 = 5 P R / (4 P + R), where P and R are mean precision and recall of character n-grams up to 6, without spaces
  (Popović 2015).
- TER = edits / reference words, where an edit inserts, deletes or replaces a word, or moves a phrase (Snover et al.
  2006). Case is ignored.

Columns that `dragoman translate` appends, and other writing than that of the references, lower the scores, and neither
is a fault of the translations. Callers leave the columns out, and note a difference in writing. Scores are never
computed on changed text, because they could not be compared then.

Training validates with these functions, `dragoman evaluate` and `dragoman.evaluate` (`workflows/evaluation.py`) report
them, and `comparison` compares two systems. All work on lists of lines: hypotheses and references, in the same order.

Intervals and significance tests resample the sentences of the test. Bootstrap and paired bootstrap: Koehn 2004.
Approximate randomization: Riezler and Maxwell 2005. Statistics, samples and p-values equal those of sacreBLEU's paired
tests with its seed. Unlike there, samples are made in blocks, so that memory does not grow with the test, and the
difference has an interval too.

- Bootstrap: the score of a test whose n sentences are sampled with replacement, 1,000 times. The middle 95 % of the
  scores are the interval.
- Paired bootstrap: both systems are scored on the same sampled tests.
- Approximate randomization: for each sentence, a coin decides whether the two systems swap their outputs, 10,000 times.
  If the systems were equal, the observed difference would look like one of these.

p = (1 + number of random differences that are larger) / (1 + number of samples), so it is never 0 (Noreen 1989). A
metric is computed from sums of counts over sentences. So a sample needs only one product of a matrix, and no text is
scored twice.

References
----------
Papineni et al. (2002), BLEU: a method for automatic evaluation of machine translation, ACL.
Chen and Cherry (2014), A systematic comparison of smoothing techniques for sentence-level BLEU, WMT.
Popović (2015), chrF: character n-gram F-score for automatic MT evaluation, WMT.
Snover et al. (2006), A study of translation edit rate with targeted human annotation, AMTA.
Post (2018), A call for clarity in reporting BLEU scores, WMT.
Koehn (2004), Statistical significance tests for machine translation evaluation, EMNLP.
Riezler and Maxwell (2005), On some pitfalls in automatic evaluation and significance testing for MT, ACL workshop.
Noreen (1989), Computer-intensive methods for testing hypotheses, Wiley.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.display import one_line
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.flags import FLAGS
from dragoman.languages import main_language
from dragoman.records import Score

# sacreBLEU's seed, number of bootstrap samples and number of randomization trials. Signatures name the first two.
SEED = 12345
RESAMPLES = 1000
TRIALS = 10_000
# Random numbers in a block: about 16 MB for them, and as much for the counts made from them.
_DRAWS_AT_ONCE = 2_000_000
# NumPy takes 32 random bools from one random number.
_BITS_OF_A_DRAW = 32

_LEVEL = 0.05

Statistics = NDArray[np.float64]
"""Counts of a metric, (sentences, counts). The score of a test is a function of their sum over the sentences."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The difference of two scores, second minus first, on a test of `num_sentences` sentences.

    95 % of the resampled differences are in `interval`. `p_randomisation` is two-sided. `p_bootstrap` is computed as in
    Moses and sacreBLEU, from the absolute resampled differences less their mean. It is about half of a two-sided
    p-value, and far below 1 for two equal systems, so it proves nothing alone.
    """

    num_sentences: int
    difference: float
    interval: tuple[float, float]
    p_bootstrap: float
    p_randomisation: float

    @property
    def is_significant(self) -> bool:
        """Whether both p-values are below 0.05 and the interval excludes 0.

        Always false for fewer than six sentences: they can be swapped in so few ways that at least one in twenty gives
        an equal difference. sacreBLEU's p-values do not count equal differences.
        """
        low, high = self.interval
        by_chance = max(self.p_bootstrap, self.p_randomisation)
        return by_chance < _LEVEL and 2 / 2**self.num_sentences < _LEVEL and not low <= 0 <= high


def statistics_of(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """The counts of `metric` for each sentence, (sentences, counts).

    The methods are private to sacreBLEU, whose own significance tests use them too. It has no public ones.
    """
    return np.array(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64)


def score_of(metric: Metric, sums: Statistics) -> float:
    """The score of a test whose counts have these sums, (counts,)."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def resampled_scores(metric: Metric, *systems: Statistics) -> Statistics:
    """Scores (systems, `RESAMPLES`) on tests sampled with replacement, the same tests for all systems.

    A sample is represented by the number of times that each sentence occurs in it, which multiplies the counts.
    """
    size = len(systems[0])
    sums: list[list[Statistics]] = [[] for _ in systems]
    rng = np.random.default_rng(SEED)
    for rows in _blocks(RESAMPLES, size):
        drawn = rng.choice(size, size=(rows, size), replace=True)
        times = np.stack([np.bincount(one, minlength=size) for one in drawn]).astype(np.float64)
        for own, statistics in zip(sums, systems, strict=True):
            own.append(times @ statistics)
    return np.array([[score_of(metric, row) for block in own for row in block] for own in sums])


def interval_of(scores: Statistics) -> tuple[float, float]:
    """The middle 95 % of the scores."""
    ordered = np.sort(scores)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[len(ordered) - outside - 1])


def significance(
    metric: Metric, first: Statistics, second: Statistics, resampled: Statistics, trials: int = TRIALS
) -> Significance:
    """The significance of the difference of two systems on one test. `resampled` has the scores of both.

    Two systems with equal scores have p-values of 1. sacreBLEU gives them the smallest possible p-value.
    """
    difference = score_of(metric, second.sum(0)) - score_of(metric, first.sum(0))
    differences = resampled[1] - resampled[0]
    sizes = np.abs(differences)
    shuffled = _shuffled_differences(metric, first, second, trials) if difference else np.zeros(trials)
    p_values = _p_value(sizes - sizes.mean(), difference), _p_value(shuffled, difference)
    return Significance(len(first), difference, interval_of(differences), *p_values)


def _shuffled_differences(metric: Metric, first: Statistics, second: Statistics, trials: int) -> NDArray[np.float64]:
    """Absolute differences (trials,) of two systems after swapping random sentences between them."""
    rng = np.random.default_rng(SEED)
    both = first.sum(0) + second.sum(0)
    found: list[float] = []
    for rows in _blocks(trials, len(first)):
        chosen = rng.integers(2, size=(rows, len(first)), dtype=bool).astype(np.float64)
        ones = second.sum(0) + chosen @ (first - second)
        found += [abs(score_of(metric, one) - score_of(metric, both - one)) for one in ones]
    return np.array(found)


def _p_value(chance: NDArray[np.float64], difference: float) -> float:
    """The share of larger differences by chance. The observed one is counted too (Noreen 1989)."""
    return float((np.sum(chance > abs(difference)) + 1) / (len(chance) + 1)) if difference else 1.0


def _blocks(rows: int, size: int) -> Iterator[int]:
    """Split `rows` into blocks. All but the last are multiples of 32, so blocks give the same random numbers as one."""
    most = max(1, _DRAWS_AT_ONCE // size // _BITS_OF_A_DRAW) * _BITS_OF_A_DRAW
    while rows > 0:
        yield min(rows, most)
        rows -= most


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
    """BLEU of translations, from 0 to 100, higher is better (Papineni et al. 2002; Post 2018).

    Parameters
    ----------
    hypotheses : list of str
        The translations, detokenized.
    references : list of str
        The reference of each translation.
    tokenize : str
        sacreBLEU's tokenization: "13a", "zh", "ja-mecab", "ko-mecab", "char", "flores200" and others.

    Returns
    -------
    Score
        The value, with sacreBLEU's signature.

    Raises
    ------
    ConfigError
        If the tokenization is unknown.
    DataError
        If there are not as many references as translations, or if one of both is a single string.

    Examples
    --------
    >>> print(bleu(["The cat sat on the mat."], ["The cat sat on the mat."]))
    BLEU 100.00 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0)
    """
    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigError(f"`tokenize` must be one of {', '.join(BLEU.TOKENIZERS)}, but is {tokenize!r}.")
    return _score(all_metrics(tokenize)[0], hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 of translations, from 0 to 100, higher is better (Popović 2015).

    Parameters
    ----------
    hypotheses : list of str
        The translations, detokenized.
    references : list of str
        The reference of each translation.

    Returns
    -------
    Score
        The value, with sacreBLEU's signature.

    Raises
    ------
    DataError
        As for `bleu`.
    """
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
        resampled = resampled_scores(metric, statistics)[0] if intervals else None
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
    """The statistics of `metric` for each sentence. Raises DataError if the numbers of lines differ or are 0.

    A single string is refused too: it would be read as letters.
    """
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"`{name}` must be a list of texts, one for each sentence, but is {one_line(texts)}.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"there are {len(hypotheses)} translations but {len(references)} references. "
            f"Give one reference per line, in the order of the translations."
        )
    if not hypotheses:
        raise DataError("there are no translations to score. Give at least one line and its reference.")
    return statistics_of(metric, hypotheses, references)


def make_score(metric: Metric, statistics: Statistics, resampled: Statistics | None = None) -> Score:
    """The score of sentences with these counts. `resampled` scores add an interval, also to the signature."""
    value, signature = score_of(metric, statistics.sum(0)), metric.get_signature()
    name = type(metric).__name__ if not isinstance(metric, CHRF) else f"chrF{metric.beta}"
    if resampled is None:
        return Score(name, value, str(signature))
    signature.update("bs", RESAMPLES)
    signature.update("seed", SEED)
    return Score(name, value, str(signature), interval_of(resampled))


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
