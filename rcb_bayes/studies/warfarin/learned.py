r"""A belief from data: fitted on one half of the patients, then checked, planned, run and audited on the other.

For each bucket i the rewards of the first half, known from the doses, are taken as

.. math:: y_i = X \beta_i + noise, \quad noise \sim N(0, \sigma_i^2 I), \quad \beta_i \sim N(0, \tau_i^2 I),

with :math:`\sigma_i` and :math:`\tau_i` where the marginal likelihood is largest (empirical Bayes). Past patients
count for a share of one each (a power prior), so that a physician still has something to learn:

.. math::

    C_i = (\alpha X'X / \sigma_i^2 + I / \tau_i^2)^{-1}, \qquad \beta_i \sim N(\alpha C_i X'y_i / \sigma_i^2, C_i).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.auditing import Audit, audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.assumptions import Check, check_assumptions
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, is_number
from rcb_bayes.studies.warfarin.beliefs import always_medium
from rcb_bayes.studies.warfarin.cohort import ARMS, Cohort
from rcb_bayes.studies.warfarin.contenders import SPREAD_MULTIPLE, rcb_policy
from rcb_bayes.studies.warfarin.metrics import replay_metrics
from rcb_bayes.studies.warfarin.replay import replay
from rcb_bayes.users import Empirical

if TYPE_CHECKING:
    import xarray as xr

_RESERVE = 0.95  # of epsilon is planned for: under a firm belief nothing varies, and a plan would sit on its bound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedBelief:
    """A belief fitted to patients.

    Attributes
    ----------
    prior : beta[arm, feature], a PyMC model
    sigma : the noise, over arms; the market's is their root mean square
    tau : the coefficients' spread, over arms
    """

    prior: Prior
    sigma: FloatArray
    tau: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HalfResult:
    """From a belief to its audit.

    Attributes
    ----------
    belief : fitted on the first half
    market : that belief, and the patients of the second half
    checks : of the paper's assumptions
    plan, audit : of that market; no audit of a plan that is not feasible
    figures : of the second half: dims policy, see ``replay_metrics``; "always medium" is the physician of the study,
        "belief alone" acts on the belief and never learns
    """

    belief: LearnedBelief
    market: Market
    checks: tuple[Check, ...]
    plan: Plan
    audit: Audit | None
    figures: "xr.Dataset"

    def summary(self) -> str:
        """Checks, plan, audit and errors."""
        lines = [f"{check.verdict}: {check.name}, {check.meaning}" for check in self.checks]
        lines += ["", self.plan.summary(), "", self.audit.summary() if self.audit else "not audited", ""]
        for name in self.figures["policy"].values:
            row = self.figures.sel(policy=name)
            lines.append(
                f"{name!s:<16}{float(row['error']):.4f} ± {float(row['error_mcse']):.4f} of the second half err"
            )
        return "\n".join(lines)


def learn_belief(cohort: Cohort, *, discount: float = 0.1) -> LearnedBelief:
    """A belief from patients whose right bucket is known.

    Parameters
    ----------
    discount : alpha, what a past patient counts for; above 0, at most 1

    Raises
    ------
    RcbError
        A discount out of range.

    Applicability
    -------------
    Arms come out independent, although every patient has exactly one right bucket. Rewards are 0 or 1, the belief is
    linear: an approximation.
    """
    import pymc as pm

    if not (is_number(discount) and 0 < discount <= 1):
        raise RcbError(f"discount must be above 0 and at most 1, got {discount!r}.")
    x = cohort.features
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0.0)
    k, d = len(ARMS), x.shape[1]
    mean, covariance = np.zeros((k, d)), np.zeros((k, d, d))
    sigma, tau = np.zeros(k), np.zeros(k)
    for arm in range(k):
        y = (cohort.arm == arm).astype(float)
        moment = vectors.T @ (x.T @ y)
        noise, spread = _largest_evidence(values, moment, float(y @ y), len(y))
        own = 1.0 / (discount * values / noise + 1.0 / spread)
        mean[arm] = vectors @ (discount * own * moment / noise)
        covariance[arm] = (vectors * own) @ vectors.T
        sigma[arm], tau[arm] = np.sqrt(noise), np.sqrt(spread)
    coords = {"arm": list(ARMS), "feature": list(cohort.names)}
    with pm.Model(coords=coords) as model:
        pm.MvNormal("beta", mean, cov=covariance, dims=("arm", "feature"))
    return LearnedBelief(prior=Prior.from_pymc(model, name="warfarin_learned"), sigma=sigma, tau=tau)


def run_learned(
    cohort: Cohort,
    *,
    epsilon: float = 0.05,
    notion: str = "proof",
    n_per_arm: int = 20,
    discount: float = 0.1,
    n_permutations: int = 10,
    n_worlds: int = 500,
    seed: int = DEFAULT_SEED,
) -> HalfResult:
    """Fit a belief on a random half of the patients; check, plan, run and audit it on the other half.

    Parameters
    ----------
    epsilon, notion : what the audit judges by; the plan is made for 95 % of this epsilon
    n_per_arm, n_worlds : of the sampled plan, see ``calibrate``
    discount : see ``learn_belief``

    Raises
    ------
    RcbError
        Values out of range, a cohort of fewer than two patients.
    """
    import xarray as xr

    if len(cohort) < 2:
        raise RcbError(f"A cohort is halved: expected two or more patients, got {len(cohort)}.")
    seed = as_count(seed, name="seed")
    order = np.random.default_rng(seed).permutation(len(cohort))
    past, coming = cohort.part(order[: len(order) // 2]), cohort.part(order[len(order) // 2 :])
    belief = learn_belief(past, discount=discount)
    market = Market(
        prior=belief.prior,
        covariates=Empirical(coming.features, features=coming.names),
        noise=GaussianNoise(float(np.sqrt(np.mean(belief.sigma**2)))),
    )
    checks = tuple(check_assumptions(market, n_per_arm=n_per_arm, seed=seed))
    judged = as_notion(notion)
    plan = calibrate(
        market,
        epsilon=_RESERVE * epsilon,
        notion=notion,
        personalised=judged.is_per_user,
        n_per_arm=n_per_arm,
        n_worlds=n_worlds,
        audit_worlds=n_worlds,
        guard=judged.is_per_user and not judged.is_joint,  # others leave hardly anything to cut
        seed=seed,
    )
    alone = np.asarray((coming.features @ belief.prior.mean.values.T).argmax(axis=1))
    fixed = {"always medium": always_medium(coming), "belief alone": alone}
    figures = {
        name: replay_metrics(replay(coming, arms, n_permutations=n_permutations, seed=seed))
        for name, arms in fixed.items()
    }
    found = None
    if plan.feasible:
        options = Exploiting(spread_multiple=SPREAD_MULTIPLE)
        found = audit(
            market, plan, horizon=len(coming), n_worlds=n_worlds, epsilon=epsilon, options=options, seed=seed + 1
        )
        runs = replay(coming, rcb_policy(market, plan), market=market, n_permutations=n_permutations, seed=seed)
        figures["RCB"] = replay_metrics(runs)
    index = xr.DataArray(list(figures), dims="policy", name="policy")
    return HalfResult(
        belief=belief,
        market=market,
        checks=checks,
        plan=plan,
        audit=found,
        figures=xr.concat(list(figures.values()), dim=index),
    )


def _largest_evidence(values: FloatArray, moment: FloatArray, total: float, n: int) -> tuple[float, float]:
    """sigma^2 and tau^2 with the largest marginal likelihood of y, given the spectrum of X'X and V'X'y; total is y'y.

    In the eigenbasis of XX' y is normal with variances sigma^2 + tau^2 s_k, and sigma^2 in the other n - d directions.
    """
    from scipy.optimize import minimize

    seen = values > 1e-12 * values.max()
    lead, square = values[seen], moment[seen] ** 2 / values[seen]  # squares of y's coordinates
    rest, m = max(total - float(square.sum()), 1e-12), n - int(seen.sum())

    def negative(logs: FloatArray) -> tuple[float, FloatArray]:
        noise, spread = np.exp(logs)
        v = noise + spread * lead
        value = 0.5 * (np.log(v).sum() + (square / v).sum() + m * np.log(noise) + rest / noise)
        slope = 0.5 * (1.0 / v - square / v**2)  # of each direction's term, in its variance
        return float(value), np.array([noise * slope.sum() + 0.5 * (m - rest / noise), spread * float(slope @ lead)])

    start, reach = np.log([total / n, 1.0]), np.log(1e8)
    bounds = [(middle - reach, middle + reach) for middle in start]
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-8})
    noise, spread = np.exp(found.x)
    return float(noise), float(spread)
