"""The report of a run: one HTML file about its data, training and scores, without scripts or network access.

The template engine escapes text from corpora and models. Such text has isolated direction and is never part of a style
or a URL. The page's policy allows the page's own style by its hash, and nothing else.
"""

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dragoman.errors import install_advice
from dragoman.evaluation.checklists import PhenomenonCount, Translate, check_phenomena
from dragoman.files import write_file
from dragoman.text.charsets import replace_surrogates
from dragoman.visualization.arguments import has_matplotlib
from dragoman.visualization.inspection.inspection import source_hash
from dragoman.visualization.report.report_sentences import Alignment, ReportSentence, choose_sentences, clip_text
from dragoman.visualization.report.run_facts import RunFacts, read_run

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
