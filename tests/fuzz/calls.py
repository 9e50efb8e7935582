"""Public calls with wrong arguments: functions, constructors and methods, found by looking and not listed by hand.

Each call begins as one that is right, at small sizes. Then an argument of it, or a few, becomes something else: another
object of the package, what belongs to its neighbour, a number of another size, a thing that nobody expects there.
"""

import inspect
import linecache
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import Ridge

import rcb_bayes as rcb
from rcb_bayes.running.conduct import Scene
from rcb_bayes.running.history import History
from tests.fuzz.subjects import Hang, Outcomes, audits, planned, rules, served, time_limit

PACKAGE = str(Path(rcb.__file__).parent)
ROOMS = ("baselines", "behaviour", "plots", "posterior", "users")
NOT_CALLED = {
    "validate": "takes minutes, whatever it is told",
    **dict.fromkeys(("Covariates", "Engine", "Oracle", "Policy"), "a protocol"),
    **dict.fromkeys(("DiagnosticWarning", "RcbError"), "an exception"),
    **dict.fromkeys(("WeakDirections",), "two arrays and words, of the package's own making"),
}
MADE = {
    "Audit",
    "Check",
    "Checks",
    "LogCheck",
    "MixedAudit",
    "Plan",
    "PosteriorBatch",
    "Prior",
    "RegretBound",
    "Report",
    "Rule",
}
"""Made by the package itself: the methods are called, the constructors are not."""
HOOKS = {
    *("decide", "decide_later", "update", "update_later", "probabilities", "proba_later", "begin", "begin_with", "cut"),
    *(
        "group_log_density",
        "project",
        "guard_one",
        "fingerprints",
        "joined",
        "of_arms",
        "of_each",
        "of_nothing",
        "plus",
        "renamed",
        "take",
    ),
}
"""Called by the package itself, round by round, with arrays that it has made: their sizes are not looked at."""
SLOW = {
    "report": 0.1,
    "compare_plans": 0.3,
    "sensitivity": 0.3,
    "calibrate": 0.5,
    "tradeoff": 0.3,
    "load_prior": 0.3,
    "Plan.distil": 0.1,
    "price_of_knowledge": 0.3,
}

USERS = np.array([[0.6, 0.8], [0.8, -0.6], [1.0, 0.0], [0.0, 1.0]])
SIZES: dict[str, Any] = {
    **{"horizon": 40, "n_worlds": 50, "audit_worlds": 50, "audit_horizon": 40, "n_users": 4, "n_per_arm": 5},
    **{"n_runs": 20, "n_boot": 20, "max_leaves": 4, "n_folds": 2, "n_replicates": 5, "n_grid": [2, 5]},
    **{"epsilons": [0.05], "most_worlds": 100, "max_worlds": 100},
    "sizes": rcb.ReportSizes(
        check_worlds=60,
        plan_worlds=60,
        audit_worlds=50,
        audit_users=4,
        run_worlds=2,
        knowledge_worlds=60,
        radius_worlds=50,
        payment_worlds=2,
        n_multiples=(),
        map_users=4,
        epsilons=(),
    ),
}
"""Given in every call that knows them, so that a call which is right ends soon."""


@dataclass(frozen=True)
class Call:
    """A public function or method, with arguments that are right."""

    name: str
    owner: str
    function: Callable[..., Any]
    right: dict[str, Any]
    names: tuple[str, ...]
    positional: tuple[str, ...]

    def __call__(self, arguments: dict[str, Any]) -> Any:
        function = getattr(fresh(self.owner), self.name.split(".")[-1]) if self.owner else self.function
        first = [arguments.pop(name) for name in self.positional if name in arguments]
        return function(*first, **arguments)


# --- what is right ---------------------------------------------------------------------------------------------------


