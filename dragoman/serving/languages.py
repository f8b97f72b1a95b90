"""Which served language a client means."""

from dragoman.languages import LANGUAGE_NAMES, normalize_code

_BY_LOWER_CASE = {code.lower(): code for code in LANGUAGE_NAMES}
_SAME = {"zh-hans": "zh", "zh": "zh-hans", "zt": "zh-hant", "zh-hant": "zt", "pb": "pt-br", "pt-br": "pb"}
"""LibreTranslate takes both of these for the same."""


def canonical_code(code: str) -> str:
    """A code as it is written in answers: ``EN``, ``eng`` and ``en`` are en, ``pt_br`` is pt-BR."""
    plain = normalize_code(code)
    return _BY_LOWER_CASE.get(plain, plain)


def find_code(code: str, served: list[str]) -> str | None:
    """The one of the served codes that is meant, or None."""
    by_lower_case = {one.lower(): one for one in served}
    wanted = canonical_code(code).lower()
    return by_lower_case.get(wanted) or by_lower_case.get(_SAME.get(wanted, ""))
