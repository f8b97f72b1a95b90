"""Measures word alignments of English and French by a lexicon, beside eflomal (Östling and Tiedemann 2016).

    export DRAGOMAN_DATA=...                                    the folder that holds multi30k/
    git clone https://github.com/neulab/awesome-align
    python benchmarks/alignment_peers.py awesome-align/examples --eflomal .venv/bin/eflomal-align

The folder has 447 pairs of the Canadian parliament (`enfr.src-tgt`), and sure and possible links of people
(`enfr.gold`). The first 100 may be used to choose settings. The lexicon and eflomal learn from the same text: these
pairs without links, and the training pairs of Multi30k. The lexicon has the tokens of a joint BPE of 8,000, whose links
are joined to words. Without --eflomal, the lexicon is measured alone. `alignment.py` has the error rate and intervals.
"""

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from alignment import Links, counted, error_rate, interval, learn, with_lexicon
from quality import multi30k
from recording import read_lines, say, write_lines

from dragoman.config import TokenizerSettings
from dragoman.text.tokenization.tokenizer import train_tokenizers

CHOOSING = 100
"""The first pairs, for choosing settings."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with enfr.src-tgt and enfr.gold")
    parser.add_argument("--eflomal", type=Path, help="the program eflomal-align, to compare with")
    given = parser.parse_args()
    links = [[parsed(link) for link in line.split()] for line in read_lines(given.folder / "enfr.gold")]
    sure = [{link for link, is_sure in line if is_sure} for line in links]
    possible = [{link for link, _ in line} for line in links]
    marked = [line.split("|||") for line in read_lines(given.folder / "enfr.src-tgt")]
    gold = [(" ".join(src.split()), " ".join(tgt.split())) for src, tgt in marked]
    train = multi30k(Path(os.environ["DRAGOMAN_DATA"]), "en", "fr")["train"]
    text = [(separated(src), separated(tgt)) for src, tgt in train] + gold
    say(f"learning from {len(text):,} pairs")
    found = {"lexicon": lexicon_links(text, gold)}
    if given.eflomal:
        found |= eflomal_links(given.eflomal, text, len(gold))
    print("| links from | AER | 95% interval | AER, first 100 | AER, others | 95% interval |")
    print("|---|---:|---|---:|---:|---|")
    for name, lines in found.items():
        counts = counted(lines, sure, possible)
        first, others = counts[:CHOOSING], counts[CHOOSING:]
        all_pairs = f"{error_rate(counts):.3f} | {interval(counts)}"
        print(f"| {name} | {all_pairs} | {error_rate(first):.3f} | {error_rate(others):.3f} | {interval(others)} |")


def lexicon_links(text: Sequence[tuple[str, str]], gold: Sequence[tuple[str, str]]) -> list[Links]:
    tokenizers = train_tokenizers(TokenizerSettings(kind="bpe", vocab_size=8000), *zip(*text, strict=True))
    ids = [(tokenizers.src.encode(src), tokenizers.tgt.encode(tgt)) for src, tgt in gold]
    return [set(line) for line in with_lexicon(tokenizers, learn(tokenizers, text)).word_links(ids)]


def parsed(link: str) -> tuple[tuple[int, int], bool]:
    """A link from "3-4", or from "3p4" if it is only possible. The file counts words from 1."""
    src, kind, tgt = re.split("([-p])", link)
    return (int(src) - 1, int(tgt) - 1), kind == "-"


def separated(text: str) -> str:
    """The text with spaces between words and punctuation marks, as the pairs with links have it."""
    return " ".join(re.findall(r"\w+['’]|\w+|[^\w\s]", text))


def eflomal_links(program: Path, text: Sequence[tuple[str, str]], num_last: int) -> dict[str, list[Links]]:
    """The links of the last pairs by eflomal in both directions, and combined."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = zip("st", zip(*text, strict=True), strict=True)
        command: list[str | Path] = [program, "-f", folder / "f", "-r", folder / "r"]
        for flag, lines in sides:
            command += [f"-{flag}", write_lines(folder / flag, lines)]
        subprocess.run(command, check=True)
        forward, reverse = ([pharaoh(line) for line in read_lines(folder / side)[-num_last:]] for side in "fr")
    both = list(zip(forward, reverse, strict=True))
    return {
        "eflomal, forward": forward,
        "eflomal, reverse": reverse,
        "eflomal, intersection": [one & other for one, other in both],
        "eflomal, grow-diag-final-and": [grown(one, other) for one, other in both],
    }


def pharaoh(line: str) -> Links:
    pairs = (link.split("-") for link in line.split())
    return {(int(src), int(tgt)) for src, tgt in pairs}


def grown(forward: Links, reverse: Links) -> Links:
    """grow-diag-final-and (Koehn et al. 2005): the intersection, links of the union beside it, then single links."""
    links, union = forward & reverse, forward | reverse
    size = -1
    while size != len(links):
        size = len(links)
        for src, tgt in sorted(union - links):
            beside = any((src + i, tgt + j) in links for i in (-1, 0, 1) for j in (-1, 0, 1))
            if beside and not (is_linked(src, 0, links) and is_linked(tgt, 1, links)):
                links = links | {(src, tgt)}
    for src, tgt in [*sorted(forward), *sorted(reverse)]:
        if not (is_linked(src, 0, links) or is_linked(tgt, 1, links)):
            links = links | {(src, tgt)}
    return links


def is_linked(word: int, side: int, links: Links) -> bool:
    return any(link[side] == word for link in links)


if __name__ == "__main__":
    main()
