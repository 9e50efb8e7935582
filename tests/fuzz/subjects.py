"""Plans, agents, audits and tables to be changed at random, and what each must do if it is taken all the same."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Audit, Market, Plan, Prior, Recommender
from rcb_bayes.studies.warfarin.synthetic import synthetic_patients
from tests.studies.warfarin.files import cells

SECONDS = 20  # for any one file, on any machine: far more than it takes
USERS = rcb.Sphere(2).sample(6, seed=1)


@dataclass
class Outcomes:
    """What became of the files, and the first few that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, outcome: str, told: str = "") -> None:
        self.counts[outcome] += 1
        if told and len(self.wrong) < 200:
            self.wrong.append(f"{outcome}: {told}")

    def __str__(self) -> str:
        return ", ".join(f"{name} {n:,}" for name, n in sorted(self.counts.items()))


class Hang(BaseException):
    """Time is up; nothing but the harness catches it."""


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def try_file(
    noted: Outcomes,
    told: str,
    load: Callable[[], Any],
    *,
    meaning: Callable[[Any], Any],
    original: Any,
    behave: Callable[[Any], None],
    may_change: bool,
) -> None:
    """Load a file that was changed, and note what came of it.

    ``may_change``: its digest was computed anew, so that another meaning is fair, as long as it behaves.
    """
    try:
        with time_limit():
            try:
                found = load()
            except rcb.RcbError as error:
                line = str(error)
                noted.note("refused" if "\n" not in line and len(line) < 1000 else "error of many lines", "")
                return
            except Exception as error:
                noted.note("traceback on loading", f"{told}: {error!r}"[:300])
                return
            try:
                same = meaning(found) == original
                if not same and not may_change:
                    noted.note("changed meaning accepted", told)
                    return
                behave(found)
            except rcb.RcbError as error:
                noted.note("refused later", f"{told}: {error}"[:300])
                return
            except AssertionError as error:
                noted.note("nonsense", f"{told}: {error}"[:300])
                return
            except Exception as error:
                noted.note("traceback later", f"{told}: {error!r}"[:300])
                return
            noted.note("taken, the same" if same else "taken, sound")
    except Hang:
        noted.note("hang", told)


# --- plans -----------------------------------------------------------------------------------------------------------


@cache
def market(kind: str = "linear") -> Market:
    prior = Prior.gaussian([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], [0.3, 0.2, 0.2], arms=["usual", "new", "odd"])
    if kind == "logit":
        return Market(prior=prior, covariates=rcb.Empirical(USERS), noise=rcb.BernoulliLogit())
    other: dict[str, Any] = {
        "platform_prior": Prior.gaussian([[0.3, 0.1], [0.1, 0.1], [0.0, 0.2]], 0.3, arms=prior.arms)
    }
    own = other if kind == "platform" else {}
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3), **own)


SAMPLED: dict[str, tuple[str, dict[str, Any]]] = {
    "user": ("linear", {}),
    "proof": ("linear", {"notion": "proof"}),
    "definition": ("linear", {"notion": "definition", "personalised": False}),
    "one rate": ("linear", {"personalised": False, "epsilon": 0.3}),
    "platform": ("platform", {"epsilon": 0.5}),
    "logit": ("logit", {"epsilon": 0.02}),
}
PLANS = (*SAMPLED, "fixed", "theorem")


