"""The page of the paper's claims is what its tool makes of the stored tables."""

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

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
    assert told() == "not run"


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


def test_figures_are_small() -> None:
    pictures = list((ROOT / "docs" / "measured" / "paper").glob("*.png"))
    assert pictures
    assert all(path.stat().st_size < 100_000 for path in pictures)
