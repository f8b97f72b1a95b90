"""Fault injection at full size: `pytest tests/soak`, or `make soak`. See docs/explanation/reliability.md.

The ordinary test command does not run these tests. Each one plants one kind of fault and reports a row of the table in
benchmarks/results/reliability.md: the fault, how often it was planted, how often the outcome was as promised, and
figures. The rows are printed after the last test.

    pytest tests/soak --size 0.02 -k "damage or disk"    # a fiftieth of the faults
    pytest tests/soak --run runs/demo                    # with the tests that need a trained run
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

HOUR = 3600
Report = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak", "fault injection")
    group.addoption("--size", type=float, default=1.0, help="share of the full number of faults (default 1)")
    group.addoption("--run", type=Path, help="a trained run or model folder; tests that need one are skipped without")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(HOUR))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    rows = [value for report in reports for name, value in report.user_properties if name == "row"]
    if rows:
        terminalreporter.section("rows of benchmarks/results/reliability.md")
        terminalreporter.write_line("\n".join(rows))


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Add a row to the table; fail if a planted fault was not handled as promised."""

    def add(fault: str, planted: int, broken: Sequence[object] = (), figures: str = "") -> None:
        record_property("row", f"| {fault} | {planted:,} | {planted - len(broken):,} | {figures} |")
        assert not broken, f"{fault}: {len(broken)} of {planted} not as promised"

    return add


@pytest.fixture(scope="session")
def scaled(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """A full number of faults times `--size`, at least one."""
    return lambda full: max(1, round(full * pytestconfig.getoption("size")))


@pytest.fixture(scope="session")
def run_folder(pytestconfig: pytest.Config) -> Path:
    """The folder given with `--run`."""
    folder = pytestconfig.getoption("run")
    if folder is None:
        pytest.skip("needs --run FOLDER, a trained run")
    return Path(folder)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The corpora."""
    if "DRAGOMAN_DATA" not in os.environ:
        pytest.skip("needs DRAGOMAN_DATA")
    return Path(os.environ["DRAGOMAN_DATA"])
