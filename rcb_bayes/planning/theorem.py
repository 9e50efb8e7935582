r"""Theorem 1 to the letter: how many samples per arm, and how often to explore.

.. math::

    N(\epsilon) \ge \frac{(\sigma^2 d + 1) K^3}{\phi_0 (\tau_* + \epsilon)^2}, \qquad
    L \ge 1 + \frac{\Delta - \epsilon}{\tau_0 \rho_0 + \epsilon}, \qquad
    m_0 = \lceil 2 + \log_2 N \rceil

with :math:`\tau_0, \rho_0` of Assumption 1, :math:`\tau_*` of Assumption 2 and :math:`\Delta` the largest prior gap,
which is 1 in the theorem and at most 1 in its proof. The theorem speaks with probability :math:`\rho_0 \rho_*`.
"""

from dataclasses import dataclass
from math import ceil, log2

from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.limiting import LimitingGaps, TauRho, chance_of, largest_prior_gap, limiting_gaps, measured
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.length import ColdStartLength, cold_start_rounds
from rcb_bayes.planning.expectations import expectations_of
from rcb_bayes.planning.goal import Goal, as_samples
from rcb_bayes.planning.parts import Constants, Course, Feasibility, provenance_of
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_amount, as_count
from rcb_bayes.telling.wording import figure, percent

_BOUNDED_SIGMA = 0.5  # a reward in [0, 1] is sub-Gaussian with this constant
_Z = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoremConstants:
    """What Theorem 1 asks for: N samples per arm, one exploration in L rounds, exploitation from epoch m0 on.

    How long it takes to collect them is simulated (``cold_start_rounds``); the proof counts N(1 + (K - 1)L)
    rounds, as if arms filled up one after the other.
    """

    n_per_arm: int
    inverse_rate: float
    first_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoremInputs:
    """What the constants of Theorem 1 are made of.

    Parameters
    ----------
    n_arms, n_features : int
        K and d.
    sigma : float
        The noise's standard deviation.
    phi0 : float
        Smallest eigenvalue of E[xx'].
    epsilon : float
        Incentive budget.
    tau, rho : float
        The gap of Assumption 1 and its probability (tau_P0, rho_P0), which L depends on.
    tau_star : float
        The gap of Assumption 2 (tau_P*), which N depends on.
    prior_gap : float
        Delta, 1 in the theorem.
    plus_one : bool
        Whether N has the theorem's "+ 1", which is not scaled by the noise and dominates where noise is small.

    Raises
    ------
    RcbError
        When phi0 is zero (the theorem does not apply), or another constant is out of range.
    """

    n_arms: int
    n_features: int
    sigma: float
    phi0: float
    epsilon: float
    tau: float
    rho: float
    tau_star: float
    prior_gap: float = 1.0
    plus_one: bool = True

    def __post_init__(self) -> None:
        as_count(self.n_arms, name="n_arms", least=2)
        as_count(self.n_features, name="n_features", least=1)
        names = ("sigma", "phi0", "epsilon", "tau", "rho", "tau_star", "prior_gap")
        for name in names:
            as_amount(getattr(self, name), name=name)
        _check_denominators(phi0=self.phi0, epsilon=self.epsilon, tau=self.tau, rho=self.rho)


def theorem_constants(given: TheoremInputs) -> TheoremConstants:
    """The constants of Theorem 1.

    Applicability
    -------------
    Gaussian priors and bounded users.
    """
    samples = _samples(given)
    slack = given.tau * given.rho + given.epsilon
    inverse_rate = max(1.0, 1.0 + (float(given.prior_gap) - given.epsilon) / slack)
    return TheoremConstants(n_per_arm=samples, inverse_rate=inverse_rate, first_epoch=ceil(2.0 + log2(samples)))


