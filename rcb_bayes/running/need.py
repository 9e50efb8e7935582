"""``check_need``: does exploration have to be incentivised at all?

Greedy recommendations, the best arm by what is known so far, are followed by everybody. Where users differ enough they
try every arm; where users are alike an arm that looks worse at first is never tried, however good it is. Which of the
two it is here is simulated, under the users' own belief.
"""

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.checks import Check, judge
from rcb_bayes.gaps.estimation import mean_error, probability_error
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_run_size
from rcb_bayes.mechanism.greedy import GreedyRuns, greedy_runs, is_exact
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior import make_engine
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count, is_number
from rcb_bayes.telling.wording import brief, figure, percent
from rcb_bayes.users.diversity import covariate_diversity

_OPPOSITE = {"pass": "fail", "fail": "pass", "inconclusive": "inconclusive"}
_WORLDS, _FITTED_WORLDS = 1000, 320  # where posteriors have a closed form, and where they are fitted anew
_PANEL, _ROW_PANEL = 2048, 256
_PLAN_WORLDS = 40
_NEGLECT = 0.1


def check_need(
    market: Market,
    *,
    plan: Plan | None = None,
    horizon: int = DEFAULT_HORIZON,
    share: float = 0.01,
    tolerated: float = 0.02,
    n_worlds: int | None = None,
    seed: int = DEFAULT_SEED,
) -> Check:
    """Judge whether greedy recommendations, which need no incentives, starve an arm that matters.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan, optional
        A plan whose regret stands beside that of greedy.
    horizon : int
        Rounds of greedy, and of the plan.
    share : float
        An arm matters where it is truly the best for at least this share of users.
    tolerated : float
        How often such an arm may never be tried.
    n_worlds : int, optional
        Worlds drawn from the users' belief: unless given, 1,000 where posteriors have a closed form, 320 elsewhere.
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
        Shares out of range, counts below what is needed.

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
    horizon, seed = as_count(horizon, name="horizon", least=1), as_count(seed, name="seed")
    for name, value in (("share", share), ("tolerated", tolerated)):
        if not (is_number(value) and 0 < value < 1):
            raise RcbError(f"{name} is a share above 0 and below 1, got {value!r}.")
    n_worlds = (
        (_WORLDS if is_exact(market) else _FITTED_WORLDS)
        if n_worlds is None
        else as_count(n_worlds, name="n_worlds", least=2)
    )
    check_run_size(horizon=horizon, n_worlds=n_worlds, every=horizon)
    rows = not market.noise.is_gaussian
    panel = make_panel(market, n_users=_ROW_PANEL if rows else _PANEL, rng=generator(seed, Stream.GREEDY_USERS))
    engine = None if is_exact(market) else make_engine(market.prior, market.noise, seed=seed)
    runs = greedy_runs(
        market, panel, engine, horizon=horizon, n_worlds=n_worlds, rng=generator(seed, Stream.GREEDY_WORLDS)
    )
    starved = runs.starved(share=share).astype(float)
    value, error = float(starved.mean()), float(probability_error(starved))
    verdict = _OPPOSITE[judge(value, error, tolerated)]
    return Check(
        name="0 greedy suffices",
        verdict=verdict,  # pyright: ignore[reportArgumentType] (of the same three words)
        estimate=value,
        mcse=error,
        threshold=tolerated,
        meaning=_meaning(market, runs, verdict, horizon=horizon, share=share) + _beside(market, plan, horizon, seed),
        remedy=_remedy(verdict),
    )


def _meaning(market: Market, runs: GreedyRuns, verdict: str, *, horizon: int, share: float) -> str:
    answer = {
        "pass": "Exploration needs no incentives here.",
        "fail": "Exploration has to be incentivised here.",
        "inconclusive": "Whether exploration has to be incentivised is too close to tell.",
    }[verdict]
    neglected = runs.neglected(share=share, part=_NEGLECT, horizon=horizon)
    n, starved = len(neglected), int(runs.starved(share=share).sum())
    regret = figure(float(runs.regret.mean()), float(mean_error(runs.regret, scale=0.0)))
    text = (
        f"{answer} Everybody follows greedy recommendations. In {starved:,} of {n:,} worlds of {horizon:,} rounds they "
        f"never try an arm that is best for at least {percent(share)} of users; in {int(neglected.sum()):,} such an "
        f"arm gets less than a tenth of the users it is best for. Their regret is {regret}. Covariate diversity is "
        f"{brief(covariate_diversity(market.population))}: above 0 users differ in every direction."
    )
    if runs.n_not_vouched:
        text += f" {runs.n_not_vouched:,} of {runs.n_fitted:,} posteriors are not vouched for."
    if market.is_misspecified:
        text += " This is under the users' belief; the platform's or nature's differs."
    return text


def _beside(market: Market, plan: Plan | None, horizon: int, seed: int) -> str:
    """The regret of a plan, over as many rounds."""
    if plan is None:
        return ""
    if plan.kind == "sampled" and not plan.feasible:
        return " The plan beside it is not feasible."
    oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")
    runs = simulate(market, plan, horizon=horizon, n_worlds=_PLAN_WORLDS, oracle=oracle, every=horizon, seed=seed)
    total = runs["regret"].sum("t")
    return f" The plan's is {figure(float(total.mean()), float(total.std(ddof=1)) / _PLAN_WORLDS**0.5)}."


def _remedy(verdict: str) -> str:
    return {
        "pass": "",
        "fail": "Plan exploration (calibrate), or pay users for what they lose.",
        "inconclusive": "Too close to tell: take more worlds (n_worlds).",
    }[verdict]
