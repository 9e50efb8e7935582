"""What NUTS will cost, said beforehand: against what is asked for in the end, by an engine that takes no time."""
# pyright: reportOperatorIssue=false, reportOptionalCall=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism import foreseeing
from rcb_bayes.posterior import engines
from rcb_bayes.posterior.nuts import NutsEngine

SECONDS = 0.5


class FreeEngine:
    """Stands for NUTS: posteriors of the belief's Gaussian stand-in, counted."""

    name, reason = NutsEngine.name, "free"
    asked = 0

    def __init__(self, prior: rcb.Prior, noise: Any, seed: int) -> None:
        self.prior = prior
        self._inner = engines.ExactEngine(foreseeing.gaussian_like(prior), noise)

    def fit(self, data: Any, **how: Any) -> Any:
        FreeEngine.asked += data.n_sets
        return self._inner.fit(data, **how)

    def draw(self, data: Any, n: int, *, rng: np.random.Generator) -> Any:
        return self._inner.draw(data, n, rng=rng)


@pytest.fixture(scope="module")
def market() -> rcb.Market:
    """A net with one hidden unit, which arms share: no engine but NUTS serves it."""
    rows = np.linspace(-1.0, 1.0, 40)[:, None]
    with pm.Model(coords={"arm": ["old", "mid", "new"], "feature": ["u"]}) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        w, v = pm.Normal("w", 0.0, 1.0, shape=(1, 1)), pm.Normal("v", 0.0, 1.0, shape=(1, 3))
        level = pm.Normal("level", [0.5, 0.2, 0.0], 0.3, shape=3)
        pm.Deterministic("mu", level + pt.tanh(x @ w * 2.0) @ v, dims=("user", "arm"))
    prior = rcb.Prior.from_pymc(model, mean="mu", inputs="x")
    users = rcb.users.Uniform([-1.0], [1.0], features=["u"])
    return rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.2))


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.ENGINES, "nuts", FreeEngine)
    monkeypatch.setattr(NutsEngine, "seconds", lambda self, data: SECONDS)
    FreeEngine.asked = 0
    for name in ("CI", "RCB_PROGRESS"):
        monkeypatch.delenv(name, raising=False)


SIZES = {"n_worlds": 200, "audit_worlds": 200, "epsilon": 0.6}
CALLS: dict[str, Callable[[rcb.Market], Any]] = {
    "check": lambda market: rcb.check_assumptions(market, n_per_arm=10, n_worlds=60, seed=1),
    "plan": lambda market: rcb.calibrate(market, n_per_arm=10, seed=1, **SIZES),
    "need": lambda market: rcb.check_need(market, horizon=200, seed=1),
}


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "NUTS" in line]


@pytest.mark.parametrize("name", CALLS)
def test_as_many_are_asked_for_as_was_said(name: str, market: rcb.Market, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe, which these tests read: standard error is no terminal."""
    CALLS[name](market)
    (line,) = said(capsys)
    assert line.startswith("NUTS answers for 'belief', about 0.50 s a posterior: some ")
    told = int(line.split("some ")[1].split(" of them")[0].replace(",", ""))
    assert told == pytest.approx(FreeEngine.asked, rel=0.1)
    assert told != pytest.approx(2 * FreeEngine.asked, rel=0.1)


def test_an_audit_says_it_once(market: rcb.Market, capsys: pytest.CaptureFixture[str]) -> None:
    plan = CALLS["plan"](market)
    assert plan.feasible
    said(capsys)
    FreeEngine.asked = 0
    found = rcb.audit(market, plan, horizon=300, n_worlds=200, n_users=10, seed=2)
    (line,) = said(capsys)
    told = int(line.split("some ")[1].split(" of them")[0].replace(",", ""))
    assert told == pytest.approx(FreeEngine.asked, rel=0.1)
    assert found.verdict in ("pass", "fail", "inconclusive")


@pytest.mark.slow
def test_a_report_says_it_once_for_all(market: rcb.Market, capsys: pytest.CaptureFixture[str]) -> None:
    few: dict[str, Any] = {
        "plan_worlds": 100,
        "audit_worlds": 100,
        "check_worlds": 60,
        "run_worlds": 1,
        "map_users": 10,
    }
    sizes = rcb.ReportSizes(**few, knowledge_worlds=0, radius_worlds=0, audit_users=5, epsilons=(0.7,))
    rcb.report(market, epsilon=0.6, n_per_arm=10, horizon=60, sizes=sizes, seed=1)
    (line,) = said(capsys)
    told = int(line.split("some ")[1].split(" of them")[0].replace(",", ""))
    assert told == pytest.approx(FreeEngine.asked, rel=0.25)


def test_what_takes_no_time_says_nothing(
    market: rcb.Market, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NutsEngine, "seconds", lambda self, data: 0.001)
    foreseeing.foresee(market, 1000, seed=1)
    gaussian = rcb.Prior.gaussian(market.prior.mean.values[:, :1], 0.25, arms=market.arms, features=["u"])
    CALLS["check"](rcb.Market(prior=gaussian, covariates=market.covariates, noise=market.noise))
    assert said(capsys) == []


def test_who_shares_the_work_and_what_cannot_be_rehearsed(
    market: rcb.Market, capsys: pytest.CaptureFixture[str]
) -> None:
    foreseeing.foresee(market, 10_000, workers=4, seed=1)
    foreseeing.foresee(market, None, seed=1)
    shared, unknown = said(capsys)
    assert shared.endswith("some 10,000 of them take 21 min, shared by 4 workers.")
    assert unknown.endswith("how many are asked for is not known beforehand.")


def test_a_stand_in_is_like_what_it_stands_for(market: rcb.Market) -> None:
    prior = rcb.load_prior("student_t", n_arms=4, n_features=2)
    other = foreseeing.gaussian_like(prior)
    np.testing.assert_array_equal(other.mean.values, prior.mean.values)
    np.testing.assert_allclose(other.covariance.values, prior.covariance.values, rtol=0.1, atol=0.01)
    assert (other.groups, other.alike) == (prior.groups, prior.alike)
    stood_in = foreseeing.stand_in(market)
    assert stood_in.platform_prior is stood_in.prior is stood_in.nature
