"""What a report is made of: results that agree with one another, and bad input refused."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes.auditing import audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.files.encoding import packed
from rcb_bayes.files.envelope import DIGEST, digest_of
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.reporting import Report, ReportSizes, report, study
from rcb_bayes.reporting.swept import grid_of
from rcb_bayes.users import Empirical, Sphere
from tests.planning.revising import revised
from tests.reporting.reports import SIZES, market_of, small_report


def test_the_plan_is_that_of_calibrate_and_stands_in_the_sweep() -> None:
    found = small_report()
    plan = calibrate(market_of(), n_per_arm=10, n_worlds=100, audit_worlds=200, horizon=found.horizon, seed=1)
    assert found.plan.to_json() == plan.to_json()
    assert [one.epsilon for one in found.sweep] == [0.0, 0.05, 0.2]
    assert found.sweep[1].exploration_rate == plan.exploration_rate
    other = calibrate(
        market_of(), epsilon=0.2, n_per_arm=10, n_worlds=60, audit_worlds=200, horizon=found.horizon, seed=1
    )
    assert found.sweep[2].expected_cold_start == other.expected_cold_start  # of as many users, too
    assert found.users.shape == (40, 2)
    assert [check.name[0] for check in found.checks] == ["1", "2", "3", "4"]
    assert found.runs is not None
    assert found.runs.sizes["world"] == 3
    assert found.audit is not None
    assert found.audit.n_worlds == 200
    assert found.verdict == found.audit.verdict


def test_what_users_know_has_its_price_beside_the_plan(tmp_path: Path) -> None:
    found = small_report()
    assert found.knowledge is not None
    assert found.knowledge["knows"].values.tolist() == ["stage", "level", "phase", "mechanism"]
    assert found.knowledge.attrs["n_per_arm"] == found.plan.n_per_arm
    assert "The plan is for users who know which arms are saturated." in found.to_html()
    assert [row["knows"] for row in found.to_dict()["knowledge"]] == found.knowledge["knows"].values.tolist()
    found.save(tmp_path / "report.zip")
    again = type(found).load(tmp_path / "report.zip", found.market)
    assert again.knowledge is not None
    assert again.knowledge.equals(found.knowledge)
    assert again.to_html() == found.to_html()


def test_what_users_know_goes_to_the_plan_the_sweep_and_the_audit() -> None:
    found = small_report(knows="level", sizes=replace(SIZES, knowledge_worlds=0, epsilons=(0.2,)))
    assert {plan.knows for plan in (found.plan, *found.sweep)} == {"level"}
    assert len(found.sweep) == 2
    assert found.audit is not None
    assert found.audit.knows == "level"
    assert found.knowledge is None
    assert "Not compared with plans for users who know more or less." in found.to_html()


def test_a_plan_and_runs_at_hand_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    first = small_report()

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("it was at hand")

    monkeypatch.setattr(study, "simulate", again)
    found = report(
        market_of(), first.plan, runs=first.runs, horizon=200, sizes=replace(SIZES, epsilons=(0.05,)), seed=1
    )
    assert found.plan is first.plan
    assert found.runs is first.runs
    assert len(found.sweep) == 1


def test_a_plan_that_is_not_feasible_is_reported_as_such() -> None:
    found = report(market_of(), n_per_arm=10, personalised=False, sizes=SIZES, horizon=200)
    assert (found.verdict, found.runs, found.audit) == ("fail", None, None)
    assert "Not run: the plan is not feasible." in found.to_html()
    grid = grid_of(found.plan)
    assert found.plan.nearest_epsilon is not None
    assert grid[0] == 0.0
    assert grid[-1] > found.plan.nearest_epsilon > found.plan.epsilon
    assert found.plan.epsilon in grid


def test_rewards_that_are_not_gaussian_are_planned_for_and_audited() -> None:
    """World by world, and as ``audit`` itself has it."""
    rows = np.random.default_rng(1).normal(size=(12, 2))
    prior = Prior.gaussian([[0.5, 0.2], [0.0, 0.0]], 0.2)
    market = Market(prior=prior, covariates=Empirical(rows), noise=BernoulliLogit())
    sizes = replace(SIZES, epsilons=(0.05,), check_worlds=20, plan_worlds=50, audit_worlds=50, audit_users=15)
    found = report(market, n_per_arm=3, horizon=10, sizes=sizes)
    assert found.audit is not None
    assert (found.verdict, found.audit.n_worlds) == (found.audit.verdict, 50)
    alone = audit(market, found.plan, horizon=10, n_worlds=50, n_users=15, seed=found.seed + 1)
    assert alone.margins.equals(found.audit.margins)
    assert len(found.users) == 12
    page = found.to_html()
    assert "Not audited." not in page
    assert "is recommended the arm that the data favour for her." in page  # and nothing else
    assert "mostly recommended" not in page
    assert "all 12 different users of the table" in page
    assert all(f"{note[1:]}." in page for note in found.audit.notes)


def test_the_grid_is_around_epsilon_with_it_in_the_middle() -> None:
    grid = grid_of(small_report().plan)
    assert grid[0] == 0.0
    assert 0.05 in grid
    assert grid == sorted(set(grid))
    assert grid_of(revised(small_report().plan, epsilon=0.0))[0] == 0.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be a finite number"),
        ({"notion": "usr"}, "Did you mean 'user'"),
        ({"horizon": 0}, "horizon"),
        ({"plan": small_report}, "The plan is for arms"),
        ({"runs": small_report}, "The runs are of arms"),
    ],
)
def test_bad_input_is_refused(more: dict[str, Any], message: str) -> None:
    market = market_of(("old", "new", "odd"))
    if "plan" in more:
        more = {"plan": small_report().plan}
    if "runs" in more:
        more = {"runs": small_report().runs}
    with pytest.raises(RcbError, match=message):
        report(market, sizes=SIZES, **more)


@pytest.mark.parametrize(
    "sizes",
    [
        {"plan_worlds": 10},
        {"run_worlds": 0},
        {"map_users": 0},
        {"epsilons": (-0.1,)},
        {"check_worlds": 1},
        {"knowledge_worlds": 10},
        {"radius_worlds": 10},
    ],
)
def test_sizes_are_checked(sizes: dict[str, Any]) -> None:
    with pytest.raises(RcbError):
        ReportSizes(**sizes)


def test_runs_that_are_none_are_refused() -> None:
    runs = small_report().runs
    assert runs is not None
    with pytest.raises(RcbError, match="These are no runs"):
        report(market_of(), runs=runs.drop_vars("gain"), sizes=SIZES)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("", encoding="utf-8")
    with pytest.raises(RcbError, match="Cannot write"):
        small_report().save(tmp_path / "note" / "page.html")


def test_a_theorem_s_plan_can_be_reported() -> None:
    from rcb_bayes.planning.theorem import theorem_plan

    market = Market(prior=Prior.gaussian([[0.1], [0.0]], 0.2), covariates=Sphere(1), noise=small_report().market.noise)
    plan = theorem_plan(market, epsilon=0.5, tau=0.5, rho=0.4, n_worlds=50)
    found = report(market, plan, horizon=300, sizes=SIZES)
    assert len(found.sweep) == 1
    assert "Theorem 1 explores all users at one rate" in found.to_html()


Members = dict[str, bytes]


def _head(**changes: Any) -> Callable[[Members, Report], None]:
    """Fields of the head changed, with a digest that is right."""

    def change(members: Members, found: Report) -> None:
        head = {name: value for name, value in json.loads(members["report.json"]).items() if name != DIGEST}
        head |= changes
        members["report.json"] = json.dumps({**head, DIGEST: digest_of(head)}).encode()

    return change


def _member(name: str, data: bytes) -> Callable[[Members, Report], None]:
    """A file more, or another, with the digests that it should have."""

    def change(members: Members, found: Report) -> None:
        members[name] = data
        digests = {key: sha256(part).hexdigest() for key, part in members.items() if key != "report.json"}
        _head(digests=digests)(members, found)

    return change


def _other_plan(members: Members, found: Report) -> None:
    """A plan of the same market with another N, beside the audit of the first."""
    other = fixed_plan(found.market, n_per_arm=9, exploration_rate=0.5, epsilon=found.plan.epsilon)
    _member("plan.json", other.to_json().encode())(members, found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_head(horizon=-5), "horizon"),
        (_head(horizon=10**18), "horizon"),
        (_head(seed=-3), "seed"),
        (_head(sizes={"worlds": 3}), "worlds"),
        (_head(sizes={"n_multiples": 3}), "int"),
        (_head(users=packed(np.zeros((3, 5)))), "other features than its plan"),
        (_member("stray.txt", b"hello"), "not those that it names"),
        (_member("..", b"hello"), "not those that it names"),
        (_member("sweep_999.json", b"hello"), "not those that it names"),
        (_other_plan, "its audit is of another plan"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(
    change: Callable[[Members, Report], None], message: str, tmp_path: Path
) -> None:
    found = small_report()
    found.save(tmp_path / "report.zip")
    with zipfile.ZipFile(tmp_path / "report.zip") as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members, found)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    with pytest.raises(RcbError, match=f"Cannot read a report from .*{message}"):
        Report.load(tmp_path / "other.zip", found.market)
