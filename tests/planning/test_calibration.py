"""N chosen roughly, and plans that share a simulation: as good as one by one, within their errors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.simulator import N_PATHS, N_USERS, Simulator
from rcb_bayes.planning import calibration
from rcb_bayes.planning.calibration import planned, rough_choices
from rcb_bayes.planning.goal import PlanRequest, as_request
from rcb_bayes.planning.parts import SampleChoice

SIZES = (2, 5, 10, 20, 50)
HORIZON = 4000


def market_of(mean: Any, *, users: Any, sigma: float = 0.3) -> rcb.Market:
    return rcb.Market(prior=rcb.Prior.gaussian(mean, 0.25), covariates=users, noise=rcb.GaussianNoise(sigma))


MARKETS: dict[str, Callable[[], rcb.Market]] = {
    "different": lambda: market_of([[0.5, 0.0], [0.35, 0.0], [0.3, 0.0]], users=rcb.Sphere(2)),
    "alike": lambda: market_of(np.zeros((4, 3)), users=rcb.Sphere(3)),
    "positive": lambda: market_of([[0.5, 0.5], [0.35, 0.35]], users=rcb.Uniform([0, 0], [1, 1]), sigma=1.0),
}


def request_for(market: rcb.Market, **others: Any) -> PlanRequest:
    usual: dict[str, Any] = {"epsilon": 0.05, "notion": "user", "personalised": True, "n_per_arm": 10}
    sizes = {"n_worlds": 1000, "audit_worlds": 1000, "engine": "auto", "seed": 1}
    return as_request(market, **(usual | {"knows": "auto"} | sizes | others))


def choices_of(market: rcb.Market, **sizes: int) -> list[SampleChoice]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(calibration, name, value)
        return rough_choices(market, request_for(market), SIZES, guard=True, horizon=HORIZON)


def excess(market: rcb.Market, chosen: list[SampleChoice]) -> float:
    """Regret of the N that is chosen beyond the least, in errors, both by a full panel and all cold starts."""
    known = {one.n_per_arm: one for one in choices_of(market, _FEW_USERS=N_USERS, _FEW_PATHS=N_PATHS) if one.feasible}
    best = min(known.values(), key=lambda one: one.regret)
    taken = min((one for one in chosen if one.feasible), key=lambda one: one.regret)
    ours = known.get(taken.n_per_arm)
    if ours is None:  # past where regret has clearly risen, twice
        return np.inf
    return float((ours.regret - best.regret) / np.hypot(ours.regret_mcse, best.regret_mcse))


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKETS)
def test_few_users_choose_an_n_that_is_best_within_errors(name: str):
    market = MARKETS[name]()
    assert excess(market, choices_of(market)) < 3.0


@pytest.mark.slow
def test_a_regret_that_counts_exploitation_twice_chooses_another_n(monkeypatch: pytest.MonkeyPatch):
    market = MARKETS["different"]()  # where the best N is told most clearly from the next
    right = calibration.exploitation_regret

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = right(*args, **kwargs)
        return replace(found, regret=2.0 * found.regret)

    monkeypatch.setattr(calibration, "exploitation_regret", wrong)
    chosen = choices_of(market)
    monkeypatch.undo()
    assert excess(market, chosen) > 3.0


def plan_in(market: rcb.Market, request: PlanRequest, simulator: Simulator | None = None) -> rcb.Plan:
    made: dict[str, Any] = {"guard": False, "spread": "posterior", "horizon": HORIZON}
    return planned(market, request, simulator=simulator, **made)


@pytest.mark.parametrize("personalised", [True, False])
@pytest.mark.usefixtures("small_panel")
def test_plans_that_share_a_simulation_are_those_of_each_alone(personalised: bool):
    market = MARKETS["different"]()
    shared = Simulator(market, seed=1, remember=True)
    for epsilon in (0.0, 0.05, 0.2):
        request = request_for(market, epsilon=epsilon, personalised=personalised, n_worlds=200)
        assert plan_in(market, request, shared.again()).to_json() == plan_in(market, request).to_json()


@pytest.mark.usefixtures("small_panel")
def test_posteriors_are_fitted_once_where_their_data_do_not_depend_on_rates(monkeypatch: pytest.MonkeyPatch):
    """Every stage of one rate for all; of rates of each user's own the first alone."""
    market = MARKETS["different"]()
    for personalised, repeats in ((False, 0), (True, 1)):
        shared = Simulator(market, seed=1, remember=True)
        remembering: Any = vars(shared.engines.users)["_engine"]
        fits: list[int] = []
        right = remembering._engine.fit
        monkeypatch.setattr(remembering, "_engine", _Telling(right, fits))
        for epsilon in (0.03, 0.05):
            fits.append(0)
            request = request_for(market, epsilon=epsilon, personalised=personalised, n_worlds=200)
            plan = plan_in(market, request, shared.again())
            assert plan.provenance.n_posteriors > 0
        assert (fits[1] > 0) == bool(repeats)
        assert fits[1] < fits[0]


class _Telling:
    """An engine that tells how many data sets it is asked for."""

    def __init__(self, fit: Callable[..., Any], fits: list[int]) -> None:
        self._fit, self._fits = fit, fits

    def fit(self, data: Any, **others: Any) -> Any:
        """Posterior moments."""
        self._fits[-1] += data.n_sets
        return self._fit(data, **others)
