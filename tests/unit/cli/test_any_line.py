"""One line in, one line out, whatever the lines: the check of benchmarks/reliability_text.py, made small."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reliability_text.py"


def test_lines_of_all_kinds_are_answered_in_their_place(model_folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("reliability_text", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = module.awkward_lines(100, longest=4000)
    assert len(lines) == 100
    assert module.check_lines(str(model_folder), lines) == []
