"""Repair of strings that are not valid Unicode: a Python str may hold half of a surrogate pair, UTF-8 cannot.

Such strings come from JSON escapes such as ``"\\ud83d"`` that another program cut in two.
"""


def replace_surrogates(text: str) -> str:
    """The text with surrogate pairs joined to one character and lone surrogates replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
