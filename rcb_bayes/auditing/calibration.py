"""``calibrate``: the sampled plan, and the audit that it has to pass where N is not given."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rcb_bayes.auditing.mixed import UserType, check_types, planned_epsilon
from rcb_bayes.auditing.run import plan_verdict
from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.market.fingerprint import of_belief
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.foreseeing import foresee, gaussian_like
from rcb_bayes.mechanism.handing_out import HandOut
from rcb_bayes.mechanism.knowledge import MECHANISM, STAGE
from rcb_bayes.planning.calibration import planned, with_best_n, with_tried_epsilon
from rcb_bayes.planning.exploring import Exploring, Unexplored, explored_by
from rcb_bayes.planning.goal import PlanRequest, as_request, as_samples, check_request_size
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.typed import TypeRequest, planned_for_types
from rcb_bayes.running.conduct import Behaviour, responding
from rcb_bayes.running.naming import name_of
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count, suggestion
from rcb_bayes.workers import Workers, at_work, check_workers, one_thread


def calibrate(
    market: Market,
    *,
    epsilon: float = 0.05,
    notion: str = "user",
    personalised: bool = True,
    n_per_arm: int | Sequence[int] | Mapping[str, int] | None = None,
    n_worlds: int = 2000,
    audit_worlds: int = 1000,
    guard: bool = True,
    spread: str = "posterior",
    horizon: int | None = None,
    engine: str = "auto",
    knows: str = "auto",
    behaviour: Behaviour | None = None,
    types: Sequence[UserType] | None = None,
    least_share: float = 1.0,
    history: Any = None,
    public: bool | None = None,
    exploring: Exploring | None = None,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> Plan:
    """A plan by sampling: the largest exploration rates that an independent audit will pass.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    epsilon : float
        What users put up with.
    notion : str
        "user" (each user by herself, the strongest), "proof" or "definition".
    personalised : bool
        A rate for each user rather than one for all; for "user" and "proof".
    n_per_arm : int, sequence or mapping, optional
        N, samples of every arm: a number, or one for each arm, in their order or by label. An arm with 0 is never
        explored: users get it where it is the best by what they expect of it anyway. Unless given, one of 2, 5, 10,
        20, 50, 100 and 200 is chosen: of those whose plan passes an audit in fresh worlds the one with the least
        expected regret over ``horizon`` (``plan.choices`` tells of all of them).
    n_worlds : int
        Simulated worlds behind the rates of each stage.
    audit_worlds : int
        Worlds of the audit that the plan is to pass; more of them allow higher rates.
    guard : bool
        Whether off-best recommendations of the exploitation stage are cut where users would not follow them.
    spread : str
        "posterior", or "tuned": the multiple of it with the least expected regret of exploitation over ``horizon``.
    horizon : int, optional
        T, rounds over which regret is counted, 10,000 unless given; with ``knows="mechanism"`` it has to be, since
        users who know nothing of the clock weigh the cold start by its share of all rounds. ``plan.horizon`` keeps it.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    knows : str
        What users know of the clock: "stage" (which arms are saturated), "level" (how many are), "phase" (whether the
        cold start is over), "mechanism" (nothing; needs the ``horizon``). Who knows less is easier to satisfy. "auto"
        is the stage where all saturated sets can be planned one by one, else the level. Where a plan that users who
        know more follow, too, is shorter, it is that one: ``plan.knows`` tells which.
    behaviour : Behaviour, optional
        What users make of a recommendation (``rcb.behaviour``), where not all of them follow: the samples of a cold
        start then come from those who do and take longer, and later ones are of the arms taken. Rates and guards are
        for the data that so come in, and hold for the users who weigh what they are told. Regrets of the plan are
        those of what is recommended.
    types : sequence of UserType, optional
        Several types of users, with beliefs and epsilons of their own: one plan that each of them follows. The platform
        goes on believing ``market.platform_prior``. Each user is explored at the least rate over types, and guards
        likewise; rates are those of the design that follows from them. Planned by stage, which users who know less
        follow all the more; N is 50 unless given; judged with ``audit_types``.
    least_share : float
        Of users, whatever their features: with ``types``, rates and guards that types with so many of them follow.
    history : pandas.DataFrame, mapping, str or path-like, optional
        A table of the past, or a file of it: the market's ``with_history(history, public=public)`` is planned for, and
        is what the plan is to be run and audited with.
    public : bool, optional
        Whether users know the history: then it becomes their belief. If not, its samples count towards N. One or the
        other has to be said.
    exploring : Exploring, optional
        Which of many arms are explored, and in which order; all at once unless given. ``plan.unexplored`` tells which
        are not, and what that gives up.
    workers : None, int, str, Client or Executor
        Who works on it: this process, so many processes, a Dask cluster by its scheduler's address or its client, an
        executor. The plan is the same. They look at several N at a time, fit posteriors that take long (NUTS) and
        audit.
    folder : path-like, optional
        Where what is finished is kept: asked for the same in the same folder, it is not computed again.
    seed : int
        The same seed gives the same plan.

    Returns
    -------
    Plan
        Marked infeasible with the reason where nobody, or too few users, can be explored.

    Raises
    ------
    RcbError
        A negative or non-finite epsilon, an unknown notion, a personalised plan for ``definition``, counts too small,
        0 samples of all arms, ``mechanism`` without a horizon, users of whom it is not known before a run what they do;
        types with other arms, or shares that do not sum to 1; a folder of another run.
    WorkersError
        Workers that are none, cannot be reached or are lost.

    Applicability
    -------------
    Rates hold for the law of data that this very mechanism produces. One rate for all is the least over all rows of a
    table, else over a panel and over users looked for from its worst ones on, within the support. N is chosen, and
    the plan audited, with Gaussian rewards; with others N is 50 unless given. A plan with N given is not audited.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)
    >>> plan.feasible, round(plan.exploration_rate, 1), round(plan.expected_cold_start)
    (True, 0.7, 24)
    """
    if history is not None or public is not None:
        market = _with_history(market, history, public)
    market = responding(market, behaviour)
    if types is not None:
        check_types(market, types, least_share=least_share, notion=notion)
    asked, unexplored, notes = _explored(market, 50 if n_per_arm is None else n_per_arm, exploring, seed)
    if types is not None and isinstance(asked, Agenda) and asked.regions is not None:
        raise RcbError("A plan for several types explores an arm with everybody. Leave out contextual=, or types=.")
    request = as_request(
        market,
        knows=knows if types is None else STAGE.name,
        epsilon=epsilon,
        notion=notion,
        personalised=personalised,
        n_per_arm=asked,
        n_worlds=n_worlds,
        audit_worlds=audit_worlds,
        engine=engine,
        seed=seed,
    )
    if spread not in ("posterior", "tuned"):
        close = suggestion(str(spread), ("posterior", "tuned"))
        raise RcbError(f"There is no spread '{spread}'.{close} Use posterior or tuned.")
    if horizon is None and request.knows == MECHANISM.name:
        raise RcbError(
            "Users who know nothing of the clock: out of how many rounds in all? Pass horizon=, such as 10000."
        )
    horizon = as_count(DEFAULT_HORIZON if horizon is None else horizon, name="horizon", least=1)
    check_workers(workers)
    is_given = n_per_arm is not None or not market.noise.is_gaussian  # then no audit is made
    check_request_size(market, request, audit_worlds=0 if is_given else request.audit_worlds)
    made = {"guard": guard, "spread": spread, "horizon": horizon}
    agenda = as_agenda(request.n_per_arm, market.n_arms)
    manifest = {
        "experiment": "calibrate",
        "epsilon": request.epsilon,
        "notion": request.notion,
        "personalised": request.personalised,
        "knows": request.knows,
        "samples": repr(agenda),
        "n_is_given": is_given,
        "behaviour": name_of(behaviour),
        "types": None if types is None else [least_share, *(_name_of_type(kind) for kind in types)],
        "n_worlds": request.n_worlds,
        "audit_worlds": request.audit_worlds,
        "engine": request.engine,
        "seed": request.seed,
        **made,
        **market.fingerprint(),
    }
    store = open_store(None if folder is None else Path(folder), manifest, resume=None)
    plan_of = planned if is_given else partial(with_best_n, judge=plan_verdict)

    def rehearse(other: Market) -> Plan:
        return calibrate(
            other,
            epsilon=request.epsilon,
            notion=request.notion,
            personalised=request.personalised,
            n_per_arm=50 if is_given and n_per_arm is None else n_per_arm,  # with 0/1 rewards it is not chosen
            n_worlds=request.n_worlds,
            audit_worlds=request.audit_worlds,
            guard=guard,
            spread=spread,
            horizon=horizon,
            knows=knows,
            types=None if types is None else [_like_gaussian(kind) for kind in types],
            least_share=least_share,
            exploring=exploring,
            seed=request.seed,
        )

    def make() -> Plan:
        foresee(market, rehearse, engine=engine, workers=workers, seed=request.seed)
        with at_work(workers) as crew, one_thread():
            if types is None:
                plan = plan_of(market, request, hand_out=HandOut(workers=crew, store=store), **made)
                asked = request if is_given else replace(request, n_per_arm=plan.agenda)
                plan = with_tried_epsilon(market, asked, plan, guard=guard, horizon=horizon)
            else:
                each = [_as_type(market, kind, request, least_share=least_share) for kind in types]
                how = {"epsilon": request.epsilon, "guard": guard, "least_share": least_share, "horizon": horizon}
                plan = planned_for_types(market, each, **how)
        told = replace(plan.provenance, unexplored=unexplored, notes=(*plan.notes, *notes))
        return replace(plan, provenance=told) if unexplored is not None or notes else plan

    return store.result("plan.json", make, save=Plan.save, load=Plan.load)


def _explored(
    market: Market, n_per_arm: Any, exploring: Exploring | None, seed: object
) -> tuple[int | Agenda, Unexplored | None, tuple[str, ...]]:
    """Samples of each arm that is to be explored, what was left out, and notes."""
    asked = as_samples(n_per_arm, market)
    if exploring is None:
        return asked, None, ()
    return explored_by(market, as_agenda(asked, market.n_arms), exploring, seed=as_count(seed, name="seed"))


def _as_type(market: Market, kind: UserType, request: PlanRequest, *, least_share: float) -> TypeRequest:
    """A type with its own belief, among users to whom the platform does what it does."""
    own = replace(market, prior=kind.prior or market.prior, platform_prior=market.platform_prior, nature=market.nature)
    epsilon = planned_epsilon(kind, usual=request.epsilon, least_share=least_share, seed=request.seed)
    return TypeRequest(name=kind.name, share=kind.share, market=own, request=replace(request, epsilon=epsilon))


def _like_gaussian(kind: UserType) -> UserType:
    """The type with a belief in closed form, for a rehearsal."""
    return kind if kind.prior is None else replace(kind, prior=gaussian_like(kind.prior))


def _name_of_type(kind: UserType) -> list[str | None]:
    """What tells a type from others."""
    belief = None if kind.prior is None else of_belief(kind.prior)
    return [kind.name, repr(kind.share), belief, repr(kind.epsilon), repr(kind.knows)]


def _with_history(market: Market, history: Any, public: bool | None) -> Market:
    if history is None:
        raise RcbError(
            "public= says whether users know a history, and there is none. Pass history=, a table or a file."
        )
    return market.with_history(history, public=public)
