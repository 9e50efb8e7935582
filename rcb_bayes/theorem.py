r"""Theorems 1 and 2 to the letter: how many samples per arm, how often to explore, and what regret that bounds.

.. math::

    N(\epsilon) \ge \frac{(\sigma^2 d + 1) K^3}{\phi_0 (\tau_* + \epsilon)^2}, \qquad
    L \ge 1 + \frac{\Delta - \epsilon}{\tau_0 \rho_0 + \epsilon}, \qquad
    m_0 = \lceil 2 + \log_2 N \rceil

with :math:`\Delta = 1` in the theorem (the largest prior gap in its proof). With :math:`T_0` the length of the cold
start the regret over T rounds is, with probability :math:`1 - \delta`, at most

.. math:: T_0 + 151\, \sigma \sqrt{K d T} + \sqrt{8 (T - T_0) \log(2 / \delta)} .

K regressions of their own make the oracle's error K d sigma^2/n rather than d sigma^2/n, so that the argument gives
:math:`K \sqrt{d T}` in the place of :math:`\sqrt{K d T}`; both are returned.
"""

from dataclasses import dataclass
from math import ceil, log, log2, sqrt

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps import probability_error
from rcb_bayes.market import Market
from rcb_bayes.panel import expected_rewards
from rcb_bayes.plan import Plan
from rcb_bayes.schema import FloatArray, as_count, is_number
from rcb_bayes.wording import figure
from rcb_bayes.worlds import draw_worlds

_BOUNDED_SIGMA = 0.5  # a reward in [0, 1] is sub-Gaussian with this constant
_USERS_PER_WORLD = 16
_Z = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoremConstants:
    """What Theorem 1 asks for: N samples per arm, one exploration in L rounds, exploitation from epoch m0 on."""

    n_per_arm: int
    inverse_rate: float
    first_epoch: int
    expected_cold_start: float


def theorem_constants(
    *,
    n_arms: int,
    n_features: int,
    sigma: float,
    phi0: float,
    epsilon: float,
    tau: float,
    rho: float,
    prior_gap: float = 1.0,
    plus_one: bool = True,
) -> TheoremConstants:
    """The constants of Theorem 1.

    Parameters
    ----------
    n_arms, n_features, sigma : K, d and the noise's sd
    phi0 : smallest eigenvalue of E[xx']
    epsilon : incentive budget
    tau, rho : the gap and its probability (the theorem's tau_P0, rho_P0; tau also serves as tau_P*)
    prior_gap : Delta, 1 in the theorem
    plus_one : whether N has the theorem's "+ 1", which is not scaled by the noise and dominates where noise is small

    Raises
    ------
    RcbError
        When phi0 is zero (the theorem does not apply), or another constant is out of range.

    Applicability
    -------------
    Gaussian priors and bounded users. The expected length N + (K - 1) N L counts one saturation phase of the most
    popular arm and K - 1 phases at rate 1/L, as the proof does.
    """
    n_arms = as_count(n_arms, name="n_arms", least=2)
    n_features = as_count(n_features, name="n_features", least=1)
    _check_numbers(sigma=sigma, phi0=phi0, epsilon=epsilon, tau=tau, rho=rho, prior_gap=prior_gap)
    _check_denominators(phi0=phi0, epsilon=epsilon, tau=tau, rho=rho)
    samples = _samples(sigma, n_features=n_features, n_arms=n_arms, phi0=phi0, slack=tau + epsilon, plus_one=plus_one)
    inverse_rate = max(1.0, 1.0 + (float(prior_gap) - epsilon) / (tau * rho + epsilon))
    return TheoremConstants(
        n_per_arm=samples,
        inverse_rate=inverse_rate,
        first_epoch=ceil(2.0 + log2(samples)),
        expected_cold_start=samples * (1.0 + (n_arms - 1) * inverse_rate),
    )


