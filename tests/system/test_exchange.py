"""The commands `import` and `export`."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman import visualization
from dragoman.bundle import Model
from dragoman.cli.main import run_command
from dragoman.errors import ConfigError, DragomanError, ModelError
from tests.contract.ctranslate2_agreement import agreement_of


def test_import_and_export(small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    assert run_command(["import", str(small_marian), "--out", str(model)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{model}\n"
    assert "eng to deu" in err
    assert run_command(["export", str(model), "--to", "ctranslate2"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{model}-ctranslate2\n"
    agreement = agreement_of(Path(f"{model}-ctranslate2"), Model.load(model, "cpu"))
    assert agreement.equal == agreement.total
    assert (
        run_command(["export", str(model), "--to", "ctranslate2", "--quantization", "int8", "--out", f"{model}-8"]) == 0
    )
    assert agreement_of(Path(f"{model}-8"), Model.load(model, "cpu")).largest_difference < 0.1
    text = ["--text", "one", "--inference.max-extra-tokens", "3"]
    assert run_command(["translate", str(model), *text]) == 0
    assert run_command(["translate", str(model), *text, "--engine", "ctranslate2"]) == 2
    assert "`--engine` is not a flag of `dragoman translate`." in capsys.readouterr().err
    assert run_command(["export", str(model), "--to", "marian", "--out", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back" / "source.spm").exists()
    assert run_command(["summary", str(model)]) == 0


def test_an_int8_model_translates_as_the_model_does_in_int8(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba", reason="int8 on a CPU needs numba")
    small = str(tmp_path / "small")
    assert run_command(["export", str(model_folder), "--to", "int8", "--out", small]) == 0
    weights = "model.safetensors"
    assert (tmp_path / "small" / weights).stat().st_size < 0.8 * (model_folder / weights).stat().st_size
    capsys.readouterr()
    outputs = []
    for model, flags in ((str(model_folder), ["--inference.precision", "int8"]), (small, [])):
        text = ["--text", "one two {name} three", "--format", "jsonl"]
        assert run_command(["translate", model, *text, *flags]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    for wrong in (
        ["translate", small, "--text", "one", "--inference.precision", "float32"],
        ["export", small, "--to", "ctranslate2"],
        ["verify", small],
    ):
        assert run_command(wrong) == 2
        err = capsys.readouterr().err
        assert "the model's weights are stored in int8" in err.splitlines()[-1]
        assert "only translates" not in err


def test_int8_embeddings_make_a_smaller_model_that_translates(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba", reason="int8 on a CPU needs numba")
    outputs, sizes = [], []
    for embeddings in ("float32", "int8"):
        folder = tmp_path / embeddings
        export = ["export", str(model_folder), "--to", "int8", "--embeddings", embeddings, "--out", str(folder)]
        assert run_command(export) == 0
        sizes.append((folder / "model.safetensors").stat().st_size)
        capsys.readouterr()
        assert run_command(["translate", str(folder), "--text", "one two three"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert sizes[1] < 0.8 * sizes[0]


def test_an_int8_model_can_be_looked_into(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = str(tmp_path / "small")
    assert run_command(["export", str(model_folder), "--to", "int8", "--embeddings", "int8", "--out", small]) == 0
    capsys.readouterr()
    for command in (
        ["inspect", small, "one", "--out", str(tmp_path / "page.html")],
        ["translate", small, "--text", "one", "--inference.sample"],
    ):
        assert run_command(command) == 0
        assert capsys.readouterr().err.count("weights are stored in int8") == 1
    translator = dragoman.load(small)
    before = translator("one two three")
    [trained] = translator.models
    original = dragoman.load(model_folder).models[0].transformer.state_dict()
    for name, tensor in trained.transformer.state_dict().items():
        step = original[name].abs().amax(-1, keepdim=True) / 127 if tensor.ndim == 2 else 0
        assert ((tensor - original[name]).abs() <= 0.51 * step).all(), name
    assert translator("one two three") == before
    trained.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == Path(small, "model.safetensors").read_bytes()
    visualization.plot_heads(translator, "one two", layer=1)
    assert capsys.readouterr().err.count("weights are stored in int8") == 1


@pytest.fixture
def marian(small_marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a Marian model in an empty working directory, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(small_marian, "opus-mt-en-de"))


def load_or_error(model: Path) -> Any:
    """The translator, or the error."""
    try:
        return dragoman.load(model, device="cpu")
    except DragomanError as error:
        return error


def test_a_marian_folder_is_imported_into_the_cache_once(
    marian: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Path("cache", "dragoman", "models").absolute()
    translator = load_or_error(marian)
    assert isinstance(translator, dragoman.Translator)
    [folder] = cache.iterdir()
    note = f"dragoman: importing opus-mt-en-de, once, into {folder}\n"
    assert capsys.readouterr().err == note
    assert run_command(["import", str(marian), "--out", "imported"]) == 0
    for name in ("model.safetensors", "tokenizer.json", "src.tokenizer.json", "config.toml", "card.json"):
        if (folder / name).exists():
            assert (folder / name).read_bytes() == Path("imported", name).read_bytes()
    expected = dragoman.load("imported", device="cpu")("one two", max_extra_tokens=3)
    capsys.readouterr()
    monkeypatch.setattr("dragoman.exchange.marian.import_marian", None)
    assert load_or_error(marian)("one two", max_extra_tokens=3) == expected
    assert dragoman.load(shutil.copytree(marian, "elsewhere/opus-mt-en-de")).card == translator.card
    assert capsys.readouterr().err == ""
    assert dragoman.load(translator.save("saved"), device="cpu")("one two", max_extra_tokens=3) == expected


def test_a_marian_folder_that_changed_is_imported_again(marian: Path) -> None:
    assert isinstance(load_or_error(marian), dragoman.Translator)
    times = (marian / "generation_config.json").stat()
    text = (marian / "generation_config.json").read_text()
    (marian / "generation_config.json").write_text(text.replace('"num_beams": 4', '"num_beams": 2'))
    os.utime(marian / "generation_config.json", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_or_error(marian).settings.beam_size == 2
    (marian / "README.md").write_text("Not a part of the model.")
    dragoman.load(marian)
    assert len([*Path("cache", "dragoman", "models").iterdir()]) == 2


def test_a_marian_folder_with_a_pickle_alone_is_not_read(marian: Path) -> None:
    (marian / "model.safetensors").unlink()
    (marian / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert str(load_or_error(marian)) == (
        "opus-mt-en-de has its weights in pytorch_model.bin, a pickle, which is not read automatically. Import it: "
        '`dragoman.import_model("opus-mt-en-de", "FOLDER")`, and load the folder.'
    )
    (marian / "pytorch_model.bin").unlink()
    assert "has neither model.safetensors nor pytorch_model.bin" in str(load_or_error(marian))
    assert not Path("cache").exists()


def test_a_marian_folder_works_wherever_a_model_does(marian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(load_or_error(marian), dragoman.Translator)
    for side in ("en", "de"):
        Path(f"test.{side}").write_text("".join(f"number {number} {side}\n" for number in range(20)), encoding="utf-8")
    quick: dict[str, Any] = {"beam_size": 1, "max_extra_tokens": 2, "batch_tokens": 4000}
    files = {"src": "test.en", "ref": "test.de"}
    translator = dragoman.load(marian, device="cpu")
    assert dragoman.evaluate(marian, **files, **quick).whole == dragoman.evaluate(translator, **files, **quick).whole
    assert dragoman.summary(marian).rows.total == dragoman.summary(translator).formula
    assert dragoman.export(marian, "int8") == Path("opus-mt-en-de-int8")
    back = dragoman.export(translator, "marian", "back")
    assert isinstance(load_or_error(back), dragoman.Translator)
    assert run_command(["translate", "back", "--text", "one"]) == 2
    assert "back is a model in Hugging Face format. Import it first" in capsys.readouterr().err


@pytest.mark.slow
def test_a_marian_folder_is_fine_tuned(marian: Path) -> None:
    assert isinstance(load_or_error(marian), dragoman.Translator)
    for side in ("en", "de"):
        Path(f"train.{side}").write_text("".join(f"number {number} {side}\n" for number in range(20)), encoding="utf-8")
    quick = {"beam_size": 1, "max_extra_tokens": 2}
    short: dict[str, Any] = {"max_steps": 1, "train_device": "cpu", "check_languages": False, "dev_fraction": 0.2}
    run = dragoman.train("train.en", "train.de", "tuned", start_from=marian, inference=quick, **short)
    assert run.card.lineage[0].startswith("opus-mt-en-de-")
    assert run.resume(max_steps=2).card.steps == 2


def test_import_model_reads_a_pickle_of_tensors(marian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "import_model" in dragoman.__all__
    weights = load_file(marian / "model.safetensors")
    expected = load_or_error(marian)("one two", max_extra_tokens=3)
    (marian / "model.safetensors").unlink()
    torch.save(weights, marian / "pytorch_model.bin")
    capsys.readouterr()
    folder = dragoman.import_model(marian)
    assert folder == Path("models/opus-mt-en-de")
    assert "only its tensors were read" in capsys.readouterr().err
    assert dragoman.load(folder, device="cpu")("one two", max_extra_tokens=3) == expected
    with pytest.raises(ModelError, match=r"exists already\. Choose another `out`, or remove it"):
        dragoman.import_model(marian)
    with pytest.raises(ConfigError, match="`model` must be a path, but is None"):
        dragoman.import_model(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "nothing"], ["nothing is not a folder", "Helsinki-NLP/opus-mt-de-en"]),
        (["import", "."], ["config.json is missing"]),
        (["import"], ["MODEL is missing"]),
        (["export", "MODEL"], ["`--to` is missing"]),
        (["export", "MODEL", "--to", "onnx"], ["`--to` must be one of int8, ctranslate2, marian"]),
        (["export", "MODEL", "--to", "ctranslate2", "--quantization", "int4"], ["`--quantization` must be one of"]),
        (
            ["export", "MODEL", "--to", "marian", "--embeddings", "int8"],
            ["`--embeddings` is for int8", "`--to` is marian"],
        ),
        (
            ["export", "MODEL", "--to", "marian", "--quantization", "int8"],
            ["`--quantization` is for ctranslate2"],
        ),
        (["export", "MODEL", "--to", "marian"], ["tokenizer of kind byte_bpe", "ctranslate2"]),
        (["export", "nothing", "--to", "marian"], ["nothing does not exist"]),
        (["export", "MODEL", "--to", "marian", "--out", "."], ["exists already", "--out"]),
        (["export", "MODEL", "--to", "ctranslate2", "--out", "MODEL/ct2"], ["is in a model folder", "--out"]),
        (["import", ".", "--out", "MODEL/imported"], ["is in a model folder", "--out"]),
        (["inspect", "MODEL", "one", "--out", "MODEL/page.html"], ["in a model folder", "Choose another folder"]),
        (["inspect", "MODEL", "one", "--out", "MODEL"], ["such as inspection.html."]),
        (["summary", "MODEL", "--plot", "MODEL/plot.png", "--out"], ["in a model folder"]),
        (["summary", "MODEL", "--model.d-model", "999", "--out"], ["`--model.d-model` is for a configuration"]),
        (["summary", "MODEL", "--tgt-vocab-size", "99", "--out"], ["`--tgt-vocab-size` is for a configuration"]),
    ],
)
def test_models_and_options_that_are_refused(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    out = ["--out", "new"] if "--out" not in arguments else []
    given = [
        one.replace("MODEL", str(model_folder)) for one in arguments if arguments[0] != "summary" or one != "--out"
    ]
    assert run_command([*given, *out]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for word in words:
        assert word in err, err
    assert not list(tmp_path.iterdir())
