"""The paper's four assumptions, checked on a belief and its users: pass, fail or inconclusive, with the figure."""

from functools import partial

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.checks import Check, Checks, Verdict, combine, judge
from rcb_bayes.gaps.estimation import gap_values, probability_error, separation_values
from rcb_bayes.gaps.stages import Desk, Stages
from rcb_bayes.market import Market
from rcb_bayes.mechanism.foreseeing import foresee
from rcb_bayes.mechanism.length import saturated_sets
from rcb_bayes.mechanism.worlds import block_seed, draw_worlds, n_blocks_of, simulate_data
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_amount, is_number, no_such
from rcb_bayes.telling.wording import percent
from rcb_bayes.users import Empirical
from rcb_bayes.workers import Workers

SCHEDULES = ("none", "log", "sqrt", "linear")
RHO = 0.01
_MAX_SETS = 12
_PANEL = 200
_DOUBT_WORLDS = 500


def check_assumptions(
    market: Market,
    *,
    n_per_arm: int | None = None,
    tau: float | None = None,
    rho: float = RHO,
    inflation: str | None = None,
    n_worlds: int = 2000,
    engine: str = "auto",
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> Checks:
    """Judge the four assumptions on a market.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int, optional
        Samples of every saturated arm, N. Unless given as many as tell as much of a user's mean reward as the belief
        does or, of 0/1 rewards, as hold ten events of each arm; 50 at least, and 2,000 at most.
    tau : float, optional
        The gap that Assumptions 1 and 2 are to hold with: Pr(G >= tau) >= rho. Unless given about a fiftieth of the
        standard deviation of a user's mean reward under the belief, of the arm with the largest.
    rho : float
        The probability that they are to hold with.
    inflation : str, optional
        How users' priors are declared to loosen over time: "none", "log", "sqrt", "linear"; None: not declared.
    n_worlds : int
        Worlds drawn from the users' belief.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    workers : None, int, str, Client or Executor
        Who simulates the worlds: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Checks
        Four checks, in the paper's order.

    Raises
    ------
    RcbError
        Constants out of range, an unknown schedule.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> checks = rcb.check_assumptions(market, n_per_arm=10, seed=1)
    >>> for check in checks:
    ...     print(check.verdict, check.name)
    pass 1 fighting chance
    pass 2 posterior separation
    pass 3 covariates (phi0)
    inconclusive 4 evolution of trust
    """
    _check_constants(tau=tau, rho=rho, inflation=inflation)
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=n_worlds, engine=engine, workers=workers, seed=seed)
    return check_stages(stages, tau=tau, rho=rho, inflation=inflation)


def check_stages(stages: Stages, *, tau: float | None = None, rho: float = RHO, inflation: str | None = None) -> Checks:
    """``check_assumptions`` on simulations that other figures are read from too."""
    tau = stages.sizes.gap if tau is None else tau
    _check_constants(tau=tau, rho=rho, inflation=inflation)

    def rehearse(other: Market) -> None:
        again = Stages(other, n_per_arm=stages.n_per_arm, n_worlds=stages.n_worlds, seed=stages.seed)
        check_stages(again, tau=tau, rho=rho, inflation=inflation)

    foresee(stages.market, rehearse, engine=stages.engine_name, workers=stages.workers, seed=stages.seed)
    separation = _separation(stages, tau=tau, rho=rho)  # first: it fits all arms, and the stages before it need some
    return Checks(
        [
            _fighting_chance(stages, tau=tau, rho=rho),
            separation,
            _covariates(stages.market, seed=stages.seed),
            _trust(stages, inflation=inflation),
        ]
    )


def _check_constants(*, tau: float | None, rho: float, inflation: str | None) -> None:
    if tau is not None:
        as_amount(tau, name="tau")
    if not (is_number(rho) and 0 < rho <= 1):
        raise RcbError(f"rho is a probability above 0 and at most 1, got {rho!r}.")
    if inflation is not None and inflation not in SCHEDULES:
        raise no_such("schedule", inflation, SCHEDULES)