def theorem_plan(
    market: Market,
    *,
    epsilon: float = 0.05,
    tau: float = 0.01,
    rho: float = 0.95,
    phi0: float | None = None,
    plus_one: bool = True,
    horizon: int = 100_000,
    n_worlds: int = 4000,
    seed: int = 0,
) -> Plan:
    """The plan of Theorem 1 as it stands, with what the belief says about its constants.

    Parameters
    ----------
    epsilon : incentive budget
    tau, rho : the gap and its probability, as the user takes them to be
    phi0 : smallest eigenvalue of E[xx']; that of the market's users unless given
    plus_one : see ``theorem_constants``
    horizon : rounds there are, T; the paper's unless given
    n_worlds : draws of the belief that tau and rho are compared with

    Returns
    -------
    Plan with one rate for all and the proof's notion; its notes say where rho contradicts the belief. Not feasible
    where the expected cold start exceeds the horizon.

    Raises
    ------
    RcbError
        Users with phi0 = 0, a noise that is unknown, constants out of range.

    Applicability
    -------------
    Gaussian priors, bounded users. A sampled plan (``calibrate``) needs neither, and far fewer samples.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.theorem_plan(market, epsilon=0.1, tau=0.05, rho=0.3)
    >>> plan.n_per_arm, round(plan.inverse_rate, 1), round(plan.expected_cold_start)
    (840, 8.8, 8254)
    """
    horizon = as_count(horizon, name="horizon", least=1)
    constants = theorem_constants(
        n_arms=market.n_arms,
        n_features=market.n_features,
        sigma=_sigma(market),
        phi0=market.covariates.phi0 if phi0 is None else phi0,
        epsilon=epsilon,
        tau=tau,
        rho=rho,
        plus_one=plus_one,
    )
    fits = constants.expected_cold_start <= horizon
    too_long = (
        f"The cold start takes {constants.expected_cold_start:,.0f} rounds, of {horizon:,} there are: "
        "the run ends before it does."
    )
    rho_hat, rho_mcse = _limiting_rho(
        market, tau=tau, n_worlds=as_count(n_worlds, name="n_worlds", least=50), seed=seed
    )
    rate = 1.0 / constants.inverse_rate
    return Plan(
        kind="theorem",
        epsilon=float(epsilon),
        notion="proof",
        personalised=False,
        n_per_arm=constants.n_per_arm,
        exploration_rate=rate,
        exploration_rate_mcse=0.0,
        inverse_rate=constants.inverse_rate,
        inverse_rate_mcse=0.0,
        tau=float(tau),
        tau_mcse=0.0,
        rho=float(rho),
        rho_mcse=0.0,
        expected_cold_start=constants.expected_cold_start,
        expected_cold_start_mcse=0.0,
        feasible=fits,
        reason="" if fits else too_long,
        nearest_epsilon=None,
        arms=market.arms,
        features=market.features,
        prior_mean=market.prior.mean.values,
        platform_mean=None if market.platform_prior is market.prior else market.platform_prior.mean.values,
        first_epoch=constants.first_epoch,
        belief=market.prior.name,
        made_of=market.fingerprint(),
        seed=seed,
        version=__version__,
        notes=_contradiction(rho, rho_hat, rho_mcse, tau=tau, n_arms=market.n_arms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretBound:
    """Theorem 2's bound with its parts.

    Attributes
    ----------
    cold_start : rounds of the cold start, each of which may cost 1
    learning, learning_corrected : 151 sigma sqrt(K d T), and with K outside the root
    deviation : sqrt(8 (T - T_0) log(2/delta))
    total, total_corrected : the bound in both forms, never above the horizon, which bounds regret by itself

    Examples
    --------
    With ``bound`` as in ``regret_bound``:

    >>> round(bound.cold_start), round(bound.learning), round(bound.deviation)
    (26, 28650, 1718)
    """

    horizon: int
    delta: float
    cold_start: float
    learning: float
    learning_corrected: float
    deviation: float
    total: float
    total_corrected: float


def regret_bound(market: Market, plan: Plan, *, horizon: int, delta: float = 0.05) -> RegretBound:
    """Theorem 2 for a plan, as the paper states it and as its argument gives it.

    Raises
    ------
    RcbError
        A horizon below 1, delta outside (0, 1), a noise that is unknown.

    Applicability
    -------------
    Rewards in [0, 1] and prior variances that grow like t (Assumption 4). A bound that reaches the horizon says
    nothing.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> bound = rcb.regret_bound(market, plan, horizon=100_000)
    >>> round(bound.total), round(bound.total_corrected)
    (30394, 42261)
    """
    horizon = as_count(horizon, name="horizon", least=1)
    if not (is_number(delta) and 0 < delta < 1):
        raise RcbError(f"delta is a probability between 0 and 1, got {delta!r}.")
    k, d = market.n_arms, market.n_features
    learning = 151.0 * _sigma(market) * sqrt(k * d * horizon)
    corrected = learning * sqrt(k)
    cold_start = min(float(plan.expected_cold_start), float(horizon))
    deviation = sqrt(8.0 * (horizon - cold_start) * log(2.0 / delta))
    return RegretBound(
        horizon=horizon,
        delta=float(delta),
        cold_start=cold_start,
        learning=learning,
        learning_corrected=corrected,
        deviation=deviation,
        total=min(cold_start + learning + deviation, float(horizon)),
        total_corrected=min(cold_start + corrected + deviation, float(horizon)),
    )


def _sigma(market: Market) -> float:
    if not market.noise.is_gaussian:
        return _BOUNDED_SIGMA
    sigma = getattr(market.noise, "sigma", None)
    if sigma is None:
        raise RcbError("The theorems need the noise's sigma, which this belief leaves open. Plan by sampling instead.")
    return float(sigma)


def _limiting_rho(market: Market, *, tau: float, n_worlds: int, seed: int) -> tuple[float, float]:
    """Pr(mu0_i - max over the other arms of mu_j >= tau), averaged over users, of the arm for which it is least.

    The theorem's N is so large that posterior means of saturated arms are the truth. Where arms are coupled these tell
    about the last one too, and nothing is said: NaN.
    """
    if not market.prior.arms_independent:
        return np.nan, np.nan
    rng = np.random.default_rng(seed)
    worlds = draw_worlds(market.prior, n_worlds, rng=rng)
    # Prior rewards that are not linear in beta are costly: a user a world will do.
    n_users = _USERS_PER_WORLD if market.noise.is_gaussian else 1
    flat = market.covariates.sample(n_worlds * n_users, seed=rng)
    users = flat.reshape(n_worlds, n_users, -1)
    rewards: FloatArray = market.noise.mean_reward(users @ worlds.beta.swapaxes(1, 2))
    expected = expected_rewards(market.prior, market.noise, flat).reshape(n_worlds, n_users, -1)
    shares = []
    for arm in range(market.n_arms):
        others = np.delete(rewards, arm, axis=2).max(axis=2)
        shares.append((expected[:, :, arm] - others >= tau).mean(axis=1))
    share = np.stack(shares, axis=1)
    worst = int(share.mean(axis=0).argmin())
    return float(share[:, worst].mean()), float(probability_error(share[:, worst : worst + 1])[0])


def _contradiction(rho: float, rho_hat: float, rho_mcse: float, *, tau: float, n_arms: int) -> tuple[str, ...]:
    if not rho > rho_hat + _Z * rho_mcse:
        return ()
    return (
        f"rho = {rho:g} contradicts the belief: once {n_arms - 1} arms are known the last one leads by {tau:g} with "
        f"probability {figure(rho_hat, rho_mcse)} only. Theorem 1 does not hold with these constants.",
    )


def _samples(sigma: float, *, n_features: int, n_arms: int, phi0: float, slack: float, plus_one: bool) -> int:
    """N = ceil((sigma^2 d + 1) K^3 / (phi0 slack^2)), at least 1."""
    try:
        exact = (float(sigma) ** 2 * n_features + float(plus_one)) * n_arms**3 / (float(phi0) * float(slack) ** 2)
        # Round inputs give 14000.000000000002 for 14000: a rounding error must not cost a sample.
        return max(1, ceil(exact * (1.0 - 1e-14)))
    except (OverflowError, ZeroDivisionError):
        raise RcbError(
            f"Theorem 1's N exceeds every number for sigma = {sigma:g}, phi0 = {phi0:g}, tau + epsilon = {slack:g}. "
            "Rescale rewards and features, or plan by sampling instead."
        ) from None


def _check_numbers(**values: object) -> None:
    for name, value in values.items():
        if not is_number(value) or value < 0:
            raise RcbError(f"{name} must be a finite number of at least 0, got {value!r}.")


def _check_denominators(*, phi0: float, epsilon: float, tau: float, rho: float) -> None:
    if phi0 == 0:
        raise RcbError(
            "Theorem 1 needs phi0 > 0, got 0: some direction of the features is never visited. "
            "Drop redundant features (one dummy per category), or plan by sampling instead."
        )
    if rho > 1:
        raise RcbError(f"rho is a probability: expected at most 1, got {rho:g}.")
    if tau * rho + epsilon == 0:
        raise RcbError(
            "Theorem 1 divides by tau rho + epsilon, got 0. Give a positive epsilon, or positive tau and rho."
        )
