"""The pages below docs/ are true: links lead somewhere, names exist, and every command of an `sh` block runs.

A page has two kinds of blocks with commands. `sh` blocks hold commands that run here, in order, with stand-ins for the
files that they name. `console` blocks show a session, or commands for machines that a test does not have. Only their
verbs and flags are checked.
"""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from dragoman.bundle import resolve_model_folder
from dragoman.cli.main import VERBS, import_verb, run_command
from dragoman.config import CORPUS_SETTINGS, SETTINGS
from dragoman.config.names import REMOVED
from dragoman.demo.phrasebook_file import load_phrasebook
from tests.system.commands import store_in_hub_cache, write_sides, write_tsv
from tests.system.test_readme import QUICK, SHELL, assert_fetches, assert_serves, forked
from tests.unit.text.documents.office.office_files import body_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if path.relative_to(DOCS).parts[0] in ("README.md", "faq.md", "tutorials", "how-to", "reference", "explanation")
)
LINKED = [*PAGES, *ROOT.glob("*.md"), ROOT / "examples" / "README.md"]
OTHER_PROGRAMS = {
    "--fresh", "--report", "--folder", "--threads", "--others", "--wait", "--attempts", "--list", "--seconds",
    "--parts", "--sizes", "--peers", "--size", "--write", "--layers", "--eflomal",
    "--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--max-restarts",
    "--no-deps", "--require-hashes",
    "--publish", "--volume", "--tag", "--index-url", "--model", "--help-all", "--infilter", "--convert-to",
    "--seeds", "--try", "--corpus", "--contenders",
}  # fmt: skip
"""Flags on the pages that belong to benchmarks, tools, torchrun, pip and Docker."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))


def blocks_of(text: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands_of(block: str) -> list[str]:
    """The commands of a block, one per line, without prompts and line continuations."""
    lines = re.sub(r"\\\n\s*", " ", block).split("\n")
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or [line for line in lines if line.strip() and not line.startswith("#")]


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[`*]", "", each).lower() for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors_of(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("section", ["tutorials", "guide", "how-to", "reference", "explanation"])
def test_the_index_of_a_section_lists_every_page(section: str) -> None:
    index = (DOCS / section / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^[|-].*?\]\(([\w-]+\.md)\)", index, re.MULTILINE))
    assert listed == {path.name for path in (DOCS / section).glob("*.md")} - {"index.md"}


@each_page
def test_a_page_opens_with_its_outcome_in_one_sentence(page: Path) -> None:
    title, opening = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert title.startswith("# ")
    assert re.fullmatch(r"[A-Z]((?![.!?]\s).)*[.]", opening, re.DOTALL), "one sentence"
    assert len(opening.split()) <= 35
    assert not opening.startswith(("This ", "Here ")), "the outcome, not the page"


@lru_cache(maxsize=1)
def known_flags() -> frozenset[str]:
    """Every flag of every verb, without those of settings."""
    flags: set[str] = set()
    for verb in VERBS:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            assert run_command([verb, "--help"]) == 0
        flags |= set(re.findall(r"--[a-z][a-z-]*(?![\w.-])", output.getvalue()))
    return frozenset(flags)


@each_page
def test_flags_settings_and_verbs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    settings = {f"--{key.replace('_', '-')}" for key in SETTINGS}
    unknown = [
        flag
        for flag in re.findall(r"(?<![\w`/|<!-])--[a-z][a-z.-]*[a-z]", text.replace("`--", " --"))
        if flag not in settings | known_flags() | OTHER_PROGRAMS
    ]
    tables = "|".join({key.partition(".")[0] for key in SETTINGS})
    for table, name in re.findall(rf"`({tables})\.([a-z_0-9-]+)`", text):
        key = f"{table}.{name.replace('-', '_')}"
        if key not in SETTINGS and key not in REMOVED and name not in ("json", "safetensors"):
            unknown.append(key)
    unknown += [verb for verb in re.findall(r"(?:`|^\$ |^)dragoman ([a-z-]+)", text, re.MULTILINE) if verb not in VERBS]
    assert not unknown


def strings_of(package: str) -> set[str]:
    """The strings in the code of a package."""
    return {
        node.value
        for path in (ROOT / "dragoman" / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_quoted_messages_are_in_the_code() -> None:
    """The messages that the page about refused files quotes are those that the code writes."""
    page = (DOCS / "how-to" / "fix-a-refused-file.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| message contains .*?\n\n", page, re.MULTILINE | re.DOTALL)
    quoted = [text for table in tables for text in re.findall(r'"([^"]+)"', table)]
    assert len(quoted) > 5
    written = "\n".join(strings_of(""))
    assert [text for text in quoted if text not in written] == []


def test_the_page_about_checks_names_findings_that_exist() -> None:
    page = (DOCS / "how-to" / "check-a-corpus.md").read_text(encoding="utf-8")
    table = page[page.index("## Read the notes") :].split("\n\n")[1]
    kinds = {kind for row in table.split("\n")[2:] for kind in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert len(kinds) > 5
    assert kinds <= strings_of("text/doctor")


def test_the_page_about_inspections_names_every_note() -> None:
    source = (ROOT / "dragoman" / "visualization" / "inspection" / "inspector.py").read_text(encoding="utf-8")
    page = (DOCS / "how-to" / "inspect-a-translation.md").read_text(encoding="utf-8")
    assert set(re.findall(r'Note\("(\w+)"', source)) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_the_page_about_the_watchdog_names_every_warning() -> None:
    source = (ROOT / "dragoman" / "training" / "run" / "watchdog.py").read_text(encoding="utf-8")
    names = set(re.findall(r'RunWarning\(\s*"([^"]+)"', source))
    page = (DOCS / "reference" / "watchdog.md").read_text(encoding="utf-8")
    assert names
    assert names <= set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, small_marian: Path) -> Path:
    """A working directory with the files and models that the pages name, and a cache of the hub."""
    folder = tmp_path_factory.mktemp("pages")
    pairs = load_phrasebook().generate(seed=2, count=340)
    parts = {"corpus": pairs[:260], "test": pairs[260:300], "dev": pairs[300:], "train": pairs[:260]}
    for name, part in parts.items():
        write_sides(folder / name, part)
    for name in ("corpus.en-de", "mine", "general", "general-test"):
        part = parts["test" if "test" in name else "corpus"]
        write_tsv(folder / f"{name}.tsv", part)
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{pair.src}</seg></tuv><tuv xml:lang="de"><seg>{pair.tgt}</seg></tuv></tu>\n'
        for pair in pairs
    )
    texts = {
        "memory.tmx": f'<tmx version="1.4"><header/><body>{units}</body></tmx>\n',
        "mono.de": "".join(f"{pair.tgt}\n" for pair in parts["dev"]),
        "beginnings.de": "\n" * len(parts["test"]),
        "terms.tsv": "bike\tDrahtesel\nred shirt\tRothemd\n",
        "page.html": "<p>A woman in a <b>red</b> shirt.</p>\n",
        "film.en.srt": "1\n00:00:01,000 --> 00:00:02,500\nWhere is the station?\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "letters").mkdir()
    for name in ("report.docx", "letters/one.docx"):
        shutil.copy(DOCS / "images" / "hotel.docx", folder / name)
    (folder / "configs").symlink_to(ROOT / "configs")
    multi30k = folder / "data" / "multi30k"
    multi30k.mkdir(parents=True)
    for ours, theirs in (("corpus", "train"), ("test", "val"), ("test", "test_2016_flickr")):
        for language in ("en", "de"):
            (multi30k / f"{theirs}.{language}.gz").write_bytes((folder / f"{ours}.{language}").read_bytes())
    store_in_hub_cache(folder / "hub", small_marian, "Helsinki-NLP/opus-mt-en-de")
    for verb in VERBS:  # import once, before processes are forked
        import_verb(verb)
    data = "--src corpus.en --tgt corpus.de --data.test-src test.en --data.test-tgt test.de"
    run_line(f"dragoman train {data} --out run", folder)
    for name in ("other-run", "general", "teacher"):
        (folder / name).symlink_to("run")
    return folder


def run_line(line: str, place: Path) -> None:
    """Run one command of a page in `place`; training takes two steps. Fails unless the exit code is 0."""
    environment = {**os.environ, "DRAGOMAN_DATA": str(place / "data"), "PYTHONPATH": str(ROOT)}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(place / "hub")}
    quick = re.sub(r"(dragoman (?:train|demo|plan)\b[^|>]*)", rf"\1 {QUICK} ", line)
    quick = re.sub(r"(dragoman verify\b[^|>]*)", r"\1 --sentences 3 --steps 0 ", quick)
    if "configs/" in quick:
        quick += " --tokenizer.vocab-size 300"
    if "back_translation" in quick:  # an epoch of one step, for its stages
        quick += " --train.batch-tokens 9000"
    if "distilled_12_1" in quick:
        quick += " --model.d-model 32 --model.d-ff 64 --train.warmup-steps 1"
    python = shlex.quote(sys.executable)
    command = re.sub(r"(?<!-m )\bdragoman (?=[a-z])", f"{python} -m dragoman ", quick)
    command = command.replace("torchrun ", f"{python} -m torch.distributed.run ")
    if "dragoman serve" in line:
        assert_serves(shlex.split(command.replace("--port 5000", "--port 0")), place, environment)
    elif "dragoman fetch" in line:
        assert_fetches(command, place, environment)
    elif line.startswith(("dragoman ", "echo ")) and "import" not in line and not SHELL.search(quick):
        code, said = forked(quick, place, environment)
        assert code == 0, f"{line}\n{said}"
    else:
        done = subprocess.run(
            command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    for name, other in (("distilled.de", "train.de"), ("mono.en", "test.en")):
        if line.endswith(f"> {name}"):  # an untrained model writes the same line for every source
            (place / name).write_bytes((place / other).read_bytes())


def run_page(page: Path, place: Path) -> None:
    """Run the `sh` and `python` blocks of a page in their order."""
    for language, block in re.findall(
        r"^```(sh|python)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        if language == "sh":
            for line in commands_of(block):
                run_line(line, place)
        else:
            quick = block.replace("20_000", "400").replace("19_500", "360").replace("max_minutes=30", "max_steps=2")
            done = subprocess.run(
                [sys.executable, "-c", quick],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=200,
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.timeout(900)
def test_the_tutorial_runs_from_two_files_to_a_server(tmp_path: Path) -> None:
    run_page(DOCS / "tutorials" / "first-translator.md", tmp_path)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.timeout(300)
def test_the_tutorial_about_a_document_runs_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(DOCS)
    run_page(DOCS / "tutorials" / "translate-a-document.md", tmp_path)
    bodies = [body_of((tmp_path / name).read_bytes()) for name in ("hotel.de.docx", "reviewed.docx", "kept.docx")]
    assert bodies[0] == bodies[1]
    assert "Am Abend gehen wir ins Schauspielhaus." in re.sub("<[^>]*>", "", bodies[2])
    assert (tmp_path / "hotel.tmx").read_text(encoding="utf-8").count("<tu>") >= 15
    assert (tmp_path / "python.tsv").read_text(encoding="utf-8").startswith("Welcome to our hotel.\tWillkommen")


@pytest.mark.timeout(300)
def test_the_page_about_several_corpora_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.QUICK", QUICK.replace("max-steps 2", "max-steps 16"))  # two epochs, for its stages
    page = DOCS / "how-to" / "several-corpora.md"
    pairs = list({pair.src: pair for pair in load_phrasebook().generate(seed=3, count=400)}.values())
    memory = "".join(
        f'<tu><tuv xml:lang="en"><seg>{pair.src}</seg></tuv><tuv xml:lang="de"><seg>{pair.tgt}</seg></tuv></tu>\n'
        for pair in pairs[:40]
    )
    (tmp_path / "legal.tmx").write_text(f'<tmx version="1.4"><header/><body>{memory}</body></tmx>\n', encoding="utf-8")
    for number, name in enumerate(("manuals", "website"), 1):
        write_tsv(tmp_path / f"{name}.tsv", pairs[40 * number : 40 * number + 40])
    write_sides(tmp_path / "crawl", pairs[120:200])
    write_sides(tmp_path / "test", pairs[200:205])
    [settings] = re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "memories.toml").write_text(settings, encoding="utf-8")
    run_page(page, tmp_path)
    rows = json.loads((resolve_model_folder(tmp_path / "run") / "card.json").read_text(encoding="utf-8"))["corpora"]
    assert [row[:3] for row in rows] == [
        ["legal.tmx", 3.0, "legal"],
        ["manuals.tsv", 1.0, ""],
        ["website.tsv", 1.0, ""],
        ["crawl.en and crawl.de", 0.5, ""],
    ]
    described = set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8").split("## Settings")[1].split("\n\n")[1]))
    assert {setting.name.rstrip("_") for setting in CORPUS_SETTINGS.values()} <= described


WITH_COMMANDS = [
    page
    for page in PAGES
    if page.stem not in ("first-translator", "translate-a-document", "several-corpora")
    and "```sh" in page.read_text(encoding="utf-8")
]


@pytest.mark.slow
@pytest.mark.timeout(900)  # a new version of the kernels is compiled first
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda path: path.stem)
def test_every_command_of_a_page_runs(page: Path, base: Path, tmp_path: Path) -> None:
    """In a copy of the files, so that pages do not depend on each other."""
    if "dragoman fetch" in page.read_text(encoding="utf-8"):
        pytest.importorskip("datasets", reason="the extra hub is not installed")
    place = tmp_path / "place"
    subprocess.run(["cp", "-a", str(base), str(place)], check=True)
    run_page(page, place)


def test_every_cell_about_masks_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The cells of this page share a session."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert "use-your-own-masks.md" in pages
    cells = blocks_of(pages["use-your-own-masks.md"], "python")
    session: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "use-your-own-masks.md", "exec"), session)
    assert "Use `mask[:, None]` if it has one mask for each sentence" in capsys.readouterr().out


def test_every_verb_is_on_a_page() -> None:
    text = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\$ dragoman ([a-z-]+)", text, re.MULTILINE)) == set(VERBS)


def test_the_code_names_only_pages_that_exist() -> None:
    """Docstrings, comments, configurations and tools may refer to pages."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = []
    for name in tracked.split("\n"):
        dated = name.startswith(("docs/log/", "CHANGELOG"))
        if name.endswith((".py", ".toml", "Makefile", ".md", ".html")) and not dated:
            path = ROOT / name
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            pages = re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", text)
            missing += [f"{name}: {page}" for page in pages if not (ROOT / page).exists()]
    assert not missing
