r"""Quantiles as a belief: the Gaussian whose quantiles are nearest to what people say, by least squares.

An arm's mean for users x is believed to be normal, :math:`\mu(x, a) \sim N(x'm_a, x'V_a x)`, so that its quantile of
level p is :math:`x'm_a + z_p \sqrt{x'V_a x}`. Answers about an arm against a rival tell of the difference, which is
taken to be independent of what the rival gives: :math:`b_a = b_r + \delta_a`. Kinds of users must be at least as many
as coefficients. A full V takes d(d+1)/2 of them; with fewer it is diagonal, or one variance for all.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.special import logit, ndtri

from rcb_bayes.belief.answers import Answer, Answers
from rcb_bayes.belief.law import GaussianLaw, gaussian_law
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.schema import FloatArray

LINKS = ("identity", "logit")
LARGEST_MISS = 0.3
_CERTAIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantilesFit:
    """How well a Gaussian belief gives the quantiles that it was fitted to.

    Attributes
    ----------
    n_quantiles, n_experts : how many were told, and by how many
    miss, worst : the largest distance of a fitted quantile from what was told, in standard deviations of that user's
        mean, and where it is
    typical : the root mean square of these distances
    spread : what the covariance of each arm may be: "full", "diagonal" or "one variance"
    mean_mcse : zeros, (K, d): no Monte Carlo is in it
    """

    n_quantiles: int
    n_experts: int
    miss: float
    typical: float
    worst: str
    spread: str
    mean_mcse: FloatArray

    @property
    def fits(self) -> bool:
        """Whether the belief says about what people said."""
        return self.miss <= LARGEST_MISS

    def describe(self) -> str:
        """The fit in one line."""
        of = f"{self.n_quantiles} quantiles" + (f" of {self.n_experts} experts" if self.n_experts > 1 else "")
        return f"fitted to {of} ({self.spread}), largest miss {self.miss:.2g} sd, typical {self.typical:.2g}"


def fit_answers(answers: Answers, *, intercept: bool, link: str) -> tuple[GaussianLaw, QuantilesFit]:
    """The belief of one expert.

    Raises
    ------
    BeliefError
        An arm that nobody speaks of, rivals in a circle, users too few to tell the coefficients, probabilities outside
        of (0, 1).
    """
    parents = _parents(answers)
    k, d = len(answers.arms), len(answers.covariates) + int(intercept)
    mean, tiles, reach = np.zeros((k, d)), np.zeros((k, d, d)), np.eye(k)
    misses: list[tuple[float, str]] = []
    kinds: list[str] = []
    for arm in _in_order(answers.arms, parents):
        place, parent = answers.arms.index(arm), parents[arm]
        own = [answer for answer in answers.answers if answer.arm == arm]
        centre, tiles[place], kind = _fit_arm(own, answers.covariates, intercept=intercept, link=link)
        mean[place] = centre
        misses += _misses(own, centre, tiles[place], answers.covariates, intercept=intercept, link=link)
        kinds.append(kind)
        if parent is not None:
            mean[place] += mean[answers.arms.index(parent)]
            reach[place] += reach[answers.arms.index(parent)]
    # arm a is the sum of the independent parts p that it reaches
    joint = np.einsum("ap,bp,pij->aibj", reach, reach, tiles).reshape(k * d, k * d)
    worst = max(misses)
    fit = QuantilesFit(
        n_quantiles=len(misses),
        n_experts=1,
        miss=worst[0],
        typical=float(np.sqrt(np.mean([miss**2 for miss, _ in misses]))),
        worst=worst[1],
        spread=max(kinds, key=lambda kind: _KINDS.index(kind)),
        mean_mcse=np.zeros((k, d)),
    )
    return gaussian_law(mean, joint), fit


_KINDS = ("full", "diagonal", "one variance")


def warn_of_miss(fit: QuantilesFit) -> None:
    """Say where a belief is not what people said."""
    if not fit.fits:
        warnings.warn(
            f"The belief is off by {fit.miss:.2g} standard deviations at {fit.worst}: the answers are skewed, bend "
            "with x, or contradict one another.",
            BeliefWarning,
            stacklevel=4,
        )


# --- arms and rivals --------------------------------------------------------------------------------------------------


def _parents(answers: Answers) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for arm in answers.arms:
        rivals = list(dict.fromkeys(answer.rival for answer in answers.answers if answer.arm == arm))
        if not rivals:
            raise BeliefError(f"No answer is about the arm '{arm}' itself: ask what it gives, or how it differs.")
        if len(rivals) > 1:
            named = " and ".join("itself" if rival is None else f"'{rival}'" for rival in rivals)
            raise BeliefError(f"Answers about the arm '{arm}' are against {named}: choose one rival for it, or none.")
        found[arm] = rivals[0]
    return found


def _in_order(arms: tuple[str, ...], parents: dict[str, str | None]) -> list[str]:
    """Arms, rivals before those that are compared with them."""
    done: list[str] = []
    while len(done) < len(arms):
        ready = [arm for arm in arms if arm not in done and (parents[arm] is None or parents[arm] in done)]
        if not ready:
            raise BeliefError("Arms are compared in a circle: say of one of them what it gives by itself.")
        done += ready
    return done


# --- one arm ----------------------------------------------------------------------------------------------------------


def _fit_arm(
    own: list[Answer], covariates: tuple[str, ...], *, intercept: bool, link: str
) -> tuple[FloatArray, FloatArray, str]:
    """Mean (d,) and covariance (d, d) of an arm's coefficients, and what the latter may be."""
    users = _design(own, intercept=intercept)
    d = users.shape[1]
    rank = int(np.linalg.matrix_rank(users))
    if rank < d:
        raise BeliefError(
            f"The answers about {own[0].about(covariates).split(' for ')[0]} are about {len(own)} kind(s) of users, "
            f"which tell {rank} of {d} coefficients{' (with an intercept)' if intercept else ''}. Ask about "
            f"{d - rank} more, with other covariates."
        )
    scores = [ndtri(answer.levels) for answer in own]
    told = [_told(answer, covariates, link=link) for answer in own]
    lines = np.array([np.polyfit(z, q, 1) for z, q in zip(scores, told, strict=True)])  # sd, centre of each kind
    kind = _kind(users)
    centre = np.linalg.lstsq(users, lines[:, 1], rcond=None)[0]
    start = _start(users, lines[:, 0] ** 2, kind)
    rows = np.repeat(np.arange(len(own)), [len(z) for z in scores])
    z, q = np.concatenate(scores), np.concatenate(told)
    scale = float(np.mean(lines[:, 0]))

    def left(numbers: FloatArray) -> FloatArray:
        spread = np.sqrt(np.einsum("ri,ij,rj->r", users, _covariance(numbers[d:] * scale, d, kind), users))
        return ((users @ (numbers[:d] * scale) + 0.0)[rows] + z * spread[rows] - q) / scale

    first = np.concatenate([centre, start]) / scale
    found = least_squares(left, first, xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=2000)
    best = found.x if found.cost <= 0.5 * (left(first) ** 2).sum() else first
    return best[:d] * scale, _covariance(best[d:] * scale, d, kind), kind


