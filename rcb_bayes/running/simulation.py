"""``simulate``: a plan or a policy run in many worlds, block by block.

Within a stage of the cold start nothing the platform believes changes until an arm is full, and within an epoch its
estimates are frozen: a run is a few dozen blocks of array work, not T steps.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_run_size
from rcb_bayes.mechanism.decisions import ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.kernel import best_arm
from rcb_bayes.planning.checks import check_feasible, check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.conduct import Behaviour, Conduct, Scene
from rcb_bayes.running.driving import Block, drive
from rcb_bayes.running.exploit import warn_of_other_guard
from rcb_bayes.running.offer_sums import DIMS as OFFER_DIMS
from rcb_bayes.running.offer_sums import OfferSums
from rcb_bayes.running.oracle import Oracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import Policy, PolicyMaker, completed
from rcb_bayes.running.stored_runs import Layout, run_into, run_name
from rcb_bayes.running.worlds import SimulatedWorld, policy_seed
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.workers import Workers, check_workers, run_blocks

if TYPE_CHECKING:
    import xarray as xr

_FITS = ("n_fits", "n_not_vouched")
_SUMS = ("regret", "posterior_regret")  # over the rounds that are not kept


def simulate(
    market: Market,
    plan: Plan | PolicyMaker,
    *,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 20,
    oracle: Oracle | None = None,
    options: Exploiting | None = None,
    every: int = 1,
    behaviour: Behaviour | None = None,
    workers: Workers = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Run a plan, or any policy, in worlds drawn from nature.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan or callable
        A plan, run by the paper's algorithm; or a function (market, seed) -> policy.
    horizon : int
        T, rounds of each world.
    n_worlds : int
        Worlds drawn from nature.
    oracle : Oracle, optional
        Of the exploitation stage; the posterior mean under the platform's belief unless given, read from its ArviZ
        summary. ``PosteriorOracle(..., read="engine")`` goes round the summary, for many worlds.
    options : Exploiting, optional
        Of the exploitation stage (clock, feed, spread, inflation).
    every : int
        Keep every so many rounds: sums of regret (and of ``followed``) over them, and the last of everything else.
    behaviour : Behaviour, optional
        What users make of a recommendation (``rcb.behaviour``); all of them follow unless given. The platform sees the
        arm that is taken: in a cold start other arms than the one recommended do not count, later their reward is that
        of the arm taken.
    workers : None, int, str, Client or Executor
        Who runs the worlds: this process, so many processes, a Dask cluster by its scheduler's address or its client,
        an executor. The answer is the same.
    store : path-like, optional
        A zarr store that the worlds are written to, for more than memory holds. What comes back is read from there when
        it is used. A store that holds part of this very run is gone on with; one of another run is refused.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.Dataset
        Dims (world, t): ``context_arm_best``, ``recommended``, ``chosen`` (positions of arms), ``stage``, ``regret``
        (against the true best arm), ``posterior_regret`` (against the best by the platform's expectations),
        ``propensity``, ``gain`` (what the platform expects of the arm beyond its best rival); ``n_samples`` (world,
        arm), all that is learnt from, N of the cold start and every round of exploitation; ``cold_start_length``
        (world), -1 where the cold start did not end, 0 of a policy that has none, and ``gamma`` (world) of the last
        epoch. With a behaviour ``chosen`` is the arm taken, and regret is that of the arm taken. ``followed``
        (world, t) is 1 where that is the one recommended. Sums of users and rewards by the arm offered and the arm
        taken (``offer_n``, ``offer_xx``, ``offer_xy``, ``offer_yy``) are for ``rcb.behaviour.instrument``. The
        attribute ``n_not_vouched`` counts the posteriors, of ``n_fits``, that a plan's runs acted on though no engine
        vouches for them.

    Raises
    ------
    RcbError
        Counts below 1, a plan for another market, a plan that is not feasible, a store of another run.
    WorkersError
        Workers that are none, cannot be reached or are lost.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)
    >>> runs = rcb.simulate(market, plan, horizon=500, n_worlds=5, seed=1)
    >>> dict(runs["regret"].sizes)
    {'world': 5, 't': 500}
    >>> round(runs["regret"].sum("t").mean().item(), 1)
    9.2
    """
    horizon = as_count(horizon, name="horizon", least=1)
    n_worlds = as_count(n_worlds, name="n_worlds", least=1)
    every = as_count(every, name="every", least=1)
    seed = as_count(seed, name="seed")
    check_run_size(horizon=horizon, n_worlds=n_worlds, every=every if store is None else horizon)
    check_workers(workers)
    if isinstance(plan, Plan):
        check_plan(market, plan)
        check_feasible(plan)
        warn_of_other_guard(market, plan, oracle, options or Exploiting())
    if behaviour is not None:
        behaviour.check(market, plan)
    cast = _Cast(
        market,
        plan,
        horizon=horizon,
        every=every,
        oracle=oracle,
        options=options,
        behaviour=behaviour,
        seed=seed,
    )
    attrs = _attrs(market, plan, horizon=horizon, every=every, seed=seed)
    attrs |= {} if behaviour is None else {"behaviour": repr(behaviour)}
    if store is not None:
        sizes = {"horizon": horizon, "n_worlds": n_worlds, "every": every, "seed": seed}
        sizes |= {} if behaviour is None else {"behaviour": repr(behaviour)}
        layout = Layout(
            n_worlds=n_worlds,
            variables=_variables(behaves=behaviour is not None),
            coords={"arm": np.array(market.arms), "t": _kept(horizon, every)} | _offer_coords(market, behaviour),
            attrs=attrs | {"counts": list(_FITS)},
            run=run_name(market, plan, oracle, options, **sizes),
        )
        return _explained(run_into(store, layout, _run, make=partial(_prepared, cast), workers=workers))
    worlds = run_blocks(_run, n_worlds, make=partial(_prepared, cast), workers=workers)
    return _explained(_as_dataset(market, worlds, attrs, _offer_coords(market, behaviour)))


