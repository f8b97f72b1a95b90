"""The commands `import` and `export`."""

from pathlib import Path

import pytest

import dragoman
from dragoman import visualization
from dragoman.bundle import Model
from dragoman.cli.main import run_command
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
    assert agreement_of(Path(f"{model}-8"), Model.load(model, "cpu")).largest_difference < 1.0
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
