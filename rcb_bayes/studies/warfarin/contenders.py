"""Who is replayed: RCB with several plans and oracles, bandits without incentives, and doses given beforehand."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.baselines import Greedy, LassoBandit, LinThompson, LinUcb
from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.heeding import Heeding, WithSpread
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, RidgeOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.running.sklearn_oracle import SklearnOracle
from rcb_bayes.studies.warfarin.baselines import formula_arms, offline_arms
from rcb_bayes.studies.warfarin.beliefs import PAPER_SIGMA, REWARD_SIGMA, always_medium, physician_market
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.dose_oracle import DoseOracle
from rcb_bayes.studies.warfarin.features import NORM
from rcb_bayes.studies.warfarin.pointwise import RcbMaker

SPREAD_MULTIPLE = 30.0
"""Exploitation's spread, in multiples of the posterior one, which explores too much over a few thousand patients."""

PRACTICAL_N = (10, 20, 30)
PRACTICAL_RATE = 0.4
_PENALTY = 0.05
_BATCH = 50  # patients after which bandits that learn at every round are renewed here


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """A policy to be replayed.

    Attributes
    ----------
    policy : a policy for the market, or the arm of each patient
    kind : "rcb", "bandit" (no incentives) or "given" (no learning)
    """

    name: str
    kind: str
    policy: PolicyMaker | np.ndarray
    market: Market | None = None


def rcb_policy(
    market: Market, plan: Plan, *, oracle: Oracle | None = None, options: Exploiting | None = None
) -> PolicyMaker:
    """RCB by a plan; an oracle without a posterior takes its spread from the physician's."""
    used = oracle or _posterior(market)
    joined = used if _has_posterior(used) else WithSpread(used, _posterior(market))
    chosen = options or Exploiting(spread_multiple=SPREAD_MULTIPLE)
    return lambda made_for, seed: Rcb(made_for, plan, oracle=joined, options=chosen)


def heeding_rcb(market: Market, plan: Plan, *, oracle: Oracle | None = None) -> RcbMaker:
    """RCB by a plan with any oracle, the dose's unless given, cut to what the plan's notion allows."""
    joined = WithSpread(oracle or DoseOracle(), _posterior(market))
    options = Exploiting(spread_multiple=SPREAD_MULTIPLE)
    return lambda made_for, seed: Rcb(made_for, plan, oracle=Heeding(joined), options=options)


def practical_contenders(market: Market, *, epsilon: float) -> list[Contender]:
    """RCB with fixed plans, N 10, 20 and 30, and with other oracles at N = 20."""
    from sklearn.linear_model import LogisticRegression

    twenty = _practical_plan(market, 20, epsilon=epsilon)
    classifier = SklearnOracle(estimator=LogisticRegression(C=10.0, max_iter=500))
    return [
        *(_rcb(f"RCB, N = {n}", market, _practical_plan(market, n, epsilon=epsilon)) for n in PRACTICAL_N),
        _rcb("RCB, N = 20, ridge", market, twenty, oracle=RidgeOracle(penalty=0.1)),
        _rcb("RCB, N = 20, logistic classifier", market, twenty, oracle=classifier),
        _rcb("RCB, N = 20, dose oracle", market, twenty, oracle=DoseOracle()),
    ]


