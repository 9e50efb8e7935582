"""Simulation-based calibration: the truth is one more draw of its own posterior, so its ranks are uniform.

Ranks are pooled over the arms, which are independent or nearly so, and tested for each feature by chi-square, by their
mean and by their spread. The level, 1e-6 in all, is one that a fresh seed almost never fails; draws that are too wide,
too narrow or shifted do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pymc
import pytest
from scipy import stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.posterior import Rows, Statistics
from rcb_bayes.posterior.conditional import ConditionalEngine
from rcb_bayes.posterior.engines import Engine, ExactEngine, ImportanceEngine
from rcb_bayes.posterior.gibbs import GibbsEngine
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.nuts import NutsEngine
from tests.posterior import twins
from tests.posterior.references import bernoulli_worlds

N_DRAWS, N_BINS, LEVEL = 63, 16, 1e-6
SIGMA = 0.3
DIMS = ("arm", "feature")
COORDS = {"arm": ["a", "b"], "feature": ["x", "y"]}
pm: Any = pymc  # annotations that do not fit their own use


def coupled_gaussian() -> Prior:
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((4, 4))
    return Prior.gaussian(rng.standard_normal((2, 2)), factor @ factor.T / 4)


def gallery(name: str, **parameters: object) -> Callable[[], Prior]:
    return lambda: load_prior(name, n_arms=2, n_features=2, **parameters)


def levelled() -> Prior:
    """Student-t and Laplace effects around one level."""
    with pm.Model(coords=COORDS) as model:
        level = pm.Normal("level", 0.5, 0.3)
        first = level + pm.StudentT("t", nu=4.0, mu=0.0, sigma=0.4, shape=2)
        pm.Deterministic("beta", pm.math.stack([first, pm.Laplace("l", mu=level, b=0.3, shape=2)]), dims=DIMS)
    return Prior.from_pymc(model)


def heavy_and_noisy() -> Prior:
    with pm.Model(coords=COORDS) as model:
        pm.StudentT("beta", nu=5.0, mu=0.0, sigma=0.5, dims=DIMS)
        pm.HalfNormal("sigma", 0.5)
    return Prior.from_pymc(model)


BELIEFS: dict[str, Callable[[], Prior]] = {
    "independent arms": lambda: Prior.gaussian(np.ones((2, 2)), np.array([[0.5, 0.2], [0.2, 0.3]])),
    "coupled arms": coupled_gaussian,
    "two camps": lambda: twins.two_camps((0.3, 0.7), (-0.5, 0.7), (0.2, 0.5), n_features=2),
    "hierarchical": gallery("hierarchical", centred=False),
    "unknown noise": gallery("unknown_noise", noise_scale=0.5),
    "horseshoe": gallery("horseshoe", scale=0.5),
    "correlated": gallery("correlated"),
    "levelled": levelled,
    "heavy tails, unknown noise": heavy_and_noisy,
} | {name: partial(twins.cached_prior, name, 2) for name in twins.BELIEFS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An engine on a belief: n samples per arm (Bernoulli: rows in all) of each of M data sets."""

    engine: str
    belief: str
    n: int
    n_sets: int

    def simulate(self, prior: Prior) -> tuple[np.ndarray, Statistics | Rows]:
        """True coefficients (M, K, d), and what is seen of them."""
        if self.engine in ("laplace", "nuts, Bernoulli"):
            return bernoulli_worlds(prior, self.n, n_sets=self.n_sets, seed=self.n)
        return twins.simulate_worlds(prior, self.n, None if prior.has_sigma else SIGMA, self.n_sets, seed=self.n)

    def make(self, prior: Prior) -> Engine:
        """The engine itself, without the NUTS that it sends to."""
        noise = GaussianNoise(None if prior.has_sigma else SIGMA)
        makers: dict[str, Callable[[], Engine]] = {
            "exact": lambda: ExactEngine(prior, noise),
            "importance": lambda: ImportanceEngine(prior, noise),
            "conditional": lambda: ConditionalEngine(prior, noise),
            "gibbs": lambda: GibbsEngine(prior, noise),
            "laplace": lambda: LaplaceEngine(prior),
            "nuts": lambda: NutsEngine(prior, noise),
            "nuts, Bernoulli": lambda: NutsEngine(prior, BernoulliLogit()),
        }
        return makers[self.engine]()


@cache
def truth_and_draws(study: Study) -> tuple[np.ndarray, np.ndarray]:
    """True coefficients (M, K, d) and draws of their posteriors (M, N_DRAWS, K, d)."""
    prior = BELIEFS[study.belief]()
    beta, data = study.simulate(prior)
    return beta, study.make(prior).draw(data, N_DRAWS, rng=np.random.default_rng(study.n + 1))


