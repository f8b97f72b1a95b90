"""The README of an exported CTranslate2 model, with an example that runs.

`ctranslate2_export` writes it into the folder of the model. The example shows the search settings of the model, loads
its tokenizers with the library that reads them, and tells where translations may differ from Dragoman's.
"""

from dragoman.bundle import Model
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer


def readme_text(trained: Model, name: str) -> str:
    """The content of README.md. `name` is the folder of the model in the example.

    For a model with learned positions the example limits the output, and the text limits the source.
    """
    card, settings, longest = trained.card, trained.config.inference, trained.config.data.max_tokens
    search = f"beam_size={settings.beam_size}"
    if (positions := trained.weights.max_positions) is not None:
        search += f", max_decoding_length={positions}"
        longest = min(longest, positions - 1)
    if settings.length_penalty == "power":
        search += f", length_penalty={settings.length_penalty_alpha:g}"
        penalty = (
            "`length_penalty` is the exponent alpha of Dragoman's penalty n ** alpha; n includes the end token in both."
        )
    else:
        penalty = (
            f"CTranslate2 has no counterpart of Dragoman's penalty for this model, ((5 + n) / 6) ** "
            f"{settings.length_penalty_alpha:g}: translations may have other lengths."
        )
    if isinstance(trained.tokenizers.tgt.library, SentencePieceTokenizer):
        package = "sentencepiece"
        load = f'source = sentencepiece.SentencePieceProcessor(model_file="{name}/source.spm")'
        tokens = 'source.encode("How are you?", out_type=str)'
        shown = '"".join(output).replace("\\u2581", " ").strip()'
    else:
        package = "tokenizers"
        files = ("tokenizer",) * 2 if trained.tokenizers.joint else ("src.tokenizer", "tgt.tokenizer")
        source, target = (f'tokenizers.Tokenizer.from_file("{name}/{file}.json")' for file in files)
        load = f"source, target = {source}, {target}"
        tokens = 'source.encode("How are you?", add_special_tokens=False).tokens'
        shown = "target.decode([target.token_to_id(token) for token in output])"
    return f"""# Translation model for CTranslate2, {card.src_lang or "?"} to {card.tgt_lang or "?"}

Written by Dragoman. `pip install ctranslate2 {package}`, then:

```python
import ctranslate2, {package}
translator = ctranslate2.Translator("{name}")
{load}
tokens = {tokens}
output = translator.translate_batch([tokens], {search}, disable_unk=True)[0].hypotheses[0]
print({shown})
```

{penalty}
Sources may have up to {longest} tokens. Split longer text into sentences first. CTranslate2 adds the end token.
"""
