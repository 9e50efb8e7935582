"""``sensitivity``: how far what a plan rests on may be off before users stop following it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.auditing.directed import Ends, Look, Row
from rcb_bayes.auditing.directions import Case, Direction, direction_of, usual_directions
from rcb_bayes.auditing.radius import Crossing, Sizes, desertion, failure
from rcb_bayes.auditing.run import audit
from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import Store, open_store
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_audit_size, check_run_size
from rcb_bayes.mechanism.deciding import deciding_cell
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.checks import check_feasible, check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.naming import name_of, name_of_market
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count, is_number
from rcb_bayes.telling.progress import say
from rcb_bayes.workers import Workers, check_workers, run_kept

if TYPE_CHECKING:
    from rcb_bayes.auditing.varied import Sensitivity

_FIGURES = ("margin", "compliance", "cold_start", "regret")
FAILS, HOLDS, CROSSES, KIND = "fails already", "holds", "crosses", "no radius"


def sensitivity(
    market: Market,
    plan: Plan,
    *,
    along: str | Sequence[str] | None = None,
    amounts: Mapping[str, Sequence[float]] | None = None,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 1000,
    n_users: int = 100,
    n_runs: int = 20,
    least_share: float = 0.9,
    options: Exploiting | None = None,
    workers: Workers = None,
    folder: str | Path | None = None,
    seed: int = DEFAULT_SEED,
) -> "Sensitivity":
    """How far what a plan rests on may be off: verdict, margin, cold start and regret over directions and amounts.

    The plan is held fixed: it was made for the belief that was written down. Along ``shift``, ``scale``,
    ``correlation``, ``tails`` and ``family`` it is the *users'* belief that varies, and with it the worlds of the
    audit, which are users' arithmetic; the platform's oracle goes on believing ``market.platform_prior``, by which it
    promotes and recommends arms, and nature stays where it was, so that cold start and regret are the same at every
    amount. Along ``noise`` and ``users`` everybody, platform included, meets and knows other rewards or arrivals. Along
    ``N`` the plan takes other numbers of samples with its rates and guards as they are.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        For this market.
    along : str or sequence of str, optional
        Directions. ``shift:ARM``: everybody expects so much more of an arm (where features have a constant, else so
        much in root mean square over users, by all coefficients alike); ``shift:ARM:FEATURE``: one coefficient;
        ``scale``: times the belief's deviations from its mean; ``correlation``: between arms, towards 1 or -1;
        ``tails``: Student-t with 1/amount degrees of freedom; ``family``: other shapes, same means and variances;
        ``noise``: times sigma; ``N``: times samples per arm; ``users`` or ``users:FEATURE``: arrivals weighted by
        exp(amount x standardised feature); ``epsilon``: what users put up with; ``knows``: what they know of the
        clock. Unless given: the shift of the arm that most users expect most of, scale, noise, N and epsilon.
    amounts : mapping of str to sequence of float, optional
        By direction, in place of the usual ones. The radius is looked for between them.
    horizon : int
        T, rounds that are looked at.
    n_worlds : int
        Worlds of each audit; the few users who bind are followed in four times as many.
    n_users : int
        Users at random; the worst of many are added.
    n_runs : int
        Runs behind cold start and regret; with 0 these are left out.
    least_share : float
        Of users at random: from which amount on fewer would follow is looked for, too.
    options : Exploiting, optional
        How the platform exploits.
    workers : None, int, str, Client or Executor
        Who works on directions: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    folder : path-like, optional
        Where finished directions are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer; all amounts share its worlds.

    Returns
    -------
    Sensitivity
        A Dataset over (direction, amount): ``verdict``, ``margin`` (of the cell that decides: the lowest of any user,
        arm and rival at any stage), ``compliance`` (the share of users who would follow), ``cold_start`` and ``regret``
        of a run, each with its ``_mcse``, and ``epsilon``; empty where an amount was not looked at. Over (direction):
        ``fails_below`` and ``fails_above``, the amounts from which on the plan fails on either side, infinite where it
        does not as far as was looked; ``radius``, the distance of the nearer one from the amount as written down
        (``base``), a factor of at least 1 where amounts multiply (``unit``); ``leave_below``, ``leave_above`` and
        ``share_radius``, the same for fewer than ``least_share`` of users at random following; each with its ``_mcse``;
        ``status``, "crosses", "holds" as far as was looked, "fails already" or "no radius" of kinds; ``words``. With
        ``summary()``, ``draw()`` and ``save(path)``.

    Raises
    ------
    RcbError
        An unknown direction, or one that this market does not have; amounts that make no sense; a plan for another
        market, or one that is not feasible; a folder of another run.

    Applicability
    -------------
    Each radius is along its own direction, everything else as written down: two errors at once may add up. Shift and
    scale are exact for any belief; correlation, tails and family start from a Gaussian one. A radius is where the point
    estimate of the binding user's margin meets -epsilon: an audit tells failures from -epsilon only beyond its bands.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> found = rcb.sensitivity(
    ...     market, plan, along=["scale"], amounts={"scale": [0.25, 1.0]}, horizon=50, n_worlds=300, n_runs=0
    ... )
    >>> found["verdict"].sel(direction="scale", amount=0.25).item()
    'fail'
    >>> found["status"].item(), round(found["radius"].item(), 1)
    ('crosses', 1.0)
    """
    asked = _as_asked(
        market,
        plan,
        least_share=least_share,
        options=options,
        horizon=horizon,
        n_worlds=n_worlds,
        n_users=n_users,
        n_runs=n_runs,
        seed=seed,
    )
    names = _as_names(market, plan, along)
    check_workers(workers)
    grids = {name: _grid(direction_of(name, market, plan), amounts, names) for name in names}
    check_feasible(plan)
    store = _store(market, plan, asked, grids, folder)
    case = Case(market=market, plan=plan, epsilon=plan.epsilon)
    look = partial(_looked, case, asked, with_runs=True)
    as_written = store.result("cells/as-written.json", look, save=Look.save, load=Look.load)
    rows = run_kept(
        store,
        {f"cells/direction-{number}.json": (name, grids[name]) for number, name in enumerate(names)},
        function=_along,
        make=partial(_Given, market, plan, asked, as_written),
        save=lambda _, row, path: row.save(path),
        load=lambda _, path: Row.load(path),
        workers=workers,
        description="directions",
    )
    return _joined(market, plan, rows, asked)


def load_sensitivity(path: str | Path) -> "Sensitivity":
    """Read what ``save`` of a result of ``sensitivity`` wrote.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    Sensitivity
        As it was.

    Raises
    ------
    RcbError
        A file that is not there, or is something else; a digit that was changed; figures that are missing.

    Examples
    --------
    With ``found`` as in ``sensitivity``:

    >>> found.save("sensitivity.nc")
    >>> rcb.load_sensitivity("sensitivity.nc").identical(found)
    True
    """
    from rcb_bayes.auditing.varied import read_sensitivity

    return read_sensitivity(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    horizon: int
    n_worlds: int
    n_users: int
    n_runs: int
    least_share: float
    options: Exploiting
    seed: int


class _Given:
    """What all directions share."""

    def __init__(self, market: Market, plan: Plan, asked: _Asked, as_written: Look) -> None:
        self.market, self.plan, self.asked, self.as_written = market, plan, asked, as_written


def _store(
    market: Market, plan: Plan, asked: _Asked, grids: dict[str, list[float]], folder: str | Path | None
) -> Store:
    """Where directions are kept, if anywhere."""
    manifest = {"experiment": "sensitivity", "plan": name_of(plan), "directions": grids, **name_of_market(market)}
    manifest |= asdict(asked) | {"options": repr(asked.options)}
    return open_store(None if folder is None else Path(os.path.expanduser(folder)), manifest, resume=None)


def _as_asked(market: Market, plan: Plan, *, least_share: float, options: Exploiting | None, **counts: int) -> _Asked:
    check_plan(market, plan)
    if not (is_number(least_share) and 0 < least_share <= 1):
        raise RcbError(f"least_share is a share above 0 and at most 1, got {least_share!r}.")
    least = {"horizon": 1, "n_worlds": MIN_WORLDS, "n_users": 1, "n_runs": 0, "seed": 0}
    checked = {name: as_count(value, name=name, least=least[name]) for name, value in counts.items()}
    check_audit_size(market, n_worlds=checked["n_worlds"], n_users=checked["n_users"])
    check_run_size(horizon=checked["horizon"], n_worlds=max(checked["n_runs"], 1), every=checked["horizon"])
    return _Asked(least_share=float(least_share), options=options or Exploiting(guard=plan.has_guard), **checked)


def _as_names(market: Market, plan: Plan, along: str | Sequence[str] | None) -> list[str]:
    names = (
        list(usual_directions(market, plan)) if along is None else [along] if isinstance(along, str) else list(along)
    )
    if not names or len(set(names)) < len(names):
        raise RcbError(f"along must name directions, each once, such as ['scale', 'noise']; got {names}.")
    return names


def _grid(direction: Direction, given: Mapping[str, Sequence[float]] | None, names: list[str]) -> list[float]:
    """Amounts in order, the base among them.

    Raises
    ------
    RcbError
        Amounts of a direction that is not asked for, or that make no sense.
    """
    unasked = [name for name in given or {} if name not in names]
    if unasked:
        raise RcbError(f"amounts are given for {', '.join(unasked)}, which along does not name. Add it to along.")
    wanted = (given or {}).get(direction.name, direction.amounts)
    low, high = direction.limits
    bad = [value for value in wanted if not (is_number(value) and low <= value <= high)]
    bad += [value for value in wanted if direction.unit == "times" and value in (0, 0.0)]
    bad += [value for value in wanted if direction.labels and value not in direction.amounts]
    if bad:
        raise RcbError(f"Amounts of '{direction.name}' are between {low:g} and {high:g}, got {bad[0]!r}.")
    return sorted({direction.base, *(float(value) for value in wanted)})


def _along(given: _Given, task: tuple[str, list[float]]) -> Row:
    """One direction: every amount audited, then the radius."""
    name, amounts = task
    say(f"along {name}")
    asked = given.asked
    direction = direction_of(name, given.market, given.plan)
    cases = [direction.case(amount) for amount in amounts]
    looks = []
    for amount, case in zip(amounts, cases, strict=True):
        if amount == direction.base and case.market is given.market and direction.kind != "users":
            looks.append(given.as_written)
            continue
        found = _looked(case, asked, with_runs=direction.runs_differ)
        if not direction.runs_differ:  # platform, nature and arrivals are as they were
            found = replace(found, cold_start=given.as_written.cold_start, regret=given.as_written.regret)
        looks.append(found)
    lacking = [look.margin[0] + case.epsilon < 0.0 for case, look in zip(cases, looks, strict=True)]
    ends = _sides(direction, amounts, looks, lacking, asked)
    return Row(
        name=name,
        base=direction.base,
        unit=direction.unit,
        amounts=amounts,
        labels=[direction.label(amount) for amount in amounts],
        epsilons=[case.epsilon for case in cases],
        looks=looks,
        ends=ends,
        radius=_radius(direction, ends.fails),
        share_radius=_radius(direction, ends.deserted),
        words=_words(direction, amounts, ends, asked.least_share),
    )


def _looked(case: Case, asked: _Asked, *, with_runs: bool) -> Look:
    found = audit(
        case.market,
        case.plan,
        epsilon=case.epsilon,
        knows=case.knows,
        horizon=asked.horizon,
        n_worlds=asked.n_worlds,
        n_users=asked.n_users,
        options=asked.options,
        seed=asked.seed,
    )
    cell = deciding_cell(found.margins)
    at = found.compliance.sel(epsilon=case.epsilon, method="nearest")
    unknown = (np.nan, np.nan)
    runs = _runs(case, asked) if with_runs and asked.n_runs else (unknown, unknown)
    return Look(
        verdict=found.verdict,
        margin=unknown if cell is None else (cell.estimate, cell.mcse),
        compliance=(float(at["share"]), float(at["share_mcse"])),
        cold_start=runs[0],
        regret=runs[1],
    )


def _runs(case: Case, asked: _Asked) -> tuple[tuple[float, float], tuple[float, float]]:
    """Cold start and regret of runs in worlds of nature, whatever market the plan was made for."""
    plan = replace(case.plan, provenance=replace(case.plan.provenance, made_of={}))
    oracle = PosteriorOracle(case.market.platform_prior, case.market.noise, read="engine")
    runs = simulate(
        case.market,
        plan,
        horizon=asked.horizon,
        n_worlds=asked.n_runs,
        every=asked.horizon,
        oracle=oracle,
        options=asked.options,
        seed=asked.seed,
    )
    length = runs["cold_start_length"].values.astype(float)
    return _mean(np.where(length < 0, np.inf, length)), _mean(runs["regret"].sum("t").values)


def _mean(values: np.ndarray) -> tuple[float, float]:
    if not np.isfinite(values).all():
        return np.inf, np.nan
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def _sides(direction: Direction, amounts: list[float], looks: list[Look], lacking: list[bool], asked: _Asked) -> Ends:
    """Whether there is a radius, and where the plan fails below and above the base."""
    none = Crossing(amount=np.nan, mcse=np.nan)
    base = amounts.index(direction.base)
    if direction.unit == "kind" or looks[base].verdict == "fail":
        return Ends(status=KIND if direction.unit == "kind" else FAILS, fails=(none, none), deserted=(none, none))
    sizes = Sizes(
        horizon=asked.horizon,
        n_worlds=asked.n_worlds,
        n_users=asked.n_users,
        options=asked.options,
        seed=asked.seed,
    )
    lacks = {amount for amount, lack in zip(amounts, lacking, strict=True) if lack} - {direction.base}
    few = {amount for amount, look in zip(amounts, looks, strict=True) if look.compliance[0] < asked.least_share}
    few = few if as_notion(direction.case(direction.base).plan.notion).is_per_user else set()  # nobody's own margin
    fails, deserted = [], []
    for side, end in ((amounts[base::-1], -np.inf), (amounts[base:], np.inf)):
        beyond = Crossing(amount=end, mcse=np.nan)
        first = next((amount for amount in side if amount in lacks), None)
        found = beyond if first is None else failure(direction, sizes, side, first=first)
        fails.append(found if np.isfinite(found.amount) else beyond)
        found = desertion(direction, sizes, side, share=asked.least_share) if few & set(side) else beyond
        found = found if np.isfinite(found.amount) else beyond
        # Who fails last cannot fail before who fails first, but by the errors of both.
        nearer = direction.distance(found.amount) < direction.distance(fails[-1].amount)
        deserted.append(replace(found, amount=fails[-1].amount) if nearer and np.isfinite(fails[-1].amount) else found)
    crosses = any(np.isfinite(one.amount) for one in fails)
    return Ends(status=CROSSES if crosses else HOLDS, fails=tuple(fails), deserted=tuple(deserted))


def _radius(direction: Direction, sides: tuple[Crossing, ...]) -> tuple[float, float]:
    """The nearer end's distance from the base; unknown of kinds, and of a plan that fails as it is."""
    if any(np.isnan(side.amount) for side in sides):
        return np.nan, np.nan
    near = min(sides, key=lambda side: direction.distance(side.amount))
    return direction.distance(near.amount), direction.distance_error(near.amount, near.mcse)


