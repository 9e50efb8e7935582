"""The README and the pages of docs are true: commands parse, code runs, outputs and figures are what a run gives."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main

import rcb_bayes as rcb
from rcb_bayes.cli import app
from rcb_bayes.reporting import report
from tests.documents.blocks import Block, blocks_of, commands_in, differences, numbers_in, run_python

ROOT = Path(__file__).resolve().parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
GUIDE, MEASURED, TABLE = DOCS / "guide.md", DOCS / "measured", DOCS / "measured.md"
READINGS = DOCS / "explanation" / "readings.md"
PAGES = [*DOCS.glob("*.md"), *DOCS.glob("explanation/*.md"), *DOCS.glob("howto/*.md")]
DOCUMENTS = [README, ROOT / "notebooks" / "README.md", *PAGES]


def section(path: Path, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", path.read_text(encoding="utf-8"), re.M | re.S)
    assert found, f"{path.name} has no section '{title}'"
    return found[1]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_understood(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_belief.py", "users.csv", "plan/plan.json", "warfarin.csv", "log.csv"):  # files that they name
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    program = typer.main.get_command(app.app)
    for block in blocks_of(path):
        for arguments in commands_in(block) if block.kind == "sh" else []:
            parse(program, arguments)


def parse(program: Any, arguments: list[str]) -> None:
    """Parse a command line as the program would, and run nothing."""
    outer = program.make_context("rcb", list(arguments))
    name, command, rest = program.resolve_command(outer, [*outer._protected_args, *outer.args])
    if hasattr(command, "commands"):
        parse(command, rest)
    else:
        command.make_context(name, rest, parent=outer)


@pytest.mark.parametrize("line", ["check student_t --wrlds 3", "chek student_t", "audit setting_4 --worlds many"])
def test_a_planted_mistake_in_a_command_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|should be"):
        parse(typer.main.get_command(app.app), line.split())


SMALL = rcb.ReportSizes(
    check_worlds=100,
    plan_worlds=100,
    audit_worlds=50,
    run_worlds=2,
    knowledge_worlds=0,
    radius_worlds=50,
    epsilons=(0.05,),
)


@pytest.mark.parametrize("sizes", [SMALL, pytest.param(None, marks=pytest.mark.slow)], ids=["small page", "in full"])
def test_the_readme_runs(
    sizes: rcb.ReportSizes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line; the page at the end, of which the README tells no figure, may be simulated in fewer worlds."""
    monkeypatch.setattr(rcb, "report", partial(report, sizes=sizes))
    run_document(README, tmp_path, monkeypatch, capsys)
    assert (tmp_path / "report.html").stat().st_size > 50_000


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(DOCS.glob("howto/*.md")), ids=lambda path: path.stem)
def test_how_to_pages_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_document(path, tmp_path, monkeypatch, capsys)


@pytest.mark.slow
def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_document(GUIDE, tmp_path, monkeypatch, capsys)


