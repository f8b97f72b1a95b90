"""The corpora with short names. Languages, sizes and licences are those of their cards on the hub."""

from dataclasses import dataclass

from dragoman.display import html_table

_OPUS_BOOKS = (
    "ca-de ca-en ca-hu ca-nl de-en de-eo de-es de-fr de-hu de-it de-nl de-pt de-ru el-en el-es el-fr el-hu en-eo "
    "en-es en-fi en-fr en-hu en-it en-nl en-no en-pl en-pt en-ru en-sv eo-es eo-fr eo-hu eo-it eo-pt es-fi es-fr "
    "es-it es-nl es-no es-pt es-ru fi-fr fi-no fi-pl fr-hu fr-it fr-nl fr-no fr-pl fr-pt fr-ru fr-sv hu-it hu-nl "
    "hu-no hu-pl hu-pt hu-ru it-nl it-pt it-ru it-sv"
)
_IWSLT2017 = "ar-en de-en en-fr en-it en-ja en-ko en-nl en-ro en-zh it-nl it-ro nl-ro"
_SHOWN_PAIRS = 12
_HEADER = ("name", "training pairs", "licence", "languages (in both directions)")


@dataclass(frozen=True, slots=True)
class KnownCorpus:
    """A corpus that has a short name.

    Parameters
    ----------
    name : str
        The short name.
    data_set : str
        The name on the Hugging Face hub.
    pairs : tuple of str
        The pairs of languages, such as "de-en". Each is available in both directions.
    training_pairs : str
        The number of sentence pairs in the training set, or the range over the pairs of languages.
    license : str
        The licence that the card on the hub states.
    """

    name: str
    data_set: str
    pairs: tuple[str, ...]
    training_pairs: str
    license: str

    def _row(self) -> tuple[str, ...]:
        shown, more = self.pairs[:_SHOWN_PAIRS], len(self.pairs) - _SHOWN_PAIRS
        return self.name, self.training_pairs, self.license, " ".join(shown) + (f" and {more} more" * (more > 0))


class KnownCorpora(tuple[KnownCorpus, ...]):
    """Corpora that have short names. Displays itself as a table.

    Parameters
    ----------
    iterable : iterable of KnownCorpus
        The corpora.
    """

    def __repr__(self) -> str:
        rows = [_HEADER, *(corpus._row() for corpus in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return html_table(_HEADER, [corpus._row() for corpus in self])


_KNOWN = KnownCorpora(
    KnownCorpus(name, data_set, tuple(pairs.split()), size, licence)
    for name, data_set, pairs, size, licence in (
        ("opus_books", "Helsinki-NLP/opus_books", _OPUS_BOOKS, "1,090 to 137,151", "other"),
        ("iwslt2014", "bbaaaa/iwslt14-de-en", "de-en", "171,721", "cc-by-nc-nd-4.0"),
        ("iwslt2017", "IWSLT/iwslt2017", _IWSLT2017, "206,112 to 237,240", "cc-by-nc-nd-4.0"),
        ("wmt14", "wmt/wmt14", "cs-en de-en fr-en hi-en ru-en", "33,000 to 41 million", "unknown"),
        ("wmt15", "wmt/wmt15", "cs-en de-en fi-en fr-en ru-en", "960,000 to 41 million", "unknown"),
        ("wmt16", "wmt/wmt16", "cs-en de-en fi-en ro-en ru-en tr-en", "206,000 to 4.5 million", "unknown"),
        ("wmt17", "wmt/wmt17", "cs-en de-en fi-en lv-en ru-en tr-en zh-en", "206,000 to 25 million", "unknown"),
        ("wmt18", "wmt/wmt18", "cs-en de-en et-en fi-en ru-en tr-en zh-en", "206,000 to 42 million", "unknown"),
        (
            "wmt19",
            "wmt/wmt19",
            "cs-en de-en fi-en fr-de gu-en kk-en lt-en ru-en zh-en",
            "11,670 to 39 million",
            "unknown",
        ),
        ("tatoeba", "Helsinki-NLP/tatoeba", "en-mr eo-nl es-gl es-pt fr-ru", "3,135 to 195,161", "cc-by-2.0"),
        ("multi30k", "bentrevett/multi30k", "en-de", "29,000", "not stated"),
    )
)


def names() -> KnownCorpora:
    """List the corpora that `fetch` knows by a short name. It also fetches other data sets, by their name on the hub.

    Returns
    -------
    KnownCorpora
        A tuple of records with the name, languages, size and licence of each corpus.

    Examples
    --------
    >>> [corpus.name for corpus in names()][:3]
    ['opus_books', 'iwslt2014', 'iwslt2017']
    """
    return _KNOWN