def ranks(beta: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """How many of its posterior's draws lie below each true coefficient, (M, K, d)."""
    return (draws < beta[:, None]).sum(axis=1)


def smallest_p_value(ranks: np.ndarray) -> float:
    """The smallest of the p-values, times their number."""
    place = (ranks + np.random.default_rng(0).random(ranks.shape)) / (N_DRAWS + 1)
    found = [p_value for k in range(ranks.shape[2]) for p_value in p_values(place[..., k].reshape(-1))]
    return float(min(found) * len(found))


def p_values(place: np.ndarray) -> list[float]:
    """Of uniform values (n,): by chi-square, by their mean, and by their mean square around the middle."""
    counts = np.histogram(place, bins=N_BINS, range=(0.0, 1.0))[0]
    mean = (place - 0.5).mean() * np.sqrt(12.0 * len(place))
    spread = ((place - 0.5) ** 2 - 1.0 / 12.0).mean() * np.sqrt(180.0 * len(place))
    return [float(stats.chisquare(counts).pvalue), *(float(2.0 * stats.norm.sf(abs(z))) for z in (mean, spread))]


def stretched(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """Draws spread around their own mean."""
    return lambda draws: draws.mean(axis=1, keepdims=True) + factor * (draws - draws.mean(axis=1, keepdims=True))


def shifted(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Draws moved by a share of their standard deviation."""
    return lambda draws: draws + share * draws.std(axis=1, keepdims=True)


PLANTED = {"too wide": stretched(1.15), "too narrow": stretched(0.87), "shifted": shifted(0.15)}
ROUGH = {"too wide": stretched(1.5), "too narrow": stretched(0.65), "shifted": shifted(0.35)}


def is_calibrated(study: Study, change: Callable[[np.ndarray], np.ndarray] = lambda draws: draws) -> bool:
    """Whether the ranks look uniform, after a change to the draws."""
    beta, draws = truth_and_draws(study)
    return smallest_p_value(ranks(beta, change(draws))) > LEVEL


def studies(engine: str, cases: Iterable[tuple[str, int]], *, n_sets: int) -> list[Study]:
    return [Study(engine=engine, belief=belief, n=n, n_sets=n_sets) for belief, n in cases]


def name_of(study: Study) -> str:
    return f"{study.engine}-{study.belief}-{study.n}-{study.n_sets}"


EXACT = studies("exact", [("independent arms", 3), ("coupled arms", 3), ("two camps", 3)], n_sets=1500)
IMPORTANCE = studies("importance", [("student_t", 3), ("laplace", 10)], n_sets=400)
GAMMA = studies("importance", [("gamma", 3)], n_sets=400)
MANY = studies(
    "importance",
    product(["laplace", "student_t", "gamma", "lognormal", "spiky", "two_camps", "no_variance"], [100, 1]),
    n_sets=1000,
)
CONDITIONAL = studies(
    "conditional",
    product(
        ["hierarchical", "unknown noise", "horseshoe", "correlated", "levelled", "heavy tails, unknown noise"], [2, 10]
    ),
    n_sets=1000,
)
GIBBS = studies("gibbs", product(["hierarchical", "horseshoe", "levelled"], [2, 10]), n_sets=500)
LAPLACE = studies("laplace", product(["independent arms", "student_t", "gamma", "two camps"], [4, 40]), n_sets=1000)
NUTS = [
    *studies("nuts", [("student_t", 3), ("gamma", 3), ("hierarchical", 5), ("unknown noise", 5)], n_sets=300),
    *studies("nuts, Bernoulli", [("independent arms", 20)], n_sets=300),
]


@pytest.mark.parametrize("study", [*EXACT, *IMPORTANCE], ids=name_of)
def test_fast_engines_are_calibrated(study: Study):
    assert is_calibrated(study)


@pytest.mark.slow
@pytest.mark.parametrize("study", [*GAMMA, *MANY, *CONDITIONAL, *GIBBS, *LAPLACE, *NUTS], ids=name_of)
def test_engines_are_calibrated(study: Study):
    assert is_calibrated(study)


@pytest.mark.parametrize("change", PLANTED)
@pytest.mark.parametrize(
    "study",
    [EXACT[-1], *(pytest.param(study, marks=pytest.mark.slow) for study in (MANY[0], CONDITIONAL[-1], LAPLACE[-1]))],
    ids=name_of,
)
def test_draws_that_are_a_little_off_are_caught(study: Study, change: str):
    assert not is_calibrated(study, PLANTED[change])


@pytest.mark.parametrize("change", ROUGH)
@pytest.mark.parametrize(
    "study", [IMPORTANCE[0], *(pytest.param(study, marks=pytest.mark.slow) for study in NUTS)], ids=name_of
)
def test_draws_that_are_off_are_caught_by_few_data_sets(study: Study, change: str):
    assert not is_calibrated(study, ROUGH[change])