class _Cast:
    """What the worlds of a run share."""

    def __init__(
        self,
        market: Market,
        plan: Plan | PolicyMaker,
        *,
        horizon: int,
        every: int,
        oracle: Oracle | None,
        options: Exploiting | None,
        behaviour: Behaviour | None,
        seed: int,
    ) -> None:
        self.market, self.plan, self.oracle, self.options = market, plan, oracle, options
        self.horizon, self.every, self.seed = horizon, every, seed
        self.behaviour = behaviour
        self.users: Callable[[], Conduct] | None = None


def _prepared(cast: _Cast) -> _Cast:
    """What users reckon with is worked out once for all worlds of a worker."""
    if cast.behaviour is not None and cast.users is None:
        plan = cast.plan if isinstance(cast.plan, Plan) else None
        options = cast.options or Exploiting()
        scene = Scene(market=cast.market, plan=plan, horizon=cast.horizon, options=options, seed=cast.seed)
        cast.users = cast.behaviour.prepared(scene)
    return cast


def _run(cast: _Cast, number: int) -> dict[str, np.ndarray]:
    """One world."""
    market, plan = cast.market, cast.plan
    seed = np.random.SeedSequence(cast.seed, spawn_key=(number,))  # as the seed's own children have it
    world = SimulatedWorld(market, seed)
    if isinstance(plan, Plan):
        policy: Policy = Rcb(world.market, plan, oracle=cast.oracle, options=cast.options)
    else:
        policy = completed(plan(world.market, policy_seed(seed)))
    record = _Record(cast.horizon, cast.every, behaves=cast.users is not None)
    sums = None if cast.users is None else OfferSums(market.n_arms, market.n_features)
    for block in drive(policy, world, horizon=cast.horizon, conduct=cast.users and cast.users()):
        record.note(block, world.mean_rewards(block.start, block.stop))
        if sums is not None:
            sums.add(block.x, block.decisions.arm, block.taken, block.reward)
    n_by_arm = np.full(market.n_arms, np.nan) if policy.n_by_arm is None else policy.n_by_arm
    ends = {name: np.array(getattr(policy, name)) for name in ("cold_start_length", "gamma", *_FITS)}
    offers = {} if sums is None else sums.as_arrays()
    return record.finished() | {"n_samples": n_by_arm.copy()} | ends | offers


