"""A type checker finds the package in an editable install, and the errors in a user's script, and no others."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
from pathlib import Path

import dragoman
from dragoman.evaluation import bleu
from dragoman.model import MultiHeadAttention, causal_mask
from dragoman.visualization import plot_heads, save_figure

run = dragoman.train(Path("a.en"), "a.de", out="run", max_minutes=1, train_seed=2, preset="tiny", schedule="noam")
dragoman.train(data="a.tsv", dev_src=Path("d.en"), dev_tgt="d.de", start_from=run, columns=["en", "de"])
dragoman.train(src="a.en", tgt="a.de", max_minuts=30)  # call-arg
dragoman.train(src="a.en", tgt="a.de", schedule="nom")  # arg-type
dragoman.train(src="a.en", tgt="a.de", max_steps="100")  # arg-type
dragoman.train(src="a.en", tgt="a.de", seed=1)  # call-arg
dragoman.plan(data="a.tsv", model={"d_model": 8}, train_batch_tokens=1000)
run.resume(max_steps=2000).plot()
run.resume(max_steps=2.5)  # arg-type
translator = dragoman.load("run", device="cpu")
text: str = translator("How are you?", beam_size=1)
texts: list[str] = translator(["How are you?"], length_penalty="power")
number: int = translator("How are you?")  # assignment
translator("How are you?", beam_size="5")  # call-overload
translator.translate(["How are you?"], protect=True, precision="int8")
translator.translate(["How are you?"], precision="int4")  # arg-type
[found] = translator.translate_detailed(["How are you?"], details=dragoman.Details(alignment=True), n_best=3)
print(found.text.upper(), found.candidates[0].score + 1, "".join(translator.stream("How are you?", beam_size=1)))
print(found.txt)  # attr-defined
report = dragoman.evaluate(translator, src="t.en", ref=Path("t.de"), inference_beam_size=4)
print(report.whole.scores[0].value + 1.0)
dragoman.evaluate(run, src="t.en", ref="t.de", max_steps=3)  # call-arg
dragoman.inspect(translator, "How are you?", beam_size=2)
dragoman.compare("run", "other", "t.en", "t.de", beam_size=1)
dragoman.translate_html(translator, "<p>A dog.</p>", dragoman.Preserve(terms=dragoman.Terms.load("t.tsv")), top_p=0.9)
dragoman.translate_document("a.docx", translator, bilingual=Path("r.html"), comments=True, keep_styles=["Code"])
dragoman.translate_document("a.docx", translator, comment=True)  # call-arg
dragoman.translate_document("a.docx", translator, comments="yes")  # arg-type
model = dragoman.Transformer.build(src_vocab_size=6, tgt_vocab_size=6, d_model=8, num_heads=8, d_ff=16)
batch = dragoman.Batch.from_ids([[4, 5], [5]], [[4], [5, 4]])
print(model.trace(batch)["logits"].shape, model.parameter_table()[0].count)
model.encod(batch.src_ids, batch.src_lengths)  # operator
attention = MultiHeadAttention(8, 2, bias=False)
print(attention(batch.src_ids, batch.src_ids, batch.src_ids, causal_mask(2)).shape)
MultiHeadAttention(8, heads=2)  # call-arg
save_figure(plot_heads(translator, "How are you?"), "heads.png")
dragoman.visualization.plot_head(translator, "How are you?")  # attr-defined
print(bleu(["a"], ["a"]).value + 1, dragoman.errors.ConfigError)
dragoman.trian  # attr-defined
"""


def test_an_editable_install_adds_the_folder_to_the_path(tmp_path: Path) -> None:
    """Type checkers follow a path in a .pth file, but no import hook, which setuptools writes otherwise."""
    checkout, wheels = tmp_path / "checkout", tmp_path / "wheels"
    (checkout / "dragoman").mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)
    for name in ("__init__.py", "version.py", "py.typed"):
        shutil.copy(ROOT / "dragoman" / name, checkout / "dragoman")
    command = [sys.executable, "setup.py", "--quiet", "editable_wheel", "--dist-dir", str(wheels)]
    environment = {**os.environ, "CC": "none"}  # without a C compiler, no machine code is built
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        code = {name: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" not in name}
    assert [Path(text.strip()) for text in code.values()] == [checkout]


@pytest.mark.slow
def test_mypy_finds_the_errors_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, script.name],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^script\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    lines = enumerate(SCRIPT.split("\n"), start=1)
    assert dict(found) == {str(number): line.split("# ")[1] for number, line in lines if "# " in line}, done.stdout
