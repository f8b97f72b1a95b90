"""Figures outside notebooks: pyplot shows them if the program has imported it, and nothing else changes."""

import os
import subprocess
import sys
from pathlib import Path

WINDOWS = """
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class FigureManager(FigureManagerBase):
    def show(self):
        print("window of", type(self.canvas.figure).__name__, self.num)

    @classmethod
    def start_main_loop(cls):
        print("main loop")


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager
"""
START = """
import gc, sys, warnings, weakref
import dragoman
from dragoman.visualization import plot_attention, save_figure
warnings.simplefilter("error")
settings = dragoman.ModelSettings()
"""


def output_of(script: str, folder: Path, backend: str) -> list[str]:
    """The lines that a script prints, with a backend that prints a line where another one opens a window."""
    (folder / "windows.py").write_text(WINDOWS, encoding="utf-8")
    paths = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "MPLBACKEND": backend, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", START + script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_a_script_with_windows_shows_its_figures_and_does_not_grow(tmp_path: Path) -> None:
    lines = output_of(
        """
plot_attention(settings)  # before pyplot is imported: the figure is only returned
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot as plt
plot_attention(settings)
plot_attention(settings, "encoder_self")
plt.show()
plt.close("all")
print("one")
plot_attention(settings).show()
plt.close("all")
figures = [weakref.ref(plot_attention(settings)) for _ in range(16)]
own = plt.figure()
gc.collect()
print(sum(each() is not None for each in figures), "wait")
try:
    plot_attention("no model")
except dragoman.errors.DragomanError:
    print(len(plt.get_fignums()), "figures")
""",
        tmp_path,
        "module://windows",
    )
    window = "window of NotebookFigure"
    assert lines == [f"{window} 1", f"{window} 2", "main loop", "one", f"{window} 1", "15 wait", "16 figures"]


def test_a_script_without_windows_keeps_no_figure_and_show_tells_what_to_do(tmp_path: Path) -> None:
    lines = output_of(
        """
import matplotlib.pyplot as plt
figures = [weakref.ref(plot_attention(settings)) for _ in range(3)]
gc.collect()
print(sum(each() is not None for each in figures), len(plt.get_fignums()))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    plot_attention(settings).show()
print(caught[0].message)
""",
        tmp_path,
        "agg",
    )
    advice = 'Write the figure to a file with `save_figure(figure, "figure.png")`.'
    assert lines == ["0 0", f"matplotlib has no windows here (backend agg). {advice}"]


def test_a_missing_backend_does_not_keep_a_script_from_its_file(tmp_path: Path) -> None:
    script = """
import matplotlib.pyplot
save_figure(plot_attention(settings), sys.path[1] + "/a.png")
"""
    assert output_of(script, tmp_path, "module://missing") == []
    assert (tmp_path / "a.png").exists()