def theorem_plan(
    market: Market,
    *,
    epsilon: float = 0.05,
    tau: float | None = 0.01,
    rho: float | None = 0.95,
    tau_star: float | None = None,
    rho_star: float | None = None,
    prior_gap: float | None = None,
    phi0: float | None = None,
    plus_one: bool = True,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 4000,
    seed: int = DEFAULT_SEED,
) -> Plan:
    """The plan of Theorem 1, with the constants given or measured, and with what the belief says about them.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    epsilon : float
        Incentive budget.
    tau, rho : float, optional
        Of Assumption 1, for L: once the other arms are known, how far the last one leads, and how often.
    tau_star, rho_star : float, optional
        Of Assumption 2, the former for N: how far the best arm leads the second, and how often.
    prior_gap : float, optional
        Delta, for L: the most that a user expects to lose by an arm before any data.
    phi0 : float, optional
        Smallest eigenvalue of E[xx']; that of the market's users unless given.
    plus_one : bool
        See ``TheoremInputs``.
    horizon : int
        Rounds there are, T; the paper's settings have 100,000.
    n_worlds : int
        Draws of the belief that constants are measured in and compared with.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Plan
        With one rate for all and the proof's notion. Not feasible where its cold start, simulated, outlasts the horizon
        on average. ``guarantee_probability`` is rho rho_star, with which the theorem speaks at all. Notes tell the
        constants, and where they contradict the belief.

    Raises
    ------
    RcbError
        Users with phi0 = 0, a noise that is unknown, constants out of range, coupled arms without tau and rho.

    Applicability
    -------------
    Gaussian priors, bounded users. A constant that is None is measured under the belief as if arms with samples were
    known for good. Measured tau maximises tau rho, and tau_star maximises tau_star rho_star, both averaged over users.
    The measured prior gap is the largest of a table's users, or of 5,000 where there is no table. The paper's own plan
    takes ``tau=0.01, rho=0.95, tau_star=0.01, prior_gap=1.0``. A sampled plan (``calibrate``) needs no such constants,
    and far fewer samples.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.theorem_plan(market, epsilon=0.1, tau=0.05, rho=0.3, tau_star=0.05, prior_gap=1.0)
    >>> plan.n_per_arm, round(plan.inverse_rate, 1), round(plan.expected_cold_start, -2)
    (840, 8.8, 2000.0)
    >>> own = rcb.theorem_plan(market, epsilon=0.1, tau=None, rho=None)  # all measured
    >>> own.n_per_arm < 100, round(own.guarantee_probability, 1)
    (True, 0.1)
    """
    horizon = as_count(horizon, name="horizon", least=1)
    given = {"tau": tau, "rho": rho, "tau_star": tau_star, "rho_star": rho_star, "prior_gap": prior_gap}
    for name, value in given.items():
        if value is not None:
            as_amount(value, name=name)
    sigma = noise_sd(market)
    gaps = limiting_gaps(market, n_worlds=as_count(n_worlds, name="n_worlds", least=50), seed=seed)
    first = _first_assumption(gaps, tau=tau, rho=rho)
    star = measured(gaps.lead, tau=tau_star, rho=rho_star)
    gap = largest_prior_gap(market, seed=seed) if prior_gap is None else float(prior_gap)
    inputs = TheoremInputs(
        n_arms=market.n_arms,
        n_features=market.n_features,
        sigma=sigma,
        phi0=market.population.phi0 if phi0 is None else phi0,
        epsilon=epsilon,
        tau=first.tau,
        rho=first.rho,
        tau_star=star.tau,
        prior_gap=gap,
        plus_one=plus_one,
    )
    constants = theorem_constants(inputs)
    rate = 1.0 / constants.inverse_rate
    agenda = None if market.past is None else as_samples(constants.n_per_arm, market)
    length = cold_start_rounds(market, n_per_arm=agenda or constants.n_per_arm, exploration_rate=rate, seed=seed)
    notes = (
        _speaks(first, star, gap=gap, is_measured=prior_gap is None),
        *_contradictions(gaps, first, star, n_arms=market.n_arms),
        *_in_time(length, horizon),
    )
    return Plan(
        goal=Goal(epsilon=float(epsilon), notion="proof", personalised=False),
        constants=Constants(
            kind="theorem",
            n_per_arm=constants.n_per_arm,
            exploration_rate=rate,
            inverse_rate=constants.inverse_rate,
            tau=first.tau,
            tau_mcse=first.tau_mcse,
            rho=first.rho,
            rho_mcse=first.rho_mcse,
            first_epoch=constants.first_epoch,
            guarantee_probability=first.rho * star.rho,
        ),
        before=expectations_of(market, admission=agenda if isinstance(agenda, Agenda) else None),
        course=Course(expected_cold_start=length.mean, expected_cold_start_mcse=length.mcse),
        feasibility=_feasibility(length, horizon),
        provenance=provenance_of(market, seed=seed, notes=notes),
    )


