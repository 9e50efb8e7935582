r"""The price of what users know: one cold start for each thing that they may know of the clock.

A user who knows less is easier to satisfy: the slack of one moment pays for another that she cannot tell from it. What
a platform publishes of its clock is its own choice, so that the difference between two of these plans is what saying
more costs. All of them are made from the same belief, users, N and epsilon, and from one seed.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_plan_size
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.knowledge import KNOWLEDGE, LEVEL, MOST_SETS, STAGE, Knows, as_knowledge, count_sets
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.mechanism.walk import alike_arms
from rcb_bayes.planning.calibration import planned_cold_start
from rcb_bayes.planning.goal import PlanRequest, as_request
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count
from rcb_bayes.workers import Workers, run_tasks

if TYPE_CHECKING:
    import xarray as xr

_ASKED = ("epsilon", "notion", "n_worlds", "audit_worlds")
_FIGURES = ("expected_cold_start", "expected_regret", "exploration_rate")


def price_of_knowledge(
    market: Market,
    *,
    epsilon: float = 0.05,
    notion: str = "user",
    n_per_arm: int | Sequence[int] | Mapping[str, int] | Agenda = 20,
    knows: Sequence[str] | None = None,
    n_worlds: int = 2000,
    audit_worlds: int = 1000,
    horizon: int = DEFAULT_HORIZON,
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """What a cold start costs, by what users know of the clock; users have rates of their own.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about: Gaussian.
    epsilon : float
        What users put up with.
    notion : str
        "user" or "proof".
    n_per_arm : int, sequence or mapping
        N, samples of every arm, or of each; see ``calibrate``.
    knows : sequence of str, optional
        Some of "stage", "level", "phase" and "mechanism"; all of them unless given, but for the stage where there are
        too many saturated sets.
    n_worlds : int
        Simulated worlds behind each stage of each plan.
    audit_worlds : int
        Worlds of the audit that each plan is to pass.
    horizon : int
        T, rounds in all: users who know nothing of the clock may be in any of them.
    workers : None, int, str, Client or Executor
        Who makes the plans: this process, so many processes, a Dask cluster by its scheduler's address or its client,
        an executor. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.Dataset
        Dim (knows), from the most that users know to the least: ``expected_cold_start``, ``expected_regret`` of the
        cold start and ``exploration_rate``, each with its ``_mcse``; ``share_explored``, ``feasible``, and ``words``
        for what is known.

    Raises
    ------
    RcbError
        Unknown or repeated knowledge, none at all, rewards that are not Gaussian, a notion that averages over users,
        and whatever ``calibrate`` refuses.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> prices = rcb.price_of_knowledge(market, epsilon=0.1, n_per_arm=10, knows=["level", "mechanism"], n_worlds=200)
    >>> bool(prices["expected_cold_start"].sel(knows="mechanism") < prices["expected_cold_start"].sel(knows="level"))
    True
    """
    import xarray as xr

    horizon = as_count(horizon, name="horizon", least=1)
    known = _as_known(market, knows)
    _check(market, notion)
    requests = [
        as_request(
            market,
            knows=name,
            epsilon=epsilon,
            notion=notion,
            personalised=True,
            n_per_arm=n_per_arm,
            n_worlds=n_worlds,
            audit_worlds=audit_worlds,
            engine="auto",
            seed=seed,
        )
        for name in known
    ]
    agenda = as_agenda(requests[0].n_per_arm, market.n_arms)
    check_plan_size(market, n_per_arm=agenda.most, n_worlds=requests[0].n_worlds)
    cold_start = partial(_cold_start, horizon=horizon)
    done = run_tasks(cold_start, requests, make=partial(_same, market), workers=workers, description="what users know")
    plans = [plan for _, plan in sorted(done, key=itemgetter(0))]
    names = [name + suffix for name in _FIGURES for suffix in ("", "_mcse")]
    variables: dict[str, Any] = {
        name: ("knows", np.array([getattr(plan, name) for plan in plans])) for name in (*names, "share_explored")
    }
    variables["feasible"] = ("knows", np.array([plan.feasible for plan in plans]))
    attrs = {name: getattr(requests[0], name) for name in _ASKED}
    attrs["n_per_arm"] = agenda.most if agenda.is_plain else agenda.words
    attrs |= {"horizon": horizon, "seed": seed, "belief": market.prior.name, "engine": plans[0].engine}
    coords = {"knows": known, "words": ("knows", [as_knowledge(name).words for name in known])}
    return xr.Dataset(variables, coords=coords, attrs={**attrs, "version": __version__})


def _same(market: Market) -> Market:
    return market


def _cold_start(market: Market, request: PlanRequest, *, horizon: int) -> Plan:
    return planned_cold_start(market, request, horizon=horizon)


def _as_known(market: Market, knows: Sequence[str] | None) -> list[Knows]:
    """What users may know, from the most to the least."""
    fits = count_sets(alike_arms(market)) <= MOST_SETS
    if knows is None:
        return [each.name for each in KNOWLEDGE.values() if fits or each is not STAGE]
    names = [knows] if isinstance(knows, str) else list(knows)
    found = [as_knowledge(name) for name in names]
    if not found or len({each.name for each in found}) < len(found):
        raise RcbError(f"knows must be some of {', '.join(KNOWLEDGE)}, each once, got {names}.")
    if STAGE in found and not fits:
        raise RcbError(
            f"A cold start of {market.n_arms} different arms has too many possible stages (sets of saturated arms) to "
            f"plan them one by one: at most {MOST_SETS}. Leave out '{STAGE.name}', and begin with '{LEVEL.name}'."
        )
    return [each.name for each in KNOWLEDGE.values() if each in found]


def _check(market: Market, notion: str) -> None:
    """Refuse what has no plan for users who know less than the level."""
    judged = as_notion(notion)
    if not judged.is_per_user:
        raise RcbError(
            f"The notion '{judged.name}' averages over users, and users who cannot tell levels apart have rates of "
            "their own. Use notion='user' or 'proof'."
        )
    if not market.noise.is_gaussian:
        raise RcbError(
            "The price of what users know is computed for Gaussian rewards: with others plans are made stage by stage."
        )
