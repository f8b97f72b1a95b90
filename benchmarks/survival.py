"""What survives a translation: 500 made texts with pieces in them, several ways to keep these, and 500 HTML snippets.

The sentences are Multi30k's test set (English to German); the model is any that translates it and has never seen a
piece. Pieces stand where people put them: in front (``{name}: ...``), at the end (``... (see https://...).``), and
between two words. *Once*: the piece is there exactly once. *In place*: first, or last, or, between words, within two
words of a translation of one of its neighbours. What translates what is learnt from the training pairs by IBM model 1
(Brown et al. 1993), which knows nothing of the model; a text where it finds neither neighbour is not judged. chrF is
that of the translation without the pieces.

The ways: *model*, which is given the text; *stand-in*, a word in the piece's place, found again in the output;
*split*, the parts around the piece translated by themselves; *attention*, the piece left out and put back where the
attention says; *protect*, what Dragoman does: the model, and attention where a piece was lost.

    python benchmarks/survival.py runs/multi30k
"""

import argparse
import gzip
import os
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from sacrebleu.metrics import CHRF

from dragoman.inference.preservation.markup import translate_html, translate_markup
from dragoman.inference.translator import Translator
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkupRules, read_markup
from dragoman.text.documents.protected_spans import find_protected_spans, remove_protected_spans
from dragoman.text.tokenization.sentence_splitting import split_sentences

CASES, SEED = 500, 7
STAND_INS = ("X", "Tom", "7", "Berlin", "dog")
WORD = re.compile(r"\w+|[^\w\s]")
FRONT = ("{name}: ", "%s: ", '<x id="1"/> ', "{{ title }} – ", "[user@mail.example.org] ")
END = (
    " (https://example.org/a?b=1&c=d)",
    " – {count}",
    " at {place}",
    " for 12.50 €",
    " %(city)s",
    " <br/>",
    " – info@example.com",
)
MIDDLE = (
    "{item}",
    "%d",
    '<x id="2"/>',
    "${user.name}",
    "12 km",
    "www.example.com",
    "&nbsp;",
    "{0}",
    "https://example.org/x_(y)",
)
Dictionary = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Case:
    text: str
    piece: str
    where: str
    plain: str
    reference: str
    neighbours: tuple[str, str] = ("", "")


def read(name: str) -> list[str]:
    path = Path(os.environ["DRAGOMAN_DATA"]) / "multi30k" / f"{name}.gz"
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def dictionary(src: Sequence[str], tgt: Sequence[str], rounds: int = 4) -> Dictionary:
    """IBM model 1: for each source word the target words that it may have become, with t(target | source)."""
    pairs = [
        (set(WORD.findall(one.lower())), set(WORD.findall(other.lower()))) for one, other in zip(src, tgt, strict=True)
    ]
    table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for ours, theirs in pairs:
            for word in theirs:
                norm = sum(table[one, word] for one in ours)
                for one in ours:
                    share = table[one, word] / norm
                    counts[one, word] += share
                    totals[one] += share
        table = defaultdict(float, {pair: count / totals[pair[0]] for pair, count in counts.items()})
    found: Dictionary = defaultdict(dict)
    for (one, word), probability in table.items():
        if probability > 0.05:
            found[one][word] = probability
    return found


def made_cases(known: Dictionary, rng: random.Random) -> list[Case]:
    cases: list[Case] = []
    for src, ref in zip(read("test_2016_flickr.en"), read("test_2016_flickr.de"), strict=True):
        if len(cases) == CASES:
            break
        where = ("front", "end", "middle", "middle")[len(cases) % 4]
        if where == "front":
            piece = rng.choice(FRONT)
            cases.append(Case(piece + src, find_protected_spans(piece)[0].text, where, src, ref))
        elif where == "end" and src.endswith("."):
            piece = rng.choice(END)
            cases.append(Case(src[:-1].rstrip() + piece + ".", find_protected_spans(piece)[0].text, where, src, ref))
        else:
            words = src.split(" ")
            sure = [max(known.get(word.lower(), {"": 0.0}).values()) > 0.5 for word in words]
            places = [i for i in range(1, len(words)) if sure[i - 1] and sure[i]]
            if places:
                place, piece = rng.choice(places), rng.choice(MIDDLE)
                text = " ".join([*words[:place], piece, *words[place:]])
                beside = words[place - 1].lower(), words[place].lower()
                cases.append(Case(text, piece, "middle", src, ref, beside))
    return cases


