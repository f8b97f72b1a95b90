"""What a user of an exported CTranslate2 model needs to know: a page with an example that runs."""

from dragoman.model.trained import TrainedModel
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer


def readme_text(trained: TrainedModel, name: str) -> str:
    """README.md of the folder, in Markdown."""
    card, settings = trained.card, trained.config.inference
    search = f"beam_size={settings.beam_size}"
    if trained.model.max_positions is not None:
        search += f", max_decoding_length={trained.model.max_positions}"
    if settings.length_penalty == "power":
        search += f", length_penalty={settings.length_penalty_alpha:g}"
        penalty = (
            "`length_penalty` is the exponent that Dragoman divides by, n ** alpha; n counts the end token in both."
        )
    else:
        penalty = (
            f"Dragoman's penalty for this model, ((5 + n) / 6) ** {settings.length_penalty_alpha:g}, has no "
            "counterpart there: beams may choose other lengths."
        )
    longest = _max_tokens(trained)
    return f"""# Translation model for CTranslate2, {card.src_lang or "?"} to {card.tgt_lang or "?"}

Written by Dragoman. `pip install ctranslate2 {_package(trained)}`, then:

```python
{_example(trained, name, search)}
```

{penalty}
Sources may have {longest} tokens; split longer text into sentences first. The end token is added by itself.
"""


def _max_tokens(trained: TrainedModel) -> int:
    positions = trained.model.max_positions
    return trained.config.data.max_tokens if positions is None else min(trained.config.data.max_tokens, positions - 1)


def _package(trained: TrainedModel) -> str:
    return "sentencepiece" if _uses_sentencepiece(trained) else "tokenizers"


def _uses_sentencepiece(trained: TrainedModel) -> bool:
    return isinstance(trained.tokenizers.tgt.library, SentencePieceTokenizer)


def _example(trained: TrainedModel, name: str, search: str) -> str:
    translate = f"output = translator.translate_batch([tokens], {search}, disable_unk=True)[0].hypotheses[0]"
    if _uses_sentencepiece(trained):
        return "\n".join(
            (
                "import ctranslate2, sentencepiece",
                f'translator = ctranslate2.Translator("{name}")',
                f'source = sentencepiece.SentencePieceProcessor(model_file="{name}/source.spm")',
                'tokens = source.encode("How are you?", out_type=str)',
                translate,
                'print("".join(output).replace("\\u2581", " ").strip())',
            )
        )
    files = ("tokenizer",) * 2 if trained.tokenizers.joint else ("src.tokenizer", "tgt.tokenizer")
    source, target = (f'tokenizers.Tokenizer.from_file("{name}/{file}.json")' for file in files)
    return "\n".join(
        (
            "import ctranslate2, tokenizers",
            f'translator = ctranslate2.Translator("{name}")',
            f"source, target = {source}, {target}",
            'tokens = source.encode("How are you?", add_special_tokens=False).tokens',
            translate,
            "print(target.decode([target.token_to_id(token) for token in output]))",
        )
    )
