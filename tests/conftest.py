"""Fixtures for tests of every kind: sentence pairs, small models, Marian models in Hugging Face form, a server.

Importing this file also makes beartype check the shapes in signatures (jaxtyping).
"""

import gzip
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from jaxtyping import install_import_hook

# Set before torch is imported, and for the processes that tests start. Several tests run in parallel, and threads that
# share a core slow each other down. A test that needs more threads uses the fixture `computing_on`.
os.environ.setdefault("OMP_NUM_THREADS", "1")
MODEL = Path(__file__).parent.parent / "dragoman" / "model"
LAZY = "trained"  # its signatures name types that it imports late
CHECKED = ["dragoman.devices.device", "dragoman.devices.without_torch", "dragoman.training.step.loss"]
# Functions of dragoman.kernels are left out: numba compiles them and needs the originals.
MODELS = [f"dragoman.model.{path.stem}" for path in MODEL.glob("*.py") if path.stem != LAZY]
install_import_hook([*MODELS, *CHECKED], "beartype.beartype")


def _compute_on_one_thread() -> None:
    """Use one thread after a fork: OpenMP's other threads do not exist there, and waiting for them would never end."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


os.register_at_fork(after_in_child=_compute_on_one_thread)

# Without hypothesis's deadline, because examples take longer while other tests run.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

Pairs = list[tuple[str, str]]
TINY = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}


@pytest.fixture(autouse=True)
def same_number_of_threads() -> Iterator[None]:
    """Fail a test that leaves torch with another number of threads, which makes training in later tests much slower."""
    yield
    if torch := sys.modules.get("torch"):
        assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"]), "use the fixture `computing_on`"


@pytest.fixture(scope="session")
def computing_on() -> Callable[[int], AbstractContextManager[None]]:
    """Set the number of torch's threads, and so of batches in parallel, inside a `with` block."""

    @contextmanager
    def threads_of(count: int) -> Iterator[None]:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    return threads_of


@pytest.fixture(scope="session")
def english_german() -> Pairs:
    """640 distinct English sentences with German translations, from Tatoeba if available, else from the phrasebook."""
    if data := os.environ.get("DRAGOMAN_DATA"):
        lines = gzip.decompress((Path(data) / "tatoeba_en_de" / "deu.txt.gz").read_bytes()).decode().split("\n")
        rows = [line.split("\t") for line in lines if line]
        return list({row[0]: row[1] for row in rows if 12 <= len(row[0]) <= 30}.items())[::25][:640]
    from dragoman.demo.phrasebook_file import load_phrasebook

    return list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=3000)}.items())[:640]


