"""Styles whose text is not translated: code, hidden text, and those that the user names."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

_CODE = frozenset(
    "code codeblock codechar htmlcode htmlkeyboard htmlpreformatted htmlsample htmltypewriter htmlvariable inlinecode "
    "macro macrotext preformattedtext programlisting sourcecode sourcetext teletype verbatim verbatimchar".split()
)
_LANGUAGE = frozenset(
    "rsid paragraph-rsid rfc-language-tag rfc-language-tag-asian rfc-language-tag-complex "
    "language country script language-asian country-asian script-asian language-complex country-complex "
    "script-complex".split()
)
OFF = frozenset(("0", "false", "off"))
"""Values that switch a property of Word off."""


class Style(NamedTuple):
    """A style of either format.

    Attributes
    ----------
    name
        How text refers to it. In OpenDocument files with the family before it, such as ``text/T1``.
    titles
        What the user sees.
    parent
        The name of the style that it extends.
    is_hidden
        Whether it hides its text.
    is_plain
        Whether it changes nothing visible: it only notes the language, or who wrote the text.
    """

    name: str
    titles: tuple[str, ...]
    parent: str
    is_hidden: bool
    is_plain: bool = False


def word_styles(root: Element) -> Iterator[Style]:
    """The styles of a Word file, from its part with styles."""
    for style in root:
        if local_name(style.tag) == "style":
            values = {local_name(child.tag): _attributes(child).get("val", "") for child in style.iter()}
            titles, is_hidden = (values.get("name", ""),), values.get("vanish", "0") not in OFF
            yield Style(_attributes(style).get("styleId", ""), titles, values.get("basedOn", ""), is_hidden)


def open_styles(root: Element) -> Iterator[Style]:
    """The styles of an OpenDocument file, from one of its parts."""
    for style in root.iter():
        if local_name(style.tag) == "style":
            own = _attributes(style)
            properties = {key: value for child in style for key, value in _attributes(child).items()}
            titles = own.get("name", ""), own.get("display-name", "")
            plain = (
                own.get("family") == "text" and not own.get("parent-style-name") and _LANGUAGE.issuperset(properties)
            )
            is_hidden = properties.get("display") == "none"
            family = own.get("family", "")
            name, parent = (f"{family}/{own.get(key, '')}" for key in ("name", "parent-style-name"))
            yield Style(name, titles, parent, is_hidden, plain)


def paragraph_styles(root: Element) -> Iterator[str]:
    """The name of the style of each paragraph with letters in a part."""
    for one in root.iter():
        if local_name(one.tag) in ("p", "h") and any(map(str.isalpha, "".join(one.itertext()))):
            own = (each for child in one if local_name(child.tag) == "pPr" for each in child)
            named = next((_attributes(each).get("val", "") for each in own if local_name(each.tag) == "pStyle"), None)
            yield f"paragraph/{_attributes(one).get('style-name', '')}" if named is None else named


def unknown_names(styles: Iterable[Style], named: Iterable[str]) -> list[str]:
    """The names that the user gave and no style has."""
    known = {_key(title) for style in styles for title in style.titles}
    return [name for name in named if _key(name) not in known]


def kept_styles(styles: Collection[Style], named: Iterable[str], used: Iterable[str]) -> set[str]:
    """The names of all styles that are code, hidden, or named by the user, and of those that extend them.

    `used` are the styles of the paragraphs. If most are code, they are not: an office program gives such a style to all
    paragraphs of a plain text.
    """
    wanted = set(map(_key, named))
    kept = _with_extensions(styles, lambda style: style.is_hidden or not wanted.isdisjoint(map(_key, style.titles)))
    code = _with_extensions(styles, lambda style: not _CODE.isdisjoint(map(_key, style.titles)))
    is_code = [style in code for style in used]
    return kept if 2 * sum(is_code) > len(is_code) else kept | code


def _with_extensions(styles: Collection[Style], is_first: Callable[[Style], bool]) -> set[str]:
    """The names of some styles, and of all that extend them."""
    extensions = defaultdict[str, list[str]](list)
    for style in styles:
        extensions[style.parent].append(style.name)
    found, waiting = set[str](), [style.name for style in styles if is_first(style)]
    while waiting:
        name = waiting.pop()
        waiting += () if name in found else extensions[name]
        found.add(name)
    return found


def local_name(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("}")[2]


def _attributes(element: Element) -> dict[str, str]:
    return {local_name(key): value for key, value in element.attrib.items()}


def _key(title: str) -> str:
    return title.replace("_20_", "").replace(" ", "").replace("-", "").lower()
