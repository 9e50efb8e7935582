"""Notebooks: parameters, light outputs that are complete, and the shortest executed."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from papermill import inspect_notebook
from papermill.exceptions import PapermillExecutionError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SMALL = tomllib.loads((ROOT / "notebooks" / "small.toml").read_text(encoding="utf-8"))
MOST_KIBIBYTES = 800  # figures have twice the resolution they are shown at
MOST_LINES = 25  # of code in a cell


def cells_of(path: Path, kind: str) -> list[Any]:
    notebook: Any = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def test_each_has_sizes_of_its_own_and_a_line_in_the_readme() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert len(names) == 14
    assert set(SMALL) == names
    readme = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+)\.ipynb\)", readme)) == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_small_sizes_are_parameters(path: Path) -> None:
    assert set(SMALL[path.stem]) <= set(inspect_notebook(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_those_of_a_run_from_top_to_bottom(path: Path) -> None:
    code = cells_of(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_light_and_teach(path: Path) -> None:
    assert path.stat().st_size < MOST_KIBIBYTES * 1024
    code, text = cells_of(path, "code"), cells_of(path, "markdown")
    assert max(len(cell.source.splitlines()) for cell in code) <= MOST_LINES
    figures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert 2 <= len(figures) <= len(text)


@pytest.mark.parametrize(
    "stems",
    [["01_check_a_belief"], pytest.param(["01_check_a_belief", "02_tau_rho_and_l"], marks=pytest.mark.slow)],
    ids=["the shortest", "two"],
)
def test_the_shortest_run(stems: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "tools/notebooks.py", *(stem[:2] for stem in stems), "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(path.stem for path in tmp_path.glob("*.ipynb")) == stems
    parameters = cells_of(tmp_path / "01_check_a_belief.ipynb", "code")[1].source
    assert f"n_worlds = {SMALL['01_check_a_belief']['n_worlds']}" in parameters


def test_an_error_in_a_notebook_is_told(tmp_path: Path) -> None:
    unknown = subprocess.run([sys.executable, "tools/notebooks.py", "99"], cwd=ROOT, capture_output=True, text=True)
    assert unknown.returncode == 1
    assert "No notebook begins with 99" in unknown.stderr
    tool = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    broken.metadata = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    nbformat.write(broken, tmp_path / "broken.ipynb")
    with pytest.raises(PapermillExecutionError, match="ZeroDivisionError"):
        tool["execute"](tmp_path / "broken.ipynb", tmp_path / "out.ipynb", {})


def test_the_others_run_after_a_failure_and_a_table_tells_which_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("01_good", "02_broken", "03_good"):
        (tmp_path / f"{name}.ipynb").touch()
    (tmp_path / "small.toml").write_text("", encoding="utf-8")
    tool = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))
    ran: list[str] = []

    def execute(path: Path, target: Path, parameters: dict[str, Any]) -> None:
        ran.append(path.stem)
        if path.stem == "02_broken":
            raise ValueError("a long story\nZeroDivisionError: division by zero")
        target.touch()

    names = tool["main"].__globals__
    monkeypatch.setitem(names, "FOLDER", tmp_path)
    monkeypatch.setitem(names, "execute", execute)
    monkeypatch.setattr(sys, "argv", ["notebooks.py", "--out", str(tmp_path / "out")])
    monkeypatch.setenv("RCB_PROGRESS", "off")
    assert tool["main"]() == 1
    assert ran == ["01_good", "02_broken", "03_good"]
    told = capsys.readouterr().err.splitlines()
    assert told[-2:] == ["failed:", "  02_broken.ipynb  ZeroDivisionError: division by zero"]
    ran.clear()
    monkeypatch.setattr(sys, "argv", ["notebooks.py", "01", "03", "--out", str(tmp_path / "out")])
    assert tool["main"]() == 0
