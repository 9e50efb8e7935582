"""``rcb calibrate``: feasibility as exit code, the figures of the Python interface, files that load, bad input."""

import json
import math
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.belief import load_prior
from rcb_bayes.cli import calibrate as command
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_wording import stage_table
from rcb_bayes.planning.stages import PlannedStage
from rcb_bayes.users import Sphere
from tests.cli.command_line import Run, runner
from tests.planning.revising import revised

SMALL = ("--worlds", "100", "--audit-worlds", "100", "--n-per-arm", "10")
BELIEF = ("setting_4", "--set", "n_arms=3", "--set", "n_features=2")
ARRAYS = {"prior_mean", "platform_mean", "known", "whom", "programme"}
FIRM = (
    "import pymc as pm\n\n\ndef build_model(lead=1.0):\n"
    "    with pm.Model(coords={'arm': ['old', '[new]'], 'feature': ['x']}) as model:\n"
    "        pm.Normal('beta', [[lead], [0.0]], 0.1, dims=('arm', 'feature'))\n"
    "    return model\n"
)


rcb = runner("calibrate")


@pytest.fixture
def firm(tmp_path: Path) -> tuple[str, ...]:
    """A market in which one user type is sure that the old arm is better."""
    (tmp_path / "firm.py").write_text(FIRM, encoding="utf-8")
    (tmp_path / "one.csv").write_text("x\n1\n1\n", encoding="utf-8")
    return ("firm.py", "--covariates", "one.csv", "--noise", "0.5", *SMALL)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on any simulation."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done before the input was checked")

    monkeypatch.setattr("rcb_bayes.planning.calibration.plan_walk", work)


@cache
def plan_of(**more: Any) -> Plan:
    prior = load_prior("setting_4", n_arms=3, n_features=2)
    market = Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.05))
    settings: dict[str, Any] = {"n_per_arm": 10, "n_worlds": 100, "audit_worlds": 100, "seed": 1}
    return calibrate(market, **settings | more)


# --- verdicts and figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "personalised"),
    [
        ((), 0, True),
        (("--personalised",), 0, True),
        (("--uniform",), 1, False),
        (("--notion", "proof"), 0, True),
        (("--notion", "definition"), 0, False),
        (("--notion", "definition", "--uniform"), 0, False),
    ],
)
def test_feasibility_is_the_exit_code(rcb: Run, options: tuple[str, ...], code: int, personalised: bool) -> None:
    outcome = rcb(*BELIEF, *SMALL, *options)
    assert (outcome.code, outcome.err) == (code, "")
    who = "a rate for each user" if personalised else "one rate for all users"
    assert f"epsilon 0.05, {who}, users know which arms are saturated\n" in outcome.out
    verdict = "feasible" if code == 0 else "not feasible. Once arm_0 is saturated"
    assert f"\nVerdict: {verdict}" in outcome.out


def test_what_is_printed(rcb: Run) -> None:
    outcome = rcb(*BELIEF, *SMALL, "--noise", "0.05", "--horizon", "2000")
    plan = plan_of()
    assert outcome.lines[0] == "users believe   setting_4: 3 arms, 2 features, Gaussian, independent arms"
    assert "rewards         Gaussian rewards, sigma = 0.05" in outcome.lines
    assert outcome.line("saturated arms").split()[-1] == "free"
    shares = [outcome.lines.index(outcome.line(name)) for name in ("arm_0  ", "arm_0 and 1 of arm_1, arm_2 ")]
    assert min(shares) == shares[0]  # in the order in which they are passed
    first = plan.stages[0]
    for text in (
        command.figure(first.rate, first.rate_mcse),
        f"{100 * first.share:.1f} %",
        f"{100 * first.share_explored:.1f} %",
        f"{100 * first.share_free:.1f} %",
    ):
        assert text in outcome.line("arm_0  ")
    assert outcome.line("samples per arm").endswith("N = 10")
    assert f"q = {command.figure(plan.exploration_rate, plan.exploration_rate_mcse)}" in outcome.out
    assert f"L = 1/q = {command.figure(plan.inverse_rate, plan.inverse_rate_mcse)}" in outcome.out
    length = command.figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    share = 100 * plan.expected_cold_start / 2000
    assert outcome.line("expected cold start").endswith(f"{length} rounds, {share:.1f} % of the horizon of 2,000")
    assert command.figure(plan.expected_regret, plan.expected_regret_mcse) in outcome.line("regret of cold start")
    assert command.figure(plan.tau, plan.tau_mcse) in outcome.line("least favoured arm")
    assert command.figure(plan.rho, plan.rho_mcse) in outcome.line("least favoured arm")
    table = outcome.lines[outcome.lines.index(outcome.line("arm  ")) + 1 :][:3]
    for k, row in enumerate(table):
        assert row.split()[0] == plan.arms[k]
        assert command.figure(plan.expected_pulls[k], plan.expected_pulls_mcse[k]) in row
        assert command.figure(plan.coverage[k], plan.coverage_mcse[k]) in row


