"""Writes dragoman/language_names.txt.gz, the names of languages in all languages, from the package language_data.

    python tools/language_names.py

`dragoman.languages` finds the code of a name in this file, so that Dragoman does not depend on language_data, which
takes 30 MB. The names are those of Unicode CLDR and of a list that language_data adds. Names that
`language_code` cannot match are left out, such as most names in Indic scripts.
"""

import gzip
import unicodedata
from collections import defaultdict
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

from langcodes import Language
from language_data.names import load_trie
from language_data.util import data_filename

from dragoman.languages import NAME

_HEAD = """\
The codes of languages, each with its names in all languages. Written by tools/language_names.py from language_data
{version}, which contains names of Unicode CLDR. The licenses of both follow.

{licenses}
"""
_TARGET = Path(__file__).parents[1] / "dragoman" / "language_names.txt.gz"


def codes_by_name() -> dict[str, str]:
    """The code of each normalized name that `language_code` can match, or that a longer text can begin with."""
    found = load_trie(data_filename("trie/und/name_to_language.marisa"))
    names = {name: found[name][0].decode() for name in found.keys()}  # noqa: SIM118 (a trie, which yields no keys)
    return {name: _standard(code) for name, code in names.items() if _can_match(name)}


def _can_match(name: str) -> bool:
    # İ in lower case has a dot above, which is no letter.
    written = unicodedata.normalize("NFC", name.replace("\u0307", ""))
    return bool(NAME.fullmatch(f"{written}x"))


def _standard(code: str) -> str:
    return (Language.get(code) if "-" in code else Language.make(language=code)).to_tag()


def main() -> None:
    """Write the file."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, code in codes_by_name().items():
        names[code].append(name)
    package = distribution("language_data")
    unicode_license = files("babel").joinpath("locale-data/LICENSE.unicode").read_text(encoding="utf-8")
    licenses = str(package.read_text("licenses/LICENSE")), unicode_license
    head = _HEAD.format(version=package.version, licenses="\n".join(licenses))
    head = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    lines = [f"{code}|{'|'.join(sorted(names[code]))}|\n" for code in sorted(names)]
    _TARGET.write_bytes(gzip.compress((head + "".join(lines)).encode(), mtime=0))


if __name__ == "__main__":
    main()
