"""Strings that are no valid Unicode: Python's str may hold half of a surrogate pair, UTF-8 cannot.

They arise from JSON escapes such as ``"\\ud83d"`` cut in two by another program.
"""


def replace_surrogates(text: str) -> str:
    """The text itself, or where it holds surrogates: pairs joined to their character, lone ones as U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
