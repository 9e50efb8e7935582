"""The page of the paper's claims is what its tool makes of the stored tables."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from rcb_bayes.files.store import part_format, write_part
from rcb_bayes.studies.paper.settings import SETTINGS
from tests.studies.paper.cells_for_tests import made_up_cell

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def paper_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("paper_page")


def test_the_page_is_what_the_tool_makes(paper_page: ModuleType) -> None:
    assert (ROOT / "docs" / "paper.md").read_text(encoding="utf-8") == paper_page.page(), "run tools/paper_page.py"


def test_verdicts_of_several_runs_are_put_together(paper_page: ModuleType) -> None:
    def told(*words: str) -> str:
        return paper_page.verdict_of(pd.DataFrame({"verdict": words}))[0]

    assert told("held", "undecided") == "held"
    assert told("held", "not held") == "depends on what the paper does not say"
    assert told("undecided") == "undecided"
    assert told("held", "undecided", "undecided") == "undecided", "most are"
    assert told() == "not run"


def test_what_n_tells_apart_is_not_put_down_to_the_papers_silence(paper_page: ModuleType) -> None:
    def told(*rows: tuple[str, str]) -> str:
        return paper_page.verdict_of(pd.DataFrame(rows, columns=["verdict", "figure"]))[0]

    assert told(("held", "N = 10: a"), ("not held", "N = 100: b"), ("held", "N = 10: c")) == "depends on N"
    mixed = told(("held", "N = 10: a"), ("not held", "N = 10: b"), ("held", "N = 100: c"))
    assert mixed == told(("held", "a"), ("not held", "b")) == "depends on what the paper does not say"


def test_the_first_minute_follows_the_tables(paper_page: ModuleType) -> None:
    minute = importlib.import_module("paper_minute")
    runs, claims = paper_page.table("runs"), paper_page.table("claims")
    tables = {name: paper_page.table(name) for name in runs["setting"]}

    def told() -> str:
        return "\n".join(minute.minute_lines(paper_page.HOME, runs, claims, tables, ["held", "held"], ["undecided"]))

    before = told()
    assert "Of 2 claims about simulations: 2 held." in before
    own = tables["setting-1"]
    ended = int((own[own["kind"] == "theorem"]["n_ended"] > 0).sum())
    tables["setting-1"] = own.assign(n_ended=0)
    assert ended > 0
    assert told() != before


def test_the_patients_are_those_of_the_paper(paper_page: ModuleType, tmp_path: Path) -> None:
    warfarin, path = importlib.import_module("paper_warfarin"), paper_page.HOME / "patients.csv"
    assert [verdict for _, _, verdict, _ in warfarin.patient_rows(path)] == ["held"] * 3
    planted = pd.read_csv(path)
    planted[["low", "sd_dose", "features"]] = [0.2, 0.06, 93]
    planted.to_csv(tmp_path / "patients.csv", index=False)
    assert [verdict for _, _, verdict, _ in warfarin.patient_rows(tmp_path / "patients.csv")] == ["not held"] * 3


def test_a_changed_table_changes_the_page(
    paper_page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, home = paper_page.page(), tmp_path / "paper"
    home.mkdir()
    (tmp_path / "warfarin.md").write_bytes((paper_page.HOME.parent / "warfarin.md").read_bytes())
    for path in paper_page.HOME.glob("*"):
        (home / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(paper_page, "HOME", home)
    assert paper_page.page() == before
    claims = pd.read_csv(home / "claims.csv", keep_default_na=False)
    claims.loc[0, "verdict"] = "undecided" if claims.loc[0, "verdict"] == "held" else "held"
    claims.to_csv(home / "claims.csv", index=False)
    assert paper_page.page() != before


def test_every_claim_that_is_judged_stands_on_the_page(paper_page: ModuleType) -> None:
    rows = importlib.import_module("paper_rows")
    known = {claim for said in rows.SETTINGS.values() for one in said for claim in one.claims}
    assert set(paper_page.table("claims")["claim"]) <= known


def test_what_was_not_run_again_keeps_its_rows(
    paper_page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, home = importlib.import_module("paper_tables"), tmp_path / "paper"
    home.mkdir()
    before = {name: paper_page.table(name) for name in ("claims", "runs")}
    for path in paper_page.HOME.glob("*.csv"):
        (home / path.name).write_bytes(path.read_bytes())
    for module in (paper_page, tables):
        monkeypatch.setattr(module, "HOME", home)
    monkeypatch.setattr(paper_page, "write", lambda: None)
    monkeypatch.setattr(sys, "argv", ["paper_tables.py", str(tmp_path / "empty")])
    tables.main()
    for name, rows in before.items():
        pd.testing.assert_frame_equal(paper_page.table(name), rows, rtol=1e-3)


def test_audited_pieces_go_before_others(paper_page: ModuleType, tmp_path: Path) -> None:
    tables, runs = (importlib.import_module(name) for name in ("paper_tables", "paper_runs"))
    cell = SETTINGS["setting-1"].cells[0]
    shape = {"n_arms": cell.n_arms, "n_features": cell.n_features}
    for audited, group, margin in ((False, 1, 0.1), (True, 1, 0.2), (False, 0, 0.3)):
        kind = runs.GROUPS[group][0]
        made = made_up_cell({kind: {"kind": kind, "margin": margin}}, **shape)
        path = runs.piece_file(tmp_path, "setting-1", cell, runs.GROUPS[group], audited=audited)
        path.parent.mkdir(exist_ok=True)
        write_part(part_format(cell.key), made, path)
    (found,) = tables.finished(tmp_path, SETTINGS["setting-1"])
    assert found["kind"].values.tolist() == ["theorem", "fixed"]
    assert found["margin_user"].values.tolist() == [0.3, 0.2]
    lacking = tables._told("setting-1", [found], tmp_path, "")["without"]
    assert lacking == "; ".join(f"{kind} in {cell.key}" for kind in ("measured", "uniform", "personalised"))


def test_figures_are_small() -> None:
    pictures = list((ROOT / "docs" / "measured" / "paper").glob("*.png"))
    assert pictures
    assert all(path.stat().st_size < 100_000 for path in pictures)
