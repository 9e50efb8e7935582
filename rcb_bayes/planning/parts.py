"""Parts of a plan that are figures only: constants, the course of the cold start, feasibility, provenance."""

import math
from dataclasses import dataclass, field
from typing import Literal

from rcb_bayes._version import __version__
from rcb_bayes.market import Market
from rcb_bayes.planning.exploring import Unexplored

PlanKind = Literal["sampled", "theorem", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The mechanism's constants, N and q = 1/L, and those of the belief that they rest on.

    Attributes
    ----------
    kind : how they were found
    n_per_arm : N, samples of each arm in the cold start: one number, or one for each arm
    exploration_rate : q; for a personalised plan the mean over users, and over the stages that cold starts pass
    inverse_rate : L = 1/q
    tau, rho : the gap that the least favoured arm reaches, and how often, once the others are saturated
    ideal_rate : what ``exploration_rate`` would be by the point estimates, with nothing left for an audit's bands
    first_epoch, guarantee_probability : of a theorem's plan, m_0, and rho rho*, with which the theorem speaks at all
    """

    kind: PlanKind
    n_per_arm: int | tuple[int, ...]
    exploration_rate: float
    exploration_rate_mcse: float = 0.0
    inverse_rate: float
    inverse_rate_mcse: float = 0.0
    tau: float = math.nan
    tau_mcse: float = math.nan
    rho: float = math.nan
    rho_mcse: float = math.nan
    ideal_rate: float = math.nan
    first_epoch: int | None = None
    guarantee_probability: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the cold start is expected to go.

    Attributes
    ----------
    expected_cold_start : rounds until every arm has its N samples, with the error of this plan's
    cold_start_scatter : standard deviation of that over plans of other seeds, whose rates are others; of a plan whose
        rates were given, or that does not say, None
    expected_pulls : in how many of them each arm is recommended
    expected_regret : over the cold start
    coverage : each arm's smallest eigenvalue of X'X/N, averaged over cold starts
    share_explored : users who are explored at some stage that one cold start in twenty passes
    share_free : users who need no subsidy, averaged over the stages that cold starts pass
    """

    expected_cold_start: float = math.nan
    expected_cold_start_mcse: float = math.nan
    expected_pulls: tuple[float, ...] = ()
    expected_pulls_mcse: tuple[float, ...] = ()
    expected_regret: float = math.nan
    expected_regret_mcse: float = math.nan
    coverage: tuple[float, ...] = ()
    coverage_mcse: tuple[float, ...] = ()
    share_explored: float = 1.0
    share_free: float = 0.0
    cold_start_scatter: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChoice:
    """What a number of samples per arm would come to.

    Attributes
    ----------
    feasible : whether its cold start can end before the horizon
    regret : expected over the horizon, cold start and exploitation, with its error
    needs_guard : whether the paper's kernel alone would break the constraint for some user of the panel in some epoch
    verdict : of an audit of the plan in fresh worlds; empty where none was made
    """

    n_per_arm: int
    feasible: bool
    regret: float = math.inf
    regret_mcse: float = 0.0
    cold_start: float = math.inf
    needs_guard: bool = True
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether the goal can be reached.

    Attributes
    ----------
    feasible, reason, nearest_epsilon : whether the cold start can end, if not why, and the epsilon from which on one
        can (``reason`` says whether that was tried)
    verdict : of an audit in fresh worlds, made where N was chosen; empty where none was made. Of a plan that is not
        feasible "inconclusive" where its worlds are too few to tell, else "infeasible"
    choices : the numbers of samples N was chosen from; none where it was given
    """

    feasible: bool = True
    reason: str = ""
    nearest_epsilon: float | None = None
    verdict: str = ""
    choices: tuple[SampleChoice, ...] = ()

    @property
    def unguarded_n(self) -> int | None:
        """The smallest N tried at which no user needs a guard; None where there is none, or N was given."""
        return min((one.n_per_arm for one in self.choices if one.feasible and not one.needs_guard), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the plan was made of.

    Attributes
    ----------
    belief, made_for, made_of : the belief's name; belief, users and rewards in words, and their fingerprints
        (``Market.fingerprint``)
    engine, n_worlds, audit_worlds, seed, version : how it was computed
    n_posteriors, n_not_vouched : behind the plan, and those of them that no engine vouches for
    notes : what else is to be said
    horizon : the rounds in all that a sampled plan was made for; not known of files that do not have it
    unexplored : arms that were left out of exploration, and why
    """

    belief: str = ""
    made_for: str = ""
    made_of: dict[str, str] = field(default_factory=dict)
    engine: str = ""
    n_worlds: int = 0
    audit_worlds: int = 0
    n_posteriors: int = 0
    n_not_vouched: int = 0
    seed: int = 0
    version: str = ""
    notes: tuple[str, ...] = ()
    horizon: int | None = None
    unexplored: Unexplored | None = None


def provenance_of(market: Market, *, seed: int, notes: tuple[str, ...]) -> Provenance:
    """The provenance of a plan that no posterior was computed for."""
    return Provenance(
        belief=market.prior.name, made_of=market.fingerprint(), seed=seed, version=__version__, notes=notes
    )
