"""``rcb simulate``: the figures of the Python interface, files that load, plans that cannot be run, bad input."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.behaviour import as_behaviour
from rcb_bayes.belief import load_prior
from rcb_bayes.cli import simulate as command
from rcb_bayes.cli.calibrate import figure
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.decisions import ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.regret import regret_bound
from rcb_bayes.running.simulation import simulate
from rcb_bayes.telling.wording import percent
from rcb_bayes.users import Sphere
from tests.cli.command_line import Run, runner

BELIEF = ("setting_4", "--set", "n_arms=3", "--set", "n_features=2")
SMALL = ("--plan-worlds", "100", "--audit-worlds", "100", "--n-per-arm", "10", "--horizon", "1500", "--worlds", "2")


rcb = runner("simulate")


@cache
def market() -> Market:
    prior = load_prior("setting_4", n_arms=3, n_features=2)
    return Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.05))


@cache
def plan(guard: bool = True) -> Plan:
    return calibrate(market(), n_per_arm=10, n_worlds=100, audit_worlds=100, guard=guard, seed=1)


@pytest.fixture
def planned(tmp_path: Path) -> tuple[str, ...]:
    """The same with the plan at hand, for what does not depend on where it comes from."""
    plan().save(tmp_path / "plan.json")
    return ("--plan", "plan.json", *SMALL[-4:])


@cache
def runs(guard: bool = True, **words: Any) -> xr.Dataset:
    options = Exploiting(guard=guard, **words)
    return simulate(market(), plan(guard), horizon=1500, n_worlds=2, options=options, seed=1)


def mean_and_error(values: Any) -> tuple[float, float]:
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


# --- figures ---------------------------------------------------------------------------------------------------------


def test_what_is_printed(rcb: Run):
    outcome = rcb(*BELIEF, *SMALL)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.lines[0].startswith("users believe   setting_4: 3 arms, 2 features")
    assert outcome.line("plan ").endswith("sampled: user notion, epsilon 0.05, a rate for each user")
    assert "                users know which arms are saturated" in outcome.lines
    assert outcome.line("runs ") == "runs            2 worlds of 1,500 rounds, guarded"
    assert outcome.line("cold start").startswith(
        f"cold start      {figure(*mean_and_error(runs()['cold_start_length']))} rounds (planned: "
    )
    for k, arm in enumerate(plan().arms):
        assert f"{arm} {figure(*mean_and_error(runs()['n_samples'][:, k]))}" in outcome.line("samples")
    assert figure(*mean_and_error(runs()["gain"].mean("t"))) in outcome.line("realised gain")
    last = outcome.line("1,500")
    assert figure(*mean_and_error(runs()["regret"].sum("t"))) in last
    bound = regret_bound(market(), plan(), horizon=1500).total
    assert bound < 1500
    assert last.endswith(f" {bound:,.0f}")
    share = mean_and_error((runs()["stage"] == 3).mean("t"))
    assert percent(*share) in outcome.line("exploit")


def test_output_fits_a_terminal(rcb: Run, planned: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    outcome = rcb(*BELIEF, *planned)
    assert not [line for line in outcome.lines if len(line.rstrip()) > 80]


def test_json_has_the_figures_with_their_errors(rcb: Run):
    outcome = rcb(*BELIEF, *SMALL, "--json", "-")
    result = json.loads(outcome.out)  # and nothing else is printed
    assert (result["horizon"], result["n_worlds"], result["seed"]) == (1500, 2, 1)
    assert result["plan"]["n_per_arm"] == 10
    assert result["options"]["clock"] == "relative"
    found = result["runs"]
    total = runs()["regret"].cumsum("t")
    assert [row["round"] for row in found["regret"]] == [10, 30, 100, 300, 1000, 1500]
    for row in found["regret"]:
        assert (row["regret"], row["regret_mcse"]) == pytest.approx(mean_and_error(total.sel(t=row["round"])))
        assert row["bound"] is None or row["bound"] < row["round"]
    assert found["cold_start"]["n_ended"] == 2
    assert [row["stage"] for row in found["stages"]] == list(ROUND_KINDS)
    assert sum(row["share"] for row in found["stages"]) == pytest.approx(1.0)
    for k, row in enumerate(found["stages"]):
        here = runs()["stage"] == k
        gains = runs()["gain"].where(here).mean("t")
        assert (row["gain"], row["gain_mcse"]) == pytest.approx(mean_and_error(gains))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--clock", "global"), {"clock": "global"}),
        (("--feed", "last"), {"feed": "last"}),
        (("--spread", "paper", "--spread-multiple", "2"), {"spread": "paper", "spread_multiple": 2.0}),
        (("--inflation", "sqrt"), {"inflation": "sqrt"}),
        (("--no-guard",), {"guard": False}),
    ],
)
@pytest.mark.filterwarnings("ignore::rcb_bayes.running.exploit.GuardWarning")  # as a user would be told
def test_options_reach_the_runs(rcb: Run, planned: tuple[str, ...], arguments: tuple[str, ...], words: dict[str, Any]):
    base = SMALL if "guard" in words else planned  # whether there is a guard is settled with the plan
    result = json.loads(rcb(*BELIEF, *base, *arguments, "--json", "-").out)
    expected = mean_and_error(runs(**words)["regret"].sum("t"))[0]
    assert result["runs"]["regret"][-1]["regret"] == pytest.approx(expected)
    assert {name: result["options"][name] for name in words} == words


def test_one_world_has_no_error(rcb: Run):
    outcome = rcb(*BELIEF, *SMALL, "--worlds", "1", "--json", "result.json")
    assert outcome.code == 0
    assert "1 world of 1,500 rounds" in outcome.out
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert result["runs"]["regret"][-1]["regret_mcse"] is None


def test_a_cold_start_that_does_not_end_is_told(rcb: Run):
    outcome = rcb(*BELIEF, *SMALL, "--horizon", "12")
    assert outcome.code == 0
    assert "did not end in any world" in outcome.line("cold start")
    assert outcome.line("exploit").split()[-1] == "-"


def test_the_same_seed_gives_the_same_output(rcb: Run, planned: tuple[str, ...]):
    first, again, other = (rcb(*BELIEF, *planned, "--seed", seed).out for seed in ("3", "3", "4"))
    assert first == again != other


def test_many_rounds_are_thinned(rcb: Run, planned: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "_MOST_ROUNDS", 300)
    result = json.loads(rcb(*BELIEF, *planned, "--json", "-").out)["runs"]
    assert result["every"] == 10
    assert result["regret"][-1]["regret"] == pytest.approx(mean_and_error(runs()["regret"].sum("t"))[0])


@pytest.mark.parametrize(
    ("horizon", "rounds"), [(1, [1]), (10, [1, 3, 10]), (250, [1, 3, 10, 30, 100, 250]), (30, [1, 3, 10, 30])]
)
def test_rounds_are_spaced_evenly_on_a_log_scale(horizon: int, rounds: list[int]):
    assert command._some_rounds(horizon) == rounds


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_saved_plan_is_run(rcb: Run, planned: tuple[str, ...]):
    same = rcb(*BELIEF, *planned)
    assert same.out == rcb(*BELIEF, *SMALL).out


def test_a_plan_that_is_not_feasible_is_not_run(rcb: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rcb_bayes.running.simulation._run", None)
    outcome = rcb(*BELIEF, *SMALL, "--uniform", "--json", "result.json", "--out", "runs")
    assert (outcome.code, outcome.err) == (1, "")
    assert "Not run: the plan is not feasible. Once arm_0 is saturated" in outcome.out
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert result["plan"]["feasible"] is False
    assert result["runs"] is None
    assert not Path("runs").exists()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1000, 100, 7])
def test_the_file_keeps_the_regret(
    rcb: Run, planned: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: int
):
    monkeypatch.setattr(command, "_POINTS", points)
    outcome = rcb(*BELIEF, *planned, "--out", "new/runs")
    folder = Path("new/runs")
    assert outcome.lines[-2:] == [f"Runs: {folder / 'runs.nc'}", f"Figure: {folder / 'regret.png'}"]
    assert (tmp_path / folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(tmp_path / folder / "runs.nc", engine="h5netcdf") as found:
        assert found.sizes["t"] <= points
        assert found["t"].values[-1] == 1500
        assert found.attrs["every"] == found["t"].values[0]
        total = runs()["regret"].cumsum("t").sel(t=found["t"])
        np.testing.assert_allclose(found["regret"].cumsum("t"), total)
        np.testing.assert_array_equal(found["recommended"], runs()["recommended"].sel(t=found["t"]))
        assert found["n_samples"].values.tolist() == runs()["n_samples"].values.tolist()


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PRIOR'"),
        (["setting_5"], "There is no belief 'setting_5' in the gallery."),
        (["setting_1", "--horizon", "0"], "Invalid value for '--horizon'"),
        (["setting_1", "--worlds", "0"], "Invalid value for '--run-worlds' / '--worlds'"),
        (["setting_1", "--plan-worlds", "49"], "Invalid value for '--plan-worlds'"),
        (["setting_1", "--clock", "globl"], "There is no clock 'globl'. Did you mean 'global'?"),
        (["setting_1", "--feed", "first"], "There is no feed 'first'."),
        (["setting_1", "--spread", "papers"], "Did you mean 'paper'?"),
        (["setting_1", "--spread-multiple", "0"], "spread_multiple must be a positive number, got 0.0."),
        (["setting_1", "--inflation", "square"], "There is no inflation 'square'."),
        (["setting_1", "--notion", "usr"], "There is no notion 'usr'. Did you mean 'user'?"),
        (["setting_1", "--noise", "-1"], "--noise takes a positive standard deviation or 'logit', got '-1'."),
        (["gaussian", "--noise", "logit"], "Use --covariates users.csv, or --uniform."),
        (["setting_1", "--plan", "none.json"], "Cannot read a plan from none.json"),
        (["setting_1", "--plan", "note.txt"], "it is not JSON"),
        (["setting_1", "--plan", "plan.json"], "Calibrate a plan for this market."),
        (["setting_4", "--plan", "plan.json", "--epsilon", "0.1"], "--epsilon is settled by the plan of plan.json."),
        (["setting_4", "--plan", "plan.json", "--uniform"], "--personalised/--uniform is settled by the plan"),
        (["setting_1", "--out", "note.txt"], "Cannot write note.txt: note.txt is a file, not a folder."),
        (["setting_1", "--json", "folder"], "Cannot write folder: it is a folder."),
    ],
)
def test_bad_input_is_a_line_or_two_and_exit_code_2(
    rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    plan_text = plan().to_json()
    monkeypatch.setattr("rcb_bayes.planning.calibration.plan_walk", None)  # any simulation would fail
    (tmp_path / "note.txt").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "plan.json").write_text(plan_text, encoding="utf-8")
    outcome = rcb(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("rcb: ")
    assert message in outcome.err
    assert 1 <= len(outcome.err.splitlines()) <= 2


# --- users -----------------------------------------------------------------------------------------------------------


def test_users_who_do_not_follow(rcb: Run, planned: tuple[str, ...]):
    outcome = rcb(*BELIEF, *planned, "--behaviour", "obedient .8, stubborn .2", "--json", "runs.json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.line("users  ").startswith("users           ")
    found = json.loads(Path("runs.json").read_text())
    assert found["behaviour"] == "Mix(Obedient() 0.8, Stubborn(arm=None) 0.2)"
    users = as_behaviour("obedient .8, stubborn .2")
    again = simulate(market(), plan(), horizon=1500, n_worlds=2, behaviour=users, seed=1)
    share = mean_and_error(again["followed"].mean("t"))
    assert (found["runs"]["followed"], found["runs"]["followed_mcse"]) == pytest.approx(share)
    assert any(f"{percent(*share)} of recommendations followed" in line for line in outcome.lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stuborn", "Did you mean 'stubborn'"),
        ("obedient .8, random .1", "sum to 0.9"),
        ("obedient .8, random", "share"),
    ],
)
def test_users_that_cannot_be(rcb: Run, planned: tuple[str, ...], words: str, message: str):
    outcome = rcb(*BELIEF, *planned, "--behaviour", words)
    assert outcome.code == 2
    assert message in outcome.err