def _feasibility(length: ColdStartLength, horizon: int) -> Feasibility:
    in_time = length.mean <= horizon
    return Feasibility(feasible=in_time, reason="" if in_time else _too_long(length, horizon))


def noise_sd(market: Market) -> float:
    """The sigma that the theorems use.

    Raises
    ------
    RcbError
        A noise that the belief leaves open.
    """
    if not market.noise.is_gaussian:
        return _BOUNDED_SIGMA
    sigma = getattr(market.noise, "sigma", None)
    if sigma is None:
        raise RcbError("The theorems need the noise's sigma, which this belief leaves open. Plan by sampling instead.")
    return float(sigma)


def _first_assumption(gaps: LimitingGaps, *, tau: float | None, rho: float | None) -> TauRho:
    if tau is not None and rho is not None:
        return TauRho(tau=float(tau), rho=float(rho))
    if gaps.chance is None:
        raise RcbError(
            "tau and rho are measured for independent arms, and these are coupled. Give both; estimate_gaps finds them "
            "for a number of samples."
        )
    return measured(gaps.chance, tau=tau, rho=rho)


def _too_long(length: ColdStartLength, horizon: int) -> str:
    share, _ = length.share_within(horizon)
    return (
        f"The cold start takes {figure(length.mean, length.mcse)} rounds, and there are {horizon:,}: "
        f"{percent(share)} of {length.rounds.size} simulated ones end in time."
    )


def _in_time(length: ColdStartLength, horizon: int) -> tuple[str, ...]:
    """What is to be said where the cold start fits on average, but not always."""
    share, mcse = length.share_within(horizon)
    if length.mean > horizon or share == 1.0:
        return ()
    return (f"The cold start ends within the {horizon:,} rounds in {figure(100 * share, 100 * mcse)} % of runs.",)


def _speaks(first: TauRho, star: TauRho, *, gap: float, is_measured: bool) -> str:
    found = "largest prior gap of users" if is_measured else "prior gap"
    return (
        f"Theorem 1 speaks with probability rho rho* = {first.rho * star.rho:.3g}: tau = "
        f"{figure(first.tau, first.tau_mcse)}, rho = {figure(first.rho, first.rho_mcse)}, tau* = "
        f"{figure(star.tau, star.tau_mcse)}, rho* = {figure(star.rho, star.rho_mcse)}, {found} {gap:.3g}."
    )


def _contradictions(gaps: LimitingGaps, first: TauRho, star: TauRho, *, n_arms: int) -> tuple[str, ...]:
    """Where a rho is beyond what the belief has at that tau."""
    notes = []
    if gaps.chance is not None:
        rho_hat, mcse = chance_of(gaps.chance, first.tau)
        if first.rho > rho_hat + _Z * mcse:
            notes.append(
                f"rho = {first.rho:g} contradicts the belief: once {n_arms - 1} arms are known the last one leads by "
                f"{first.tau:g} with probability {figure(rho_hat, mcse)} only. "
                "Theorem 1 does not hold with these constants."
            )
    rho_hat, mcse = chance_of(gaps.lead, star.tau)
    if star.rho > rho_hat + _Z * mcse:
        notes.append(
            f"rho_star = {star.rho:g} contradicts the belief: the best arm leads the second by {star.tau:g} with "
            f"probability {figure(rho_hat, mcse)} only. Theorem 1 does not hold with these constants."
        )
    return tuple(notes)


def _samples(given: TheoremInputs) -> int:
    """N = ceil((sigma^2 d + 1) K^3 / (phi0 (tau_star + epsilon)^2)), at least 1."""
    slack = given.tau_star + given.epsilon
    try:
        numerator = (float(given.sigma) ** 2 * given.n_features + float(given.plus_one)) * int(given.n_arms) ** 3
        # Round inputs give 14000.000000000002 for 14000: a rounding error must not cost a sample.
        return max(1, ceil(numerator / (float(given.phi0) * float(slack) ** 2) * (1.0 - 1e-14)))
    except (OverflowError, ZeroDivisionError):
        raise RcbError(
            f"Theorem 1's N exceeds every number for sigma = {given.sigma:g}, phi0 = {given.phi0:g}, "
            f"tau_star + epsilon = {slack:g}. Rescale rewards and features, or plan by sampling instead."
        ) from None


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
