"""The ids in the store decode to the text that was read, whatever the segmentation."""

from dragoman.config import DataSettings, TokenizerSettings
from dragoman.records import PAD_ID, UNK_ID, SentencePair
from dragoman.text.corpus.cleaning import Cleaner
from dragoman.text.corpus.opening import open_corpus
from dragoman.text.tokenization.encoding import BatchEncoderPair, BpeDropout
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers
from tests.unit.text.corpus.holding_out import hold_out

NASTY = [
    SentencePair("a </s> b\u2028c\u0085d", "<pad> ä\ufeff 😀"),
    SentencePair("two  spaces ", "\u202eRTL\u202c <0x41>"),
    SentencePair("日本語 తెలుగు", "3.14 ٣٤"),
]


def test_ids_in_the_store_are_the_text(tmp_path):
    ordinary = [SentencePair(f"the house number {n}", f"das Haus Nummer {n}") for n in range(300)]
    file = tmp_path / "train.en-de.tsv"
    file.write_bytes("".join(f"{pair.src}\t{pair.tgt}\n" for pair in (*ordinary, *NASTY)).encode())
    corpus, settings = open_corpus(file), DataSettings(dev_fraction=0.05, max_length_ratio=20)
    held = hold_out(corpus.pairs(), settings, seed=1)
    texts = list(Cleaner(settings, held).clean_texts(corpus.pairs()))
    train_tokenizers(
        TokenizerSettings(vocab_size=400), (pair.src for pair in texts), (pair.tgt for pair in texts)
    ).save(tmp_path)
    tokenizers = TokenizerPair.load(tmp_path)
    dropout = BpeDropout(tokenizers.tgt, 0.3)
    chunks = list(Cleaner(settings, held).clean(corpus.pairs(), BatchEncoderPair.of(tokenizers)))
    kept = [
        encoded
        for chunk in chunks
        for encoded in zip(chunk.pairs, chunk.src.to_lists(), chunk.tgt.to_lists(), strict=True)
    ]
    assert {pair for pair, _, _ in kept} | set(held.dev) == {*ordinary, *NASTY}
    for index, (pair, src_ids, tgt_ids) in enumerate(kept):
        dropped = dropout.encode(pair.tgt, 1, 0, index, 1)
        assert tokenizers.src.detokenize(src_ids) == pair.src
        assert tokenizers.tgt.detokenize(tgt_ids) == tokenizers.tgt.detokenize(dropped) == pair.tgt
        assert not set(range(PAD_ID, UNK_ID + 1)) & {*src_ids, *tgt_ids, *dropped}
