r"""Gaps, rates and audits of two arms whose users are all alike, against closed forms.

With one feature and x = 1, :math:`b_0 \sim N(\mu_0, v)` and n rewards of arm 0, its posterior mean is normal with sd
:math:`s = v / \sqrt{v + \sigma^2/n}` and the gap of arm 1 is normal with mean :math:`-D = \mu_1 - \mu_0`:

.. math:: A = -D \Phi(-D/s) + s \phi(D/s), \quad \rho_+ = \Phi(-D/s), \quad
          L = 1 + (D - \epsilon)/(A + \epsilon \rho_+),

the last under ``user``, with :math:`\epsilon` for :math:`\epsilon\rho_+` under ``proof``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from rcb_bayes.auditing import audit
from rcb_bayes.belief import Prior
from rcb_bayes.gaps.estimation import estimate_gaps
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.planned_walk import plan_walk
from rcb_bayes.users import Empirical
from rcb_bayes.validation.cases import seeded
from rcb_bayes.validation.result import Finding, Planted

_EPSILON = 0.05
_SETTINGS = (  # means of arm 0 and arm 1, variance of arm 0, sigma, samples
    ((0.3, 0.0), 0.25, 0.5, 4),
    ((0.3, 0.1), 0.09, 0.6, 20),
    ((0.1, 0.02), 0.01, 0.3, 9),
    ((1.0, 0.0), 1.0, 2.0, 16),
)
_PLANTED_GAIN, _PLANTED_RATE, _PLANTED_EXPLORED = 1.15, 1.25, 1.5
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoArms:
    """A market of two arms, and what is known of it."""

    means: tuple[float, float]
    variance: float
    sigma: float
    n: int

    @property
    def gap(self) -> float:
        """D."""
        return self.means[0] - self.means[1]

    @property
    def spread(self) -> float:
        """s."""
        return self.variance / np.sqrt(self.variance + self.sigma**2 / self.n)

    @property
    def gain(self) -> float:
        """A."""
        z = self.gap / self.spread
        return float(self.spread * stats.norm.pdf(z) - self.gap * stats.norm.sf(z))

    @property
    def positive(self) -> float:
        """rho+."""
        return float(stats.norm.sf(self.gap / self.spread))

    def rate(self, notion: str) -> float:
        """q = 1/L."""
        weight = 1.0 if as_notion(notion).is_joint else self.positive
        lead = self.gain + _EPSILON * weight
        return min(1.0, lead / (lead + max(self.gap - _EPSILON, 0.0)))

    def rate_error(self, notion: str, n_worlds: int) -> float:
        """Of the same from so many worlds: the sd of max(G, 0) + eps 1{G > 0} by a sum over G, carried over to q."""
        g = -self.gap + self.spread * np.linspace(-9, 9, 20_001)
        weight = stats.norm.pdf(g, -self.gap, self.spread)
        value = np.maximum(g, 0.0) + (0.0 if as_notion(notion).is_joint else _EPSILON * (g > 0))
        mean = float((weight * value).sum() / weight.sum())
        sd = np.sqrt(float((weight * value**2).sum() / weight.sum()) - mean**2)
        lead = mean + (_EPSILON if as_notion(notion).is_joint else 0.0)
        loss = self.gap - _EPSILON
        return float(loss / (lead + loss) ** 2 * sd / np.sqrt(n_worlds))

    def margin(self, rate: float) -> float:
        """Of arm 1 once arm 0 is saturated, under ``user``."""
        joint = -rate * self.gap + (1 - rate) * self.gain
        return joint / (rate + (1 - rate) * self.positive)

    def market(self, *, sampled: bool = False) -> Market:
        """With ``sampled`` the platform has a belief of its own, if the same one: no closed form is used then."""
        prior = Prior.gaussian([[mean] for mean in self.means], [self.variance, 0.04])
        noise, alike = GaussianNoise(self.sigma), Empirical([[1.0]])
        more: dict[str, Any] = {}
        if sampled:
            more["platform_prior"] = Prior.gaussian([[mean] for mean in self.means], [self.variance, 0.04])
        return Market(prior=prior, covariates=alike, noise=noise, **more)


def mechanism_findings(part: str, root: np.random.SeedSequence, *, quick: bool) -> list[Finding]:
    """The findings of "gaps", "rates" or "audits"."""
    worlds = (20_000 if quick else 60_000) * (5 if part == "gaps" else 1)
    settings = [TwoArms(means=m, variance=v, sigma=s, n=n) for m, v, s, n in _SETTINGS]
    found = []
    for k, (one, seed) in enumerate(zip(settings, root.spawn(len(settings)), strict=True)):
        found += MECHANISM[part](one, f"two arms, setting {k + 1}", seeded(seed), worlds)
    return found


def _gaps(one: TwoArms, case: str, seed: int, n_worlds: int) -> list[Finding]:
    gaps = estimate_gaps(one.market(), saturated=["arm_0"], n_per_arm=one.n, n_worlds=n_worlds, taus=[0.0], seed=seed)
    found = gaps.sel(arm="arm_1")
    rows = []
    for name, truth in (("expected_gain", one.gain), ("prob_positive", one.positive)):
        value, error = found[name].item(), found[f"{name}_mcse"].item()
        rows.append(_by_error("gaps", case, name, value, error, truth=truth, planted=_PLANTED_GAIN * truth))
    return rows


def _rates(one: TwoArms, case: str, seed: int, n_worlds: int) -> list[Finding]:
    rows = []
    for notion in ("user", "proof"):
        request = PlanRequest(
            epsilon=_EPSILON,
            notion=notion,
            personalised=True,
            knows="stage",
            n_per_arm=one.n,
            n_worlds=n_worlds,
            audit_worlds=1000,
            engine="auto",
            seed=seed,
        )
        (stage,) = plan_walk(one.market(), request).stages.values()
        value, truth = stage.ideal, one.rate(notion)
        error = one.rate_error(notion, n_worlds)
        planted = truth / _PLANTED_RATE  # as if rates were a quarter too large
        rows.append(_by_error("rates", case, f"rate, {notion}", value, error, truth=truth, planted=planted))
    return rows


def _audits(one: TwoArms, case: str, seed: int, n_worlds: int) -> list[Finding]:
    rate = one.rate("user")
    truth, planted = one.margin(rate), one.margin(min(1.0, _PLANTED_EXPLORED * rate))
    rows = []
    for sampled in (False, True):
        market = one.market(sampled=sampled)
        plan = fixed_plan(market, n_per_arm=one.n, exploration_rate=rate, epsilon=_EPSILON)
        asked: dict[str, Any] = {"horizon": one.n + 2, "n_users": 1, "seed": seed, "options": Exploiting(guard=False)}
        found = audit(market, plan, n_worlds=n_worlds // 4, notion="user", **asked)
        cell = found.margins.isel(user=0).sel(stage="arm_0", arm="arm_1", rival="arm_0")
        value, error = cell["estimate"].item(), cell["mcse"].item()
        name = "margin, by worlds" if sampled else "margin"
        rows.append(_by_error("audits", case, name, value, error, truth=truth, planted=planted))
    return rows


def _by_error(part: str, case: str, test: str, value: float, error: float, *, truth: float, planted: float) -> Finding:
    """A figure against the truth in its Monte Carlo errors, and against the truth with an error planted."""
    name = "error of the truth planted"
    if not error > _CLOSE * max(1.0, abs(truth)):  # in closed form
        seen = abs(value - planted) > _CLOSE
        errors = (Planted(name=name, p_value=0.0 if seen else 1.0, beyond=seen),)
        return Finding(part=part, case=case, test=test, estimate=value - truth, limit=_CLOSE, planted=errors)
    p_value, p_planted = (float(2 * stats.norm.sf(abs(value - wanted) / error)) for wanted in (truth, planted))
    errors = (Planted(name=name, p_value=p_planted),)
    return Finding(part=part, case=case, test=test, estimate=value - truth, mcse=error, p_value=p_value, planted=errors)


MECHANISM = {"gaps": _gaps, "rates": _rates, "audits": _audits}