@pytest.fixture(scope="session")
def small_bundle() -> Any:
    """An untrained model whose outputs have several words of several tokens."""
    import torch

    from dragoman.bundle import Card, Model, Weights
    from dragoman.config import Config, DataSettings, InferenceSettings, ModelSettings, TokenizerSettings
    from dragoman.model.transformer import Transformer
    from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer

    torch.manual_seed(59)
    config = Config(
        data=DataSettings(max_tokens=24, src_lang="en", tgt_lang="de"),
        tokenizer=TokenizerSettings(vocab_size=300),
        model=ModelSettings(
            preset="custom", d_model=16, d_ff=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2
        ),
        inference=InferenceSettings(beam_size=3, max_extra_tokens=4),
    )
    tokenizer = train_tokenizer(config.tokenizer, ["one two three. four five Bahnhof"] * 3)
    model = Transformer(config.model, tokenizer.vocab_size, tokenizer.vocab_size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.projection.bias[3:260] -= 2.5  # makes bytes less likely than words
    return Model(Weights.of(model), TokenizerPair(tokenizer, tokenizer, joint=True), config, Card())


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small untrained model that splits texts of more than 24 tokens."""
    return _save_untrained_model(tmp_path_factory.mktemp("models") / "one", 1)


@pytest.fixture(scope="session")
def other_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of another untrained model with the same tokenizer."""
    return _save_untrained_model(tmp_path_factory.mktemp("models") / "other", 2)


@pytest.fixture(scope="session")
def sampling_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `model_folder` with settings that sample three candidates, more than its beam size."""
    folder = tmp_path_factory.mktemp("models") / "sampling"
    return _save_untrained_model(folder, 1, sample=True, temperature=0.8, top_k=9, top_p=0.9, beam_size=1, n_best=3)


def _save_untrained_model(folder: Path, seed: int, **inference: Any) -> Path:
    import torch

    from dragoman.bundle import Card, Model, Weights
    from dragoman.config import Config, DataSettings, InferenceSettings, ModelSettings, TokenizerSettings
    from dragoman.model.transformer import Transformer
    from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer

    torch.manual_seed(seed)
    config = Config(
        data=DataSettings(max_tokens=24),
        tokenizer=TokenizerSettings(vocab_size=280),
        model=ModelSettings(
            preset="custom", d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
        ),
        inference=InferenceSettings(**{"beam_size": 2, "max_extra_tokens": 3, **inference}),
    )
    tokenizer = train_tokenizer(config.tokenizer, ["one two three. four five"] * 3)
    model = Transformer(config.model, tokenizer.vocab_size, tokenizer.vocab_size)
    Model(Weights.of(model), TokenizerPair(tokenizer, tokenizer, joint=True), config, Card()).save(folder)
    return folder


@pytest.fixture(scope="session")
def serving() -> Callable[..., Any]:
    """Run a service in a real server in a separate thread, with a file of keys if given; yields the address."""
    from dragoman.serving.app import make_app
    from dragoman.serving.http.keys import Keys
    from dragoman.serving.http.server import Server, bind_socket, url_of_socket

    @contextmanager
    def running(service: Any, keys: Path | None = None, **options: Any) -> Iterator[str]:
        ready, found = threading.Event(), bind_socket("127.0.0.1", 0)
        server = Server(make_app(service, Keys(keys, 0), **options), service, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [found]})
        thread.start()
        assert ready.wait(60)
        try:
            yield url_of_socket(found)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()

    return running


@pytest.fixture(scope="session")
def marian_model(english_german: Pairs) -> Callable[..., Path]:
    """Write a MarianMTModel and its tokenizers into a new folder, after training for `steps` on the pairs."""

    def build(
        folder: Path,
        *,
        steps: int = 0,
        pieces: int = 300,
        separate: bool = False,
        algorithm: str = "unigram",
        **shape: Any,
    ) -> Path:
        import torch

        torch.manual_seed(1)
        folder.mkdir(parents=True)
        vocabularies = _write_tokenizers(folder, english_german, pieces, separate, algorithm)
        model = _untrained(*vocabularies, **({"share_encoder_decoder_embeddings": not separate} | TINY | shape))
        if steps:
            _train(model, folder, english_german, steps)
        model.generation_config.num_beams = 4
        model.generation_config.max_length = 512
        model.eval().save_pretrained(folder)
        return folder

    return build


@pytest.fixture(scope="session")
def trained_marian(marian_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt some of the pairs, so that its outputs end. As in OPUS-MT, padding's row is zero."""
    return marian_model(tmp_path_factory.mktemp("marian") / "opus-mt-en-de", steps=400, pieces=600)


@pytest.fixture(scope="session")
def small_marian(marian_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model, for tests that copy or damage it."""
    return marian_model(tmp_path_factory.mktemp("marian") / "opus-mt-en-de")


def _write_tokenizers(
    folder: Path, pairs: Pairs, pieces: int, separate: bool, algorithm: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Write source.spm, target.spm, vocab.json and tokenizer_config.json; return the vocabularies of both sides."""
    import sentencepiece

    sides = []
    for index, name in enumerate(("source", "target")):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([pair[index] for pair in pairs]),
            model_writer=(folder / f"{name}.spm").open("wb"),
            vocab_size=pieces,
            model_type=algorithm,
            num_threads=1,
            minloglevel=2,
            hard_vocab_limit=False,
        )
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        sides.append([processor.id_to_piece(index) for index in range(3, processor.get_piece_size())])
    if separate:
        fewest = min(map(len, sides))
        src, tgt = (_vocabulary(side[:fewest]) for side in sides)
        (folder / "target_vocab.json").write_text(json.dumps(tgt))
    else:
        src = tgt = _vocabulary(sides[0] + sides[1])
    (folder / "vocab.json").write_text(json.dumps(src))
    facts = {"source_lang": "eng", "target_lang": "deu", "separate_vocabs": separate, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts | {"tokenizer_class": "MarianTokenizer"}))
    return src, tgt


def _vocabulary(pieces: list[str]) -> dict[str, int]:
    return {token: index for index, token in enumerate(["</s>", "<unk>", *dict.fromkeys(pieces), ">>deu<<", "<pad>"])}


def _untrained(src: dict[str, int], tgt: dict[str, int], **shape: Any) -> Any:
    import torch
    from transformers import MarianConfig, MarianMTModel

    pad_id = src["<pad>"]
    ids = {"pad_token_id": pad_id, "decoder_start_token_id": pad_id, "eos_token_id": 0, "bos_token_id": None}
    config = MarianConfig(
        **{"activation_function": "swish", "dropout": 0.0, "max_position_embeddings": 512} | ids | shape,
        vocab_size=len(src),
        decoder_vocab_size=len(tgt),
        scale_embedding=True,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        model.final_logits_bias.normal_(0, 0.1)
        for name, parameter in model.named_parameters():
            if "embed_tokens" in name or "shared" in name or "lm_head" in name:
                parameter.normal_(0, config.d_model**-0.5)
            elif parameter.dim() == 2 and parameter.requires_grad:
                torch.nn.init.xavier_uniform_(parameter)
    return model


def _train(model: Any, folder: Path, pairs: Pairs, steps: int) -> None:
    import torch
    from transformers import MarianTokenizer

    tokenizer, pad_id = MarianTokenizer.from_pretrained(folder), model.config.pad_token_id
    encoded = [(tokenizer(src)["input_ids"], tokenizer(text_target=tgt)["input_ids"]) for src, tgt in pairs]
    encoded.sort(key=lambda pair: len(pair[1]))
    batches = [encoded[start : start + 64] for start in range(0, len(encoded) - 63, 64)]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=3e-3, betas=(0.9, 0.98))
    warmup = 60
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, max(0.02, 1 - (step - warmup) / (steps - warmup)))
    )
    for step in range(steps):
        batch = batches[step * 7919 % len(batches)]
        src = _padded([src for src, _ in batch], pad_id)
        labels = _padded([tgt for _, tgt in batch], -100)
        loss = model(input_ids=src, attention_mask=(src != pad_id).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        model.model.shared.weight[pad_id] = 0.0


def _padded(rows: list[list[int]], value: int) -> Any:
    import torch

    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)
