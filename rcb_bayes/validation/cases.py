"""Which engine is asked about which belief, and how many data sets that takes.

A bias of .1 posterior sd is to be told from one of .01, which engines that sample are allowed, with a chance of a false
alarm of .001 over all tests and of missing it of .0001: some 9,000 coefficients an engine, counted as if independent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise
from rcb_bayes.posterior.conditional import ConditionalEngine
from rcb_bayes.posterior.engines import ENGINES, Engine, ExactEngine, ImportanceEngine
from rcb_bayes.posterior.gibbs import GibbsEngine
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.nuts import NutsEngine
from rcb_bayes.schema import no_such
from rcb_bayes.validation.beliefs import coupled, independent, of_gallery

SYSTEMATIC = ("importance", "laplace")  # engines whose draws are equally spaced quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An engine on a belief: ``n`` rewards of each arm, ``n_sets`` data sets, so many of them with draws as well."""

    engine: str
    belief: str
    make: Callable[[], Prior]
    n: int
    n_sets: int
    n_ranked: int
    noise: Noise = GaussianNoise(0.5)  # noqa: RUF009 (frozen)
    in_quick: bool = True

    @property
    def rewards(self) -> str:
        """In a word."""
        return "normal rewards" if self.noise.is_gaussian else "0/1 rewards"


def _case(engine: str, belief: str, make: Callable[[], Prior], n: int, sets: int, ranked: int, **more: Any) -> Case:
    given: dict[str, Any] = {
        "engine": engine,
        "belief": belief,
        "make": make,
        "n": n,
        "n_sets": sets,
        "n_ranked": ranked,
    }
    return Case(**given, **more)


_LOGIT = BernoulliLogit()
_OWN = GaussianNoise()
_LATER: dict[str, Any] = {"in_quick": False}
CASES = (
    _case("exact", "independent arms", independent, 5, 3000, 1000),
    _case("exact", "coupled arms", coupled, 5, 3000, 1000),
    _case("exact", "two camps", of_gallery("mixture", 3, 3), 5, 3000, 1000),
    _case("importance", "Student-t effects", of_gallery("student_t", 3, 3), 8, 1500, 500),
    _case("importance", "Laplace effects", of_gallery("laplace", 3, 3), 8, 1500, 500, **_LATER),
    _case("importance", "skewed effects", of_gallery("skewed", 3, 3), 8, 1500, 500, **_LATER),
    _case("conditional", "hierarchical", of_gallery("hierarchical", 3, 3), 8, 1500, 500),
    _case("conditional", "unknown noise", of_gallery("unknown_noise", 3, 3), 8, 1500, 500, noise=_OWN, **_LATER),
    _case("gibbs", "Student-t effects", of_gallery("student_t", 4, 5), 15, 600, 100),
    _case("gibbs", "horseshoe", of_gallery("horseshoe", 3, 3, scale=0.5), 8, 1200, 100, **_LATER),
    _case("laplace", "independent arms", independent, 40, 1500, 500, noise=_LOGIT),
    _case("laplace", "Student-t effects", of_gallery("student_t", 3, 3), 40, 1500, 500, noise=_LOGIT, **_LATER),
    _case("nuts", "Student-t effects", of_gallery("student_t", 5, 5), 15, 440, 40),
    _case("nuts", "hierarchical", of_gallery("hierarchical", 4, 5, centred=False), 15, 600, 60, **_LATER),
    _case("nuts", "independent arms", independent, 40, 1000, 60, noise=_LOGIT, **_LATER),
)


def cases_of(engines: tuple[str, ...], *, quick: bool) -> list[Case]:
    """The cases of some engines; an engine entered in ``posterior.ENGINES`` meets those of ``importance``."""
    found = []
    for engine in engines:
        own = [case for case in CASES if case.engine == engine and (case.in_quick or not quick)]
        found += own or [_renamed(case, engine) for case in cases_of(("importance",), quick=quick)]
    return found


def _renamed(case: Case, engine: str) -> Case:
    return replace(case, engine=engine)


def engine_names(engines: object) -> tuple[str, ...]:
    """The engines asked for, or all of them.

    Raises
    ------
    RcbError
        There is none of that name.
    """
    if engines is None:
        return tuple(ENGINES)
    if isinstance(engines, str) or not isinstance(engines, (list, tuple)) or not engines:
        raise RcbError(f"engines is a list of names, such as ['exact', 'nuts'], or None for all, got {engines!r}.")
    for name in engines:
        if name not in ENGINES:
            raise no_such("engine", name, ENGINES, told="Use")
    return tuple(dict.fromkeys(engines))


def make_bare(engine: str, prior: Prior, noise: Noise, *, seed: int) -> Engine:
    """The engine itself, without those that it sends data sets to."""
    if engine == "laplace":
        return LaplaceEngine(prior, seed=seed)
    if engine == "nuts":
        return NutsEngine(prior, noise, seed=seed)
    if not isinstance(noise, GaussianNoise) or engine not in ("exact", "importance", "conditional", "gibbs"):
        return ENGINES[engine](prior, noise, seed)
    if engine == "exact":
        return ExactEngine(prior, noise)
    if engine == "conditional":
        return ConditionalEngine(prior, noise)
    return GibbsEngine(prior, noise, seed=seed) if engine == "gibbs" else ImportanceEngine(prior, noise, seed=seed)


def seeded(root: np.random.SeedSequence) -> int:
    """A number for an engine that wants one."""
    return int(root.generate_state(1)[0])