@cache
def things() -> dict[str, Any]:
    """One thing of each kind, made in no time."""
    market, plan = planned("user")
    made: dict[str, Any] = {
        **{"market": market, "plan": plan, "prior": market.prior, "noise": market.noise, "fixed": planned("fixed")[1]},
        **{"agent": waiting(), "coin": rcb.BernoulliLogit()},
        **{
            "sphere": rcb.Sphere(2),
            "ball": rcb.Ball(2),
            "box": rcb.Uniform([0, 0], [1, 1]),
            "bell": rcb.Gaussian(np.eye(2)),
        },
        **{"table": rcb.Empirical(USERS), "ridge": rcb.RidgeOracle(), "policy": rcb.as_policy(_thirds)},
        "heeding": rcb.Heeding(rcb.RidgeOracle(), epsilon=0.05, notion="user"),
        "bootstrapped": rcb.Bootstrapped(rcb.RidgeOracle(), n_replicates=5),
        "conformal": rcb.Conformal(rcb.RidgeOracle(), rcb.GaussianNoise(0.3), n_folds=2),
        "posterior_oracle": rcb.PosteriorOracle(market.prior, market.noise),
        "sklearn_oracle": rcb.SklearnOracle(estimator=Ridge()),
        "bound": rcb.regret_bound(market, plan, horizon=200),
        "data": rcb.posterior.Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=3),
        "types": [rcb.UserType(name="most", share=1.0)],
        "log": served(rcb.Recommender(*planned("fixed"), seed=6, keep_log=1000), 60).log,
        "history": _history(market),
        "normal": rcb.baselines.NormalLaw(mean=0.3, sd=0.5),
        "sampled": rcb.baselines.SampledLaw(np.linspace(-1.0, 1.0, 50)),
        "continuous": rcb.baselines.ContinuousLaw(stats.norm(0.2, 0.5)),
        "posterior_engine": rcb.posterior.make_engine(market.prior, market.noise),
        "Mix": rcb.behaviour.Mix(rcb.behaviour.Obedient(), rcb.behaviour.Random(), shares=[0.5, 0.5]),
        "runs": rcb.simulate(market, plan, horizon=40, n_worlds=2, behaviour=rcb.behaviour.Random()),
    }
    for name in ("AlwaysArm", "EpsilonGreedy", "ExploreThenCommit", "Falcon", "Greedy", "LinThompson", "LinUcb"):
        own = {"arm": "usual"} if name == "AlwaysArm" else {}
        made[name] = getattr(rcb.baselines, name)(market, **own)
    for name in ("Contrary", "Obedient", "Random", "Rational", "Refusal", "Stubborn", "Trust"):
        made[name] = getattr(rcb.behaviour, name)()
    made["LiveUsers"] = rcb.behaviour.LiveUsers(made["agent"], rcb.behaviour.Obedient(), horizon=100)
    made["batch"] = rcb.posterior.posterior_means(market.prior, market.noise, made["data"], covariance=True)
    return made


@cache
def results() -> dict[str, Any]:
    """What takes seconds to make."""
    it, (market, plan) = things(), planned("user")
    checks = rcb.check_assumptions(market, n_per_arm=5, n_worlds=100)
    mixed = rcb.audit_types(market, plan, it["types"], horizon=40, n_worlds=50, n_users=4)
    return {
        **{"checks": checks, "check": checks[0], "audit": next(iter(audits().values())), "rule": rules()["user"][1]},
        **{"other_market": planned("logit")[0], "other_plan": planned("logit")[1]},
        "paid": rcb.simulate(
            market, lambda market, seed: rcb.baselines.Payments(market, seed=seed), horizon=20, n_worlds=2
        ),
        "gaps": rcb.estimate_gaps(market, saturated=["usual"], n_per_arm=5, n_worlds=100),
        "logcheck": rcb.check_log(planned("fixed")[0], it["log"], planned("fixed")[1]),
        "mixed": mixed,
        "tree": rcb.posterior.fit_posterior(market.prior, market.noise, it["data"]),
        "shares": mixed.shares,
        "report": rcb.report(market, plan, horizon=40, n_per_arm=5, sizes=SIZES["sizes"]),
    }


def fresh(name: str) -> Any:
    """A thing that a method may change."""
    found = things()[name] if name in things() else results()[name]
    return deepcopy(found) if name in ("agent", "history", "LiveUsers") or hasattr(found, "decide") else found


def waiting() -> rcb.Recommender:
    """An agent with one reward out."""
    agent = served(rcb.Recommender(*planned("fixed"), seed=5), 40)
    agent.recommend(USERS[0])
    return agent


