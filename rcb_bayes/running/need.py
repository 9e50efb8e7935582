"""``check_need``: does exploration have to be incentivised at all?

Greedy recommendations, the best arm by what is known so far, are followed by everybody. Where users differ enough they
try every arm; where users are alike an arm that looks worse at first is never tried, however good it is. Which of the
two it is here is simulated, under the users' own belief.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.checks import Check, judge
from rcb_bayes.gaps.estimation import mean_error, probability_error
from rcb_bayes.market import Market
from rcb_bayes.market.scales import check_predictors
from rcb_bayes.market.sizes import check_run_size
from rcb_bayes.mechanism.foreseeing import foresee
from rcb_bayes.mechanism.greedy import GreedyRuns, greedy_in, greedy_runs, is_exact, n_refits
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.worlds import Worlds, draw_worlds
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.worlds import Nature
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, FloatArray, as_amount, as_count, is_number
from rcb_bayes.telling.wording import brief, figure, percent
from rcb_bayes.users.diversity import covariate_diversity

if TYPE_CHECKING:
    import xarray as xr

_OPPOSITE = {"pass": "fail", "fail": "pass", "inconclusive": "inconclusive"}
# Worlds of greedy, and of a plan: where posteriors have a closed form, are fitted anew, and each takes a NUTS run.
_WORLDS, _RUNS = (1000, 320, 40), (400, 100, 20)
_REACH_WORLDS, _AT_ONCE = 2000, 100
_PANEL, _ROW_PANEL = 2048, 256
_MOST_ROUNDS = 2_000_000  # of all runs of a plan, but for the fewest
_LATE = 0.05  # of runs whose cold start has not ended: then their regret is not that of a plan carried out
_MOST_NAMED = 4
_NEGLECT = 0.1


def check_need(
    market: Market,
    *,
    plan: Plan | None = None,
    runs: "xr.Dataset | None" = None,
    horizon: int = DEFAULT_HORIZON,
    epsilon: float = 0.05,
    share: float = 0.01,
    tolerated: float = 0.02,
    n_worlds: int | None = None,
    most_worlds: int | None = None,
    seed: int = DEFAULT_SEED,
) -> Check:
    """Judge whether greedy recommendations, which need no incentives, starve an arm that matters.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan, optional
        A plan whose regret stands beside that of greedy: what starvation costs.
    runs : Dataset, optional
        Runs of that plan over as many rounds, by ``simulate``; run here unless given. Greedy is run in the same worlds.
    horizon : int
        Rounds of greedy, and of the plan.
    epsilon : float
        What users put up with; told of where no mechanism could have an arm tried, with the bill that is left.
    share : float
        An arm matters where it is truly the best for at least this share of users.
    tolerated : float
        How often such an arm may never be tried.
    n_worlds : int, optional
        Worlds drawn from the users' belief: unless given, 1,000 where posteriors have a closed form, 320 elsewhere, 40
        where each takes a NUTS run.
    most_worlds : int, optional
        Where ``n_worlds`` is not given, no more than these.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Check
        The figure is the probability that an arm that matters is never tried. "pass": greedy suffices, exploration
        needs no incentives; "fail": greedy starves arms.

    Raises
    ------
    RcbError
        Shares or an epsilon out of range, counts below what is needed, runs over another horizon.

    Applicability
    -------------
    Worlds, and what greedy makes of their data, are the users' belief. Where posteriors have a closed form greedy
    learns after every user; elsewhere after each of the first 16, and then whenever there are 15 % more (50 % with 0/1
    rewards), which leaves arms untried a little more often.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> alike = rcb.Empirical([[1.0]])
    >>> prior = rcb.Prior.gaussian([[0.3], [0.0]], 0.05, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=alike, noise=rcb.GaussianNoise(0.3))
    >>> need = rcb.check_need(market, horizon=500, seed=1)
    >>> need.verdict, round(need.estimate, 2)
    ('fail', 0.1)
    """
    return need_and_greedy(
        market,
        plan=plan,
        runs=runs,
        horizon=horizon,
        epsilon=epsilon,
        share=share,
        tolerated=tolerated,
        n_worlds=n_worlds,
        most_worlds=most_worlds,
        seed=seed,
    )[0]


def need_and_greedy(
    market: Market,
    *,
    plan: Plan | None = None,
    runs: "xr.Dataset | None" = None,
    horizon: int = DEFAULT_HORIZON,
    epsilon: float = 0.05,
    share: float = 0.01,
    tolerated: float = 0.02,
    n_worlds: int | None = None,
    most_worlds: int | None = None,
    seed: int = DEFAULT_SEED,
) -> tuple[Check, "Beside | None"]:
    """``check_need``, with the regret of the plan and of greedy in the same worlds, where there is a plan that runs."""
    horizon, seed = as_count(horizon, name="horizon", least=1), as_count(seed, name="seed")
    for name, value in (("share", share), ("tolerated", tolerated)):
        if not (is_number(value) and 0 < value < 1):
            raise RcbError(f"{name} is a share above 0 and below 1, got {value!r}.")
    as_amount(epsilon, name="epsilon")
    if runs is not None and int(runs["t"].values[-1]) != horizon:
        raise RcbError(f"The runs have {int(runs['t'].values[-1]):,} rounds, greedy {horizon:,}. Ask for as many.")
    check_predictors(market)
    engine = None if is_exact(market) else make_engine(market.prior, market.noise, seed=seed)
    n_worlds = _worlds(engine, most_worlds) if n_worlds is None else as_count(n_worlds, name="n_worlds", least=2)
    check_run_size(horizon=horizon, n_worlds=n_worlds, every=horizon)
    again = 0 if plan is None and runs is None else _RUNS[-1] if runs is None else runs.sizes["world"]
    foresee(market, (n_worlds + again) * n_refits(market, horizon=horizon), seed=seed)
    rows = not market.noise.is_gaussian
    panel = make_panel(market, n_users=_ROW_PANEL if rows else _PANEL, rng=generator(seed, Stream.GREEDY_USERS))
    found = greedy_runs(
        market, panel, engine, horizon=horizon, n_worlds=n_worlds, rng=generator(seed, Stream.GREEDY_WORLDS)
    )
    beside = _beside(market, plan, runs, panel, engine, horizon=horizon, seed=seed)
    starved = found.starved(share=share).astype(float)
    value, error = float(starved.mean()), float(probability_error(starved))
    verdict = _OPPOSITE[judge(value, error, tolerated)]
    check = Check(
        name="0 greedy suffices",
        verdict=verdict,  # pyright: ignore[reportArgumentType] (of the same three words)
        estimate=value,
        mcse=error,
        threshold=tolerated,
        is_limit=True,
        meaning=_meaning(
            market,
            found,
            verdict,
            horizon=horizon,
            share=share,
            beside="" if plan is None and runs is None else _beside_words(beside),
        )
        + _out_of_reach(market, panel, epsilon=float(epsilon), seed=seed),
        remedy=_remedy(verdict, n_worlds=n_worlds),
    )
    return check, beside


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """A plan and greedy in the same W worlds.

    Attributes
    ----------
    worlds : in which both were run
    plan, greedy : the regret of each over the horizon, (W,)
    n_late : worlds in which the plan's cold start has not ended
    """

    worlds: Worlds
    plan: FloatArray
    greedy: FloatArray
    n_late: int

    @property
    def is_late(self) -> bool:
        """Whether so many cold starts have not ended that regrets are not to be compared."""
        return self.n_late > _LATE * len(self.plan)


def n_runs(market: Market, *, horizon: int, seed: int = DEFAULT_SEED) -> int:
    """Worlds that a plan is run in: as many as take sensible time, by what computes posteriors."""
    engine = None if is_exact(market) else make_engine(market.prior, market.noise, seed=seed)
    return min(_usual(engine, _RUNS), max(_RUNS[-1], _MOST_ROUNDS // horizon))


def n_sampled(market: Market, *, horizon: int, most_worlds: int, n_runs: int) -> int:
    """How many posteriors ``check_need`` asks for where each takes a NUTS run, beside so many runs of a plan."""
    return (min(_WORLDS[-1], most_worlds) + n_runs) * n_refits(market, horizon=horizon)


def _meaning(market: Market, runs: GreedyRuns, verdict: str, *, horizon: int, share: float, beside: str) -> str:
    answer = {
        "pass": "Exploration needs no incentives here.",
        "fail": "Exploration has to be incentivised here.",
        "inconclusive": "Whether exploration has to be incentivised is too close to tell.",
    }[verdict]
    neglected = runs.neglected(share=share, part=_NEGLECT, horizon=horizon)
    n, starved = len(neglected), int(runs.starved(share=share).sum())
    regret = figure(float(runs.regret.mean()), float(mean_error(runs.regret, scale=0.0)))
    text = (
        f"{answer} Greedy recommends what looks best so far, and everybody follows. In {starved:,} of {n:,} worlds of "
        f"{horizon:,} rounds it never tries an arm that is best for at least {percent(share)} of users; in "
        f"{int(neglected.sum()):,} such an arm gets less than a tenth of the users it is best for. Greedy's regret is "
        f"{regret}.{beside} Covariate diversity is {brief(covariate_diversity(market.population))}; above 0 users "
        "differ in every direction."
    )
    if runs.n_not_vouched:
        text += f" {runs.n_not_vouched:,} of {runs.n_fitted:,} posteriors are not vouched for."
    if market.is_misspecified:
        text += " This is under the users' belief; the platform's or nature's differs."
    return text


def _usual(engine: Engine | None, numbers: tuple[int, int, int]) -> int:
    """Worlds that take sensible time, by what computes posteriors; None has a closed form."""
    return numbers[0 if engine is None else 2 if engine.name == "nuts" else 1]


def _worlds(engine: Engine | None, most: int | None) -> int:
    usual = _usual(engine, _WORLDS)
    return usual if most is None else min(usual, as_count(most, name="most_worlds", least=2))


def _beside(
    market: Market,
    plan: Plan | None,
    runs: "xr.Dataset | None",
    panel: Panel,
    engine: Engine | None,
    *,
    horizon: int,
    seed: int,
) -> Beside | None:
    """A plan and greedy in the same worlds; None where no plan is given, or it cannot be run."""
    if runs is None:
        if plan is None or (plan.kind == "sampled" and not plan.feasible):
            return None
        oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")
        n = n_runs(market, horizon=horizon, seed=seed)
        runs = simulate(market, plan, horizon=horizon, n_worlds=n, every=horizon, oracle=oracle, seed=seed)
    seeds = [np.random.SeedSequence(int(runs.attrs["seed"]), spawn_key=(int(w),)) for w in runs["world"].values]
    natures = [Nature(market, one) for one in seeds]
    sigmas = [nature.sigma for nature in natures if nature.sigma is not None]
    worlds = Worlds(beta=np.stack([nature.beta for nature in natures]), sigma=np.array(sigmas) if sigmas else None)
    greedy = greedy_in(market, panel, engine, worlds, horizon=horizon, rng=generator(seed, Stream.GREEDY_WORLDS, 1))
    late = int((runs["cold_start_length"].values < 0).sum())
    return Beside(worlds=worlds, plan=runs["regret"].sum("t").values, greedy=greedy.regret, n_late=late)


def _beside_words(found: Beside | None) -> str:
    """The regret of a plan, over as many rounds, and how much more or less greedy's is."""
    if found is None:
        return " The plan beside it is not feasible."
    n = len(found.plan)
    own, greedys = (figure(*mean_of(values)) for values in (found.plan, found.greedy))
    if found.is_late:
        return (
            f" The plan's is {own} so far: in {found.n_late:,} of {n:,} worlds its cold start has not ended by then, "
            "and no difference is told."
        )
    if n < 2:
        return f" The plan's is {own} in one world, which tells no difference."
    apart, error = mean_of(found.greedy - found.plan)
    costs = f"greedy costs {figure(abs(apart), error)} {'more' if apart >= 0 else 'less'} over the horizon"
    chance = ", which may be chance" if abs(apart) < 2 * error else ""
    return f" The plan's is {own} and greedy's {greedys} in the same {n:,} worlds: {costs}{chance}."


