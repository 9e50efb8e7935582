"""The paper's four assumptions, checked on a belief and its users: pass, fail or inconclusive, with the figure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rcb_bayes.covariates import Empirical
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps import estimate_gaps, estimate_separation
from rcb_bayes.market import Market
from rcb_bayes.posterior import make_engine
from rcb_bayes.saturation import saturated_sets
from rcb_bayes.schema import as_count, is_number, suggestion
from rcb_bayes.worlds import block_seeds, draw_worlds, simulate_data

Verdict = Literal["pass", "fail", "inconclusive"]
SCHEDULES = ("none", "log", "sqrt", "linear")
_Z = 3.0
_MAX_SETS = 12
_PANEL = 200
_FLOOR = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One assumption, judged.

    ``estimate`` with its Monte Carlo error ``mcse`` stands against ``threshold``; ``meaning`` says what that amounts
    to, ``remedy`` what to do about it, ``belief`` whose belief it was computed under.
    """

    name: str
    verdict: Verdict
    estimate: float
    mcse: float
    threshold: float
    meaning: str
    remedy: str
    belief: str = "users"

    def to_dict(self) -> dict[str, Any]:
        """The check as plain values."""
        return asdict(self)


def check_assumptions(
    market: Market,
    *,
    n_per_arm: int = 50,
    tau: float = 0.01,
    rho: float = _FLOOR,
    inflation: str | None = None,
    n_worlds: int = 2000,
    engine: str = "auto",
    seed: int = 0,
) -> list[Check]:
    """Judge the four assumptions on a market.

    Parameters
    ----------
    n_per_arm : samples of every saturated arm, N
    tau, rho : the constants that Assumptions 1 and 2 are to hold with: Pr(G >= tau) >= rho
    inflation : how users' priors are declared to loosen over time: "none", "log", "sqrt", "linear"; None: not declared

    Raises
    ------
    RcbError
        Constants out of range, an unknown schedule.
    """
    as_count(n_per_arm, name="n_per_arm", least=1)
    if not (is_number(tau) and tau >= 0 and np.isfinite(tau)):
        raise RcbError(f"tau must be a finite number of at least 0, got {tau}.")
    if not (is_number(rho) and 0 < rho <= 1):
        raise RcbError(f"rho is a probability above 0 and at most 1, got {rho}.")
    if inflation is not None and inflation not in SCHEDULES:
        raise RcbError(
            f"There is no schedule '{inflation}'.{suggestion(inflation, SCHEDULES)} Use one of {', '.join(SCHEDULES)}."
        )
    settings: dict[str, Any] = {"n_per_arm": n_per_arm, "n_worlds": n_worlds, "engine": engine, "seed": seed}
    return [
        _fighting_chance(market, tau=tau, rho=rho, **settings),
        _separation(market, tau=tau, rho=rho, **settings),
        _covariates(market, seed=seed),
        _trust(market, inflation=inflation, **settings),
    ]


def _fighting_chance(market: Market, *, tau: float, rho: float, **settings: Any) -> Check:
    """Assumption 1, at the saturated sets that cold starts really pass: it must hold for every set and arm."""
    sets = saturated_sets(market, n_per_arm=settings["n_per_arm"], seed=settings["seed"])
    cells: list[tuple[float, float, str, list[str]]] = []
    for arms in list(sets)[:_MAX_SETS]:
        labels = [market.arms[k] for k in arms]
        found = estimate_gaps(market, saturated=labels, taus=[tau], **settings)
        for arm, value, error in zip(
            found["arm"].values, found["rho"].values[:, 0], found["rho_mcse"].values[:, 0], strict=True
        ):
            cells.append((float(value), float(error), str(arm), labels))
    verdict = combine([judge(value, error, rho) for value, error, _, _ in cells])
    value, error, arm, labels = min(cells)
    share = _share_of_users(market, arm, labels, tau=tau, rho=rho, **settings)
    return Check(
        name="1 fighting chance",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=rho,
        meaning=(
            f"{arm} beats the saturated {', '.join(labels)} by {tau:g} with this probability, the least over "
            f"{min(len(sets), _MAX_SETS)} of the {len(sets)} sets that occur, averaged over users; "
            f"taken one by one, it holds for {100 * share:.0f} % of {_PANEL} users."
        ),
        remedy=""
        if verdict == "pass"
        else "Explore only users who lose little by it (a rate for each), allow a larger epsilon, or sample more.",
    )