class _Record:
    """Rounds as they are kept: all of them, or every so many."""

    def __init__(self, horizon: int, every: int, *, behaves: bool = False) -> None:
        self.every, self.behaves = every, behaves
        n = len(_kept(horizon, every))
        self.small = {
            name: np.empty(n, dtype=np.int8) for name in ("context_arm_best", "recommended", "chosen", "stage")
        }
        sums = (*_SUMS, *(("followed",) if behaves else ()))
        self.real = {name: np.zeros(n) for name in (*sums, "propensity", "gain")}

    def note(self, block: Block, mean: FloatArray) -> None:
        """Rounds of a block, with the true mean rewards (K, n)."""
        decisions, taken = block.decisions, block.taken
        n = len(decisions)
        columns = np.arange(n)
        gain = decisions.gain
        best = best_arm(mean)
        sums = {
            "regret": mean.max(axis=0) - mean[taken, columns],
            "posterior_regret": np.maximum(-gain if taken is decisions.arm else -decisions.gain_of(taken), 0.0),
        }
        if self.behaves:
            sums["followed"] = (taken == decisions.arm).astype(float)
        if self.every == 1:
            rows: Any = slice(block.start, block.stop)
            at: Any = slice(None)
            for name, values in sums.items():
                self.real[name][rows] = values
        else:
            place = (block.start + columns) // self.every
            for name, values in sums.items():
                np.add.at(self.real[name], place, values)
            at = np.flatnonzero(np.append(np.diff(place) > 0, True))
            rows = place[at]
        self.small["context_arm_best"][rows] = best[at]
        self.small["recommended"][rows] = decisions.arm[at]
        self.small["chosen"][rows] = taken[at]
        self.small["stage"][rows] = decisions.stage[at]
        self.real["propensity"][rows] = decisions.propensity[at]
        self.real["gain"][rows] = gain[at]

    def finished(self) -> dict[str, np.ndarray]:
        return self.small | self.real


def _kept(horizon: int, every: int) -> np.ndarray:
    """The rounds that a record ends its sums at: every so many, and the last."""
    return np.append(np.arange(every, horizon, every), horizon)


_DIMS: dict[str, tuple[str, ...]] = {
    "n_samples": ("world", "arm"),
    **dict.fromkeys(("cold_start_length", "gamma", *_FITS), ("world",)),
    **{name: ("world", *dims) for name, dims in OFFER_DIMS.items()},
}


def _offer_coords(market: Market, behaviour: Behaviour | None) -> dict[str, np.ndarray]:
    """Labels of the sums by the arm offered and the arm taken."""
    if behaviour is None:
        return {}
    arms, features = np.array(market.arms), np.array(market.prior.features)
    return {"offered": arms, "taken": arms, "feature": features, "other_feature": features}


def _as_dataset(
    market: Market, worlds: list[dict[str, np.ndarray]], attrs: dict[str, Any], offers: dict[str, np.ndarray]
) -> "xr.Dataset":
    import xarray as xr

    variables = {
        name: (_DIMS.get(name, ("world", "t")), np.stack([world[name] for world in worlds]))
        for name in worlds[0]
        if name not in _FITS
    }
    t = _kept(attrs["horizon"], attrs["every"])
    coords = {"arm": list(market.arms), "t": t, "world": np.arange(len(worlds))}
    data = xr.Dataset(variables, coords=coords | offers)
    counts = {name: int(sum(world[name] for world in worlds)) for name in _FITS}
    data.attrs = attrs | counts
    return data


def _variables(*, behaves: bool) -> dict[str, tuple[tuple[str, ...], str]]:
    """Dims and dtypes of what is kept of a world, by name."""
    by_round: tuple[str, ...] = ("world", "t")
    kept = {name: (by_round, part.dtype.str) for name, part in _Record(1, 1, behaves=behaves).finished().items()}
    ends = {"n_samples": "<f8", "cold_start_length": "<i8", "gamma": "<f8"} | dict.fromkeys(_FITS, "<i8")
    ends |= dict.fromkeys(OFFER_DIMS, "<f8") if behaves else {}
    return kept | {name: (_DIMS[name], dtype) for name, dtype in ends.items()}


def _attrs(market: Market, plan: Plan | PolicyMaker, *, horizon: int, every: int, seed: int) -> dict[str, Any]:
    attrs: dict[str, Any] = {"seed": seed, "version": __version__, "horizon": horizon, "every": every}
    if isinstance(plan, Plan):
        attrs |= {"notion": plan.notion, "epsilon": plan.epsilon, "plan": plan.kind, "n_per_arm": plan.n_per_arm}
    return attrs | {"belief": market.prior.name}


def _explained(data: "xr.Dataset") -> "xr.Dataset":
    """With the words for what is stored as a number; posteriors are counted of plans only."""
    data["stage"].attrs = {"flag_values": list(range(len(ROUND_KINDS))), "flag_meanings": ", ".join(ROUND_KINDS)}
    if "plan" not in data.attrs:
        data.attrs = {name: value for name, value in data.attrs.items() if name not in _FITS}
    return data