@cache
def planned(name: str) -> tuple[Market, Plan]:
    """A plan, made when it is first asked for, and its market."""
    if name == "fixed":
        return market(), rcb.fixed_plan(market(), n_per_arm=5, exploration_rate=0.5)
    if name == "theorem":
        return market(), rcb.theorem_plan(market(), epsilon=0.1, tau=0.05, rho=0.5)
    kind, options = SAMPLED[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rcb_bayes.mechanism.simulator.N_USERS", 256)  # any plan will do
        return market(kind), rcb.calibrate(market(kind), n_per_arm=5, n_worlds=100, seed=3, **options)


def plans() -> dict[str, tuple[Market, Plan]]:
    """All of them."""
    return {name: planned(name) for name in PLANS}


def users_of(plan: Plan) -> np.ndarray:
    """Users whom the plan must serve: any, or those of its table."""
    if plan.known is not None:
        return plan.known.users
    return USERS if len(plan.features) == 2 else np.ones((2, len(plan.features)))


def plan_behaves(plan: Plan) -> None:
    """Rates and guards are probabilities, and the plan can be told, explained, written and read."""
    users = users_of(plan)
    rates = [plan.rate(users), *(plan.rate(users, saturated=stage.saturated) for stage in plan.stages)]
    for found in (*rates, *(plan.guard(users, epoch) for epoch in (0, 2, 9))):
        assert np.isfinite(found).all(), "a rate or a guard is no number"
        assert ((found >= 0) & (found <= 1)).all(), "a rate or a guard is no probability"
    assert plan.agenda.most >= 1
    assert plan.epsilon >= 0
    plan.summary()
    plan.explain(users[0])
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()


# --- rules -----------------------------------------------------------------------------------------------------------


@cache
def rules() -> dict[str, tuple[Plan, rcb.Rule]]:
    """Rules of a few leaves, each with its plan."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_N_USERS", "_N_FRESH", "_N_LOOKED", "_N_POOL", "_N_LOSERS", "_N_KEPT"):
            patch.setattr(f"rcb_bayes.planning.searching.{name}", 256)  # any rule will do
        return {name: (planned(name)[1], planned(name)[1].distil(8)) for name in ("user", "logit", "fixed")}


def rule_behaves(rule: rcb.Rule) -> None:
    """Rates and guards are probabilities, and the rule can be told, drawn, written and read."""
    users = np.ones((2, len(rule.features))) if rule.table is None else rule.table
    found = [rule.rate(users), *(rule.rate(users, saturated=stage) for stage in rule.stages)]
    for values in (*found, *(rule.guard(users, epoch) for epoch in (0, 2, 9))):
        assert ((values >= 0) & (values <= 1 + 1e-9)).all(), "a rate or a guard is no probability"
    assert rule.n_leaves >= 1
    rule.summary()
    assert rcb.Rule.from_json(rule.to_json()).to_json() == rule.to_json()


# --- agents ----------------------------------------------------------------------------------------------------------


def served(agent: Recommender, n: int, seed: int = 0) -> Recommender:
    """An agent after some users, some of whose rewards are still out."""
    rng = np.random.default_rng(seed)
    is_gaussian = agent.market.noise.is_gaussian
    for x in agent.market.covariates.sample(n, seed=seed):
        told = agent.recommend(x)
        counts = agent.stage != "exploit" and told.stage != "organic"  # a stage waits for rewards that count
        if counts or rng.random() < 0.9:
            agent.observe(float(rng.normal(0.2, 0.3)) if is_gaussian else float(rng.random() < 0.5), ticket=told.ticket)
    return agent


def one_out(agent: Recommender) -> Recommender:
    """An agent one of whose rewards has not come."""
    agent.recommend(agent.market.covariates.sample(1, seed=9)[0])
    return agent


@cache
def agents() -> dict[str, tuple[Market, Recommender]]:
    linear, logit = planned("user"), planned("logit")
    last = rcb.Exploiting(feed="last", clock="global", guard=False)
    return {
        "new": (linear[0], Recommender(*linear, seed=1)),
        "first": (linear[0], one_out(served(Recommender(*linear, seed=1), 4))),
        "cold": (linear[0], one_out(_until(Recommender(*linear, seed=2), "rest of the arms"))),
        "exploiting": (linear[0], served(_until(Recommender(*linear, seed=3), "exploit"), 40)),
        "last": (linear[0], served(_until(Recommender(*linear, seed=4, options=last), "exploit"), 40)),
        "fixed": (linear[0], served(Recommender(*planned("fixed"), seed=5), 120)),
        "logit": (logit[0], served(_until(Recommender(*logit, seed=6), "rest of the arms"), 3)),
    }


def _until(agent: Recommender, stage: str) -> Recommender:
    for k in range(500):
        if agent.stage == stage:
            break
        served(agent, 1, seed=k)
    assert agent.stage == stage
    return agent


def agent_behaves(agent: Recommender) -> None:
    """It recommends with probabilities, takes rewards, and can be told and written."""
    is_gaussian = agent.market.noise.is_gaussian
    assert agent.rounds >= agent.n_pending >= 0
    assert all(n >= 0 for n in agent.n_samples.values())
    for x in users_of(agent.plan)[:4]:
        told = agent.recommend(x)
        chances = np.array(list(told.probabilities.values()))
        assert np.isfinite(chances).all(), "a probability is no number"
        assert (chances >= 0).all(), "a probability is negative"
        assert abs(chances.sum() - 1.0) < 1e-6, "probabilities do not sum to one"
        agent.observe(0.3 if is_gaussian else 1.0, ticket=told.ticket)
    plan_behaves(agent.plan)


# --- audits ----------------------------------------------------------------------------------------------------------


@cache
def audits() -> dict[str, Audit]:
    few: dict[str, Any] = {"horizon": 30, "n_worlds": 50, "n_users": 4, "seed": 1}
    where, plan = planned("user")
    rows = where.covariates.sample(120, seed=1)
    import pandas as pd

    log = pd.DataFrame(rows, columns=list(where.features)).assign(arm="usual", reward=rows @ [0.4, 0.1])
    by_user = rcb.audit(where, plan, **few)
    return {
        "user": by_user,
        "definition": replace(by_user, notion="definition", verdict=by_user.verdicts["definition"]),
        "fixed": rcb.audit(*planned("fixed"), **few),
        "log": rcb.audit_log(where, log),
    }


def audit_behaves(audit: Audit) -> None:
    """What it says of itself agrees, and it can be told."""
    audit.summary()
    audit.worlds_needed(0.05)
    worst = audit.worst()
    if audit.kind == "realised":  # of a log, which is told and not judged
        assert (audit.verdict, audit.verdicts) == ("realised", {}), "a log is judged"
        assert audit.realised["lowest"] == worst["estimate"].min(), "the lowest margin is another one"
    else:
        assert audit.verdicts[audit.notion] == audit.verdict, "the verdict contradicts the margins"
    assert (worst["lower"] <= worst["estimate"] + 1e-6).all(), "an estimate is below its lower bound"
    if audit.verdict == "pass":
        assert (worst["lower"] >= -audit.epsilon - 1e-6).all(), "passed with a bound below -epsilon"
    shares = audit.compliance["share"].values
    assert ((shares >= 0) & (shares <= 1 + 1e-6)).all(), "a share is no share"


def audit_meaning(audit: Audit) -> tuple[Any, ...]:
    """All of an audit, comparable."""
    parts = [*audit.by_notion.items(), ("compliance", audit.compliance)]
    data = [(name, part.to_dict(data="list"), sorted(part.attrs)) for name, part in parts]
    heads = [str(getattr(audit, name)) for name in ("verdict", "notion", "epsilon", "n_worlds", "n_random", "level")]
    return (repr(data), *heads, str(audit.seed), audit.belief, audit.kind, audit.notes, audit.users.tolist())


# --- tables ----------------------------------------------------------------------------------------------------------


@cache
def tables() -> dict[str, str]:
    """Tables of every kind that is read, by what reads them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2)).round(3)
    users = "feature_0,feature_1\n" + "\n".join(f"{a},{b}" for a, b in x)
    people = "age,sex,smoker\n" + "\n".join(f"{int(40 + 10 * a)},{'mf'[int(b > 0)]},{1 if a > 1 else ''}" for a, b in x)
    arms = rng.choice(["usual", "new", "odd"], size=60)
    rows = rng.normal(size=(60, 3)).round(3)
    log = "feature_0,feature_1,arm,reward\n" + "\n".join(
        f"{a},{b},{arm},{y}" for (a, b, y), arm in zip(rows, arms, strict=True)
    )
    agent = served(Recommender(*planned("fixed"), keep_log=200, seed=5), 60)
    levels = ((0.1, 0.0), (0.5, 0.2), (0.9, 0.5))
    quantiles = "expert,arm,rival,age,sex,q10,q50,q90\n" + "\n".join(
        f"{who},{arm},{rival},{age},{sex},{low},{low + 0.25},{low + 0.5}"
        for who in ("ann", "bob")
        for age, sex in ((30, 0), (60, 1), (45, 0))
        for arm, rival, low in (("old", "", 0.25), ("new", "old", -0.25))
    )
    points = "arm,age,level,value\n" + "\n".join(
        f"{arm},{age},{p},{low + q}" for arm, low in (("old", 0.1), ("new", 0.2)) for age in (30, 60) for p, q in levels
    )
    header, patients = cells(synthetic_patients(12, seed=1))
    lines = [",".join(f'"{cell}"' if "," in cell else cell for cell in row) for row in (header, *patients)]
    found = {"users": users, "people": people, "log": log, "history": log, "followed": agent.log.to_csv(index=False)}
    return found | {"quantiles": quantiles, "points": points, "patients": "\n".join(lines)}