def paper_contenders(cohort: Cohort, *, variance: float, epsilon: float) -> list[Contender]:
    """RCB at N = 20 with the paper's choices in place of ours, first one at a time, then all of them.

    Ours are sigma .3, a prior that stays as it is, and 30 times the posterior's spread. The paper's are sigma .054, a
    prior variance that grows linearly after the cold start, and the plain spread. What error the plain spread goes by
    is read three ways: the posterior's, the paper's bound with phi0 = 1, the paper's bound with the patients' own phi0
    (left out where that is 0, for then there is none).
    """
    own, papers = (physician_market(cohort, variance=variance, sigma=sigma) for sigma in (REWARD_SIGMA, PAPER_SIGMA))
    plain = Exploiting(spread_multiple=1.0)
    found = [
        ("plain spread", own, plain),
        ("linear inflation", own, Exploiting(spread_multiple=SPREAD_MULTIPLE, inflation="linear")),
        (f"sigma {PAPER_SIGMA:g}", papers, Exploiting(spread_multiple=SPREAD_MULTIPLE)),
        ("the paper's choices", papers, Exploiting(spread_multiple=1.0, inflation="linear")),
    ]
    phi0 = papers.covariates.phi0
    if phi0 > 0:  # the bound is proportional to phi0, the spread to its root
        for name, multiple in (("phi0 = 1", phi0**-0.5), ("own phi0", 1.0)):
            bound = Exploiting(spread="paper", spread_multiple=multiple, inflation="linear")
            found.append((f"the paper's choices, bound, {name}", papers, bound))
    return [
        Contender(
            name=f"RCB, N = 20, {name}",
            kind="rcb",
            policy=rcb_policy(market, _practical_plan(market, 20, epsilon=epsilon), options=options),
            market=market,
        )
        for name, market, options in found
    ]


def logit_contender(cohort: Cohort, *, epsilon: float) -> Contender:
    """RCB at N = 20 whose belief is about the log odds of 0/1 rewards."""
    market = physician_market(cohort, rewards="logit")
    plan = _practical_plan(market, 20, epsilon=epsilon)
    laplace = PosteriorOracle(market.prior, market.noise, engine="laplace")
    return _rcb("RCB, N = 20, logit belief", market, plan, oracle=laplace)


def given_contenders(cohort: Cohort) -> list[Contender]:
    """Doses given beforehand."""
    given = {
        "physician": always_medium(cohort),
        "clinical formula": formula_arms(cohort, formula="clinical"),
        "pharmacogenetic formula": formula_arms(cohort, formula="pharmacogenetic"),
        "offline logistic, out of fold": offline_arms(cohort),
    }
    return [Contender(name=name, kind="given", policy=arms) for name, arms in given.items()]


def bandit_contenders(market: Market) -> list[Contender]:
    """Bandits without incentives."""
    bandits: dict[str, PolicyMaker] = {
        "greedy": lambda made_for, seed: Greedy(made_for, batch=_BATCH, seed=seed),
        "LinUCB": lambda made_for, seed: LinUcb(made_for, batch=_BATCH, seed=seed),
        "Thompson": lambda made_for, seed: LinThompson(made_for, batch=_BATCH, seed=seed),
    }
    return [Contender(name=name, kind="bandit", policy=maker, market=market) for name, maker in bandits.items()]


def lasso_contender(market: Market) -> Contender:
    """The Lasso bandit, its penalties in units of dummies that are one before features are scaled."""
    penalty = _PENALTY / NORM

    def made(made_for: Market, seed: int) -> LassoBandit:
        return LassoBandit(
            made_for,
            penalty_forced=penalty,
            penalty_all=penalty,
            batch=20,
            growth=0.15,
            tolerance=1e-2,
            seed=seed,
        )

    return Contender(name="Lasso bandit", kind="bandit", policy=made, market=market)


def _practical_plan(market: Market, n: int, *, epsilon: float) -> Plan:
    return fixed_plan(market, n_per_arm=n, exploration_rate=PRACTICAL_RATE, epsilon=epsilon, notion="proof")


def _rcb(name: str, market: Market, plan: Plan, *, oracle: Oracle | None = None) -> Contender:
    return Contender(name=name, kind="rcb", policy=rcb_policy(market, plan, oracle=oracle), market=market)


def _posterior(market: Market) -> PosteriorOracle:
    return PosteriorOracle(market.platform_prior, market.noise, read="engine")


def _has_posterior(oracle: Oracle) -> bool:
    return isinstance(oracle, (PosteriorOracle, WithSpread))