def run_document(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run what a document shows, in its order: Python, and shell commands whose output follows them."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    names: dict[str, Any] = {}
    blocks = blocks_of(path)
    for block, following in zip(blocks, [*blocks[1:], None][: len(blocks)], strict=True):
        if block.note in ("needs-data", "not-run"):
            continue
        if block.kind == "python":
            capsys.readouterr()
            assert not run_python(block, names, source=path)
            if following is not None and following.kind == "text":
                assert not differences(following.text, capsys.readouterr().out)
        elif block.kind == "sh" and following is not None and following.kind == "text":
            assert not output_differs(block, following, capsys)


def output_differs(block: Block, shown: Block, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    (command,) = commands_in(block)
    app.run(command)
    return differences(shown.text, capsys.readouterr().out)


def test_a_planted_figure_is_found(tmp_path: Path) -> None:
    document = tmp_path / "planted.md"
    document.write_text("```python\nx = 2.0\nx * 3  # 6.0: fine\nx * 3  # 6.3\n'a'  # 'a'\nx  # not a value\n```\n")
    assert run_python(blocks_of(document)[0], {}, source=document) == ["line 4: 6.3 said, 6.0 found"]
    assert differences("pass: 0.530 ± 0.011, 1,000 worlds", "pass:  0.531 ± 0.011, 1,000 worlds") == []
    assert differences("pass: 0.530, 1,000 worlds", "fail: 0.630, 1,000 worlds") == [
        "pass: for fail:",
        "0.530, for 0.630,",
    ]


def test_measured_figures_are_in_the_files_they_link_to() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \| \[.+\]\((measured/\w+\.md)\) \|$", TABLE.read_text(encoding="utf-8"), re.M)
    assert len(rows) > 5
    for what, figures, file in rows:
        known = numbers_in((DOCS / file).read_text(encoding="utf-8"))
        assert not [number for number in numbers_in(figures) if number not in known], f"{what}: not in {file}"


def test_figures_of_the_readings_are_those_of_the_plans() -> None:
    """Rounded on their page, so compared by hand: what is said, and where it stands in the file."""
    said = READINGS.read_text(encoding="utf-8")
    plans = (MEASURED / "plans.md").read_text(encoding="utf-8")
    for in_readings, row, figures in (
        ("2,250 / 35,157 / 281,250", r"^\| (?:2|5|10) \| 1 \|.*$", [2250, 35157, 281250]),
        ("makes N 30 / 1,072 / 12,666", r"^\| (?:2|5|10) \| 1, tau.*$", [30, 1072, 12666]),
        ("5.4 thousand / 193 thousand / 2.9 million", r"^\| (?:2|5|10) \| 1 \|.*$", [5400, 193000, 2900000]),
        (
            "1.07 in the orthant of the sphere and .24 in a cube",
            r"^\| .*(?:no feature neg|uniform on).*$",
            [1.07, 0.24],
        ),
        ("no arm is untried in any of 40 worlds", r"^\| Setting [14] \|.*$", [0.0, 0.0]),
        (".49, .24, .12, .06", r"^\| [1-4] \| 0\.\d+ ±.*$", [0.49, 0.24, 0.12, 0.06]),
        ("leaves users at -.223", r"^\| proof \| 5.*$", [-0.223]),
        ("5.6 and 35.6", r"^\| (?:proof|definition, user) \| \d.*$", [5.6, 35.6]),
        ("the personal ones is .54", r"^\| 0.\d+ \| user \| for each user.*$", [0.54, 0.54]),
    ):
        assert in_readings in said
        lines = re.findall(row, plans, re.M)
        assert len(lines) == len(figures)
        for line, value in zip(lines, figures, strict=True):
            assert value in [round(number, digits_of(value)) for number in numbers_in(line)]


def digits_of(value: float) -> int:
    """Digits after the point, or, less than none, zeros before it."""
    after = len(f"{abs(value):g}".partition(".")[2]) if value % 1 else 0
    return after or (len(f"{value:.0f}".rstrip("0")) - len(f"{value:.0f}") if value else 0)


def test_all_readings_are_told() -> None:
    rows = re.findall(r"^\| (\d+) \|", section(READINGS, "Where we read the paper our own way"), re.M)
    assert rows == [str(k) for k in range(1, 27)]


def test_the_readme_quotes_the_readings() -> None:
    quoted = numbers_in(section(README, "Where we read the paper our own way").replace("readings](", "]("))
    known = [*numbers_in(READINGS.read_text(encoding="utf-8")), 1.0]  # "1 in 35.6"
    assert {35.6, 5.6, 2250.0} <= set(quoted) <= set(known)


def test_the_readme_is_two_screens() -> None:
    words = re.sub(r"```.*?```", "", README.read_text(encoding="utf-8"), flags=re.S).split()
    assert len(words) < 700


def test_links_lead_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.slow
def test_plans_are_what_they_were_measured_to_be() -> None:
    done = subprocess.run(
        [sys.executable, "tools/plan_figures.py"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    measured = (MEASURED / "plans.md").read_text(encoding="utf-8")
    assert not differences(measured[measured.index("## ") :], done.stdout)


@pytest.mark.slow
def test_the_picture_can_be_drawn(tmp_path: Path) -> None:
    target = tmp_path / "picture.png"
    subprocess.run([sys.executable, "tools/picture.py", str(target), "--small"], cwd=ROOT, check=True)
    assert target.stat().st_size > 20_000
