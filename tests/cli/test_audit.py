"""``rcb audit``: verdicts as exit codes, figures, files."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rcb_bayes.auditing import audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.cli.app import app, run
from rcb_bayes.cli.market import build_market
from rcb_bayes.planning.plan import Plan

BELIEF = ("setting_4", "--set", "n_arms=3", "--set", "n_features=2")
SMALL = ("--n-per-arm", "10", "--horizon", "60", "--worlds", "200", "--users", "5")


@pytest.fixture(autouse=True)
def few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here does not depend on how many worlds a plan is made from."""
    monkeypatch.setattr("rcb_bayes.auditing.calibration.calibrate", partial(calibrate, n_worlds=100))


def rcb(*words: str) -> Any:
    return CliRunner().invoke(app, ["audit", *words])


def test_the_verdict_is_the_exit_code(tmp_path: Path):
    target = tmp_path / "audit.json"
    outcome = rcb(*BELIEF, *SMALL, "--json", str(target), "--out", str(tmp_path / "out"))
    result = json.loads(target.read_text(encoding="utf-8"))
    assert outcome.exit_code == {"pass": 0, "fail": 1, "inconclusive": 3}[result["verdict"]]
    assert result["verdict"] in outcome.output
    assert result["stages"][0]["stage"] == "most popular"
    assert (tmp_path / "out" / "audit.nc").exists()
    assert (tmp_path / "out" / "margins.png").exists()


def test_a_saved_plan_is_audited_by_its_own_notion(tmp_path: Path):
    few = ("--n-per-arm", "10", "--worlds", "100", "--audit-worlds", "100")
    made = CliRunner().invoke(app, ["calibrate", *BELIEF, *few, "--notion", "proof", "--out", str(tmp_path)])
    assert made.exit_code == 0
    assert Plan.load(tmp_path / "plan.json").notion == "proof"
    outcome = rcb(*BELIEF, "--plan", str(tmp_path / "plan.json"), *SMALL[2:], "--json", "-")
    assert json.loads(outcome.output)["notion"] == "proof"
    beside = rcb(*BELIEF, "--plan", str(tmp_path / "plan.json"), "--epsilon", "0.2")
    assert "--epsilon is settled by the plan" in str(beside.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*BELIEF, *SMALL, "--notion", "usr"), "Did you mean 'user'"),
        ((*BELIEF, *SMALL, "--uniform"), "There is no plan to audit"),
        ((*BELIEF, *SMALL[2:], "--plan", "none.json"), "Cannot read a plan"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]):
    assert run(["audit", *words]) == 2
    assert message in capsys.readouterr().err


# --- what users know -------------------------------------------------------------------------------------------------


def test_a_plan_may_be_audited_under_another_knowledge_and_it_is_said(tmp_path: Path):
    few = ("--n-per-arm", "10", "--worlds", "100", "--audit-worlds", "100")
    made = CliRunner().invoke(app, ["calibrate", *BELIEF, *few, "--knows", "level", "--out", str(tmp_path)])
    assert "users know how many arms are saturated" in " ".join(made.output.split())
    plan = ("--plan", str(tmp_path / "plan.json"))
    assert Plan.load(plan[1]).knows == "level"
    own = rcb(*BELIEF, *plan, *SMALL[2:])
    assert "users know how many arms are saturated, 200 worlds" in own.output
    assert "in this audit" not in own.output
    finer = rcb(*BELIEF, *plan, *SMALL[2:], "--knows", "stage")
    assert "users know which arms are saturated in this audit; the plan is for users who know how many" in finer.output
    coarser = rcb(*BELIEF, *plan, *SMALL[2:], "--knows", "phase", "--json", "-")
    assert coarser.exception is None or isinstance(coarser.exception, SystemExit), coarser.exception
    told = json.loads(coarser.stdout)
    assert told["knows"] == "phase"
    assert [row["stage"] for row in told["stages"]] == ["cold start", "exploitation"]


def test_a_plan_that_counts_on_a_history_is_audited_and_run_with_it(tmp_path: Path):
    past = tmp_path / "past.csv"
    rows = "".join(f"{0.1 * k},{0.5 - 0.1 * k},arm_0,{0.2 * k}\n" for k in range(10))
    past.write_text(f"feature_0,feature_1,arm,reward\n{rows}", encoding="utf-8")
    few = ("--n-per-arm", "10", "--worlds", "100", "--audit-worlds", "100")
    history = ("--warm-start", str(past), "--private")
    made = CliRunner().invoke(app, ["calibrate", *BELIEF, *few, *history, "--out", str(tmp_path)])
    assert "no need: 10 of before" in made.output
    assert "the same belief, users, rewards and history" in " ".join(made.output.split())
    plan = ("--plan", str(tmp_path / "plan.json"))
    own = rcb(*BELIEF, *plan, *SMALL[2:], *history)
    assert "private past    10 samples of 1 arm" in own.output
    assert "another market" not in own.output
    for command in ("audit", "simulate", "sensitivity"):
        assert "counts on a private history of 10 samples" in command_error(command, *plan)
    run = CliRunner().invoke(app, ["simulate", *BELIEF, *plan, "--horizon", "40", "--worlds", "2", *history])
    assert run.exit_code == 0, run.output
    assert "public if everybody does" in command_error("audit", "--warm-start", str(past))


def command_error(command: str, *words: str) -> str:
    """The one line of a command that is refused."""
    from contextlib import redirect_stderr
    from io import StringIO

    with redirect_stderr(StringIO()) as told:
        assert run([command, *BELIEF, *words]) == 2
    return told.getvalue()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("audit", *BELIEF, "--knows", "levle"), "Did you mean 'level'"),
        (("calibrate", *BELIEF, "--knows", "pase"), "Did you mean 'phase'"),
        (("simulate", *BELIEF, "--knows", "stages"), "Did you mean 'stage'"),
        (("report", *BELIEF, "--knows", "mechanisms"), "Did you mean 'mechanism'"),
        (("calibrate", *BELIEF, "--knows", "mechanism"), "Add --horizon"),
        (("audit", *BELIEF, "--log", "log.csv", "--knows", "level"), "--knows is for plans"),
        (("simulate", *BELIEF, "--plan", "plan.json", "--knows", "level"), "--knows is settled by the plan"),
        (("report", *BELIEF, "--plan", "plan.json", "--knows", "level"), "--knows is settled by the plan"),
    ],
)
def test_bad_knowledge_is_one_line(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]):
    assert run(list(words)) == 2
    told = capsys.readouterr().err.strip()
    assert message in told
    assert len(told.splitlines()) == 1


def test_the_seed_of_the_command_line_is_that_of_the_function(tmp_path: Path):
    few = ("--n-per-arm", "10", "--worlds", "100", "--audit-worlds", "100")
    CliRunner().invoke(app, ["calibrate", *BELIEF, *few, "--out", str(tmp_path)])
    path = str(tmp_path / "plan.json")
    outcome = rcb(*BELIEF, "--plan", path, *SMALL[2:], "--seed", "2", "--json", "-")
    market = build_market("setting_4", list(BELIEF[2::2]), covariates=None, noise=None)
    small: dict[str, Any] = {"horizon": 60, "n_worlds": 200, "n_users": 5}
    own, other = (audit(market, Plan.load(path), seed=seed, **small).to_dict() for seed in (2, 3))
    told = json.loads(outcome.output)
    assert told == json.loads(json.dumps(own))
    assert told["stages"] != json.loads(json.dumps(other))["stages"]
