r"""Users who are not all alike: several beliefs, and an epsilon of each user's own.

A user reckons with her own belief, so each type is audited in worlds of its own, against the same mechanism: the
platform goes on acting on what it believes. What a mixture asks is what share of all users would follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.auditing.result import Audit
from rcb_bayes.auditing.run import audit
from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.mechanism.bands import clopper_pearson
from rcb_bayes.mechanism.deciding import lowest_by_user
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.naming import name_of, name_of_market
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, FloatArray, is_number, plain
from rcb_bayes.telling.wording import percent
from rcb_bayes.workers import Workers, run_kept

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


_PLANNED_DRAWS = 10_000  # of epsilons that a plan is to allow for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserType:
    """A type of users.

    Parameters
    ----------
    name : str
        What to call them; not "all".
    share : float
        Of all users; the shares of all types sum to 1.
    prior : Prior, optional
        What they believe; the market's users' belief unless given.
    epsilon : float, array_like or SciPy distribution, optional
        What each of them puts up with: a number, or draws of it (an array, or a SciPy distribution), from which every
        user gets one of her own.
    knows : str, optional
        What they know of the clock; what the plan says unless given.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> strict = rcb.UserType(name="strict", share=0.5, epsilon=0.02)
    >>> easy = rcb.UserType(name="easy", share=0.5, epsilon=[0.1, 0.15, 0.2])
    >>> mixed = rcb.audit_types(market, plan, [strict, easy], horizon=50, n_worlds=300, n_users=50)
    >>> mixed.shares["share"].sel(type=["strict", "easy"]).values.round(1)
    array([0., 1.])
    """

    name: str
    share: float
    prior: Prior | None = None
    epsilon: Any = None
    knows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedAudit:
    """What was found.

    Parameters
    ----------
    verdict : {"pass", "fail", "inconclusive"}
        On "at least ``least_share`` of all users would follow": "pass" if the lower bound of that share says so, "fail"
        if the upper bound does not reach it.
    least_share : float
        What the verdict asks of the share of users who follow.
    audits : dict of str to Audit
        Of each type, by its name, judged at the median of its epsilons.
    shares : xarray.Dataset
        Dim (type), with "all" last: ``share`` of users who would follow at every stage, each at her own
        epsilon, by the estimates; ``share_lower`` and ``share_upper`` hold for all types at once.

    Examples
    --------
    With ``mixed`` as in ``audit_types``:

    >>> round(mixed.shares["share"].sel(type="as planned").item(), 2)
    1.0
    >>> mixed.audits["doubters"].verdict
    'fail'
    """

    verdict: Verdict
    least_share: float
    audits: dict[str, Audit]
    shares: "xr.Dataset"

    def summary(self) -> str:
        """The verdict, and the share of each type that would follow.

        Examples
        --------
        With ``mixed`` as in ``audit_types``:

        >>> print(mixed.summary())
        fail: would at least 90 % of users follow?
        as planned: 100.0 % follow, bounds ... % to ... % (70 % of users)
        doubters: 16.0 % follow, bounds ... % to ... % (30 % of users)
        all: 74.8 % follow, bounds ... % to ... %
        """
        lines = [f"{self.verdict}: would at least {100 * self.least_share:g} % of users follow?"]
        for name in self.shares["type"].values:
            one = self.shares.sel(type=name)
            lines.append(
                f"{name}: {percent(one['share'].item())} follow, bounds {percent(one['share_lower'].item())} to "
                f"{percent(one['share_upper'].item())}"
                + ("" if name == "all" else f" ({100 * one['weight'].item():g} % of users)")
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The verdict, the shares of each type, and what its audit says."""
        names = [str(name) for name in self.shares["type"].values]
        shares = {name: {str(key): self.shares[key].sel(type=name).item() for key in self.shares} for name in names}
        return plain(
            {
                "verdict": self.verdict,
                "least_share": self.least_share,
                "shares": shares,
                "audits": {name: found.to_dict() for name, found in self.audits.items()},
            }
        )

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """The share of each type that would follow, with its bounds; see ``plots.plot_shares``.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from rcb_bayes.plots import plot_shares

        return plot_shares(self.shares, least_share=self.least_share, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file, a group for each type, with a digest of its content.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        With ``mixed`` as in ``audit_types``:

        >>> mixed.save("mixed.nc")
        >>> rcb.MixedAudit.load("mixed.nc").verdict
        'fail'
        """
        from rcb_bayes.auditing.mixed_files import write_mixed

        write_mixed(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "MixedAudit":
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        MixedAudit

        Raises
        ------
        RcbError
            A file that is not there, or is no such audit; a digit that was changed; parts that disagree.
        """
        from rcb_bayes.auditing.mixed_files import read_mixed

        return read_mixed(cls, path)


def audit_types(
    market: Market,
    plan: Plan | Recommender | PolicyMaker,
    types: Sequence[UserType],
    *,
    least_share: float = 0.9,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 1000,
    notion: str | None = None,
    n_users: int = 200,
    level: float = 0.05,
    options: Exploiting | None = None,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> MixedAudit:
    """Audit a mechanism with users of several types.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan, Recommender or callable
        See ``audit``.
    types : sequence of UserType
        With shares that sum to 1.
    least_share : float
        What the verdict asks of the share of users who follow.
    horizon : int
        T, rounds that are looked at.
    n_worlds : int
        Worlds of each stage, for every type.
    notion : str, optional
        "user" or "proof"; that of the plan unless given.
    n_users : int
        Users at random, of every type.
    level : float
        One minus the confidence of the bounds, which hold for all cells at once.
    options : Exploiting, optional
        How the platform exploits: clock, feed, spread, inflation and guard.
    workers : None, int, str, Client or Executor
        Who works on the audits: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    folder : path-like, optional
        Where finished audits are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    MixedAudit
        The verdict, the share of each type that would follow, and an audit of each.

    Raises
    ------
    RcbError
        No types, shares that do not sum to 1, two types of one name, epsilons that are negative, ``definition``.

    Applicability
    -------------
    The platform acts on ``market.platform_prior``, for which the plan was made. A share is one of users drawn at
    random; its bounds count users whose simultaneous bounds are all on one side.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> doubters = rcb.Prior.gaussian([[0.9, 0.2], [0.2, 0.2]], 0.01, arms=["old", "new"])
    >>> types = [rcb.UserType(name="as planned", share=0.7), rcb.UserType(name="doubters", share=0.3, prior=doubters)]
    >>> mixed = rcb.audit_types(market, plan, types, horizon=50, n_worlds=300, n_users=50)
    >>> mixed.verdict
    'fail'
    """
    check_types(market, types, least_share=least_share, notion=notion)
    rng = generator(seed, Stream.USER_TYPES)
    part = level / (2 * len(types))  # half for the bands, half for the users being a sample
    shared: dict[str, Any] = {"horizon": horizon, "n_worlds": n_worlds, "notion": notion, "level": part}
    asked: dict[str, _Asked] = {}
    for number, kind in enumerate(types):
        users = market.population.sample(n_users, seed=rng)
        own = market if kind.prior is None else replace(market, prior=kind.prior, nature=kind.prior)
        asked[f"cells/type-{number}.nc"] = (own, users, _epsilons(kind, plan, n_users, rng), seed + number, kind.knows)
    manifest = {"experiment": "audit_types", **shared, "n_users": n_users, "seed": seed, "plan": name_of(plan)}
    manifest |= {"options": repr(options), "types": [f"{kind.name} {kind.share}" for kind in types]}
    manifest |= {"markets": [name_of_market(own) for own, *_ in asked.values()]}
    manifest |= {"epsilons": [float(np.median(epsilons)) for _, _, epsilons, *_ in asked.values()]}
    found = run_kept(
        open_store(None if folder is None else Path(folder), manifest, resume=None),
        asked,
        function=_audited_type,
        make=partial(_Judged, plan, shared | {"options": options}),
        save=lambda _, one, path: one.save(path),
        load=lambda _, path: Audit.load(path),
        workers=workers,
        description="types",
    )
    audits = {kind.name: one for kind, one in zip(types, found, strict=True)}
    rows = [_followers(one, each[2], part) for one, each in zip(found, asked.values(), strict=True)]
    return _mixed(types, audits, np.array(rows), least_share)


_Asked = tuple[Market, FloatArray, FloatArray, int, str | None]  # market, users, their epsilons, seed, what they know


class _Judged:
    """What audits of all types share."""

    def __init__(self, plan: Plan | Recommender | PolicyMaker, how: dict[str, Any]) -> None:
        self.plan, self.how = plan, how


def _audited_type(judged: _Judged, asked: _Asked) -> Audit:
    market, users, epsilons, seed, knows = asked
    how = judged.how | {"epsilon": float(np.median(epsilons)), "users": users, "knows": knows, "seed": seed}
    return audit(market, judged.plan, **how)


def _followers(found: Audit, epsilons: FloatArray, level: float) -> tuple[float, float, float, float]:
    """Share of users who follow at their own epsilon, its error, and bounds."""
    n = len(epsilons)
    holds = {
        name: int((lowest_by_user(found.margins[name], n) >= -epsilons - 1e-12).sum())
        for name in ("estimate", "lower", "upper")
    }
    share = holds["estimate"] / n
    error = float(np.sqrt(max(share * (1 - share), 1 / n) / n))
    lower = clopper_pearson(np.array(holds["lower"]), n, level)[0]
    upper = clopper_pearson(np.array(holds["upper"]), n, level)[1]
    return share, error, float(lower), float(upper)


def _mixed(types: Sequence[UserType], audits: dict[str, Audit], rows: FloatArray, least_share: float) -> MixedAudit:
    import xarray as xr

    weights = np.array([kind.share for kind in types])
    overall = weights @ rows
    overall[1] = np.sqrt((weights**2) @ rows[:, 1] ** 2)
    table = np.vstack([rows, overall])
    names = ("share", "share_mcse", "share_lower", "share_upper")
    shares = xr.Dataset(
        {name: ("type", table[:, k]) for k, name in enumerate(names)} | {"weight": ("type", np.append(weights, 1.0))},
        coords={"type": [*(kind.name for kind in types), "all"]},
    )
    verdict = verdict_of_shares(shares, least_share)
    return MixedAudit(verdict=verdict, least_share=least_share, audits=audits, shares=shares)


def verdict_of_shares(shares: "xr.Dataset", least_share: float) -> Verdict:
    """Whether enough of all users would follow, by the bounds of their share."""
    lower, upper = (float(shares[name].sel(type="all")) for name in ("share_lower", "share_upper"))
    return "pass" if lower >= least_share else "fail" if upper < least_share else "inconclusive"


def check_types(market: Market, types: Sequence[UserType], *, least_share: float, notion: str | None) -> None:
    """Refuse types that are none, have other arms than the market, or shares that do not sum to 1.

    Raises
    ------
    RcbError
        With the type's name.
    """
    if not len(types) or not all(isinstance(kind, UserType) for kind in types):
        raise RcbError("types must be a sequence of UserType, such as [UserType(name='all', share=1.0)].")
    names = [kind.name for kind in types]
    if len(set(names)) < len(names) or "all" in names:
        raise RcbError(f"Types need names of their own, other than 'all'; got {', '.join(names)}.")
    for kind in types:
        if kind.prior is not None and (kind.prior.arms, kind.prior.features) != (market.arms, market.prior.features):
            raise RcbError(
                f"Type '{kind.name}' believes in arms {', '.join(kind.prior.arms)} with {kind.prior.n_features} "
                f"features; the market has {', '.join(market.arms)} with {market.n_features}. Build its belief with "
                "arms=list(market.arms) and the same features."
            )
        if kind.knows is not None:
            as_knowledge(kind.knows)
    if not all(is_number(kind.share) and kind.share > 0 for kind in types):
        raise RcbError("The share of a type must be a positive number.")
    if abs(sum(kind.share for kind in types) - 1.0) > 1e-6:
        raise RcbError(f"The shares of all types must sum to 1, got {sum(kind.share for kind in types):g}.")
    if not (is_number(least_share) and 0 < least_share <= 1):
        raise RcbError(f"least_share is a share between 0 and 1, got {least_share!r}.")
    if notion is not None and not as_notion(notion).is_per_user:
        raise RcbError("Types are audited user by user: use notion='user' or 'proof'.")


def planned_epsilon(kind: UserType, *, usual: float, least_share: float, seed: int) -> float:
    """What a plan allows for: a type's own epsilon; of several, that which all of them, or enough of them, put up with.

    Raises
    ------
    RcbError
        Epsilons that are negative or not finite.
    """
    if kind.epsilon is None:
        return usual
    drawn = _drawn(kind, kind.epsilon, _PLANNED_DRAWS, generator(seed, Stream.USER_TYPES))
    return float(np.quantile(drawn, 1.0 - least_share, method="lower"))


def _epsilons(kind: UserType, plan: Plan | Recommender | PolicyMaker, n: int, rng: np.random.Generator) -> FloatArray:
    """What each of n users puts up with."""
    given: Any = kind.epsilon
    if given is None:
        made = plan.plan if isinstance(plan, Recommender) else plan
        given = made.epsilon if isinstance(made, Plan) else 0.05
    return _drawn(kind, given, n, rng)


def _drawn(kind: UserType, given: Any, n: int, rng: np.random.Generator) -> FloatArray:
    """n draws of what users put up with, of a number, an array or a distribution."""
    if hasattr(given, "rvs"):
        found = np.asarray(given.rvs(size=n, random_state=rng), dtype=float)
    else:
        draws: ArrayLike = given
        pool = np.atleast_1d(np.asarray(draws, dtype=float))
        found = rng.choice(pool, size=n) if pool.size > 1 else np.full(n, pool.item())
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise RcbError(f"The epsilons of type '{kind.name}' must be finite and at least 0.")
    return found
