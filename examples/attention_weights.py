"""Print the cross-attention of one translation: how much each target token attends to each source token.

    python examples/attention_weights.py runs/demo "Where is the station?"

The rows are target tokens, the columns source tokens, and the numbers percent. They are means over the heads of the
last decoder layer, with which it predicted the token of the row.
"""

import argparse

import dragoman


def main() -> None:
    """Translate the text and print a table of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder or a run")
    parser.add_argument("text", help="a text to translate")
    options = parser.parse_args()

    translator = dragoman.load(options.model, device="cpu")
    translated, trained = translator(options.text), translator.models[0]
    src, tgt = trained.tokenizers.src, trained.tokenizers.tgt
    batch = dragoman.Batch.from_ids([src.encode(options.text)], [tgt.encode(translated)])
    weights = trained.transformer.attention(batch.src_ids, batch.src_lengths, batch.decoder_input).cross
    print(translated)
    print(" " * 12 + "".join(f"{token:>12}" for token in src.tokens(batch.src_ids[0].tolist())))
    for token, row in zip(tgt.tokens(batch.labels[0].tolist()), weights[-1][0].mean(0).tolist(), strict=True):
        print(f"{token:>12}" + "".join(f"{100 * weight:12.0f}" for weight in row))


if __name__ == "__main__":
    main()