def _history(market: rcb.Market) -> History:
    history, rng = History.of_market(market, keep_rows=True), np.random.default_rng(0)
    history.add(market.covariates.sample(12, seed=0), np.arange(12) % market.n_arms, rng.normal(size=12))
    return history


def _thirds(x: np.ndarray) -> np.ndarray:
    return np.full((len(x), 3), 1 / 3)


def made(everything: bool) -> dict[str, Any]:
    return things() | results() if everything else things()


@cache
def by_name(everything: bool) -> dict[str, Any]:
    """Right values of arguments without a default, by their name; None where it takes seconds to make one."""
    it: dict[str, Any] = defaultdict(lambda: None, made(everything))
    answers = pd.DataFrame({"arm": ["old", "new"], "age": [0.5, 0.5], "q10": [0.1, 0.0], "q90": [0.6, 0.5]})
    matrix, told = np.zeros((4, 3)), deepcopy(it["agent"]).recommend(USERS[0])
    decided = it["policy"].decide(USERS, USERS, np.full((4, 4), 0.5))
    scene = Scene(market=it["market"], plan=it["plan"], horizon=40, options=rcb.Exploiting(), seed=1)
    straight = ("market", "plan", "prior", "audit", "agent", "data", "tree", "rule", "types", "gaps", "runs", "checks")
    return {
        **{name: it[name] for name in (*straight, "history", "noise", "log")},
        **{"covariates": it["table"], "priors": [it["prior"], it["prior"]], "oracle": it["ridge"], "told": told},
        **{
            "n": 3,
            "n_draws": 5,
            "x": USERS,
            "users": USERS,
            "points": USERS,
            "eta": np.array([0.1, 0.2]),
            "rows": USERS,
        },
        **{"low": 0.0, "high": 1.0, "cov": 0.3, "mean": [[0.4, 0.1], [0.1, 0.0]], "variance": 0.3, "n_features": 2},
        **{
            "rng": np.random.default_rng(1),
            "behaviour": it["Obedient"],
            "arm": "usual",
            "label": "extra",
            "reward": 0.2,
        },
        **{
            "saturated": ["usual"],
            "n_grid": [2, 5],
            "floor": 0.1,
            "tau": 0.05,
            "rho": 0.5,
            "text": it["plan"].to_json(),
        },
        **{
            "name": "a",
            "path": "file",
            "path_or_name": "gaussian",
            "policy": "usual",
            "epoch": 0,
            "arms": ["usual", "new"],
        },
        **{"beta": np.zeros((4, 3, 2)), "family": "student_t", "belief": ([0.1, 0.0], [0.2, 0.2]), "words": "stubborn"},
        **{
            "prior_rewards": matrix,
            "plans": [it["plan"]],
            "values": it["runs"],
            "compliance": getattr(it["audit"], "compliance", None),
        },
        **{
            "margins": getattr(it["audit"], "margins", None),
            "epsilon": 0.05,
            "notion": "user",
            "draws": np.zeros((20, 3, 2)),
            "share": 0.3,
        },
        **{"shares": [1.0], "probabilities": np.full((4, 3), 1 / 3), "expected": matrix, "first": it["normal"]},
        **{"second": it["normal"], "gain": 0.2, "chance": 0.5, "spread": 0.3, "warm_up": "preferred", "sd": 0.4},
        **{"upto": 0.5, "total": 0.2, "function": np.abs, "law": stats.norm(0.2, 0.5), "features": USERS, "level": 0.1},
        **{
            "uniforms": np.full((4, 4), 0.5),
            "decisions": decided,
            "rounds": np.arange(4),
            "scene": scene,
            "table": answers,
        },
        **{
            "recommend_proba": _thirds,
            "found": it["runs"],
            "counts": getattr(it["logcheck"], "counts", None),
            "prices": it["runs"],
        },
        **{"curve": it["runs"], "index": slice(0, 1), "other": it["data"], "names": np.array([b"x"]), "n_arms": 3},
        **{
            "stage": it["plan"].stages[0],
            "ticket": 1,
            "tickets": [0, 1],
            "rewards": [0.2],
            "options": rcb.Exploiting(),
        },
        "predictor": it["posterior_oracle"].fit(it["history"]),
        **{
            "inner": rcb.baselines.AlwaysArm,
            "estimator": Ridge(),
            "model": None,
            "scores": matrix,
            "parts": [it["data"]],
        },
        **{"xtx": it["data"].xtx, "xty": it["data"].xty, "yty": it["data"].yty, "n_per_arm": 5, "rule_": "sharp"},
    }