def read_table(name: str, path: Path) -> Any:
    if name == "users":
        return rcb.Empirical.from_csv(path)
    if name == "people":
        return rcb.Empirical.from_csv(path, missing="indicator", standardise=True, dummies=True)
    if name == "log":
        return rcb.audit_log(market(), path)
    if name == "followed":
        return rcb.check_log(market(), path, planned("fixed")[1])
    if name == "history":
        return market().with_history(path, public=True).prior
    if name in ("quantiles", "points"):
        return Prior.from_quantiles(path)
    from rcb_bayes.studies.warfarin.table import read_patients

    return read_patients(path)


def table_behaves(found: Any) -> None:
    if isinstance(found, rcb.Empirical):
        assert np.isfinite(found.rows).all(), "a value is no number"
        assert np.isfinite(found.phi0), "phi0 is no number"
        found.sample(3, seed=1)
    elif isinstance(found, rcb.LogCheck):
        assert found.followed == (not found.deviations), "a log that followed has deviations"
        found.summary()
    elif isinstance(found, Prior):
        assert np.isfinite(found.mean.values).all(), "a mean is no number"
        found.describe()
    elif isinstance(found, Audit):
        found.summary()
        assert np.isfinite(found.users).all(), "a value is no number"
    else:
        assert len(found) > 0
