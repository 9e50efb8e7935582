r"""Theorem 1 to the letter: how many samples per arm, and how often to explore.

.. math::

    N(\epsilon) \ge \frac{(\sigma^2 d + 1) K^3}{\phi_0 (\tau_* + \epsilon)^2}, \qquad
    L \ge 1 + \frac{\Delta - \epsilon}{\tau_0 \rho_0 + \epsilon}, \qquad
    m_0 = \lceil 2 + \log_2 N \rceil

with :math:`\Delta = 1` in the theorem (the largest prior gap in its proof).
"""

from dataclasses import dataclass
from math import ceil, isfinite, log2

from rcb_bayes.errors import RcbError


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
    _check(sigma=sigma, epsilon=epsilon, tau=tau, rho=rho)
    if not phi0 > 0:
        raise RcbError(
            f"Theorem 1 needs phi0 > 0, got {phi0:g}: some direction of the users never varies. "
            "Drop redundant features (one dummy per category), or plan by sampling instead."
        )
    samples = ceil((sigma**2 * n_features + 1.0) * n_arms**3 / (phi0 * (tau + epsilon) ** 2) - 1e-9)
    inverse_rate = max(1.0, 1.0 + (prior_gap - epsilon) / (tau * rho + epsilon))
    return TheoremConstants(
        n_per_arm=samples,
        inverse_rate=inverse_rate,
        first_epoch=ceil(2.0 + log2(samples)),
        expected_cold_start=samples * (1.0 + (n_arms - 1) * inverse_rate),
    )


def _check(*, sigma: float, epsilon: float, tau: float, rho: float) -> None:
    for name, value in (("sigma", sigma), ("epsilon", epsilon), ("tau", tau), ("rho", rho)):
        if not (isfinite(value) and value >= 0):
            raise RcbError(f"{name} must be a finite number of at least 0, got {value}.")
    if rho > 1:
        raise RcbError(f"rho is a probability: expected at most 1, got {rho:g}.")
    if tau + epsilon == 0 or tau * rho + epsilon == 0:
        raise RcbError("Theorem 1 divides by tau + epsilon and tau rho + epsilon: one of them must be positive.")