def _fighting_chance(stages: Stages, *, tau: float, rho: float) -> Check:
    """Assumption 1, at the saturated sets that cold starts really pass: it must hold for every set and arm."""
    market = stages.market
    sets = list(saturated_sets(market, n_per_arm=stages.n_per_arm, seed=stages.seed))
    looked_at = hardest_sets(sets, n_arms=market.n_arms) if stages.arms_apart else sets[:_MAX_SETS]
    cells: list[tuple[float, float, int, tuple[int, ...]]] = []
    for saturated in looked_at:
        reach = (gap_values(stages, saturated) >= tau).mean(axis=1)  # (arms, W)
        others = [k for k in range(market.n_arms) if k not in saturated]
        cells += [
            (float(value), float(error), arm, saturated)
            for value, error, arm in zip(reach.mean(axis=1), probability_error(reach), others, strict=True)
        ]
    verdict = combine([judge(value, error, rho) for value, error, _, _ in cells])
    value, error, arm, saturated = min(cells)
    share, share_error = _share_of_users(stages, arm, saturated, tau=tau, rho=rho)
    names = ", ".join(market.arms[k] for k in saturated[:6]) + (", ..." if len(saturated) > 6 else "")
    is_part = not stages.arms_apart and len(sets) > _MAX_SETS
    seen = f"{len(looked_at):,} of the {len(sets):,}" if is_part else f"{len(sets):,}"
    return Check(
        name="1 fighting chance",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=rho,
        meaning=(
            f"The probability, averaged over users, that {market.arms[arm]} beats the saturated {names} by {tau:g}. It "
            f"is the least over {seen} set{'s' if len(sets) > 1 else ''} of saturated arms that occur. User by user it "
            f"reaches {rho:g} for {percent(share, share_error)} of them.{_caveats(stages)}"
        ),
        remedy=_remedy(
            verdict,
            "Explore only users who lose little by it (a rate for each), allow a larger epsilon, or sample more.",
        ),
    )


def hardest_sets(sets: list[tuple[int, ...]], *, n_arms: int) -> list[tuple[int, ...]]:
    """The sets that decide Assumption 1 when arms are independent.

    A further saturated arm can only lower G in every world, so a set is left out if each arm it leaves unsaturated is
    also left unsaturated by a larger set.
    """
    codes = [sum(1 << arm for arm in arms) for arms in sets]  # a bit for each arm
    kept = []
    for arms, code in zip(sets, codes, strict=True):
        in_all_larger = (1 << n_arms) - 1
        for other in codes:
            if other & code == code != other:
                in_all_larger &= other
        if in_all_larger & ~code:
            kept.append(arms)
    return kept


def _share_of_users(
    stages: Stages, arm: int, saturated: tuple[int, ...], *, tau: float, rho: float
) -> tuple[float, float]:
    """The share of users for whom the arm's own chance is at least rho, by the point estimates of a panel."""
    market = stages.market
    panel = market.population.sample(_PANEL, seed=np.random.SeedSequence([stages.seed, _PANEL]))
    column = [k for k in range(market.n_arms) if k not in saturated].index(arm)
    chance = (gap_values(stages, saturated, users=panel)[column] >= tau).mean(axis=1)  # (users,)
    holds = (chance >= rho).astype(float)
    return float(holds.mean()), float(probability_error(holds))


def _separation(stages: Stages, *, tau: float, rho: float) -> Check:
    reach = (separation_values(stages) >= tau).mean(axis=0)
    value, error = float(reach.mean()), float(probability_error(reach))
    verdict = judge(value, error, rho)
    return Check(
        name="2 posterior separation",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=rho,
        meaning=(
            f"After {stages.told_samples} of each arm the best leads the second by {tau:g} this often."
            f"{_caveats(stages)}"
        ),
        remedy=_remedy(verdict, "Take more samples per arm, or ask for a smaller tau."),
    )