def mean_of(values: FloatArray) -> tuple[float, float]:
    """The mean over worlds and its standard error; NaN for the error of one."""
    n = len(values)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def _out_of_reach(market: Market, panel: Panel, *, epsilon: float, seed: int) -> str:
    """Arms that no mechanism could have tried, whatever it knows of the others; with independent arms.

    Users are hidden among those for whom the arm is the best known, whose gain is largest once all others are known for
    good: E[(mu0_i - max_j mu_j)+] bounds it for every number of samples, by Jensen's inequality.
    """
    if not market.prior.arms_independent:
        return ""
    rng = generator(seed, Stream.GREEDY_REACH)
    beta = draw_worlds(market.prior, _REACH_WORLDS, rng=rng).beta
    prior = panel.prior_rewards  # (P, K)
    loses = prior.max(axis=1, keepdims=True) - prior - epsilon  # beyond what she puts up with
    open_to = (loses <= 0.0).any(axis=0)
    for start in range(0, len(beta), _AT_ONCE):
        rewards = market.noise.mean_reward(beta[start : start + _AT_ONCE] @ panel.users.T)  # (w, K, P)
        for arm in np.flatnonzero(~open_to).tolist():
            rivals = np.delete(rewards, arm, axis=1).max(axis=1)
            open_to[arm] = bool((prior[:, arm] > rivals).any())
    lost = np.flatnonzero(~open_to)
    if not len(lost):
        return ""
    each = [panel.mean(loses[:, arm]) for arm in lost.tolist()]
    least = figure(*min(each)) if len(each) == 1 else f"{brief(min(each)[0])} to {brief(max(each)[0])}"
    return (
        f" No mechanism can have {_named(market, lost.tolist())} tried: in all of {len(beta):,} worlds and for all of "
        f"{panel.n_users:,} users another arm turns out better than what is expected of it. Users can still be paid "
        f"what they lose beyond epsilon = {epsilon:g}: {least} a try at first."
    )


def _named(market: Market, arms: Sequence[int]) -> str:
    """Arms by name, the first few of many."""
    names = ", ".join(market.arms[arm] for arm in arms[:_MOST_NAMED])
    return names if len(arms) <= _MOST_NAMED else f"{len(arms)} of {market.n_arms} arms ({names}, ...)"


def _remedy(verdict: str, *, n_worlds: int) -> str:
    return {
        "pass": "",
        "fail": "Plan exploration (calibrate), or pay users for what they lose.",
        "inconclusive": f"More worlds decide it: check_need(market, n_worlds={4 * n_worlds}).",
    }[verdict]
