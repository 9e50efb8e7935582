"""``rcb reproduce``: a table, claims, files; bad input in one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rcb_bayes.studies.paper import reproduction
from rcb_bayes.studies.paper.settings import SETTINGS, Cell, Effort
from tests.cli.command_line import Run, runner

rcb = runner("reproduce")
TINY = Effort(n_worlds=2, plan_worlds=60, audit_worlds=60, audit_users=5, audit_rounds=20, most_rounds=100)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = tuple(Cell(belief="setting_1", n_arms=k, n_features=2, fixed=(5,)) for k in (2, 3))
    monkeypatch.setitem(SETTINGS, "setting-1", replace(SETTINGS["setting-1"], cells=cells, fast=cells[:1]))
    monkeypatch.setattr(
        reproduction, "effort_of", lambda *, n_worlds, fast, usual: replace(TINY, n_worlds=n_worlds or 2)
    )


def test_a_setting_is_run_printed_written_and_resumed(rcb: Run, tmp_path: Path):
    outcome = rcb("setting-1", "--fast", "--out", "out")
    assert outcome.code == 0
    assert "sampled, personalised" in outcome.out
    assert "cost grows" not in outcome.out  # one number of arms tells nothing about growth
    assert "gain above -epsilon" in outcome.out
    assert (tmp_path / "out" / "claims.txt").read_text(encoding="utf-8").startswith("Setting 1")
    refused = rcb("setting-1", "--fast", "--out", "out")
    assert refused.code == 2
    assert "--resume" in refused.err
    assert rcb("setting-1", "--fast", "--out", "out", "--resume").code == 0
    other = rcb("setting-1", "--fast", "--out", "out", "--resume", "--seed", "9")
    assert other.code == 2
    assert "seed 1 there, 9 here" in other.err


def test_json_holds_the_table_and_the_claims(rcb: Run):
    outcome = rcb("setting-1", "--worlds", "2", "--json", "-")
    found = json.loads(outcome.out)
    assert [row["n_arms"] for row in found[0]["table"]] == [2] * 5 + [3] * 5
    assert {claim["verdict"] for claim in found[0]["claims"]} <= {"held", "not held", "undecided"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("setting-9",), "Known are setting-1, setting-2, setting-3, setting-4"),
        (("setting1",), "Did you mean 'setting-1'?"),
        (("setting-1", "--resume"), "nothing to resume"),
        (("setting-1", "--worlds", "1"), "--worlds"),
    ],
)
def test_bad_input_is_one_line(rcb: Run, words: tuple[str, ...], message: str):
    outcome = rcb(*words)
    assert outcome.code == 2
    assert message in outcome.err
