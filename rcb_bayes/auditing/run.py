r"""``audit``: would users who know the mechanism follow it, at each stage, and how sure is that?

Worlds are drawn from the users' belief: whatever nature and the platform believe, it is their arithmetic. In world w a
user x of a panel is recommended arm i with probability :math:`p_w(i | x)`, by the platform's own state, and expects
:math:`m_w(x, j)` of every arm given all the data that drove it. Neither a recommendation nor a reward is drawn for her;
the constraint is the linear form of ``margins``, and all cells (user, arm, rival) of all stages get bands at once.
"""

import hashlib
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rcb_bayes.auditing.condensing import Seen
from rcb_bayes.auditing.judging import margins_under, seen_view
from rcb_bayes.auditing.plan_judging import seen_plan
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.policy_views import policy_views
from rcb_bayes.auditing.result import Audit, as_audit, rests_on_sand
from rcb_bayes.auditing.seats import are_from_table
from rcb_bayes.auditing.view import Asked, Looked, View
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.files.store import Store, open_store
from rcb_bayes.market import Market
from rcb_bayes.market.scales import check_digits
from rcb_bayes.market.sizes import check_audit_size
from rcb_bayes.mechanism.deciding import lowest_by_user, verdict_of
from rcb_bayes.mechanism.exploiting import Exploiting, paper_error
from rcb_bayes.mechanism.foreseeing import foresee
from rcb_bayes.mechanism.knowledge import MECHANISM, MOST_SETS, STAGE, Knowledge, as_knowledge, count_sets
from rcb_bayes.mechanism.margins import MIN_WORLDS, Verdict
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.checks import check_arms, check_feasible, check_past, plan_differs
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.conduct import Behaviour, responding
from rcb_bayes.running.naming import name_of
from rcb_bayes.running.oracle import Oracle, PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, FloatArray, as_amount, as_count, as_probability
from rcb_bayes.users import Empirical
from rcb_bayes.users.labelled import Users
from rcb_bayes.users.labelled import as_users as rows_of
from rcb_bayes.workers import Workers, at_work, check_workers

if TYPE_CHECKING:
    import xarray as xr

_LONGEST_TABLE = 1024  # rows, of 0/1 rewards side by side: what is kept is worlds x rows x arms
_LOOKS = 5  # of a sequential audit, where no cap is given: 1, 2, 4, 8 and 16 times the worlds


