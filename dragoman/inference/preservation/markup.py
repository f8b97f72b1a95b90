"""Translation of HTML, XML and subtitles. Markup is preserved, and inline tags move with the words they enclose."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.config.fields import SettingValue
from dragoman.inference.options import NO_DETAILS, PRESERVE_DOCUMENT, PRESERVE_SUBTITLES, Preserve
from dragoman.records import Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup
from dragoman.text.documents.subtitles import read_subtitles

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator

Report = Callable[[Translation], None]


def translate_html(
    translator: "Translator", html: str, preserve: Preserve = PRESERVE_DOCUMENT, **settings: SettingValue
) -> str:
    """Translate an HTML page.

    Tags, attributes and comments stay the same to the byte. So do the contents of script, style, pre, code and similar
    elements, and of elements with ``translate="no"`` or the class ``notranslate``. Escaped characters stay escaped.
    `settings` are those of `Translator.translate`.
    """
    return translate_markup(translator, [html], MarkupRules(), preserve, None, **settings)[0]


def translate_xml(
    translator: "Translator",
    xml: str,
    *,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    preserve: Preserve = PRESERVE_DOCUMENT,
    **settings: SettingValue,
) -> str:
    """Translate XML, or text with any tags in it.

    Tags are inline, so that text on both sides belongs to one sentence, except `splitting_tags`. Elements in
    `ignore_tags` are not translated.
    """
    ignored, splitting = ({tag.lower() for tag in tags} for tags in (ignore_tags, splitting_tags))
    return translate_markup(translator, [xml], MarkupRules(True, ignored, splitting), preserve, None, **settings)[0]


def translate_markup(
    translator: "Translator",
    pages: Sequence[str],
    rules: MarkupRules,
    preserve: Preserve = PRESERVE_DOCUMENT,
    report: Report | None = None,
    **settings: SettingValue,
) -> list[str]:
    """Translate several pages at once, which is faster than one by one.

    `report` is called with the `Translation` of every block of text, which has lost terms and cut outputs.
    """
    marked = [read_markup(page, rules) for page in pages]
    texts = [text for page in marked for text in page.texts]
    written = iter(_translate(translator, texts, replace(preserve, escape=escape_text), report, settings))
    return [page.with_translations([next(written) for _ in page.texts]) for page in marked]


def translate_srt(
    translator: "Translator",
    srt: str,
    preserve: Preserve = PRESERVE_SUBTITLES,
    report: Report | None = None,
    **settings: SettingValue,
) -> str:
    """Translate SubRip subtitles. Numbers, times and tags are kept, and every cue keeps its number of lines."""
    subtitles = read_subtitles(srt)
    return subtitles.with_translations(_translate(translator, subtitles.texts, preserve, report, settings))


def _translate(
    translator: "Translator",
    texts: Sequence[MarkedText],
    preserve: Preserve,
    report: Report | None,
    settings: dict[str, SettingValue],
) -> list[str]:
    answers = translator.translate_marked(texts, preserve, NO_DETAILS, **settings)
    if report:
        for answer in answers:
            report(answer)
    return [answer.text for answer in answers]
