"""A plan without figures, by which stages of the paper's algorithm serve other policies."""

from math import inf, nan

from rcb_bayes._version import __version__
from rcb_bayes.market import Market
from rcb_bayes.plan import Plan


def bare_plan(market: Market, *, n_per_arm: int, inverse_rate: float = 1.0) -> Plan:
    """N samples of each arm, everybody explored at the rate 1/L; nothing is promised about users."""
    return Plan(
        kind="theorem",
        epsilon=0.0,
        notion="proof",
        personalised=False,
        n_per_arm=n_per_arm,
        exploration_rate=1.0 / inverse_rate,
        exploration_rate_mcse=0.0,
        inverse_rate=inverse_rate,
        inverse_rate_mcse=0.0,
        tau=nan,
        tau_mcse=nan,
        rho=nan,
        rho_mcse=nan,
        expected_cold_start=n_per_arm * (1.0 + (market.n_arms - 1) * inverse_rate) if inverse_rate < inf else inf,
        expected_cold_start_mcse=nan,
        feasible=True,
        reason="",
        nearest_epsilon=None,
        arms=market.arms,
        features=market.features,
        prior_mean=market.prior.mean.values,
        platform_mean=None if market.platform_prior is market.prior else market.platform_prior.mean.values,
        belief=market.prior.name,
        version=__version__,
    )
