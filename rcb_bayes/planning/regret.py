r"""Theorem 2: what regret the paper bounds, as stated, as its argument gives it, and for a run's own spreads.

With :math:`T_0` the length of the cold start the regret over T rounds is, with probability :math:`1 - \delta`, at most

.. math:: T_0 + 206 K \sum_{t > T_0} 1/\gamma_{m(t)} + \sqrt{8 (T - T_0) \log(2 / \delta)}

(the last lemma before the proof of Theorem 2: :math:`C_0 = 204` of the lemma on implicit regret, and 2 of the kernel's
own). With :math:`\gamma_m = 4 \sqrt{K/E_m}` the summand is :math:`51.5 \sqrt{K E_m}`, in the proof 52, and with the
oracle's error :math:`E_m = \sigma^2 d/(\phi_0 2^{m-2})` (Corollary 1, its constant 1) an epoch of :math:`2^{m-1}`
rounds costs :math:`52 \sigma \sqrt{K d/\phi_0}\, 2^{m/2}`. The proof leaves :math:`\phi_0` out and takes the integral
of :math:`2^{x/2}`, :math:`2 \sqrt T/\ln 2`, for the sum, which is :math:`\sqrt T/(1 - 1/\sqrt 2)` and larger: its
:math:`104/\ln 2 < 151` is 177.5. K regressions of their own make the error :math:`K d \sigma^2/(\phi_0 n)`, and
:math:`K \sqrt{d T}` of :math:`\sqrt{K d T}`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, log, nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records
from rcb_bayes.market import Market
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import noise_sd
from rcb_bayes.schema import DEFAULT_HORIZON, as_count, as_probability, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORM = Format(name="regret bound", version=1, remedy="Compute it again: `regret_bound(...).save(path)` writes a file.")
_STATED = 151.0
_SUMMED = 52.0 / (1.0 - sqrt(0.5))  # over all epochs up to T, the last one whole or not
_PER_SPREAD = 206.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretBound:
    """Theorem 2's bound with its parts.

    Parameters
    ----------
    horizon : int
        T, rounds in all.
    delta : float
        The probability with which the bound may fail.
    cold_start : float
        Rounds of the cold start, each of which may cost 1.
    learning : float
        151 sigma sqrt(K d T), as stated.
    learning_argued : float
        177.5 sigma sqrt(K d T/phi0), as the argument gives it.
    learning_corrected : float
        177.5 sigma K sqrt(d T/phi0), the same with K regressions of their own.
    learning_of_run : float
        206 K times the sum of rounds over gamma, of a run's own spreads; NaN unless they were given.
    deviation : float
        sqrt(8 (T - T_0) log(2/delta)).
    total, total_argued, total_corrected, total_of_run : float
        The bound in each form, never above the horizon, which bounds regret by itself.

    Examples
    --------
    With ``bound`` as in ``regret_bound``:

    >>> round(bound.cold_start), round(bound.learning), round(bound.deviation)
    (24, 286502, 17179)
    """

    horizon: int
    delta: float
    cold_start: float
    learning: float
    learning_argued: float
    learning_corrected: float
    learning_of_run: float
    deviation: float
    total: float
    total_argued: float
    total_corrected: float
    total_of_run: float

    @property
    def parts(self) -> dict[str, tuple[float, float, float]]:
        """Of each form, but that of a run: rounds of cold start, what learning costs, the deviation."""
        learning = {"stated": self.learning, "argued": self.learning_argued, "corrected": self.learning_corrected}
        return {form: (self.cold_start, value, self.deviation) for form, value in learning.items()}

    def summary(self) -> str:
        """The bound in each form, and whether it says anything.

        Examples
        --------
        With ``bound`` as in ``regret_bound``:

        >>> print(bound.summary())
        Theorem 2 over 10,000,000 rounds, delta 0.05: cold start 24, deviation 17,179
        stated: at most 303,705
        argued: at most 1,184,109
        corrected: at most 1,667,457
        """
        totals = {"stated": self.total, "argued": self.total_argued, "corrected": self.total_corrected}
        totals |= {} if isnan(self.total_of_run) else {"of run": self.total_of_run}
        head = f"Theorem 2 over {self.horizon:,} rounds, delta {self.delta:g}: cold start {self.cold_start:,.0f}"
        return "\n".join(
            [
                f"{head}, deviation {self.deviation:,.0f}",
                *(
                    f"{form}: at most {total:,.0f}" + (", the horizon: it says nothing" * (total >= self.horizon))
                    for form, total in totals.items()
                ),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Every figure by its name; None for what is endless or was not asked for."""
        return plain(self)

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """What the bound is made of, a bar for each form of it; see ``plots.plot_regret_bound``.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; a figure of its own unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from rcb_bayes.plots import plot_regret_bound

        finite = {form: parts for form, parts in self.parts.items() if max(parts) < inf}
        return plot_regret_bound(finite, axes=axes)

    def save(self, path: str | Path) -> None:
        """Write the bound to a JSON file, with a digest of its content.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        _RECORDS.write(_FORM, self, path)

    @classmethod
    def load(cls, path: str | Path) -> "RegretBound":
        """Read what ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        RegretBound

        Raises
        ------
        RcbError
            A file that is not there, or has no bound; a digit that was changed.
        """
        return _RECORDS.read(_FORM, path)