def _share_of_users(
    market: Market, arm: str, saturated: list[str], *, tau: float, rho: float, **settings: Any
) -> float:
    """The share of a panel of users for whom the arm's own chance is at least rho, by the point estimate."""
    panel = market.covariates.sample(_PANEL, seed=settings["seed"])
    found = estimate_gaps(market, saturated=saturated, taus=[tau], users=panel, **settings)
    return float((found["rho"].sel(arm=arm).values >= rho).mean())


def _separation(market: Market, *, tau: float, rho: float, **settings: Any) -> Check:
    found = estimate_separation(market, taus=[tau], **settings)
    value, error = float(found["rho"].item()), float(found["rho_mcse"].item())
    verdict = judge(value, error, rho)
    return Check(
        name="2 posterior separation",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=rho,
        meaning=f"After {settings['n_per_arm']} samples of each arm the best leads the second by {tau:g} this often.",
        remedy="" if verdict == "pass" else "Take more samples per arm, or ask for a smaller tau.",
    )


def _covariates(market: Market, *, seed: int) -> Check:
    users = market.covariates
    phi0, error, verdict = users.phi0, 0.0, "pass" if users.phi0 > 0 else "fail"
    if isinstance(users, Empirical) and phi0 > 0:
        low, high = users.phi0_interval(seed=seed)
        error = (high - low) / 3.92
        verdict = "pass" if low > 0 else "inconclusive"
    weak = users.weak_directions()
    text = f" Weak: {weak.text}." if len(weak.eigenvalues) else ""
    return Check(
        name="3 covariates (phi0)",
        verdict=verdict,  # type: ignore[arg-type]
        estimate=phi0,
        mcse=error,
        threshold=0.0,
        meaning=f"Smallest eigenvalue of E[xx']: how much every direction of the users varies.{text}",
        remedy="" if verdict == "pass" else "Drop redundant features (one dummy per category), or plan by sampling.",
        belief="none: it is about the users",
    )


def _trust(market: Market, *, inflation: str | None, **settings: Any) -> Check:
    """Assumption 4 is about behaviour: it is declared, not measured. What N samples leave of the prior is measured."""
    value, error = remaining_doubt(market, **settings)
    verdict: Verdict = "inconclusive" if inflation is None else "pass" if inflation == "linear" else "fail"
    declared = "not declared" if inflation is None else inflation
    left = f"{settings['n_per_arm']} samples per arm leave {100 * value:.1f} % of the prior variance."
    return Check(
        name="4 evolution of trust",
        verdict=verdict,
        estimate=value,
        mcse=error,
        threshold=0.0,
        meaning=f"Growth of users' prior variances over time: {declared}; the paper asks for order t. {left}",
        remedy=""
        if verdict == "pass"
        else "Declare it (inflation='linear') if users do open up; sampled plans need no such growth, the bound does.",
    )


def remaining_doubt(market: Market, *, n_per_arm: int, n_worlds: int, engine: str, seed: int) -> tuple[float, float]:
    """The share of the prior variance of rewards that n samples per arm leave, averaged over users and arms."""
    chosen = make_engine(market.prior, market.noise, engine=engine, seed=seed)
    moment = market.covariates.second_moment
    prior = _reward_variance(
        market.prior.covariance.values.reshape(1, *(2 * [market.n_arms * market.n_features])), moment
    )
    shares = []
    for size, rng in block_seeds(min(n_worlds, 500), seed=seed):
        worlds = draw_worlds(market.prior, size, rng=rng)
        data = simulate_data(worlds, market, n_per_arm=np.full(market.n_arms, float(n_per_arm)), rng=rng)
        batch = chosen.fit(data, covariance=True)
        assert batch.covariance is not None  # asked for
        shares.append(_reward_variance(batch.covariance, moment) / prior)
    found = np.concatenate(shares)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


def _reward_variance(covariance: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Average over users and arms of Var(x'b), from joint covariances (M, K d, K d)."""
    d = len(moment)
    k = covariance.shape[-1] // d
    tiles = covariance.reshape(-1, k, d, k, d)
    own = np.stack([tiles[:, arm, :, arm] for arm in range(k)], axis=1)
    return np.einsum("mkij,ij->m", own, moment) / k


def judge(estimate: float, mcse: float, threshold: float) -> Verdict:
    """Pass or fail only when three Monte Carlo errors lie between the estimate and the threshold."""
    if estimate - _Z * mcse >= threshold:
        return "pass"
    if estimate + _Z * mcse < threshold:
        return "fail"
    return "inconclusive"


def combine(verdicts: list[Verdict]) -> Verdict:
    """All must pass; one failure fails."""
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"