OWN: dict[str, dict[str, Any]] = {
    "Uniform": {"low": [0, 0], "high": [1, 1]},
    "bill": {"runs": "paid"},
    "estimate_repeated_rate": {"rule": "sharp", "n_worlds": 100},
    "estimate_hidden_rate": {"n_worlds": 100},
    "phi0_interval": {"n_boot": 100},
    "evaluate": {"market": "market"},
    "instrument": {"data": "runs"},
    "posterior_model": {"data": "log"},
    "plot_prior_posterior": {"x": USERS[0]},
    "plot_regret_bound": {"parts": {"a": [1.0, 2.0, 3.0]}},
    "plot_shares": {"shares": "shares"},
    "PosteriorOracle.tree": {"arms": [0, 1]},
    "Statistics.renamed": {"names": np.array([0])},
    "simulate": {"n_worlds": 2},
    "compare_plans": {"n_worlds": 2},
    "sensitivity": {"along": ["scale"], "amounts": {"scale": [1.5]}},
    "with_history": {"data": "log", "public": True},
    "Prior.given": {"data": "log", "noise": "noise"},
    "observe": {"ticket": 40},
    "observe_many": {"tickets": [40]},
    "give_up": {"ticket": 40},
    "Empirical.from_csv": {"path": "users.csv"},
    "Prior.from_draws": {"draws": np.random.default_rng(0).normal(size=(120, 3, 2))},
    "matched": {"mean": [[0.4, 0.1], [0.1, 0.0]]},
    "Gaussian": {"cov": [[1.0, 0.0], [0.0, 1.0]]},
    "NormalLaw": {"mean": 0.3},
    "SampledLaw": {"draws": np.linspace(-1.0, 1.0, 50)},
    "Statistics": {"n": np.ones((1, 3))},
    "from_rows": {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "reward": [1.0, 0.0]},
    "Rows": {"x": np.ones((1, 2, 2)), "arm": np.array([[0, 1]]), "reward": np.ones((1, 2))},
    "of_arms": {"arms": [0, 1]},
    "fit_arms": {"arms": [0, 1]},
    "to_dataset": {"arms": ("a", "b", "c"), "features": ("a", "b")},
    "Prior.renamed": {"name": "other"},
    "rates_by_arm": {"level": 1},
    "excess": {"level": np.array([0.1, 0.2])},
    "explain": {"x": USERS[0]},
    "recommend": {"x": USERS[0]},
    "takes": {"x": USERS[0]},
    "retire": {"label": "usual"},
    "guard_one": {"x": [0.6, 0.8]},
    "load_prior": {},
}


@cache
def calls(everything: bool = True) -> list[Call]:
    """Every public function, constructor and method that is to be called, or those that can be made in no time."""
    found, seen = [], set[int]()
    rooms = [rcb, *(getattr(rcb, name) for name in ROOMS)]
    for room in rooms:
        for name in room.__all__:
            value = getattr(room, name)
            if name in NOT_CALLED or id(value) in seen or not callable(value):
                continue
            seen.add(id(value))
            if name not in MADE:
                found.append(_call(name, "", value, everything))
            if inspect.isclass(value):
                found += _made_by(value, everything)
    for name, value in made(everything).items():
        found += _methods(name, value, everything)
    if everything:
        return found
    in_no_time = [call for call in found if call.name not in SLOW]
    return [call for call in in_no_time if not any(value is None for value in call.right.values())]


def _made_by(kind: type, everything: bool) -> list[Call]:
    """The class methods of a class."""
    names = [name for name in dir(kind) if isinstance(inspect.getattr_static(kind, name), classmethod)]
    names = [name for name in names if name[0] != "_" and name not in HOOKS]
    return [_call(f"{kind.__name__}.{name}", "", getattr(kind, name), everything) for name in names]