def test_output_fits_a_terminal(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    belief = ("student_t", "--set", "n_arms=5", "--set", "n_features=2", "--set", "mean=[0.2, 0.1, 0, 0, 0]")
    outcome = rcb(*belief, *SMALL, "--worlds", "50")
    assert outcome.code == 0
    assert re.search(r"\nand \d+ more stages ", outcome.out)
    assert not [line for line in outcome.lines if len(line) > 80]


def test_a_horizon_that_is_too_short_is_told(rcb: Run) -> None:
    outcome = rcb(*BELIEF, *SMALL, "--horizon", "20")
    assert outcome.code == 0
    assert outcome.line("expected cold start").endswith("% of the horizon of 20: it ends before the cold start does")


def test_one_rate_that_suits_nobody(rcb: Run) -> None:
    outcome = rcb(*BELIEF, *SMALL, "--uniform", "--horizon", "100")
    assert outcome.line("exploration rate").endswith("q = 0")
    assert outcome.line("expected cold start").endswith("  no end")
    assert "explorable" in outcome.line("saturated arms")
    nearest = plan_of(personalised=False).nearest_epsilon
    assert nearest is not None
    assert f"a plan is found from about epsilon {nearest:.3g} on." in " ".join(outcome.out.split())
    assert "With --personalised users who would lose too much are left out" in outcome.out


def test_nobody_can_be_explored(rcb: Run, firm: tuple[str, ...]) -> None:
    outcome = rcb(*firm, "--json", "result.json")
    assert (outcome.code, outcome.err) == (1, "")
    told = " ".join(outcome.out.split())
    assert "Verdict: not feasible. Once old is saturated (100.0 % of cold starts end there) no user can be" in told
    assert "--personalised" not in outcome.out
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert result["feasible"] is False
    assert 0.05 < result["nearest_epsilon"] <= 1.0
    assert result["expected_cold_start"] is None
    # From there on it can: the epsilon that is named is a remedy.
    assert rcb(*firm, "--epsilon", str(1.01 * result["nearest_epsilon"])).code == 0


def test_equal_arms_need_no_subsidy(rcb: Run) -> None:
    outcome = rcb("setting_1", "--set", "n_arms=2", "--set", "n_features=2", *SMALL)
    assert outcome.code == 0
    assert outcome.line("exploration rate").endswith("q = 1, L = 1/q = 1")


def test_labels_are_not_taken_for_markup(rcb: Run, firm: tuple[str, ...]) -> None:
    outcome = rcb(*firm, "--set", "lead=-1.0")
    assert outcome.line("[new] ").startswith("[new] ")
    assert "Once [new] is saturated" in outcome.out


def test_the_same_seed_gives_the_same_output(rcb: Run) -> None:
    first, again, other = (rcb(*BELIEF, *SMALL, "--seed", seed).out for seed in ("3", "3", "4"))
    assert first == again != other


def test_a_table_of_users_with_binary_rewards(rcb: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal(12)
    (tmp_path / "users.csv").write_text("x\n" + "\n".join(str(x) for x in rows) + "\n", encoding="utf-8")
    belief = ("gaussian", "--set", "n_arms=2", "--covariates", "users.csv", "--noise", "logit")
    outcome = rcb(*belief, "--worlds", "60", "--audit-worlds", "60", "--n-per-arm", "8", "--out", "plan")
    assert (outcome.code, outcome.err) == (0, "features: x (the columns of users.csv)\n")
    assert "Bernoulli rewards, logit link" in outcome.out
    assert (tmp_path / "plan" / "rates.png").read_bytes().startswith(b"\x89PNG")


# --- many stages -----------------------------------------------------------------------------------------------------


def _with_stages(rates: list[float]) -> Plan:
    stages = tuple(
        PlannedStage(
            saturated=("arm_0",),
            level=1,
            share=1 / (k + 1),
            rate=rate,
            rate_mcse=0.0,
            share_explored=rate,
            share_free=0.5,
        )
        for k, rate in enumerate(rates)
    )
    return revised(plan_of(), stages=stages)


@pytest.mark.parametrize(("n_stages", "n_rows", "rest"), [(1, 1, 0), (8, 8, 0), (9, 8, 2), (40, 8, 33)])
def test_many_stages_are_summed_up(capsys: pytest.CaptureFixture[str], n_stages: int, n_rows: int, rest: int) -> None:
    plan = _with_stages([1 - 0.01 * k for k in range(n_stages)])
    head, rows = stage_table(plan, most=command._MOST_ROWS)
    table = command._table(head, [cells for _, cells in rows], words=("saturated arms",))
    assert table.row_count == n_rows
    from rich.console import Console

    Console(width=120).print(table)
    last = capsys.readouterr().out.splitlines()[-1]
    if rest:
        low, high = 1 - 0.01 * (n_stages - 1), 1 - 0.01 * 7
        assert last.split("  ")[0] == f"and {rest} more stages"
        assert "12.5 % at most" in last
        assert f"{low:.3f} to {high:.3f}" in last
        assert f"{100 * low:.3g} to {100 * high:.3g} %" in last
        assert last.rstrip().endswith("  50 %")
    else:
        assert last.startswith("arm_0")


@pytest.mark.parametrize(
    ("value", "mcse", "text"),
    [
        (0.5234, 0.0112, "0.523 ± 0.011"),
        (382.71, 5.83, "382.7 ± 5.8"),
        (12345.6, 78.9, "12,346 ± 79"),
        (12345.6, 1234.5, "12,346 ± 1,234"),
        (1.0, 0.0, "1"),
        (150.0, 0.0, "150"),
        (0.25, math.nan, "0.25"),
        (2500.0, 0.0, "2,500"),
        (math.inf, 0.0, "no end"),
        (math.nan, math.nan, "unknown"),
        (0.0, 0.0, "0"),
        (0.0, 0.01, "0.000 ± 0.010"),
        (-1e-18, 2e-19, "0"),
        (2.5e-7, 3e-8, "2.5e-07 ± 3e-08"),
    ],
)
def test_figures_have_two_digits_of_their_error(value: float, mcse: float, text: str) -> None:
    assert command.figure(value, mcse) == text


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--uniform",), ("--notion", "definition")])
def test_json_has_every_figure_and_no_array(rcb: Run, options: tuple[str, ...]) -> None:
    outcome = rcb(*BELIEF, *SMALL, *options, "--horizon", "1000", "--json", "-")
    result = json.loads(outcome.out)  # and nothing else is printed
    parts = [getattr(plan_of(), part.name) for part in fields(Plan)]
    names = {inner.name for part in parts if part is not None for inner in fields(part)} - ARRAYS
    assert set(result) == names | {"horizon", "share_of_horizon"}
    assert len(outcome.out) < 10_000
    more: dict[str, Any] = {} if not options else {"personalised": False}
    plan = plan_of(notion="definition" if "definition" in options else "user", **more)
    for name in names - {"stages", "guards", "horizon"}:
        assert result[name] == _as_json(getattr(plan, name)), name
    for stage, planned in zip(result["stages"], plan.stages, strict=True):
        assert set(stage) == {item.name for item in fields(PlannedStage)} - {"rule"}
        for name, value in stage.items():
            assert value == _as_json(getattr(planned, name)), name
    assert result["guards"] == [{"kept": rule.kept, "closed": rule.closed} for rule in plan.guards]
    assert result["horizon"] == 1000
    assert result["share_of_horizon"] == _as_json(plan.expected_cold_start / 1000)
    assert outcome.code == (0 if result["feasible"] else 1)


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize("options", [(), ("--uniform",), ("--notion", "proof")])
def test_the_plan_that_is_written_loads(rcb: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    outcome = rcb(*BELIEF, *SMALL, *options, "--out", "new/plan", "--json", "result.json")
    plan = Plan.load(tmp_path / "new" / "plan" / "plan.json")
    twin = plan_of(notion="proof" if "proof" in options else "user", personalised="--uniform" not in options)
    users = Sphere(2).sample(50, seed=5)
    np.testing.assert_allclose(plan.rate(users), twin.rate(users), rtol=0, atol=1e-5)
    assert plan.feasible == (outcome.code == 0)
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert (result["horizon"], result["share_of_horizon"]) == (None, None)
    assert result["exploration_rate"] == plan.exploration_rate
    assert (tmp_path / "new" / "plan" / "rates.png").read_bytes().startswith(b"\x89PNG")
    folder = Path("new/plan")
    written = [f"Plan: {folder / 'plan.json'}", f"Figure: {folder / 'rates.png'}"]
    following = [line for line in outcome.lines if line.startswith("Next: rcb audit")]
    assert outcome.lines[-2 - len(following) :] == written + following
    assert len(following) == plan.feasible


def test_json_on_standard_output_is_all_there_is(rcb: Run, tmp_path: Path) -> None:
    outcome = rcb(*BELIEF, *SMALL, "--out", "plan", "--json", "-")
    assert json.loads(outcome.out)["feasible"] is True
    assert (tmp_path / "plan" / "plan.json").exists()


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PRIOR'"),
        (["setting_5"], "There is no belief 'setting_5' in the gallery."),
        (["setting_1", "--epsilon", "-0.1"], "epsilon must be a finite number of at least 0, got -0.1."),
        (["setting_1", "--epsilon", "nan"], "epsilon must be a finite number of at least 0, got nan."),
        (["setting_1", "--epsilon", "inf"], "epsilon must be a finite number of at least 0, got inf."),
        (["setting_1", "--epsilon", "x"], "Invalid value for '--epsilon'"),
        (["setting_1", "--notion", "usr"], "There is no notion 'usr'. Did you mean 'user'?"),
        (["setting_1", "--notion", "Proof"], "There is no notion 'Proof'. Did you mean 'proof'?"),
        (["setting_1", "--notion", "zzz"], "There is no notion 'zzz'. Use one of proof, definition, user."),
        (["setting_1", "--notion", "definition", "--personalised"], "Use --uniform, or --notion user or proof."),
        (["setting_1", "--n-per-arm", "0"], "Invalid value for '--n-per-arm'"),
        (["setting_1", "--worlds", "49"], "Invalid value for '--plan-worlds' / '--worlds'"),
        (["setting_1", "--audit-worlds", "0"], "Invalid value for '--audit-worlds'"),
        (["setting_1", "--horizon", "0"], "Invalid value for '--horizon'"),
        (["setting_1", "--seed", "-1"], "Invalid value for '--seed'"),
        (["setting_1", "--set", "n_arms"], "--set takes NAME=VALUE, got 'n_arms'."),
        (["setting_1", "--covariates", "spere"], "There is no population 'spere'. Did you mean 'sphere'?"),
        (["setting_1", "--noise", "-1"], "--noise takes a positive standard deviation or 'logit', got '-1'."),
        (["gaussian", "--noise", "logit"], "Use --covariates users.csv, or --uniform."),
        (["setting_1", "--out", "note.txt"], "Cannot write note.txt: note.txt is a file, not a folder."),
        (["setting_1", "--json", "folder"], "Cannot write folder: it is a folder."),
    ],
)
def test_bad_input_is_a_line_or_two_and_exit_code_2(
    rcb: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "note.txt").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    outcome = rcb(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("rcb: ")
    assert message in outcome.err
    assert 1 <= len(outcome.err.splitlines()) <= 2
    assert "Traceback" not in outcome.err


def test_help_tells_the_defaults(rcb: Run) -> None:
    outcome = rcb("--help")
    assert outcome.code == 0
    for words in ("--personalised", "--uniform", "[default: personalised; uniform for --notion definition]"):
        assert words in outcome.out, words
    assert "[default: 0.05" in outcome.line("│ --noise")


# --- many arms -------------------------------------------------------------------------------------------------------


def test_many_arms_are_told_which_are_explored_and_why(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("feature_0\n1.0\n0.5\n", encoding="utf-8")
    belief = ("gaussian", "--set", "n_arms=6", "--set", "n_features=1", "--set", "mean=[1,.9,.8,-1,-2,-3]")
    users = ("--set", "scale=0.2", "--covariates", str(tmp_path / "users.csv"), "--noise", "0.3", "--epsilon", "0.5")
    outcome = rcb(*belief, *users, *SMALL, "--eliminate", "0.01", "--top", "2")
    told = " ".join(outcome.out.split())
    assert "3 of 6 arms are explored: 3 are best with a chance below 0.01 for every user." in told
    assert "a round loses" in told
    outcome = rcb(*belief, *users, *SMALL, "--eliminate", "0.01", "--contextual")
    assert "Each is explored with" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--warm-start", "past.csv"), "Add --public"),
        (("--private",), "--warm-start"),
        (("--eliminate", "2"), "share between 0 and 1"),
        (("--contextual",), "Pass --eliminate."),
        (("--warm-start", "nowhere.csv", "--private"), "No such file"),
    ],
)
def test_words_on_the_past_and_on_many_arms_that_make_no_sense(
    rcb: Run, no_work: None, options: tuple[str, ...], part: str
) -> None:
    outcome = rcb(*BELIEF, *SMALL, *options)
    assert outcome.code == 2
    assert part in " ".join(outcome.err.split())


def test_a_private_past_counts_towards_n(rcb: Run, tmp_path: Path) -> None:
    rows = "".join(f"1.0,0.5,arm_0,{0.1 * k}\n" for k in range(10))
    past = tmp_path / "past.csv"
    past.write_text("feature_0,feature_1,arm,reward\n" + rows, encoding="utf-8")
    outcome = rcb(*BELIEF, *SMALL, "--warm-start", str(past), "--private", "--json", "-")
    assert json.loads(outcome.out)["admission"]["past"] == [10, 0, 0]


def test_which_of_many_arms_are_explored_which_are_not_and_why(rcb: Run, tmp_path: Path) -> None:
    """Elimination, an order, clusters and a history together, in the arms' own table."""
    model = tmp_path / "shelf.py"
    model.write_text(
        "import numpy as np\nimport pymc as pm\n\n\ndef build_model() -> pm.Model:\n"
        '    with pm.Model(coords={"arm": [f"item_{k}" for k in range(7)], "feature": ["one"]}) as model:\n'
        '        pm.Normal("beta", np.array([0.1, 0.05, 0.0, -0.05, -0.1, -1.6, 0.02])[:, None], 0.4, '
        'dims=("arm", "feature"))\n    return model\n',
        encoding="utf-8",
    )
    users = tmp_path / "users.csv"
    users.write_text("one\n1\n1\n", encoding="utf-8")
    past = tmp_path / "past.csv"
    past.write_text("one,arm,reward\n" + "1,item_0,0.1\n" * 4 + "1,item_1,0.2\n" * 2, encoding="utf-8")
    words = [str(model), "--covariates", str(users), "--noise", "0.5", "--plan-worlds", "200"]
    words += ["--audit-worlds", "200", "--n-per-arm", "4", "--epsilon", "0.5"]
    found = rcb(*words, "--eliminate", "0.01", "--top", "2", "--warm-start", str(past), "--private")
    rows = {line.split()[0]: line for line in found.lines if line.startswith("item_")}
    assert "no need: 4 of before" in rows["item_0"]
    assert "yes, at first, 2 of before" in rows["item_1"]
    assert "once 1 more done" in rows["item_2"]
    assert "no: best below 0.01" in rows["item_5"]
    assert "6 of 7 arms are explored" in " ".join(found.lines)
    clustered = rcb(*words, "--clusters", "3", "--eliminate", "0.0001")
    assert "no: cluster's other is" in " ".join(clustered.lines)
    assert "none is left out by that" in " ".join(clustered.lines)
    plain = rcb(*words)
    assert "explored at all" in " ".join(plain.lines)
    assert "yes" not in " ".join(plain.lines)