def _covariates(market: Market, *, seed: int) -> Check:
    """Assumption 3; a table is exact for its own rows, and a sample of the users to come."""
    users = market.population
    verdict: Verdict = "pass" if users.phi0 > 0 else "fail"
    error, text = 0.0, ""
    if isinstance(users, Empirical):
        low, high = users.phi0_interval(seed=seed)
        text = f" Where the {users.n_rows:,} rows are a sample, that of all users is in {low:.3g} to {high:.3g} (95 %)."
        error = max(users.phi0 - low, 0.0) / 1.96  # a normal error with the same lower end: the end that is judged
        verdict = "inconclusive" if users.phi0 > 0 and low == 0 else verdict
    weak = users.weak_directions()
    text += f" Directions hardly or never visited: {weak}." if len(weak) else ""
    return Check(
        name="3 covariates (phi0)",
        verdict=verdict,
        estimate=users.phi0,
        mcse=error,
        threshold=0.0,
        meaning=f"Smallest eigenvalue of E[xx']: how much every direction of the users varies.{text}",
        remedy="" if verdict == "pass" else "Drop redundant features (one dummy per category), or plan by sampling.",
        belief="none: it is about the users",
    )


def _trust(stages: Stages, *, inflation: str | None) -> Check:
    """Assumption 4 is about behaviour: it is declared, not measured. What N samples leave of the prior is measured."""
    value, error = remaining_doubt(stages)
    verdict: Verdict = "inconclusive" if inflation is None else "pass" if inflation == "linear" else "fail"
    declared = "not declared" if inflation is None else inflation
    of_what = "the prior variance" if stages.market.prior.has_finite_variance is not False else "an infinite variance"
    left = f"{stages.told_samples} of each arm leave {percent(value)} of {of_what} of x'b."
    return Check(
        name="4 evolution of trust",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=0.0,
        meaning=(
            f"Growth of users' prior variances over time: {declared}; the paper asks for order t. "
            f"{left}{_caveats(stages)}"
        ),
        remedy=""
        if verdict == "pass"
        else "Declare it (inflation='linear') if users do open up. Sampled plans need no such growth; Theorem 2 does.",
    )


def remaining_doubt(stages: Stages) -> tuple[float, float]:
    """The share of the prior variance of x'b that n samples of each arm leave, averaged over users and arms.

    Zero, without error, where the prior variance is infinite or there is none.
    """
    market = stages.market
    size = market.n_arms * market.n_features
    moment = market.population.second_moment
    prior = float(_reward_variance(market.prior.covariance.values.reshape(1, size, size), moment)[0])
    if not np.isfinite(prior) or prior == 0:
        return 0.0, 0.0
    n_worlds = min(stages.n_worlds, _DOUBT_WORLDS)
    shares = stages.by_blocks(
        partial(_doubt_of_block, n_per_arm=stages.n_per_arm, n_worlds=n_worlds, seed=stages.seed),
        n_blocks_of(n_worlds),
    )
    found = np.concatenate(shares) / prior
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


def _doubt_of_block(desk: Desk, block: int, *, n_per_arm: int, n_worlds: int, seed: int) -> FloatArray:
    """What is left of the variance of x'b in the worlds of a block."""
    market = desk.market
    count, rng = block_seed(n_worlds, block, seed=seed)
    worlds = draw_worlds(market.prior, count, rng=rng)
    n = np.full(market.n_arms, float(n_per_arm))
    batch = desk.engine.fit(simulate_data(worlds, market, n_per_arm=n, rng=rng), covariance=True)
    assert batch.covariance is not None  # asked for
    return _reward_variance(batch.covariance, market.population.second_moment)


def _reward_variance(covariance: FloatArray, moment: FloatArray) -> FloatArray:
    """Average over users and arms of Var(x'b), from joint covariances (M, K d, K d)."""
    d = len(moment)
    k = covariance.shape[-1] // d
    tiles = covariance.reshape(-1, k, d, k, d)
    own = np.stack([tiles[:, arm, :, arm] for arm in range(k)], axis=1)
    return np.einsum("mkij,ij->m", own, moment) / k


def _caveats(stages: Stages) -> str:
    """What a reader of the figure must know: whose belief it is where beliefs differ, posteriors that went wrong."""
    text = " This is under the users' belief; the platform's or nature's differs." * stages.market.is_misspecified
    if stages.n_not_vouched:
        text += f" {stages.n_not_vouched:,} of the simulated posteriors are not vouched for."
    return text


def _remedy(verdict: Verdict, if_failed: str) -> str:
    """What to do: about a figure that is too small, or about one that is not known well enough."""
    undecided = "Too close to tell: take more worlds (n_worlds, or --worlds on the command line)."
    return {"pass": "", "inconclusive": undecided, "fail": if_failed}[verdict]