def _methods(owner: str, value: Any, everything: bool) -> list[Call]:
    kind = type(value)
    if not kind.__module__.startswith("rcb_bayes") or kind is History:
        return []
    names = [name for name in dir(kind) if inspect.isfunction(inspect.getattr_static(kind, name)) and name[0] != "_"]
    names = [name for name in names if name not in HOOKS]
    return [_call(f"{kind.__name__}.{name}", owner, getattr(kind, name), everything) for name in names]


def _call(name: str, owner: str, function: Callable[..., Any], everything: bool) -> Call:
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    own = OWN.get(name, OWN.get(name.split(".")[-1], {}))
    right, positional = {}, []
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.name in own:
            value = own[parameter.name]
            of = made(everything)
            right[parameter.name] = of.get(value, value) if isinstance(value, str) else value
        elif parameter.name in SIZES:
            right[parameter.name] = SIZES[parameter.name]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            right[parameter.name] = by_name(everything)[parameter.name]
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(parameter.name)
    names = tuple(parameter.name for parameter in parameters.values() if parameter.kind is not parameter.VAR_KEYWORD)
    star = [parameter.name for parameter in parameters.values() if parameter.kind is parameter.VAR_POSITIONAL]
    if star:
        right[star[0]] = things()["Obedient"]
    return Call(name, owner, function, right, names, tuple(positional) if star else tuple(positional[:1]))


# --- what is wrong ---------------------------------------------------------------------------------------------------


PATHS = ("path", "path_or_name", "log", "data", "store", "folder", "keep_log")
"""Where a number may be taken for an open file of the caller's."""


class Odd:
    """A thing of no kind that anybody knows."""


NUMBERS: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        2,
        3,
        0.5,
        -0.5,
        1.0,
        2.0,
        1e-300,
        1e300,
        1e308,
        -1e308,
        5e-324,
        float("nan"),
        float("inf"),
        -float("inf"),
    ),
    *(
        True,
        False,
        2**31,
        2**62,
        2**63,
        2**64,
        -(2**63),
        10**30,
        10**400,
        1j,
        np.float64(0.1),
        np.int64(2),
        np.bool_(True),
    ),
    *(np.float32("nan"), np.array(3), np.array(0.5), np.datetime64("2020-01-01"), np.timedelta64(1, "s")),
)
THINGS: tuple[Callable[[], Any], ...] = (
    *(
        lambda: None,
        lambda: "",
        lambda: "x",
        lambda: "usual",
        lambda: "user",
        lambda: "\udcff",
        lambda: b"x",
        lambda: "nan",
    ),
    *(
        lambda: [],
        lambda: [1, 2],
        lambda: [None],
        lambda: ["x"],
        lambda: [[1.0], [2.0, 3.0]],
        lambda: ["a", 1],
        lambda: [[]],
    ),
    *(lambda: (), lambda: (0.5, 0.5), lambda: {}, lambda: {"a": 1}, lambda: {1: "a"}, lambda: {0.5}, lambda: range(3)),
    *(
        lambda: {"usual": 3},
        lambda: {"feature_0": 1.0, "feature_1": 0.0},
        lambda: slice(None),
        lambda: ...,
        lambda: Odd(),
    ),
    *(
        lambda: Odd,
        lambda: dict,
        lambda: int,
        lambda: print,
        lambda: lambda: 3,
        lambda: lambda *_: 3,
        lambda: lambda *_: None,
    ),
    *(lambda: _endless("usual"), lambda: _endless(1), lambda: "users.csv"),
    *(
        lambda: iter([1, 2]),
        lambda: (k for k in (1.0, 2.0)),
        lambda: np.array([]),
        lambda: np.zeros((0, 2)),
        lambda: np.ones(3),
    ),
    *(
        lambda: np.ones((2, 3)),
        lambda: np.ones((2, 2, 2)),
        lambda: np.array([np.nan, 1.0]),
        lambda: np.full((3, 2), np.inf),
    ),
    *(
        lambda: np.array(["a", "b"]),
        lambda: np.array([None, Odd()], dtype=object),
        lambda: np.ones((2, 2), dtype=complex),
    ),
    *(
        lambda: np.array([True, False]),
        lambda: np.ma.masked_array([1.0, 2.0], [False, True]),
        lambda: np.ones((2, 2), dtype=int),
    ),
    *(lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}), lambda: pd.DataFrame(), lambda: pd.Series([1.0, 2.0])),
    *(
        lambda: pd.DataFrame({"a": ["x", None]}),
        lambda: Path("none"),
        lambda: Path("."),
        lambda: Path("folder/none"),
        Path,
    ),
    *(lambda: np.random.default_rng(1), lambda: np.random.SeedSequence(1), lambda: np.random, lambda: 1 + 2j),
    *(lambda: rcb, lambda: rcb.Market, lambda: rcb.Plan, lambda: rcb.calibrate, lambda: rcb.baselines.Greedy),
    *(lambda: rcb.RidgeOracle, lambda: rcb.Sphere, lambda: rcb.GaussianNoise, lambda: rcb.behaviour.Obedient),
    *(lambda: _Bad(), lambda: [Odd()], lambda: [[np.nan, 0.0]], lambda: "a" * 300, lambda: [1e300] * 2),
)