def _design(own: list[Answer], *, intercept: bool) -> FloatArray:
    x = np.array([answer.x for answer in own])
    return np.concatenate([np.ones((len(x), 1)), x], axis=1) if intercept else x


def _told(answer: Answer, covariates: tuple[str, ...], *, link: str) -> FloatArray:
    """Quantiles on the scale on which the mean is linear."""
    if link == "identity":
        return answer.values
    if answer.rival is not None:
        raise BeliefError(
            f"With link='logit' answers are chances of one arm, not differences: {answer.about(covariates)}."
        )
    if not ((answer.values > 0.0) & (answer.values < 1.0)).all():
        raise BeliefError(f"With link='logit' quantiles are chances between 0 and 1: {answer.about(covariates)}.")
    return logit(answer.values)


def _kind(users: FloatArray) -> str:
    """What can be told of a covariance by variances of x'b for these users."""
    d = users.shape[1]
    upper = np.triu_indices(d)
    products = users[:, upper[0]] * users[:, upper[1]]
    if np.linalg.matrix_rank(products) == len(upper[0]):
        return "full"
    return "diagonal" if np.linalg.matrix_rank(users**2) == d else "one variance"


def _start(users: FloatArray, variances: FloatArray, kind: str) -> FloatArray:
    """Numbers of a covariance near to the variances of the users."""
    d = users.shape[1]
    one = float(variances.mean() / (users**2).sum(axis=1).mean())
    if kind == "one variance":
        return np.array([np.sqrt(one)])
    diagonal = np.sqrt(np.maximum(nnls(users**2, variances)[0], 1e-4 * one))
    if kind == "diagonal":
        return diagonal
    return np.diag(diagonal)[np.tril_indices(d)]


def _covariance(numbers: FloatArray, d: int, kind: str) -> FloatArray:
    if kind == "one variance":
        return numbers[0] ** 2 * np.eye(d)
    if kind == "diagonal":
        return np.diag(numbers**2)
    root = np.zeros((d, d))
    root[np.tril_indices(d)] = numbers
    return root @ root.T


def _misses(
    own: list[Answer],
    centre: FloatArray,
    covariance: FloatArray,
    covariates: tuple[str, ...],
    *,
    intercept: bool,
    link: str,
) -> list[tuple[float, str]]:
    """Distances of fitted quantiles from what was told, in standard deviations, and what each is about."""
    found: list[tuple[float, str]] = []
    for row, answer in zip(_design(own, intercept=intercept), own, strict=True):
        spread = float(np.sqrt(max(row @ covariance @ row, _CERTAIN**2)))
        fitted = row @ centre + ndtri(answer.levels) * spread
        told: Any = _told(answer, covariates, link=link)
        found += [(float(abs(gap) / spread), answer.about(covariates)) for gap in fitted - told]
    return found
