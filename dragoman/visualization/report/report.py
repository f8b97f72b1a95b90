"""The report of a run: one HTML file about its data, training, scores and sentences, without scripts or network.

The template engine escapes text from corpora and models. Such text has isolated direction and is never part of a style
or a URL. The page's policy allows the page's own style by its hash, and nothing else.
"""

import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import NDArray

from dragoman.bundle import Model
from dragoman.errors import install_advice
from dragoman.evaluation.checklists import PhenomenonCount, Translate, check_phenomena
from dragoman.evaluation.metrics import sentence_chrf
from dragoman.files import write_file
from dragoman.inference.alignment import Aligner
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization.pipelines import SPACE_SYMBOL
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.text.tokenization.words import Word, words_of
from dragoman.visualization.arguments import has_matplotlib
from dragoman.visualization.inspection.inspection import source_hash
from dragoman.visualization.report.run_facts import RunFacts, read_run


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The words of both sides, and for each target word a row of weights on the source words. Rows sum to at most 1.

    A word starts with a space if the text has a space before it. Punctuation marks are words.
    """

    src_words: tuple[str, ...]
    tgt_words: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


Alignment = Callable[[str, str], WordWeights | None]
"""``alignment(source, output)`` returns word weights, or None if there is nothing to align."""


def cross_attention_of(model: Model) -> Alignment:
    """A function that computes word weights from the attention that `translate --alignment` uses.

    The output is fed to the decoder (teacher forcing). Weights are summed over the tokens of a source word and averaged
    over the tokens of a target word. Weight on the end token belongs to no word. Texts longer than the training limit,
    which the translator splits, are not aligned.
    """
    longest = model.config.model.longest_text(model.config.data.max_tokens)
    aligner = Aligner([model.weights], model.tokenizers)

    def align(source: str, output: str) -> WordWeights | None:
        src_ids = model.tokenizers.src.encode(source)
        tgt_ids = model.tokenizers.tgt.encode(output)
        if not src_ids or not tgt_ids or max(len(src_ids), len(tgt_ids)) > longest:
            return None
        [links] = aligner.weights([(src_ids, tgt_ids)])
        src, src_texts = _words(model.tokenizers.src, src_ids)
        tgt, tgt_texts = _words(model.tokenizers.tgt, tgt_ids)
        return WordWeights(src_texts, tgt_texts, tuple(map(tuple, _sum_by_word(links, src, tgt).tolist())))

    return align


def _sum_by_word(weights: NDArray[np.float32], src: tuple[Word, ...], tgt: tuple[Word, ...]) -> NDArray[np.float32]:
    """Convert token weights (T, S) to word weights: sum over source tokens, mean over target tokens."""
    by_source = np.stack([weights[:, word.start : word.stop].sum(1) for word in src], 1)
    return np.stack([by_source[word.start : word.stop].mean(0) for word in tgt])


def _words(tokenizer: Tokenizer, ids: list[int]) -> tuple[tuple[Word, ...], tuple[str, ...]]:
    tokens = tokenizer.tokens(ids)
    words = words_of(tokens)
    texts = ((" " if tokens[word.start].startswith(SPACE_SYMBOL) else "") + word.text for word in words)
    return words, tuple(texts)


NUM_SENTENCES = 20
_GROUPS = (("worst", 7), ("median", 7), ("best", 6))
_LONGEST_TEXT = 600
# Longer sentences are not shaded, or not shaded on hover: the style rules grow with the number of words.
_MOST_WORDS, _MOST_POINTED_AT = 120, 60
_HUES = 6
# Least weights of the shades 1 to 4.
_STRENGTHS = (0.08, 0.18, 0.35, 0.6)


@dataclass(frozen=True, slots=True)
class ReportWord:
    """A word, whether a space precedes it, its style classes, and the words with the highest weights as a hint."""

    text: str
    spaced: bool
    classes: str
    hint: str


@dataclass(frozen=True, slots=True)
class ReportSentence:
    """One sentence of the page. Without an alignment the lists of words are empty."""

    identity: str
    group: str
    number: int
    chrf: float
    src: str
    reference: str
    output: str
    src_words: tuple[ReportWord, ...]
    tgt_words: tuple[ReportWord, ...]
    rules: str


def choose_rows(chrf: Sequence[float], lengths: Sequence[int]) -> list[tuple[str, int]]:
    """Choose (group, row) of 20 sentences: the worst, median and best by chrF, with longer sentences first in ties.

    If there are at most 20 sentences, all are chosen, worst first.
    """
    order = sorted(range(len(chrf)), key=lambda row: (chrf[row], -lengths[row]))
    if len(order) <= NUM_SENTENCES:
        return [("all", row) for row in order]
    (worst, num_worst), (median, num_median), (best, num_best) = _GROUPS
    top = set(sorted(order[num_worst:], key=lambda row: (-chrf[row], -lengths[row]))[:num_best])
    others = [row for row in order if row not in top]
    start = (len(order) - num_median) // 2
    return [
        *((worst, row) for row in others[:num_worst]),
        *((median, row) for row in others[start : start + num_median]),
        *((best, row) for row in order if row in top),
    ]


def choose_sentences(
    sources: Sequence[str], references: Sequence[str], outputs: Sequence[str], alignment: Alignment | None
) -> list[ReportSentence]:
    """The chosen sentences of a test set, ready for the page. Their numbers are line numbers from 1."""
    chrf = sentence_chrf(outputs, references)
    shown = []
    for place, (group, row) in enumerate(choose_rows(chrf, [len(text) for text in sources])):
        source, output = sources[row], outputs[row]
        words = alignment(source, output) if alignment and source.strip() and output.strip() else None
        if words is not None and max(len(words.src_words), len(words.tgt_words)) > _MOST_WORDS:
            words = None
        identity = f"s{place}"
        src_words, tgt_words = _shade_words(words) if words else ((), ())
        rules = hover_rules(identity, words) if words else ""
        texts = clip_text(source), clip_text(references[row]), clip_text(output)
        shown.append(ReportSentence(identity, group, row + 1, chrf[row], *texts, src_words, tgt_words, rules))
    return shown


def clip_text(text: str) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} … ({len(text):,} characters)"


def shade_level(weight: float) -> int:
    """The shade of a weight, from 0 (none) to 4."""
    return sum(weight >= least for least in _STRENGTHS)


def hover_rules(identity: str, words: WordWeights) -> str:
    """Style rules that shade the aligned words of a hovered or focused word, without a script.

    Empty for sentences of more than 60 words.
    """
    if max(len(words.src_words), len(words.tgt_words)) > _MOST_POINTED_AT:
        return ""
    rules = [f"#{identity}:has(.w:is(:hover,:focus)) .w{{background:none}}"]
    by_target = words.weights
    by_source = tuple(zip(*by_target, strict=True))
    for own, other, rows in (("t", "o", by_target), ("o", "t", by_source)):
        for place, row in enumerate(rows):
            pointed = f"#{identity}:has(.{own}{place}:is(:hover,:focus)) "
            rules.append(f"{pointed}.{own}{place}{{outline:2px solid var(--blue)}}")
            for level in range(1, len(_STRENGTHS) + 1):
                if places := [index for index, weight in enumerate(row) if shade_level(weight) == level]:
                    targets = ",".join(f".{other}{index}" for index in places)
                    rules.append(f"{pointed}:is({targets}){{background:var(--b{level})}}")
    return "\n".join(rules)


def _shade_words(words: WordWeights) -> tuple[tuple[ReportWord, ...], tuple[ReportWord, ...]]:
    """Give each source word a colour, and each target word the colour of the source word with the highest weight."""
    sources = (
        _report_word(text, f"o{place} h{place % _HUES}", column, words.tgt_words)
        for place, (text, column) in enumerate(zip(words.src_words, zip(*words.weights, strict=True), strict=True))
    )
    targets = (
        _report_word(text, f"t{place} h{row.index(max(row)) % _HUES}", row, words.src_words)
        for place, (text, row) in enumerate(zip(words.tgt_words, words.weights, strict=True))
    )
    return tuple(sources), tuple(targets)


def _report_word(text: str, classes: str, weights: Sequence[float], others: Sequence[str]) -> ReportWord:
    """A word with its shade, and up to three words of the other side with the highest weights as its hint."""
    best = sorted(zip(weights, others, strict=True), key=lambda pair: -pair[0])[:3]
    hint = ", ".join(f"{word.strip()} {weight:.0%}" for weight, word in best if shade_level(weight))
    return ReportWord(text.strip() or text, text.startswith(" "), f"w {classes} l{shade_level(max(weights))}", hint)


REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class ReportedTest:
    """A model's outputs on a test set, and functions to translate and align more text.

    `part` is "test" or "validation". `sources`, `references` and `outputs` have the same length. `warnings` come from
    `evaluate`. Without `alignment`, no words are shaded.
    """

    part: str
    sources: Sequence[str]
    references: Sequence[str]
    outputs: Sequence[str]
    warnings: Sequence[str]
    translate: Translate
    alignment: Alignment | None = None


def write_report(run: Path, test: ReportedTest | None) -> Path:
    """Write report.html and card.md into a run's folder, replacing earlier ones, and return the path of the report.

    Without `test` the page has no sentences. Raises ModelError if the folder has no model, DataError if it is not a
    run, and ResourceError if the disk is full.
    """
    facts = read_run(run)
    page = report_html(facts, test)
    write_file(run / "card.md", facts.card.to_markdown())
    write_file(run / REPORT, page.encode("utf-8", "replace"))
    return run / REPORT


def report_html(facts: RunFacts, test: ReportedTest | None) -> str:
    """The HTML of the report."""
    sentences: list[ReportSentence] = []
    findings: list[PhenomenonCount] = []
    if test is not None:
        # Lone surrogates cannot be encoded in a page.
        sides = (test.sources, test.references, test.outputs)
        sources, references, outputs = (tuple(map(replace_surrogates, side)) for side in sides)
        test = replace(test, sources=sources, references=references, outputs=outputs)
        sentences = choose_sentences(sources, references, outputs, test.alignment)
        languages = facts.card.src_lang, facts.card.tgt_lang
        findings = check_phenomena(sources, references, outputs, test.translate, *languages)
    style = "\n".join([_resource("report.css"), *(sentence.rules for sentence in sentences)])
    return _template().render(
        style=Markup(style),
        style_hash=source_hash(style),
        facts=facts,
        card=facts.card,
        title=f"{facts.card.src_lang or '?'} → {facts.card.tgt_lang or '?'}",
        tiles=_tiles(facts, test),
        charts=_charts(facts),
        has_matplotlib=has_matplotlib(),
        install_advice=Markup(install_advice("train", ("<code>", "</code>"))),
        test=test,
        sentences=sentences,
        findings=findings,
        clip_text=clip_text,
        run=shlex.quote(str(facts.path)),
        machine=f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )


def _tiles(facts: RunFacts, test: ReportedTest | None) -> list[tuple[str, str]]:
    """The key figures at the top of the page: (value, label)."""
    card = facts.card
    part = test.part if test is not None else ""
    tiles = [
        (f"{value:.1f}", f"{metric} on {data.partition(',')[0]}")
        for data, metric, value, _ in card.scores
        if part and data.startswith(part) and metric in ("BLEU", "chrF2")
    ]
    if test is not None and test.outputs:
        exact = sum(output == reference for output, reference in zip(test.outputs, test.references, strict=True))
        tiles.append((f"{exact / len(test.outputs):.0%}", "identical to the reference"))
    return [
        *tiles,
        (f"{card.train_pairs:,}", "training pairs"),
        (_short(card.parameters), "parameters"),
        (f"{card.minutes:.1f}", "minutes of training"),
    ]


def _short(number: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


def _charts(facts: RunFacts) -> dict[str, Markup]:
    """The figures as elements, each in a wide and a narrow version of which the style shows one.

    No data, no figure. Empty without matplotlib.
    """
    charts: dict[str, Markup] = {}
    if not has_matplotlib():
        return charts
    from dragoman.visualization.report.run_figures import draw_lengths, draw_run, inline_svg

    sides = facts.card.src_lang or "source", facts.card.tgt_lang or "target"
    for name, draw, text in (
        ("curves", partial(draw_run, facts.log), "Training curves by step"),
        (
            "lengths",
            partial(draw_lengths, facts.lengths, sides, facts.config.data.max_tokens),
            "Histograms of sentence lengths",
        ),
    ):
        for kind, columns in (("wide", 2), ("narrow", 1)):
            if figure := draw(columns=columns):
                drawn = inline_svg(figure, f"{name}-{kind}", text)
                charts[name] = charts.get(name, Markup()) + Markup(f'<div class="{kind}">{drawn}</div>')
    return charts


def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"count": "{:,}".format, "share": "{:.1%}".format}
    return environment.from_string(_resource("report.html"))


def _resource(name: str) -> str:
    return (files("dragoman.visualization.report") / name).read_text(encoding="utf-8")