def _endless(item: Any) -> Iterator[Any]:
    while True:
        yield item


class _Bad:
    """Whatever is asked of it fails, in words of its own."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no array")

    def __iter__(self) -> Any:
        raise OSError("no items")


def wrong(call: Call, rng: np.random.Generator, of: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call, one or a few of them wrong."""
    made = dict(call.right)
    if len(made) > 1 and rng.random() < 0.08:  # two change places
        one, two = rng.choice(list(made), size=2, replace=False)
        made[one], made[two] = made[two], made[one]
        return made
    for _ in range(1 if rng.random() < 0.8 else int(rng.integers(2, 4))):
        name = str(rng.choice(call.names)) if call.names else ""
        if not name:
            return made
        way = rng.random()
        if way < 0.25:
            value = NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif way < 0.75:
            value = THINGS[int(rng.integers(len(THINGS)))]()
        else:
            value = list(of.values())[int(rng.integers(len(of)))]
        made[name] = value
    return made


# --- what may come of it ---------------------------------------------------------------------------------------------


def is_meant(error: Exception) -> bool:
    """Whether an error is of this package, or a TypeError or ValueError that it raised itself, in so many words."""
    if isinstance(error, rcb.RcbError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    if last.filename == __file__ and last.name != "__call__":  # of a caller's own function or object: it passes through
        return True
    raised = last.filename.startswith(PACKAGE) and line.startswith("raise")
    return raised and isinstance(error, (TypeError, ValueError)) and len(str(error)) > 20


def try_call(noted: Outcomes, told: str, call: Call, arguments: dict[str, Any]) -> None:
    """Make a call, and note what came of it; a file that is the caller's has to stay open."""
    given = f"{told}({', '.join(f'{name}={_short(value)}' for name, value in arguments.items())})"
    handle = os.open(os.devnull, os.O_RDONLY)
    paths = {name for name in arguments if name in PATHS and isinstance(arguments[name], int | np.integer | np.bool_)}
    arguments |= dict.fromkeys(paths, handle)
    try:
        with time_limit():
            try:
                call(arguments)
                noted.note("answered")
            except Exception as error:
                text = str(error)
                if not is_meant(error):
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    noted.note(
                        "raw error",
                        f"{given}: {type(error).__name__}: {text[:120]} [{last.filename[-40:]}:{last.lineno}]",
                    )
                elif "\n" in text or len(text) > 1000:
                    noted.note("long error", f"{given}: {text[:80]}")
                else:
                    noted.note("refused")
    except Hang:
        noted.note("hang", given)
    try:
        os.close(handle)
    except OSError:
        noted.note("file closed", given)


def _short(value: Any) -> str:
    text = type(value).__name__ if hasattr(value, "dtype") and np.size(value) > 4 else repr(value)
    return text.splitlines()[0][:60] if text else text


def draw(n: int, seed: int, *, everything: bool = True) -> list[tuple[Call, dict[str, Any]]]:
    """So many calls, each kind about as often; those that take long seldom."""
    rng, every = np.random.default_rng(seed), calls(everything)
    chance = np.array([SLOW.get(call.name, 1.0) for call in every])
    picked = rng.choice(len(every), size=n, p=chance / chance.sum())
    of = made(everything)
    return [(every[k], wrong(every[k], rng, of)) for k in picked]
