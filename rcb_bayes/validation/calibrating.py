r"""Simulation-based calibration of an engine on one belief, and the same with errors planted.

Truths come from the belief, data from the truths, and the engine is given the data. With :math:`e` the truth minus the
engine's mean, :math:`s` its standard deviations and :math:`\Sigma` its covariance, an exact posterior has
:math:`E[e \mid S] = 0` and :math:`E[e_c^2 / s_c^2 \mid S] = 1`, and the truth's rank among draws is uniform.

| test | zero under an exact posterior |
|---|---|
| bias | :math:`s'\Sigma^{-1} e` : all means off by the same share of their sd |
| bias by coefficient | :math:`e_c / s_c` for all c at once |
| slope | :math:`(m - \mu_0)'\Sigma^{-1} e` : means that move too little or too far from the prior mean |
| data | :math:`e_c h_c / s_c`, on average, with h the sums X'y of the data: an engine that overlooks some of them |
| spread | :math:`e_c^2/s_c^2 - 1`, on average: sds too small or too large |
| ranks | the first four Legendre polynomials of the rank of the truth among draws |
| mean rewards | of 0/1 rewards: what users get minus what the engine expects, over its sd |
| vouched for | how many of the data sets the engine leaves to another |

Only data sets that the engine vouches for count: which those are depends on the data alone, so that what is zero given
any data is zero over them.
"""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.posterior.data import Data, Statistics, as_rows
from rcb_bayes.posterior.engines import Engine
from rcb_bayes.schema import FloatArray
from rcb_bayes.users.populations import Sphere
from rcb_bayes.validation.cases import SYSTEMATIC, Case, make_bare, seeded
from rcb_bayes.validation.result import Finding, Planted
from rcb_bayes.validation.worlds import simulate_data
from rcb_bayes.validation.zero_mean import joint_test, slope_test

BIAS, NARROW = 0.1, 0.9
"""Planted: all means off by this many posterior sd; all sds times this."""
_BIAS_ALLOWED, _SPREAD_ALLOWED, _SLOPE_ALLOWED = 0.01, 0.03, 0.01  # of engines that sample
_MOST_LEFT = 0.5  # of the data sets, to another engine
_N_DRAWS = 63
_N_USERS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """M posteriors and their truths, coefficients stacked.

    ``truth``, ``mean``, ``sd`` (M, C), ``precision`` (M, C, C), ``prior_mean`` (C,); ``hint`` (M, C), sums of the data,
    scaled; ``place`` (M', C) of the truth among draws; ``rewards`` (M, U K) over their sd.
    """

    truth: FloatArray
    mean: FloatArray
    sd: FloatArray
    precision: FloatArray
    prior_mean: FloatArray
    hint: FloatArray
    place: FloatArray
    rewards: FloatArray | None

    @property
    def n_values(self) -> float:
        """Coefficients, counted as if independent."""
        return float(_against(self.sd, self.precision, self.sd).sum())


def calibrate_case(case: Case, root: np.random.SeedSequence) -> list[Finding]:
    """Every test of a case."""
    fitted, left = fit_case(case, root)
    share = Finding(part=case.engine, case=_words(case), test="left to another", estimate=left, limit=_MOST_LEFT)
    return [share, *findings_of(fitted, part=case.engine, case=_words(case))] if fitted is not None else [share]


def fit_case(case: Case, root: np.random.SeedSequence) -> tuple[Fitted | None, float]:
    """The engine's answers, and the share of data sets that it does not vouch for."""
    worlds, own, drawn, people = root.spawn(4)
    prior = case.make()
    engine = make_bare(case.engine, prior, case.noise, seed=seeded(own))
    beta, data = simulate_data(prior, case.noise, case.n, n_sets=case.n_sets, rng=np.random.default_rng(worlds))
    users = None
    if not case.noise.is_gaussian:
        users = np.sqrt(prior.n_features) * Sphere(prior.n_features).sample(
            _N_USERS, seed=np.random.default_rng(people)
        )
    batch = engine.fit(data, covariance=True, users=users)
    kept = np.flatnonzero(batch.vouched & (batch.engine == engine.name))
    left = 1.0 - len(kept) / case.n_sets
    if left > _MOST_LEFT or batch.covariance is None:
        return None, left
    size = beta[0].size
    covariance = batch.covariance[kept]
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    rewards = None
    if users is not None and batch.reward is not None and batch.reward_variance is not None:
        given = case.noise.mean_reward(np.einsum("ud,mkd->muk", users, beta[kept]))
        rewards = ((given - batch.reward[kept]) / np.sqrt(batch.reward_variance[kept])).reshape(len(kept), -1)
    ranked = kept[: case.n_ranked]
    place = _places(case, engine, data, beta, ranked, drawn)
    return Fitted(
        truth=beta[kept].reshape(-1, size),
        mean=batch.mean[kept].reshape(-1, size),
        sd=sd,
        precision=np.linalg.inv(covariance),
        prior_mean=np.asarray(prior.mean.values, dtype=float).reshape(size),
        hint=_hint(data)[kept],
        place=place,
        rewards=rewards,
    ), left


