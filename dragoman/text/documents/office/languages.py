"""Declare the language and the direction of the translation in the XML of an office file.

Text that declares another language than the source keeps it. The properties of Word have a fixed order (ECMA-376, part
1, appendix A), so a new one is inserted in front of those that must follow it.
"""

import re

import langcodes

from dragoman.languages import main_language

_RTL_SCRIPTS = frozenset("Arab Hebr Syrc Thaa Nkoo Adlm Rohg Mand Samr".split())
_EAST_ASIAN = frozenset(("zh", "ja", "ko"))
_WORD_LANGUAGE = re.compile(r"<(?:w:lang|a:(?:r|endParaR|defR)Pr)\b[^>]*>")
_WORD_DIRECTION = re.compile(r"<w:(?:bidi|rtl|bidiVisual)(?:\s[^>]*)?/>")
_PARAGRAPH = re.compile(r"(<w:p(?:\s[^>]*[^>/])?>\s*)(<w:pPr>|<w:pPr/>)?")
_BEFORE_BIDI = (
    "pStyle keepNext keepLines pageBreakBefore framePr widowControl numPr suppressLineNumbers pBdr shd tabs "
    "suppressAutoHyphens kinsoku wordWrap overflowPunct topLinePunct autoSpaceDE autoSpaceDN"
).replace(" ", "|")
_PARAGRAPH_START = re.compile(rf"<w:pPr>(?:\s*<w:({_BEFORE_BIDI})\b(?:[^>]*/>|(?:(?!</w:\1>).)*</w:\1>))*", re.DOTALL)
_RUN = re.compile(r"(<w:r(?:\s[^>]*[^>/])?>)(?!\s*<w:rPr)")
_WORD_FORMAT = re.compile(r"<w:(b|i|sz)((?:\s[^>]*)?)/>(?!\s*<w:\1Cs\b)")
"""Bold, italic and size of text from left to right. Word has properties of their own for the other direction."""
_RUN_START = re.compile(
    r"<w:rPr>(?:(?!</w:rPr>|<w:(?:cs|em|lang|eastAsianLayout|specVanish|oMath|rPrChange)\b|<w14:).)*", re.DOTALL
)
_OPEN_PROPERTIES = re.compile(r"<style:text-properties\b[^>]*>")
_OPEN_FORMAT = re.compile(r'(?<= )fo:(font-(?:weight|style|size))="([^"]*)"(?![^>]*\1-complex=)')
_DEFAULT_PARAGRAPH = re.compile(
    r'(<style:default-style style:family="paragraph">\s*<style:paragraph-properties)((?:(?! fo:text-align)[^>])*>)'
)
_ALIGNMENT = re.compile(r'(?<=fo:text-align=")(?:start|left|end|right)(?=")')
"""LibreOffice takes "start" for the left side, and "end" for the right side, in any direction."""
_SECTION_START = re.compile(
    r"<w:sectPr(?:\s[^>]*[^>/])?>(?:(?!</w:sectPr>|<w:(?:rtlGutter|docGrid|printerSettings|sectPrChange)\b).)*",
    re.DOTALL,
)
_TABLE_START = re.compile(r"<w:tblPr>(?:\s*<w:(?:tblStyle|tblpPr|tblOverlap)\b[^>]*/>)*")


def is_right_to_left(language: str) -> bool:
    """Whether the language is written from right to left."""
    return langcodes.Language.get(language).maximize().script in _RTL_SCRIPTS


def declare_word(xml: str, src_lang: str, tgt_lang: str) -> str:
    """A part of a Word file, or its part with styles, with the language of its translation."""
    language, territory = _language_and_territory(tgt_lang)
    kind = "w:bidi" if is_right_to_left(tgt_lang) else "w:eastAsia" if language in _EAST_ASIAN else "w:val"
    end_of_defaults = xml.find("</w:docDefaults>")

    def declared(match: re.Match[str]) -> str:
        name = kind if match[0].startswith("<w:") else "lang"
        is_fixed = name not in ("w:val", "lang") or match.start() < end_of_defaults
        is_declared = is_fixed or _has_language(match[0], name, src_lang)
        return _replace_attribute(match[0], name, f"{language}-{territory}".strip("-")) if is_declared else match[0]

    xml = _WORD_LANGUAGE.sub(declared, xml)
    if is_right_to_left(tgt_lang) == is_right_to_left(src_lang):
        return xml
    xml = _WORD_DIRECTION.sub("", xml).replace("<w:rPr/>", "<w:rPr></w:rPr>")
    if is_right_to_left(tgt_lang):
        xml = _PARAGRAPH.sub(lambda match: f"{match[1]}<w:pPr>{'' if match[2] == '<w:pPr>' else '</w:pPr>'}", xml)
        xml = _PARAGRAPH_START.sub(r"\g<0><w:bidi/>", xml)
        xml = _WORD_FORMAT.sub(r"\g<0><w:\1Cs\2/>", xml)
        xml = _RUN_START.sub(r"\g<0><w:rtl/>", _RUN.sub(r"\1<w:rPr></w:rPr>", xml))
        xml = _SECTION_START.sub(r"\g<0><w:bidi/>", xml)
        xml = _TABLE_START.sub(r"\g<0><w:bidiVisual/>", xml)
    return xml


def declare_open(xml: str, src_lang: str, tgt_lang: str) -> str:
    """A part of an OpenDocument file with the language of its translation."""
    language, territory = _language_and_territory(tgt_lang)
    end = "-complex" if is_right_to_left(tgt_lang) else "-asian" if language in _EAST_ASIAN else ""
    prefix = "style" if end else "fo"

    def declared(match: re.Match[str]) -> str:
        if not end and not _has_language(match[0], "fo:language", src_lang):
            return match[0]
        tag = _replace_attribute(match[0], f"{prefix}:language{end}", language)
        return _replace_attribute(tag, f"{prefix}:country{end}", territory)

    xml = _OPEN_PROPERTIES.sub(declared, xml)
    if is_right_to_left(tgt_lang) == is_right_to_left(src_lang):
        return xml
    if is_right_to_left(tgt_lang):
        xml = _DEFAULT_PARAGRAPH.sub(r'\1 fo:text-align="start"\2', xml)
        xml = _OPEN_FORMAT.sub(r'\g<0> style:\1-complex="\2"', xml)
    modes = ('style:writing-mode="lr-tb"', 'style:writing-mode="rl-tb"')
    xml = xml.replace(*(modes if is_right_to_left(tgt_lang) else reversed(modes)))
    return _ALIGNMENT.sub(lambda match: "right" if match[0] in ("start", "left") else "left", xml)


def _language_and_territory(code: str) -> tuple[str, str]:
    full = langcodes.Language.get(code).maximize()
    return (code, "") if code.startswith("x-") else (str(full.language), full.territory or "")


def _has_language(tag: str, name: str, language: str) -> bool:
    found = re.search(rf"""\s{name}\s*=\s*["']([^"']+)""", tag)
    return found is not None and main_language(found[1]) == main_language(language)


def _replace_attribute(tag: str, name: str, value: str) -> str:
    return re.sub(rf"""(\s{name}\s*=\s*["'])[^"']*""", rf"\g<1>{value}", tag)
