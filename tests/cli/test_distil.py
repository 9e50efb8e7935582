"""``rcb distil``: the figures of the Python interface, files that load, bad input."""

import json
from pathlib import Path

import pytest

import rcb_bayes
from tests.cli.command_line import Run, runner
from tests.planning.test_distilling import box_plan, table, table_plan

rcb = runner("distil")


@pytest.fixture(autouse=True)
def few_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any rule will do."""
    for name in ("_N_USERS", "_N_FRESH", "_N_LOOKED", "_N_POOL", "_N_LOSERS", "_N_KEPT"):
        monkeypatch.setattr(f"rcb_bayes.planning.searching.{name}", 512)


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    box_plan().save(tmp_path / "plan.json")
    return "plan.json"


def test_a_rule_is_told_written_and_in_its_plan(rcb: Run, plan_file: str, tmp_path: Path) -> None:
    done = rcb(plan_file, "--max-leaves", "8", "--out", "rule.json", "--plan-out", "ruled.json", "--json", "told.json")
    rule = box_plan().distil(8)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(rule.summary())
    assert rcb_bayes.Rule.load(tmp_path / "rule.json").to_json() == rule.to_json()
    assert rcb_bayes.Plan.load(tmp_path / "ruled.json").to_json() == box_plan().with_rule(rule).to_json()
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8")) == rule.to_dict()


def test_json_alone_on_standard_output(rcb: Run, plan_file: str) -> None:
    done = rcb(plan_file, "--max-leaves", "4", "--json", "-", "--out", "rule.json")
    assert done.code == 0
    assert json.loads(done.out)["n_leaves"] == 4


def test_a_table_of_users_is_named(rcb: Run, tmp_path: Path) -> None:
    table_plan().save(tmp_path / "plan.json")
    refused = rcb("plan.json")
    assert (refused.code, refused.out) == (2, "")
    assert "--covariates" in refused.err
    rows = table().covariates.rows  # type: ignore[attr-defined]
    lines = ["feature_0,feature_1", *(",".join(map(repr, row)) for row in rows.tolist())]
    (tmp_path / "users.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = rcb("plan.json", "--covariates", "users.csv", "--max-leaves", "4")
    assert done.code == 0
    assert done.out.startswith("rule of 4 leaves")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.json",), "No such file"),
        (("plan.json", "--max-leaves", "0"), "max-leaves"),
        (("plan.json", "--covariates", "spere"), "Did you mean 'sphere'"),
        (("plan.json", "--out", "."), "it is a folder"),
        ((), "PLAN"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(rcb: Run, plan_file: str, arguments: tuple[str, ...], told: str) -> None:
    done = rcb(*arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1