def in_place(case: Case, output: str, known: Dictionary) -> bool | None:
    """None where it cannot be told."""
    before, _, after = output.partition(case.piece)
    if case.where == "front":
        return not any(map(str.isalnum, before))
    if case.where == "end":
        return not any(map(str.isalnum, after))
    wanted = {word for neighbour in case.neighbours for word in known[neighbour]}
    left, right = (WORD.findall(part.lower()) for part in (before, after))
    if not wanted.intersection(left + right):
        return None
    return bool(wanted.intersection(left[-2:] + right[:2]))


def judged(name: str, cases: Sequence[Case], outputs: Sequence[str], known: Dictionary) -> None:
    once = [output.count(case.piece) == 1 for case, output in zip(cases, outputs, strict=True)]
    placed = [
        in_place(case, output, known) if one else False for case, output, one in zip(cases, outputs, once, strict=True)
    ]
    told = [one for one in placed if one is not None]
    both = sum(one is not False for one in placed)
    plain = [output.replace(case.piece, " ") for case, output in zip(cases, outputs, strict=True)]
    score = CHRF().corpus_score([" ".join(one.split()) for one in plain], [[case.reference for case in cases]]).score
    print(f"| {name} | {sum(once)} | {sum(told)} of {len(told)} | {both / len(cases):.1%} | {score:.1f} |")


def stood_in(translator: Translator, cases: Sequence[Case], word: str) -> list[str]:
    outputs = translator.translate([case.text.replace(case.piece, word, 1) for case in cases])
    return [
        re.sub(rf"(?<!\w){word}(?!\w)", lambda _, case=case: case.piece, output)
        for case, output in zip(cases, outputs, strict=True)
    ]


def split_up(translator: Translator, cases: Sequence[Case]) -> list[str]:
    parts = [case.text.partition(case.piece) for case in cases]
    firsts, lasts = (translator.translate([part[place] for part in parts]) for place in (0, 2))
    return [f"{first} {part[1]} {last}".strip() for first, part, last in zip(firsts, parts, lasts, strict=True)]


def by_attention(translator: Translator, cases: Sequence[Case]) -> list[str]:
    return [
        answer.text
        for answer in translator.translate_marked([remove_protected_spans(MarkedText(case.text, ())) for case in cases])
    ]


