"""What Theorem 1 would ask of a belief: tau, rho, tau*, rho*, L and N, each measured on the belief itself."""

from typing import Any

from rcb_bayes.gaps.estimation import estimate_gaps
from rcb_bayes.gaps.limiting import TauRho, largest_prior_gap, limiting_gaps, measured
from rcb_bayes.market import Market
from rcb_bayes.planning.theorem import TheoremInputs, noise_sd, theorem_constants
from rcb_bayes.schema import DEFAULT_SEED

_KNOWN_WELL = 1000  # samples of each of the other arms, where arms tell of one another


def constants_of(
    market: Market, *, epsilon: float, phi0: float | None = None, n_worlds: int = 2000, seed: int = DEFAULT_SEED
) -> dict[str, Any]:
    """The theorem's constants for a belief with Gaussian rewards, and the plan that they amount to.

    Parameters
    ----------
    phi0 : in place of that of the market's users, which must not be 0

    Returns
    -------
    ``tau`` and ``rho`` of Assumption 1, ``tau_star`` and ``rho_star`` of Assumption 2, each pair with the largest
    product; ``phi0``; ``prior_gap``, the largest among patients; ``inverse_rate`` (L) and ``n_per_arm`` (N).

    Applicability
    -------------
    Arms that tell of one another: tau and rho are those of the last arm once the others have a thousand samples each.
    """
    gaps = limiting_gaps(market, n_worlds=n_worlds, seed=seed)
    star = measured(gaps.lead, tau=None, rho=None)
    first = (
        _first(market, seed=seed, n_worlds=n_worlds)
        if gaps.chance is None
        else measured(gaps.chance, tau=None, rho=None)
    )
    inputs = TheoremInputs(
        n_arms=market.n_arms,
        n_features=market.n_features,
        sigma=noise_sd(market),
        phi0=market.population.phi0 if phi0 is None else phi0,
        epsilon=epsilon,
        tau=first.tau,
        rho=first.rho,
        tau_star=star.tau,
        prior_gap=largest_prior_gap(market, seed=seed),
    )
    found = theorem_constants(inputs)
    return {
        "tau": first.tau,
        "rho": first.rho,
        "tau_star": star.tau,
        "rho_star": star.rho,
        "phi0": inputs.phi0,
        "prior_gap": inputs.prior_gap,
        "inverse_rate": found.inverse_rate,
        "n_per_arm": found.n_per_arm,
    }


def _first(market: Market, *, n_worlds: int, seed: int) -> TauRho:
    known = list(market.arms[:-1])
    gaps = estimate_gaps(market, saturated=known, n_per_arm=_KNOWN_WELL, taus=[0.01], n_worlds=n_worlds, seed=seed)
    return TauRho(tau=float(gaps["best_tau"][0]), rho=float(gaps["best_rho"][0]))