def _hint(data: Data) -> FloatArray:
    """X'y of every coefficient's arm and feature, centred and scaled over data sets, (M, C)."""
    if isinstance(data, Statistics):
        sums = data.xty
    else:
        rows = as_rows(data)
        of_arm = rows.arm[..., None] == np.arange(rows.n_arms)
        sums = np.einsum("mnk,mnd,mn->mkd", of_arm.astype(float), rows.x, rows.reward - 0.5)
    flat = sums.reshape(len(sums), -1)
    return (flat - flat.mean(axis=0)) / flat.std(axis=0)


def _places(
    case: Case, engine: Engine, data: Data, beta: FloatArray, ranked: np.ndarray, root: np.random.SeedSequence
) -> FloatArray:
    """Where each truth stands among draws of its posterior, uniform on [0, 1]: (M', C).

    Systematic resampling takes equally spaced quantiles, so that the two extreme ranks are half as likely as others:
    the jitter is reflected at the ends.
    """
    rng = np.random.default_rng(root)
    draws = engine.draw(data.take(ranked), _N_DRAWS, rng=rng)
    found = (draws < beta[ranked][:, None]).sum(axis=1).reshape(len(ranked), -1)
    jitter = rng.random(found.shape)
    if case.engine in SYSTEMATIC:
        place = (found + jitter - 0.5) / _N_DRAWS
        return 1.0 - np.abs(1.0 - np.abs(place))
    return (found + jitter) / (_N_DRAWS + 1)


def findings_of(fitted: Fitted, *, part: str, case: str) -> list[Finding]:
    """Every test of the answers, and what it makes of the planted errors."""
    shifted, narrow = _biased(fitted), _narrowed(fitted)
    found = []
    for test, judge, planted in (
        ("bias", _bias, {f"means off by {BIAS:g} sd": shifted}),
        ("bias by coefficient", _bias_by_coefficient, {}),
        ("slope", _slope, {}),
        ("data", _data, {}),
        ("spread", _spread, {f"sds times {NARROW:g}": narrow}),
    ):
        estimate, error, p_value = judge(fitted)
        errors = tuple(Planted(name=name, p_value=judge(other)[2]) for name, other in planted.items())
        found.append(
            Finding(part=part, case=case, test=test, estimate=estimate, mcse=error, p_value=p_value, planted=errors)
        )
    off, p_value = _ranks(fitted.place)
    found.append(Finding(part=part, case=case, test="ranks", estimate=off, p_value=p_value))
    if fitted.rewards is not None:
        off = float(np.abs(fitted.rewards.mean(axis=0)).max())
        found.append(
            Finding(part=part, case=case, test="mean rewards", estimate=off, p_value=joint_test(fitted.rewards))
        )
    return found


# --- tests -----------------------------------------------------------------------------------------------------------


def _against(left: FloatArray, precision: FloatArray, right: FloatArray) -> FloatArray:
    """left' precision right, data set by data set, (M,)."""
    return np.einsum("mc,mce,me->m", left, precision, right)


def _bias(fitted: Fitted) -> tuple[float, float, float]:
    score = _against(fitted.sd, fitted.precision, fitted.mean - fitted.truth)
    return slope_test(score, _against(fitted.sd, fitted.precision, fitted.sd), margin=_BIAS_ALLOWED)


def _bias_by_coefficient(fitted: Fitted) -> tuple[float, float, float]:
    values = (fitted.mean - fitted.truth) / fitted.sd
    worst = np.abs(values.mean(axis=0)).argmax()
    error = float(values[:, worst].std(ddof=1) / np.sqrt(len(values)))
    centred = np.sign(values.mean(axis=0)) * np.minimum(np.abs(values.mean(axis=0)), _BIAS_ALLOWED)
    return float(values.mean(axis=0)[worst]), error, joint_test(values - centred)


def _slope(fitted: Fitted) -> tuple[float, float, float]:
    moved = fitted.mean - fitted.prior_mean
    score = _against(moved, fitted.precision, fitted.mean - fitted.truth)
    return slope_test(score, _against(moved, fitted.precision, moved), margin=_SLOPE_ALLOWED)


def _data(fitted: Fitted) -> tuple[float, float, float]:
    score = ((fitted.mean - fitted.truth) / fitted.sd * fitted.hint).mean(axis=1)
    return slope_test(score, np.ones(len(score)), margin=_BIAS_ALLOWED)


def _spread(fitted: Fitted) -> tuple[float, float, float]:
    score = (((fitted.truth - fitted.mean) / fitted.sd) ** 2).mean(axis=1) - 1.0
    return slope_test(score, np.ones(len(score)), margin=_SPREAD_ALLOWED)


def _ranks(place: FloatArray) -> tuple[float, float]:
    """How far the mean place is from the middle, and the p-value of four moments at once."""
    z = 2.0 * place - 1.0
    moments = (z, (3 * z**2 - 1) / 2, (5 * z**3 - 3 * z) / 2, (35 * z**4 - 30 * z**2 + 3) / 8)
    return float(place.mean() - 0.5), joint_test(np.stack([moment.mean(axis=1) for moment in moments], axis=1))


# --- planted ---------------------------------------------------------------------------------------------------------


def _biased(fitted: Fitted) -> Fitted:
    return replace(fitted, mean=fitted.mean + BIAS * fitted.sd)


def _narrowed(fitted: Fitted) -> Fitted:
    return replace(fitted, sd=NARROW * fitted.sd)


def _words(case: Case) -> str:
    return f"{case.belief}, {case.rewards}"
