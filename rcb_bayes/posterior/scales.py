r"""One or two unknown scales, integrated on a grid: exact Gaussian algebra at each value that the data allow.

The values are equally spaced, so that sums over them are trapezoid rules, whose error falls exponentially as the
spacing does. The rule over all values is compared with the two rules over every other one: these differ by about the
square root of its own error. Of a lattice that is so for its rows and for its columns. Its answer is vouched for when
they differ by less than .07 posterior sd in every coefficient (an effective size of 200), have like totals, and next to
nothing lies at either end of the grid. A grid of half as many values comes first, the full one is for what that does
not vouch for; a lattice takes as many points as it needs (``lattice``).

Given a value, arms are independent, lie around a shared level, or are one dense block (``arrow``).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import block_statistics
from rcb_bayes.posterior.vouching import MIN_EFFECTIVE_SIZE
from rcb_bayes.schema import BoolArray, FloatArray

if TYPE_CHECKING:
    from rcb_bayes.belief.conditional import ConditionalLaw

MOST_AT_ENDS = 1e-3  # share of the weight at the first or last value
UNEVEN = 0.05  # by which the share of either half may differ from one half
LARGEST_SIZE = 1e6
WORST_CONDITION = 1e10  # of covariances that are inverted
_RIDGE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Integrated:
    """Posteriors of M data sets: ``mean`` (M, p), ``covariance`` (M, p, p) or None, ``effective_size`` and whether they
    are ``vouched`` for, (M,)."""

    mean: FloatArray
    covariance: FloatArray | None
    effective_size: FloatArray
    vouched: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Arrow:
    """What ``arrow.integrate`` reads of a belief at J values of its scale; see there."""

    shaft: FloatArray
    head: FloatArray
    tip: FloatArray
    pull: FloatArray
    tip_pull: FloatArray
    constant: FloatArray
    noise: FloatArray
    edge: BoolArray

    @property
    def table(self) -> tuple[FloatArray, ...]:
        """The fields as compiled code takes them."""
        return ready(*(getattr(self, name) for name in self.__slots__))

    def every(self, step: int) -> "Arrow":
        """Every so many values."""
        return Arrow(*(np.ascontiguousarray(getattr(self, name)[::step]) for name in self.__slots__))


def ready(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    """The same, contiguous and writable: of one kind, so that code is compiled once."""
    return tuple(np.require(part, requirements=["C", "W"]) for part in arrays)


class ScaleGrid:
    """A belief given each value of its one scale, or each point of a lattice of two; one block of arms.

    Attributes
    ----------
    arms : of the block
    law, noise_precision : the belief given each value, and 1/sigma^2 there, (J,)
    """

    def __init__(self, given: "ConditionalLaw", *, sigma: float | None) -> None:
        block = given.law.blocks[0]
        self.law = given.law
        sigmas = np.asarray(sigma if given.sigma is None else given.sigma, dtype=float)
        self.noise_precision = 1.0 / np.broadcast_to(sigmas, len(block.means)) ** 2
        self.arms = np.array(block.arms)
        own, level = split_level(block.covariances, n_arms=len(block.arms))
        self._is_dense = own.shape[1] < len(block.arms)
        with np.errstate(divide="ignore"):
            log_weight = np.log(block.weights)
        self._sides = given.sides
        fine = arrow_of(own, level, block.means, log_weight, self.noise_precision, _rim(len(log_weight), given.sides))
        self._rungs = (fine.every(2), fine.every(1)) if given.sides is None else (fine.every(1),)

    @classmethod
    def of(cls, given: "ConditionalLaw | None", *, sigma: float | None) -> "ScaleGrid | None":
        """The grid of a belief in one block; else None.

        Where covariances are singular, or all but (smooth functions: the last coefficients hardly vary), every
        variance is raised by 1e-9 of the largest, so that they can be inverted: by 3e-5 of a standard deviation.
        """
        if given is None or len(given.law.blocks) != 1:
            return None
        (block,) = given.law.blocks
        if not (np.linalg.cond(block.covariances) < WORST_CONDITION).all():
            if given.sides is None:
                return None
            largest = np.diagonal(block.covariances, axis1=1, axis2=2).max(axis=1)
            if not (largest > 0.0).all():
                return None
            ridge = _RIDGE * largest[:, None, None] * np.eye(block.covariances.shape[1])
            raised = replace(block, covariances=block.covariances + ridge)
            given = replace(given, law=replace(given.law, blocks=(raised,)))
        return cls(given, sigma=sigma)

    def fit(self, data: Statistics, *, covariance: bool) -> Integrated:
        """Posterior moments of every data set."""
        found = self._fit(data, self._rungs[0], covariance=covariance)
        still = np.flatnonzero(~found.vouched)
        if len(still) and len(self._rungs) > 1:
            better = self._fit(data.take(still), self._rungs[1], covariance=covariance)
            for name in Integrated.__slots__:
                if getattr(found, name) is not None:
                    getattr(found, name)[still] = getattr(better, name)
        return found

    def _fit(self, data: Statistics, arrow: Arrow, *, covariance: bool) -> Integrated:
        from rcb_bayes.posterior import arrow as line  # brings Numba
        from rcb_bayes.posterior import lattice

        if self._is_dense:
            gram, moment = block_statistics(self.arms[None], data)
        else:
            gram, moment = data.xtx[:, self.arms], data.xty[:, self.arms]
        n_sets, p = data.n_sets, moment.shape[1] * moment.shape[2]
        mean, halves = np.zeros((n_sets, p)), np.zeros((n_sets, 2, p))
        sd, shares = np.empty((n_sets, p)), np.empty((n_sets, 2))
        joint = np.zeros((n_sets if covariance else 1, p, p))
        square, n = (part[:, self.arms].sum(axis=1) for part in (data.yty, data.n))
        given = arrow.table, *ready(gram, moment, square, n)
        written = mean, halves, sd, shares, joint
        run: Any = line.integrate if self._sides is None else lattice.integrate_lattice
        if self._sides is None:
            run(*given, covariance, *written, line.spaces(*arrow.head.shape))
        else:
            limits = MIN_EFFECTIVE_SIZE**-0.5, UNEVEN
            run(*given, covariance, *self._sides, *limits, *written, lattice.spaces(*arrow.head.shape))
        size, vouched = judge_rule(halves[:, 1] - halves[:, 0], sd, odd=shares[:, 1], ends=shares[:, :1])
        return Integrated(mean, joint if covariance else None, size, vouched)


def _rim(n_values: int, sides: tuple[int, int] | None) -> BoolArray:
    """Which values lie at the ends of a line, or on the rim of a lattice, (J,)."""
    n_rows, n_columns = (n_values, 1) if sides is None else sides
    row, column = np.divmod(np.arange(n_values), n_columns)
    at_end = np.isin(row, (0, n_rows - 1))
    return at_end if sides is None else at_end | np.isin(column, (0, n_columns - 1))


def judge_rule(apart: FloatArray, sd: FloatArray, *, odd: FloatArray, ends: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Effective sizes of trapezoid rules, and whether they are vouched for, each (M,).

    Parameters
    ----------
    apart : means by odd values less means by even ones, (M, p)
    sd : posterior standard deviations, (M, p)
    odd : share of the weight that odd values have, (M,)
    ends : shares of the values at the ends of the grid, and of what else there should be none of, (M, n)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = (np.abs(apart) / sd).max(axis=1)
    size = 1.0 / np.maximum(gap**2, 1.0 / LARGEST_SIZE)
    return size, (size >= MIN_EFFECTIVE_SIZE) & (np.abs(odd - 0.5) <= UNEVEN) & (ends.max(axis=1) <= MOST_AT_ENDS)


def split_level(covariances: FloatArray, *, n_arms: int) -> tuple[FloatArray, FloatArray]:
    """Covariances (J, p, p) of arms as those of each arm's own part (J, K, d, d) and a root (J, d, r) of the level's.

    What two arms share must be the same for all pairs, and less than the covariance of any arm; else all arms are one
    (J, 1, p, p), without a level.
    """
    n_values, p, _ = covariances.shape
    d = p // n_arms
    blocks = covariances.reshape(n_values, n_arms, d, n_arms, d).swapaxes(2, 3)  # (J, K, K, d, d)
    own = blocks[:, range(n_arms), range(n_arms)]
    dense = covariances[:, None], np.zeros((n_values, p, 0))
    if n_arms == 1:
        return own, np.zeros((n_values, d, 0))
    others = blocks[:, ~np.eye(n_arms, dtype=bool)]  # (J, K (K - 1), d, d)
    if not others.any():
        return own, np.zeros((n_values, d, 0))
    level = others[:, 0]
    scale = np.abs(covariances).max(axis=(1, 2))[:, None, None]
    if (np.abs(others - level[:, None]) > 1e-12 * scale[:, None]).any():
        return dense
    if (np.abs(level - level.swapaxes(1, 2)) > 1e-12 * scale).any():
        return dense
    values, vectors = np.linalg.eigh(level)
    rest = own - level[:, None]
    least = np.linalg.eigvalsh(rest).min(axis=(1, 2))
    if (values < -1e-12 * scale[:, :, 0]).any() or (least <= 1e-12 * scale[:, 0, 0]).any():
        return dense
    kept = (values > 1e-12 * scale[:, :, 0]).any(axis=0)
    return rest, (vectors * np.sqrt(np.maximum(values, 0.0))[:, None])[:, :, kept]


def arrow_of(
    own: FloatArray,
    level: FloatArray,
    means: FloatArray,
    log_weight: FloatArray,
    noise: FloatArray,
    edge: BoolArray,
) -> Arrow:
    """The arrow of arms whose own parts have covariances (J, K, d, d), around a level with the root (J, d, r)."""
    n_values, n_arms, d, _ = own.shape
    shaft = np.linalg.inv(own)
    head = shaft @ level[:, None]  # (J, K, d, r)
    tip = np.eye(level.shape[2]) + np.einsum("jar,jkas->jrs", level, head)
    centre = means.reshape(n_values, n_arms, d)
    pull = (shaft @ centre[..., None])[..., 0]
    log_det = np.linalg.slogdet(shaft)[1].sum(axis=1)
    return Arrow(
        shaft=shaft,
        head=np.ascontiguousarray(head),
        tip=tip,
        pull=pull,
        tip_pull=-np.einsum("jar,jka->jr", level, pull),
        constant=log_weight + 0.5 * (log_det - (centre * pull).sum(axis=(1, 2))),
        noise=noise,
        edge=edge,
    )
