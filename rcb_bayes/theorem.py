r"""Theorem 1 to the letter: how many samples per arm, and how often to explore.

.. math::

    N(\epsilon) \ge \frac{(\sigma^2 d + 1) K^3}{\phi_0 (\tau_* + \epsilon)^2}, \qquad
    L \ge 1 + \frac{\Delta - \epsilon}{\tau_0 \rho_0 + \epsilon}, \qquad
    m_0 = \lceil 2 + \log_2 N \rceil

with :math:`\Delta = 1` in the theorem (the largest prior gap in its proof).
"""

from dataclasses import dataclass
from math import ceil, log2

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import as_count, is_number


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
) -> TheoremConstants:
    """The constants of Theorem 1.

    Parameters
    ----------
    n_arms, n_features, sigma : K, d and the noise's sd
    phi0 : smallest eigenvalue of E[xx']
    epsilon : incentive budget
    tau, rho : the gap and its probability (the theorem's tau_P0, rho_P0; tau also serves as tau_P*)
    prior_gap : Delta, 1 in the theorem

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
    samples = _samples(sigma, n_features=n_features, n_arms=n_arms, phi0=phi0, slack=tau + epsilon)
    inverse_rate = max(1.0, 1.0 + (float(prior_gap) - epsilon) / (tau * rho + epsilon))
    return TheoremConstants(
        n_per_arm=samples,
        inverse_rate=inverse_rate,
        first_epoch=ceil(2.0 + log2(samples)),
        expected_cold_start=samples * (1.0 + (n_arms - 1) * inverse_rate),
    )


def _samples(sigma: float, *, n_features: int, n_arms: int, phi0: float, slack: float) -> int:
    """N = ceil((sigma^2 d + 1) K^3 / (phi0 slack^2)), at least 1."""
    try:
        exact = (float(sigma) ** 2 * n_features + 1.0) * n_arms**3 / (float(phi0) * float(slack) ** 2)
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
