"""Translating HTML and XML: the mark-up stays, and inline tags go to the words they belong to."""

from collections.abc import Callable, Collection, Sequence

from dragoman.config.fields import SettingValue
from dragoman.inference.preservation.preserver import Preserve
from dragoman.inference.translator import Translator
from dragoman.records import Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup
from dragoman.text.documents.subtitles import read_subtitles
from dragoman.text.documents.terms import Terms

Report = Callable[[Translation], None]


def translate_html(
    translator: Translator,
    html: str,
    *,
    protect: bool = True,
    terms: Terms | None = None,
    by_sentence: bool = True,
    report: Report | None = None,
    **settings: SettingValue,
) -> str:
    """The page in the other language.

    Tags, attributes, comments, and all that is no text stay to the byte, and so do script, style, pre, code and the
    like, and elements with ``translate="no"`` or class ``notranslate``. What was escaped stays escaped. `settings` are
    those of `Translator.translate`; `report` is called with every block's translation, which says what was lost or cut.
    """
    return translate_markup(
        translator,
        [html],
        MarkupRules(),
        protect=protect,
        terms=terms,
        by_sentence=by_sentence,
        report=report,
        **settings,
    )[0]


def translate_xml(
    translator: Translator,
    xml: str,
    *,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    protect: bool = True,
    terms: Terms | None = None,
    by_sentence: bool = True,
    report: Report | None = None,
    **settings: SettingValue,
) -> str:
    """The same for XML, or text with any tags in it: they are inline but for the `splitting_tags`.

    What is inside `ignore_tags` stays as it is.
    """
    ignored, splitting = ({tag.lower() for tag in tags} for tags in (ignore_tags, splitting_tags))
    rules = MarkupRules(True, ignored, splitting)
    return translate_markup(
        translator, [xml], rules, protect=protect, terms=terms, by_sentence=by_sentence, report=report, **settings
    )[0]


def translate_markup(
    translator: Translator,
    pages: Sequence[str],
    rules: MarkupRules,
    *,
    protect: bool = True,
    terms: Terms | None = None,
    by_sentence: bool = True,
    report: Report | None = None,
    **settings: SettingValue,
) -> list[str]:
    """Several pages at once, which is faster than one by one. `by_sentence` is that of `Translator.translate`."""
    marked = [read_markup(page, rules) for page in pages]
    texts = [text for page in marked for text in page.texts]
    kept = Preserve(protect, terms, by_sentence, escape_text)
    written = iter(_translated(translator, texts, kept, report, settings))
    return [page.with_translations([next(written) for _ in page.texts]) for page in marked]


def translate_srt(
    translator: Translator,
    srt: str,
    *,
    protect: bool = True,
    terms: Terms | None = None,
    report: Report | None = None,
    **settings: SettingValue,
) -> str:
    """Subtitles with numbers, times and tags kept; a cue has as many lines as before."""
    subtitles = read_subtitles(srt)
    return subtitles.with_translations(
        _translated(translator, subtitles.texts, Preserve(protect, terms), report, settings)
    )


def _translated(
    translator: Translator,
    texts: Sequence[MarkedText],
    kept: Preserve,
    report: Report | None,
    settings: dict[str, SettingValue],
) -> list[str]:
    answers = translator.translate_marked(texts, kept, with_alignment=False, with_flags=False, **settings)
    if report:
        for answer in answers:
            report(answer)
    return [answer.text for answer in answers]