class Tree(HTMLParser):
    """What a page is made of, as Python's own parser reads it; the order of neighbours inside a block is left open."""

    VOID = frozenset("br img input wbr".split())

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[list[object]] = [[]]
        self.heads: list[tuple[object, ...]] = []
        self.feed(page)
        self.close()
        while self.heads:
            self._close()
        self.root = sorted(map(repr, self.stack[0]))

    def _close(self) -> None:
        children = self.stack.pop()
        self.stack[-1].append((*self.heads.pop(), tuple(sorted(map(repr, children)))))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.VOID:
            self.stack[-1].append((tag, tuple(attrs)))
            return
        self.stack.append([])
        self.heads.append((tag, tuple(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].append((tag, tuple(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self.heads and self.heads[-1][0] == tag:
            self._close()
        else:
            self.stack[-1].append(("end", tag))

    def handle_comment(self, data: str) -> None:
        self.stack[-1].append(("comment", data))


HOSTILE = (
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&lt;img src=x onerror=alert(1)&gt;",
    "&amp;lt;b&amp;gt;",
    "a &lt; b &gt; c &amp; d",
    "&#60;i&#62; &#x3C;/p&#x3E;",
    "1 < 2",
    "<b><i>crossed</b></i>",
    "</b>",
    "<script>if (a < b) document.write('<p>')</script>",
    "<pre>  keep   <b>this</b> &amp; that </pre>",
    '<p title="a > b" data-x=\'"<i>"\'>a quoted dog</p>',
    "<!-- a <b>comment</b> -->",
    '<code translate="no">rm -rf {name}</code>',
    '{{ user }} <x id="9"/> and <x id="8"></x>',
)


def made_page(sentences: Sequence[str], rng: random.Random) -> str:
    """Blocks of one to three sentences, with inline tags nested in them, and something hostile in most."""

    def inline(words: list[str], depth: int) -> str:
        if depth == 0 or len(words) < 3 or rng.random() < 0.3:
            return " ".join(words).replace("&", "&amp;")
        start, stop = sorted(rng.sample(range(len(words) + 1), 2))
        tag = rng.choice(["b", "i", "em", 'a href="/x?a=1&amp;b=2"', 'span class="c d"', "u", "x-mark id=7"])
        inner = f"<{tag}>{inline(words[start:stop], depth - 1)}</{tag.split()[0]}>"
        rest = inline(words[stop:], depth - 1) if stop < len(words) else ""
        return " ".join(part for part in (" ".join(words[:start]), inner, rest) if part)

    blocks = []
    for _ in range(rng.randint(1, 3)):
        text = " ".join(inline(rng.choice(sentences).split(" "), 3) for _ in range(rng.randint(1, 2)))
        if rng.random() < 0.7:
            words = text.split(" ")
            place = rng.choice([0, len(words)])
            text = " ".join([*words[:place], rng.choice(HOSTILE), *words[place:]])
        if rng.random() < 0.4:
            text += rng.choice(["<br>", ' <img src="a.png" alt="x > y"> ', "<wbr>", " <!-- c -->"])
        tag = rng.choice(["p", "div", "li", "h2", "td"])
        blocks.append(f"<{tag} id=b{rng.randint(1, 99)}>{text}</{tag}>")
    return "\n  ".join(blocks)


def judge_pages(translator: Translator, count: int) -> None:
    rng = random.Random(SEED)
    sentences = read("test_2016_flickr.en")
    pages = [made_page(sentences, rng) for _ in range(count)]
    outputs = translate_markup(translator, pages, MarkupRules())
    same = [Tree(page).root == Tree(output).root for page, output in zip(pages, outputs, strict=True)]
    tags = [
        sorted(re.findall(r"<[^<>]*>", page)) == sorted(re.findall(r"<[^<>]*>", output))
        for page, output in zip(pages, outputs, strict=True)
    ]
    pieces = [
        all(
            page.count(piece) == output.count(piece)
            for piece in ("{{ user }}", '<x id="9"/>', '<x id="8"></x>', "{name}")
        )
        for page, output in zip(pages, outputs, strict=True)
    ]
    identity = [
        translate_html(translator, page) == page for page in ("", " \n", "<p>12 &amp; 3</p>\r\n<!-- x --><br/>")
    ]
    print(f"\n{count} pages: same tree {sum(same)}, same tags {sum(tags)}, all placeholders {sum(pieces)}; ", end="")
    print(f"without words left alone to the byte: {all(identity)}")
    for page, output in [pair for pair, one in zip(zip(pages, outputs, strict=True), same, strict=True) if not one][:5]:
        print(f"\n  {page}\n  {output}")


def judge_time() -> None:
    """Seconds for 20,000 and 80,000 characters of what is hard to read; linear is 4 times as long."""
    families = (
        "a",
        "<a ",
        "<!--",
        "<b>",
        "<b>x",
        "&a",
        "{",
        "%(",
        "a@a.",
        "http://",
        "1.",
        "<a b='",
        "a. ",
        ".\n",
        "<i>x</i>",
    )
    slowest = ("", 0.0, 0.0)
    for family in families:
        seconds = []
        for length in (20_000, 80_000):
            text = family * (length // len(family))
            start = time.perf_counter()
            find_protected_spans(text)
            read_markup(text, MarkupRules())
            remove_protected_spans(MarkedText(text, ()))
            assert "".join(split_sentences(text)) == text
            seconds.append(time.perf_counter() - start)
        slowest = max(slowest, (family, *seconds), key=lambda one: one[2])
    print(f"\nslowest of {len(families)} families: {slowest[0]!r} {slowest[1]:.2f} s, {slowest[2]:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--show", type=int, default=0, help="so many outputs that are not in place")
    parser.add_argument("--ways", nargs="*", help="only these of the ways")
    options = parser.parse_args()
    translator = Translator.load(options.model, "cpu")
    known = dictionary(read("train.en"), read("train.de"))
    cases = made_cases(known, random.Random(SEED))
    plain = translator.translate([case.plain for case in cases])
    score = CHRF().corpus_score(plain, [[case.reference for case in cases]]).score
    print(f"{len(cases)} texts ({dict(Counter(case.where for case in cases))}); chrF without any piece {score:.1f}\n")
    print(
        "| way | once | in place, of those judged | once and not out of place | chrF |\n"
        "| --- | ---: | ---: | ---: | ---: |"
    )
    ways: dict[str, Callable[[], list[str]]] = {
        "model": lambda: translator.translate([case.text for case in cases]),
        **{f"stand-in `{word}`": lambda word=word: stood_in(translator, cases, word) for word in STAND_INS},  # type: ignore[misc]
        "split": lambda: split_up(translator, cases),
        "attention": lambda: by_attention(translator, cases),
        "protect": lambda: translator.translate([case.text for case in cases], protect=True),
    }
    for name, way in ways.items():
        if options.ways and name not in options.ways:
            continue
        outputs = way()
        judged(name, cases, outputs, known)
    for case, output in [
        pair for pair in zip(cases, outputs, strict=True) if in_place(pair[0], pair[1], known) is False
    ][: options.show]:
        print(f"\n  {case.text}\n  {output}")
    judge_pages(translator, CASES)
    judge_time()


if __name__ == "__main__":
    main()