def audit(
    market: Market,
    plan: Plan | Recommender | PolicyMaker,
    *,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 1000,
    notion: str | None = None,
    epsilon: float | None = None,
    n_users: int = 100,
    users: Users | None = None,
    level: float = 0.05,
    until: Literal["decided"] | None = None,
    max_worlds: int | None = None,
    oracle: Oracle | None = None,
    options: Exploiting | None = None,
    knows: str | None = None,
    behaviour: Behaviour | None = None,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> Audit:
    """Audit a plan, a recommender or any policy in fresh worlds of the users' belief.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan, Recommender or callable
        A plan; a recommender, whose plan, oracle and options are audited from the start; or a function (market, seed)
        -> policy, which is run world by world.
    horizon : int
        Rounds; exploitation is audited as each of its epochs begins, other policies at rounds 1, 2, 4, ...
    n_worlds : int
        Worlds of each stage, or of the policy.
    notion : str, optional
        The plan's own unless given; "user" and .05 for a policy.
    epsilon : float, optional
        The plan's own unless given; "user" and .05 for a policy.
    n_users : int
        Users drawn at random; the worst of many are added for plans.
    users : array_like, optional
        (U, d), to be judged in their place.
    level : float
        Of the bands, over all cells of all stages together.
    until : {"decided"}, optional
        "decided" doubles the worlds until the verdict is pass or fail, or ``max_worlds`` (16 times ``n_worlds`` unless
        given) is met; the level is split over the looks, so that the error is the same.
    max_worlds : int, optional
        The most that ``until="decided"`` goes to.
    oracle : Oracle, optional
        Of the exploitation stage of a plan.
    options : Exploiting, optional
        Of the exploitation stage of a plan.
    knows : str, optional
        What users know of the clock, "stage", "level", "phase" or "mechanism"; the plan's own unless given. Users who
        know more than a plan is made for are its stress test.
    behaviour : Behaviour, optional
        What users before the one who is judged made of their recommendations (``rcb.behaviour``); all of them followed
        unless given.
    workers : None, int, str, Client or Executor
        Who works on it: this process, so many processes, a Dask cluster by its scheduler's address or its client, an
        executor. The answer is the same.
    folder : path-like, optional
        Where worlds that are finished are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Audit
        Verdict, margins under every notion, compliance.

    Raises
    ------
    RcbError
        A plan for another market or one that is not feasible, counts too small, an unknown notion; a folder of
        another run; a recommender to which arms came, or that arms left (``running.moves.Moving``).
    WorkersError
        Workers that are none, cannot be reached or are lost.
    DataError
        A policy whose probabilities are negative, not finite or do not sum to one; users of the wrong width.

    Applicability
    -------------
    Plans with posterior means are audited in all worlds side by side, with Gaussian rewards or with 0/1 rewards of
    users from a table of at most 1,024 rows, others world by world, which takes longer. Looked at is what runs get to
    before the horizon: a stage or epoch that fewer than 1 % of them reach is left out, and ``share`` of the margins
    tells how many reach the others. Where prior variances grow (``inflation``), users' do, too: each epoch is judged in
    worlds of the prior as it is by then.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)
    >>> found = rcb.audit(market, plan, horizon=50, n_worlds=500, n_users=20, seed=2)
    >>> found.verdict, found.verdicts["definition"]
    ('pass', 'pass')
    """
    if isinstance(plan, Recommender):
        if plan.moves:
            raise RcbError(
                "Arms came to this recommender or left it, and its plan is for those there are. Audit the plan of the "
                "first round with what moved: rcb.audit(market, Moving(plan, agent.moves)), of rcb_bayes.running.moves."
            )
        if plan.by_samples:
            raise RcbError(
                "Users of this recommender may lack arms, and nobody knows which users will. Audit its log "
                "(rcb.audit_log), or its plan where all arms are there: rcb.audit(market, agent.plan)."
            )
        return audit(
            market,
            plan.plan,
            horizon=horizon,
            n_worlds=n_worlds,
            notion=notion,
            epsilon=epsilon,
            n_users=n_users,
            users=users,
            level=level,
            until=until,
            max_worlds=max_worlds,
            oracle=oracle or plan.own_oracle,
            options=options or plan.options,
            knows=knows,
            behaviour=behaviour,
            workers=workers,
            folder=folder,
            seed=seed,
        )
    check_workers(workers)
    market = _responding(market, plan, behaviour, oracle)
    asked = _as_asked(
        market, plan, n_worlds=n_worlds, notion=notion, epsilon=epsilon, n_users=n_users, users=users, level=level
    )
    asked = replace(asked, seed=as_count(seed, name="seed"), knows=_as_knowledge(market, plan, knows))
    horizon = as_count(horizon, name="horizon", least=1)
    options = options or Exploiting()
    if isinstance(plan, Plan):
        _check(market, plan, options)
    sizes = [asked.n_worlds] if until is None else _sizes(until, asked.n_worlds, max_worlds)
    known = isinstance(plan, Plan) and oracle is None  # other policies ask for what they like
    seen: dict[str, Any] = {"horizon": horizon, "oracle": None, "options": options, "workers": None}
    rehearse = partial(_once, plan=plan, asked=asked, store=Store(folder=None), **seen)
    foresee(market, rehearse if known else None, workers=workers, seed=asked.seed)
    with at_work(workers) as crew:
        for look, size in enumerate(sizes, 1):
            part = replace(asked, n_worlds=size, level=asked.level / len(sizes))
            store = _store(folder, market, plan, part, horizon, oracle, options, behaviour, apart=len(sizes) > 1)
            once = partial(
                _once, market, plan, part, horizon=horizon, oracle=oracle, options=options, workers=crew, store=store
            )
            found = store.result("audit.nc", once, save=Audit.save, load=Audit.load)
            if until is None:
                return found
            if found.verdict != "inconclusive" or look == len(sizes):
                each = f"the last at {size:,} worlds, each at level {part.level:.3g}"
                looks = f"{look} of at most {len(sizes)} looks, {each}"
                return replace(found, level=asked.level, notes=(*found.notes, looks))
    raise AssertionError("unreachable")


def _responding(market: Market, plan: Plan | PolicyMaker, behaviour: Behaviour | None, oracle: Oracle | None) -> Market:
    """The market whose users did as a behaviour has it.

    Raises
    ------
    RcbError
        Users of whom that is not known; what is audited world by world.
    """
    if behaviour is None:
        return market
    if not isinstance(plan, Plan) or oracle is not None or not _side_by_side(market, None):
        raise RcbError(
            "behaviour= is for audits of plans. Rewards are Gaussian, or users come from a short table; the oracle is "
            "the plan's own. Simulate other policies with behaviour=."
        )
    return responding(market, behaviour)


def _store(
    folder: Path | None,
    market: Market,
    plan: Plan | PolicyMaker,
    asked: Asked,
    horizon: int,
    oracle: Oracle | None,
    options: Exploiting,
    behaviour: Behaviour | None,
    *,
    apart: bool,
) -> Store:
    """Where worlds of an audit are kept; those of each look of a sequential one apart."""
    if folder is None:
        return Store(folder=None)
    own = Path(folder) / f"{asked.n_worlds}-worlds" if apart else Path(folder)
    users = None if asked.users is None else hashlib.blake2b(asked.users.tobytes(), digest_size=8).hexdigest()
    manifest = {
        "experiment": "audit",
        "plan": name_of(plan),
        "oracle": name_of(oracle),
        "options": name_of(options),
        "behaviour": name_of(behaviour),
        "notion": asked.notion.name,
        "epsilon": asked.epsilon,
        "knows": asked.knows.name,
        "horizon": horizon,
        "n_worlds": asked.n_worlds,
        "n_users": asked.n_users,
        "users": users,
        "seed": asked.seed,
        **market.fingerprint(),
    }
    return open_store(own, manifest, resume=None)


def plan_verdict(
    market: Market,
    plan: Plan,
    *,
    horizon: int,
    n_worlds: int,
    options: Exploiting,
    seed: int,
    workers: Workers = None,
    store: Store | None = None,
) -> Verdict:
    """The verdict of an audit of a plan by its own notion alone."""
    asked = replace(
        _as_asked(market, plan, n_worlds=n_worlds, notion=None, epsilon=None, n_users=100, users=None, level=0.05),
        seed=seed,
        knows=_as_knowledge(market, plan, None),
        alone=True,
    )
    notions = (asked.notion,)
    looked = seen_plan(
        market, plan, asked, horizon=horizon, options=options, notions=notions, workers=workers, store=store
    )
    verdict = verdict_of(margins_under(market, looked.views, asked, notions=(asked.notion,))[plan.notion])
    return "inconclusive" if rests_on_sand(looked.n_not_vouched, looked.n_posteriors) else verdict


def worst_judged(
    market: Market,
    plan: Plan,
    *,
    epsilon: float,
    knows: str | None,
    horizon: int,
    n_worlds: int,
    n_users: int,
    options: Exploiting,
    seed: int,
    most: int = 3,
) -> FloatArray:
    """The users of whom some arm's margin is the lowest at each stage, one error added: x (n, p).

    Those at random and, where features are x, the worst of many that an audit adds to them.
    """
    asked = replace(
        _as_asked(
            market, plan, n_worlds=n_worlds, notion=None, epsilon=epsilon, n_users=n_users, users=None, level=0.05
        ),
        seed=seed,
        knows=_as_knowledge(market, plan, knows),
        alone=True,
    )
    notion = asked.notion.by_user
    if not _side_by_side(market, asked):
        none: dict[str, Any] = {"oracle": None, "workers": None, "store": Store(folder=None)}
        found = _once(market, plan, asked, horizon=horizon, options=options, **none)
        return found.users[_lowest_places(found.by_notion[notion.name], len(found.users), most)]

    def look(view: View) -> tuple[FloatArray | None, Seen]:
        return view.users, seen_view(view, asked, notions=(notion,))

    looked = plan_views(market, plan, asked, horizon=horizon, options=options, look=look)
    margins = margins_under(market, [seen for _, seen in looked.views], asked, notions=(notion,))[notion.name]
    if market.feature_map is not None:
        people = looked.crowd.judged.people
        return people[_lowest_places(margins, len(people), most)]
    found = []
    for number, (users, seen) in enumerate(looked.views):
        assert users is not None  # plan_views names them
        found.append(users[_lowest_places(margins.isel(stage=[number]), seen.n_users, most)])
    return np.unique(np.concatenate(found), axis=0)


def _lowest_places(margins: "xr.Dataset", n_users: int, most: int) -> np.ndarray:
    """The places of users with the lowest margins at each stage."""
    values = margins["estimate"] + margins["mcse"]
    places = [np.argsort(lowest_by_user(values.isel(stage=[k]), n_users))[:most] for k in range(values.sizes["stage"])]
    return np.unique(np.concatenate(places))


def _as_knowledge(market: Market, plan: Plan | PolicyMaker, knows: str | None) -> Knowledge:
    """What users know in an audit.

    Raises
    ------
    RcbError
        Unknown knowledge; anything but what they know of rounds, of a policy; more sets than can be judged one by one.
    """
    if not isinstance(plan, Plan):
        if knows is not None:
            raise RcbError("knows is for plans: other policies are judged at the rounds at which they are looked at.")
        return STAGE
    known = as_knowledge(plan.knows if knows is None else knows)
    n = count_sets([[arm] for arm in range(market.n_arms)])  # rates by promoted arm tell arms that are alike apart
    if known is STAGE and plan.knows != STAGE.name and n > MOST_SETS:
        raise RcbError(
            f"A cold start of {market.n_arms} arms has {n:,} possible stages (sets of saturated arms). At most "
            f"{MOST_SETS} are judged one by one. Audit with knows='level', or less."
        )
    if known is not STAGE and not market.noise.is_gaussian and not isinstance(market.covariates, Empirical):
        raise RcbError(
            f"Plans with 0/1 rewards are audited stage by stage where users are not a table. Use knows='stage', "
            f"got {known.name!r}."
        )
    return known


def _once(
    market: Market,
    plan: Plan | PolicyMaker,
    asked: Asked,
    *,
    horizon: int,
    oracle: Oracle | None,
    options: Exploiting,
    workers: Workers,
    store: Store,
) -> Audit:
    how: dict[str, Any] = {"horizon": horizon, "workers": workers, "store": store}
    if isinstance(plan, Plan):
        looked = _looked_at_plan(market, plan, asked, oracle=oracle, options=options, **how)
    else:
        looked = policy_views(market, plan, asked, **how)
    if not looked.views:
        raise RcbError(f"No stage is passed in {MIN_WORLDS} worlds. Ask for more worlds than {asked.n_worlds}.")
    if not isinstance(plan, Plan):
        return as_audit(market, looked, asked)
    notes = (*_other_knowledge(plan, asked.knows), *_other_horizon(plan, horizon), *_other_market(market, plan))
    return as_audit(market, looked, asked, knows=asked.knows.name, notes=notes)


def _looked_at_plan(
    market: Market, plan: Plan, asked: Asked, *, oracle: Oracle | None, options: Exploiting, **how: Any
) -> Looked:
    """A plan, in all worlds side by side where that can be, else world by world."""
    if oracle is None and _side_by_side(market, asked):
        return seen_plan(market, plan, asked, options=options, **how)
    if options.inflation != "none":
        raise RcbError(
            "Growing prior variances are audited with Gaussian rewards and posterior means. Use inflation='none'."
        )
    used = oracle or PosteriorOracle(market.platform_prior, market.noise, read="engine")  # summaries take time
    return policy_views(market, partial(_as_policy, plan, used, options), asked, **how)


def _as_policy(plan: Plan, oracle: Oracle, options: Exploiting, market: Market, seed: int) -> Rcb:
    """A plan as a policy, world by world."""
    return Rcb(market, plan, oracle=oracle, options=options, read="engine")


def _side_by_side(market: Market, asked: Asked | None) -> bool:
    """Whether all worlds can be looked at together: Gaussian rewards, or 0/1 rewards of users from a short table."""
    if market.noise.is_gaussian:
        return True
    if not isinstance(market.covariates, Empirical) or market.covariates.n_rows > _LONGEST_TABLE:
        return False
    return asked is None or asked.users is None or are_from_table(market.covariates.rows, asked.users)


def _as_asked(
    market: Market,
    plan: Plan | PolicyMaker,
    *,
    n_worlds: int,
    notion: str | None,
    epsilon: float | None,
    n_users: int,
    users: Users | None,
    level: float,
) -> Asked:
    n_worlds = as_count(n_worlds, name="n_worlds", least=MIN_WORLDS)
    n_users = as_count(n_users, name="n_users", least=1)
    check_audit_size(market, n_worlds=n_worlds, n_users=n_users, by_world=not isinstance(plan, Plan))
    as_probability(level, name="level")
    is_plan = isinstance(plan, Plan)
    allowed = epsilon if epsilon is not None else plan.epsilon if is_plan else 0.05
    as_amount(allowed, name="epsilon")
    check_digits(market, epsilon=float(allowed))
    return Asked(
        notion=as_notion(notion or (plan.notion if is_plan else "user")),
        epsilon=float(allowed),
        n_worlds=n_worlds,
        n_users=n_users,
        level=float(level),
        seed=0,
        users=None if users is None else as_users(market, users),
    )


def as_users(market: Market, users: Users) -> FloatArray:
    """Users to be judged, x (U, p); a warning names those outside the population's support."""
    found = np.atleast_2d(rows_of(users, features=market.features, name="users", also=market.covariates.features))
    if not len(found):
        raise DataError(f"users must have shape (U, {len(market.features)}), got {found.shape}.")
    outside = ~market.covariates.contains(found)
    if outside.any():
        warnings.warn(
            f"{int(outside.sum())} of {len(found)} users are outside the population's support: no such user arrives.",
            stacklevel=3,
        )
    return found


def _check(market: Market, plan: Plan, options: Exploiting) -> None:
    check_arms(market, plan)
    check_past(market, plan)
    if options.spread == "paper":
        paper_error(market, 1)  # refused here, before anything is drawn
    check_feasible(plan)


def _other_knowledge(plan: Plan, known: Knowledge) -> tuple[str, ...]:
    """What users know in the audit and in the plan, where that differs."""
    if plan.knows == known.name:
        return ()
    return (f"users know {known.words} in this audit; the plan is for users who know {as_knowledge(plan.knows).words}",)


def _other_horizon(plan: Plan, horizon: int) -> tuple[str, ...]:
    """The horizon of the plan, where users weigh the cold start by its share of all rounds, and it is another."""
    if plan.knows != MECHANISM.name or plan.horizon in (None, horizon):
        return ()
    return (f"{horizon:,} rounds in this audit; the plan is for users who know of {plan.horizon:,}",)


def _other_market(market: Market, plan: Plan) -> tuple[str, ...]:
    """What the plan was made for, where that is not what it is audited for."""
    here = market.describe().splitlines()
    other = [" ".join(line.split()) for line in plan.made_for.splitlines() if line not in here]
    if not other:  # alike in words
        names = {"belief": "another belief of users", "platform": "another belief of the platform"}
        names |= {"users": "another population", "noise": "other noise"}
        other = [names[part] for part in plan_differs(market, plan)]
    return (f"the plan was made for another market: {'; '.join(other)}",) if other else ()


def _sizes(until: str, n_worlds: int, max_worlds: int | None) -> list[int]:
    """The numbers of worlds at which a sequential audit looks."""
    if until != "decided":
        raise RcbError(f"until is 'decided' or None, got {until!r}.")
    most = n_worlds << _LOOKS - 1 if max_worlds is None else as_count(max_worlds, name="max_worlds", least=n_worlds)
    sizes = [n_worlds]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    return sizes