_RECORDS = Records(RegretBound)


def regret_bound(
    market: Market,
    plan: Plan,
    *,
    horizon: int = DEFAULT_HORIZON,
    delta: float = 0.05,
    spreads: Sequence[tuple[float, int]] | None = None,
) -> RegretBound:
    """Theorem 2 for a plan: as the paper states it, as its argument gives it, and for a run's own spreads.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        The plan.
    horizon : int
        T, rounds in all.
    delta : float
        The probability with which the bound may fail.
    spreads : sequence of tuple of float, int, optional
        gamma and the rounds of each epoch of exploitation, of one run; the rest of the horizon is its cold start.

    Returns
    -------
    RegretBound
        The bound in each form, with its parts.

    Raises
    ------
    RcbError
        A horizon below 1, delta outside (0, 1), a noise that is unknown, spreads that are none or outlast the horizon.

    Applicability
    -------------
    Rewards in [0, 1] and prior variances that grow like t (Assumption 4). The forms without spreads are for the paper's
    clock, with the cold start as long as the plan expects. That of a run holds for every clock where gamma is
    4 sqrt(K/E) with E a bound on the oracle's error: not with a multiple of it, and not where a guard is closed. A
    bound that reaches the horizon says nothing.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> bound = rcb.regret_bound(market, plan, horizon=10_000_000)
    >>> round(bound.total), round(bound.total_argued), round(bound.total_corrected)
    (303705, 1184109, 1667457)
    >>> of_run = rcb.regret_bound(market, plan, horizon=100_000, spreads=[(2e3, 30_000), (4e3, 69_974)])
    >>> round(of_run.learning_of_run), round(of_run.total_of_run)
    (13387, 15131)
    """
    horizon = as_count(horizon, name="horizon", least=1)
    as_probability(delta, name="delta")
    k, d, sigma, phi0 = market.n_arms, market.n_features, noise_sd(market), market.population.phi0
    root = sigma * sqrt(k * d * horizon)
    argued = _SUMMED * root / sqrt(phi0) if phi0 > 0 else inf
    cold_start = min(float(plan.expected_cold_start), float(horizon))
    deviation = _deviation(horizon - cold_start, delta)
    learning = {"": _STATED * root, "_argued": argued, "_corrected": argued * sqrt(k)}
    of_run, total_of_run = _of_run(spreads, n_arms=k, horizon=horizon, delta=delta)
    return RegretBound(
        horizon=horizon,
        delta=float(delta),
        cold_start=cold_start,
        deviation=deviation,
        learning_of_run=of_run,
        total_of_run=total_of_run,
        **{f"learning{form}": value for form, value in learning.items()},
        **{f"total{form}": min(cold_start + value + deviation, float(horizon)) for form, value in learning.items()},
    )


def _deviation(n_rounds: float, delta: float) -> float:
    """Azuma and Hoeffding's part, of differences within [-2, 2]."""
    return sqrt(8.0 * n_rounds * log(2.0 / delta))


def _of_run(
    spreads: Sequence[tuple[float, int]] | None, *, n_arms: int, horizon: int, delta: float
) -> tuple[float, float]:
    """206 K sum of rounds/gamma, and the bound with it; NaN where no spreads are given."""
    if spreads is None:
        return nan, nan
    for gamma, rounds in spreads:
        if isnan(gamma) or not gamma > 0:
            raise RcbError(f"spreads are pairs of a positive gamma and a number of rounds, got a gamma of {gamma!r}.")
        as_count(rounds, name="rounds of an epoch", least=0)
    n_rounds = sum(rounds for _, rounds in spreads)
    if n_rounds > horizon:
        raise RcbError(
            f"The epochs last {n_rounds:,} rounds and the horizon is {horizon:,}. Give both of the same run."
        )
    learning = _PER_SPREAD * n_arms * sum(rounds / gamma for gamma, rounds in spreads)
    return learning, min(horizon - n_rounds + learning + _deviation(n_rounds, delta), float(horizon))