def _words(direction: Direction, amounts: list[float], ends: Ends, least_share: float) -> str:
    """What is said of a direction: for whom it holds, and how far."""
    if ends.status == KIND:
        return ""
    if ends.status == FAILS:
        return "the plan fails as it is: there is no radius"
    looked = [direction.words(end) for end in (amounts[0], amounts[-1]) if end != direction.base]
    held = [direction.words(side.amount) for side in ends.fails if np.isfinite(side.amount)]
    if not held:
        return f"holds as far as was looked: if {', or '.join(looked)}"
    most = [direction.words(side.amount) for side in ends.deserted if np.isfinite(side.amount)]
    share = f"{100 * least_share:g} % of users would follow"
    more = f"if {', or '.join(most)}" if most else "as far as was looked"
    return f"holds if {', or '.join(held)}; {share} {more}"


def _joined(market: Market, plan: Plan, rows: list[Row], asked: _Asked) -> "Sensitivity":
    from rcb_bayes.auditing.varied import Sensitivity

    every = sorted({amount for row in rows for amount in row.amounts})
    shape, two = (len(rows), len(every)), ("direction", "amount")
    values: dict[str, Any] = {name: np.full(shape, np.nan) for name in ("epsilon", *_FIGURES)}
    values |= {f"{name}_mcse": np.full(shape, np.nan) for name in _FIGURES}
    words = {name: np.full(shape, "", dtype=object) for name in ("verdict", "label")}
    for k, row in enumerate(rows):
        for amount, label, epsilon, look in zip(row.amounts, row.labels, row.epsilons, row.looks, strict=True):
            at = k, every.index(amount)
            values["epsilon"][at] = epsilon
            words["verdict"][at], words["label"][at] = look.verdict, label
            for name in _FIGURES:
                values[name][at], values[f"{name}_mcse"][at] = getattr(look, name)
    variables: dict[str, Any] = {name: (two, found.astype(str)) for name, found in words.items()}
    variables |= {name: (two, found) for name, found in values.items()}
    one: dict[str, list[float]] = {"base": [row.base for row in rows]}
    for name, found in (("radius", [row.radius for row in rows]), ("share_radius", [row.share_radius for row in rows])):
        one |= {name: [value for value, _ in found], f"{name}_mcse": [error for _, error in found]}
    for name, found in (("fails", [row.ends.fails for row in rows]), ("leave", [row.ends.deserted for row in rows])):
        for place, side in enumerate(("below", "above")):
            ends = [each[place] for each in found]
            one |= {f"{name}_{side}": [end.amount for end in ends], f"{name}_{side}_mcse": [end.mcse for end in ends]}
    variables |= {name: ("direction", np.array(found, dtype=float)) for name, found in one.items()}
    told = {name: np.array([getattr(row, name) for row in rows], dtype=str) for name in ("unit", "status", "words")}
    variables |= {name: ("direction", found) for name, found in told.items()}
    attrs = {
        "epsilon": plan.epsilon,
        "notion": plan.notion,
        "knows": plan.knows,
        "engine": plan.engine,
        "belief": market.prior.name,
        "horizon": asked.horizon,
        "n_worlds": asked.n_worlds,
        "n_users": asked.n_users,
        "n_runs": asked.n_runs,
        "least_share": asked.least_share,
        "seed": asked.seed,
        "version": __version__,
    }
    coords = {"direction": [row.name for row in rows], "amount": np.array(every)}
    return Sensitivity(variables, coords=coords, attrs=attrs)
