r"""Beliefs that are normal effects with unknown scales: what a Gibbs sampler reads of them.

.. math::

    \beta = c + \sum_e r_e u_e, \qquad u_e \sim N(0, v_e), \qquad
    \frac1{v_e} = \frac{1}{h_e \omega_e \prod_s \theta_s^{p_{es}}} + \frac1{g_e \theta_{s(e)}^{q_e}}

with fixed vectors :math:`r_e`, independent scales :math:`\theta_s` of any density, and :math:`\omega_e` the mixing
variance of a Student-t or Laplace effect (1 for a normal one); the second term, a slab, is there for regularised
horseshoes alone. Effects around shared levels, horseshoes and hierarchies are of this kind.

The form is not read off the graph but tried: scales are moved one variable at a time, each element by a step of its
own, so that the step tells which element moves which effect and with what power. Fresh draws must then agree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.random.basic import LaplaceRV, StudentTRV

from rcb_bayes.belief.affine import NotAffineError
from rcb_bayes.belief.conditional import find_conditioners, given_values, mixing_shape
from rcb_bayes.belief.draws import compile_draws
from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind
from rcb_bayes.schema import FloatArray

NORMAL, STUDENT, LAPLACE = 0, 1, 2  # kinds of effects
_POWERS = np.array([1.0, 2.0, -1.0, -2.0, 0.5, 4.0, -4.0])  # of a scale in a variance
_N_NODES = 1024
_DEEP = 25.0  # log densities below the largest that a line reaches
_REACH = 60.0
_TOLERANCE = 1e-7
_MOST_TERMS = 3

Values = dict[Variable, np.ndarray]


class _OtherFormError(Exception):
    """The variances are not of the module's form."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaleMixture:
    """E effects with S scales.

    ``centre`` c (K d,) and ``root`` (K d, E), whose columns are r_e; ``kind`` (E,) of mixing, and ``nu`` (E,) of the
    Student-t ones; ``base`` log h_e (E,); ``term`` (E, T), the scales of each effect (-1: none), and their ``power``;
    ``slab`` (E,), the scale of its slab (-1: none), with ``slab_base`` log g_e and ``slab_power``. Log scales have the
    log density ``line[line_of[s]]`` at equally spaced values from ``low[s]`` on, ``step[s]`` apart.
    """

    centre: FloatArray
    root: FloatArray
    kind: np.ndarray
    nu: FloatArray
    base: FloatArray
    term: np.ndarray
    power: FloatArray
    slab: np.ndarray
    slab_base: FloatArray
    slab_power: FloatArray
    low: FloatArray
    step: FloatArray
    line: FloatArray
    line_of: np.ndarray

    @property
    def n_effects(self) -> int:
        """E."""
        return self.root.shape[1]

    @property
    def n_scales(self) -> int:
        """S, without the mixing variances."""
        return len(self.low)

    def draw_scales(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draws of the log scales from the belief, (n, S)."""
        weight = np.exp(self.line - self.line.max(axis=1, keepdims=True))
        edges = np.cumsum(weight, axis=1)
        uniform = rng.uniform(size=(n, self.n_scales))
        out = np.empty(uniform.shape)
        for s, own in enumerate(self.line_of):
            place = np.searchsorted(edges[own], uniform[:, s] * edges[own, -1])
            out[:, s] = self.low[s] + self.step[s] * np.minimum(place, len(edges[own]) - 1)
        return out


def read_scale_mixture(beta: Variable, *, graph: Graph) -> ScaleMixture | None:
    """The belief in the module's form; None where it is not of that form or cannot be shown to be."""
    found = find_conditioners(beta, graph=graph, most_mixed=np.inf)
    if not found:
        return None
    try:
        return _Reading(beta, found.drawn, found.mixed, graph).mixture()
    except (_OtherFormError, NotAffineError, UnknownShapeError):
        return None


class _Reading:
    """One belief while it is read: its scales at some values, and the effects' variances there."""

    def __init__(self, beta: Variable, drawn: tuple[Any, ...], mixed: tuple[Any, ...], graph: Graph) -> None:
        self._beta, self._drawn, self._mixed, self._graph = beta, drawn, mixed, graph
        if any(drawn_behind([v]) != [v] or np.dtype(v.type.dtype).kind != "f" for v in drawn):
            raise _OtherFormError("a scale that depends on others, or a discrete one")
        self._shapes = [graph.shape(v) for v in drawn]
        self._starts = np.cumsum([0, *(int(np.prod(shape, dtype=int)) for shape in self._shapes)])
        draws = compile_draws(list(drawn), graph=graph)(4096, np.random.default_rng(11)) if drawn else []
        self._draws = [np.asarray(part, dtype=float).reshape(4096, -1) for part in draws]
        self._is_log = [bool((part > 0).all()) for part in self._draws]
        self._lines = [self._line(k) for k in range(len(drawn))]

    def mixture(self) -> ScaleMixture:
        """The belief in the module's form."""
        x = np.median([self._values(which) for which in range(256)], axis=0)  # where no part of a sum drowns another
        centre, root, columns = self._given(x)
        kept = np.flatnonzero((root != 0).any(axis=0))
        self._unit = root[:, kept] / np.linalg.norm(root[:, kept], axis=0)
        self._kept, self._centre = kept, centre
        slab, slab_base, slab_power = self._find_slabs(x)
        term, power = self._find_terms(x, slab, slab_base, slab_power)
        kind, nu = (part[kept] for part in self._kinds(columns, root.shape[1]))
        if (kind[slab >= 0] != NORMAL).any():
            raise _OtherFormError("a slab over mixed effects")
        inner = self._inner(self._log_variance(x), x, slab, slab_base, slab_power)
        base = inner - _sum_of_terms(x, term, power)
        for other in (1, 2):
            self._confirm(self._values(other), base, term, power, slab, slab_base, slab_power)
        lines = [line for _, _, part in self._lines for line in part]
        line, line_of = np.unique(np.array(lines or np.zeros((0, 2))), axis=0, return_inverse=True)
        sizes = np.diff(self._starts)
        return ScaleMixture(
            centre=centre, root=self._unit, kind=kind, nu=nu, base=base, term=term, power=power,
            slab=slab, slab_base=slab_base, slab_power=slab_power,
            low=np.repeat([low for low, _, _ in self._lines], sizes),
            step=np.repeat([step for _, step, _ in self._lines], sizes),
            line=np.ascontiguousarray(line), line_of=line_of.reshape(-1).astype(np.int64),
        )  # fmt: skip

    # --- readings ----------------------------------------------------------------------------------------------------

    def _values(self, which: int) -> FloatArray:
        """Log scales (those that may be negative as they are) of one of the draws, (S,)."""
        parts = [
            np.log(part[which]) if log else part[which] for part, log in zip(self._draws, self._is_log, strict=True)
        ]
        return np.concatenate([*parts, np.zeros(0)])

    def _given(self, x: FloatArray) -> tuple[FloatArray, FloatArray, dict[Variable, slice]]:
        known: Values = {}
        for k, (variable, shape) in enumerate(zip(self._drawn, self._shapes, strict=True)):
            own = x[self._starts[k] : self._starts[k + 1]].reshape(shape)
            known[variable] = np.asarray(np.exp(own) if self._is_log[k] else own)
        mean, root, columns = given_values(self._beta, known, self._mixed)
        return mean.reshape(-1), root, columns

    def _log_variance(self, x: FloatArray) -> FloatArray:
        """Log variances of the effects at log scales x, (E,).

        Raises
        ------
        _OtherFormError
            When anything but the lengths of the columns differs from the first reading.
        """
        centre, root, _ = self._given(x)
        length = np.linalg.norm(root, axis=0)
        unit = root[:, self._kept] / np.maximum(length[self._kept], np.finfo(float).tiny)
        rest = np.delete(length, self._kept)
        if rest.any() or not np.allclose(unit, self._unit, atol=_TOLERANCE):
            raise _OtherFormError("effects that change direction with the scales")
        if not np.allclose(centre, self._centre, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise _OtherFormError("a mean that depends on the scales")
        return 2.0 * np.log(length[self._kept])

    def _moved(self, x: FloatArray, k: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Log scales with those of one variable moved, each by a step of its own, and these steps."""
        rows = slice(self._starts[k], self._starts[k + 1])
        steps = np.random.default_rng([seed, k]).uniform(0.2, 0.7, size=rows.stop - rows.start)
        out = x.copy()
        out[rows] += steps
        return out, steps

    # --- which scale moves which effect ------------------------------------------------------------------------------

    def _find_slabs(self, x: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """Slabs: where 1/v is a sum of two products of powers, the one that is of a single scale."""
        here = self._log_variance(x)
        n = len(here)
        parts: list[list[tuple[int, float, float]]] = [[] for _ in here]  # scale, power and amount of 1/v
        for k in range(len(self._drawn)):
            (first, one), (second, two) = (self._moved(x, k, seed) for seed in (1, 2))
            d1, d2 = self._log_variance(first) - here, self._log_variance(second) - here
            for e in np.flatnonzero(np.abs(d1) > _TOLERANCE):
                if _match(np.array([d1[e], d2[e]]), np.stack([one, two])) is not None:
                    continue  # multiplies all of it
                more = np.array([np.expm1(-d1[e]), np.expm1(-d2[e])]) * np.exp(-here[e])
                hit = _match_ratio(more, one, two)
                if hit is None:
                    raise _OtherFormError("a variance that is no product of powers")
                index, q = hit
                parts[e].append((int(self._starts[k]) + index, q, float(more[0] / np.expm1(-q * one[index]))))
        slab, base, power = np.full(n, -1), np.zeros(n), np.zeros(n)
        for e, own in enumerate(parts):
            for index, q, amount in own[::-1]:
                if sum(np.isclose(amount, other, rtol=1e-6) for _, _, other in own) == 1:
                    slab[e], power[e], base[e] = index, q, -np.log(amount) - q * x[index]
                    break
        return slab, base, power

    def _find_terms(
        self, x: FloatArray, slab: np.ndarray, slab_base: FloatArray, slab_power: FloatArray
    ) -> tuple[np.ndarray, FloatArray]:
        """The scales that multiply each effect's variance (its slab left out), and their powers."""
        here = self._inner(self._log_variance(x), x, slab, slab_base, slab_power)
        found: list[list[tuple[int, float]]] = [[] for _ in here]
        for k in range(len(self._drawn)):
            changes, steps = [], []
            for seed in (1, 2):
                moved, step = self._moved(x, k, seed)
                changes.append(self._inner(self._log_variance(moved), moved, slab, slab_base, slab_power) - here)
                steps.append(step)
            for e in np.flatnonzero(np.abs(changes[0]) > _TOLERANCE):
                hit = _match(np.array([changes[0][e], changes[1][e]]), np.stack(steps))
                if hit is None:
                    raise _OtherFormError("a variance that is no product of powers")
                found[e].append((int(self._starts[k]) + hit[0], hit[1]))
        if max((len(terms) for terms in found), default=0) > _MOST_TERMS:
            raise _OtherFormError("too many scales in one variance")
        term, power = np.full((len(here), _MOST_TERMS), -1), np.zeros((len(here), _MOST_TERMS))
        for e, terms in enumerate(found):
            for t, (index, value) in enumerate(terms):
                term[e, t], power[e, t] = index, value
        return term, power

    @staticmethod
    def _inner(
        log_variance: FloatArray, x: FloatArray, slab: np.ndarray, slab_base: FloatArray, slab_power: FloatArray
    ) -> FloatArray:
        """Log variances without the slab."""
        out = log_variance.copy()
        has = slab >= 0
        rest = np.exp(-log_variance[has]) - np.exp(-slab_base[has] - slab_power[has] * x[slab[has]])
        if not (rest > 0).all():
            raise _OtherFormError("a slab that is none")
        out[has] = -np.log(rest)
        return out

    def _confirm(
        self, x: FloatArray, base: FloatArray, term: np.ndarray, power: FloatArray,
        slab: np.ndarray, slab_base: FloatArray, slab_power: FloatArray,
    ) -> None:  # fmt: skip
        precision = np.exp(-(base + _sum_of_terms(x, term, power)))
        has = slab >= 0
        precision[has] += np.exp(-slab_base[has] - slab_power[has] * x[slab[has]])
        if not np.allclose(-np.log(precision), self._log_variance(x), rtol=1e-6, atol=1e-6):
            raise _OtherFormError("fresh draws of the scales disagree")

    def _kinds(self, columns: dict[Variable, slice], n: int) -> tuple[np.ndarray, FloatArray]:
        kind, nu = np.zeros(n, dtype=np.int64), np.ones(n)
        for variable, places in columns.items():
            op: Any = variable.owner.op if variable.owner is not None else None
            if variable in self._mixed and isinstance(op, LaplaceRV):
                kind[places] = LAPLACE
            elif variable in self._mixed and isinstance(op, StudentTRV):
                if self._graph.is_random(mixing_shape(variable)):
                    raise _OtherFormError("unknown degrees of freedom")
                kind[places] = STUDENT
                shape = self._graph.shape(variable)
                value = np.asarray(self._graph.value(mixing_shape(variable)), dtype=float)
                nu[places] = np.broadcast_to(value, shape).reshape(-1)
        return kind, nu

    def _line(self, k: int) -> tuple[float, float, FloatArray]:
        """First value, spacing, and log densities (n, nodes) of the n log scales of one variable."""
        x = np.log(self._draws[k]) if self._is_log[k] else self._draws[k]
        middle, width = float(np.median(x)), 1.0 if self._is_log[k] else max(float(x.std()), 1e-12)
        density = _compiled_density(self._drawn[k], self._shapes[k], is_log=self._is_log[k])
        wide = middle + width * np.linspace(-_REACH, _REACH, 4801)
        heights = density(wide)  # (n, nodes)
        inside = np.flatnonzero((heights > heights.max(axis=1, keepdims=True) - _DEEP).any(axis=0))
        line = np.linspace(wide[inside[0]], wide[inside[-1]], _N_NODES)
        heights = density(line)
        floor = heights.max(axis=1, keepdims=True) - 2.0 * _DEEP
        return float(line[0]), float(line[1] - line[0]), np.maximum(heights - floor, 0.0) - 2.0 * _DEEP


def _compiled_density(variable: Any, shape: tuple[int, ...], *, is_log: bool) -> Callable[[FloatArray], FloatArray]:
    """Log densities of the (log) scales of a variable at the same values for each: (nodes,) -> (n, nodes)."""
    if variable.owner.op.ndim_supp != 0:
        raise _OtherFormError("scales with a joint density")
    argument = pt.tensor("values", dtype="float64", shape=(None,) * (1 + len(shape)))
    try:
        compiled = pytensor.function([argument], pm.logp(variable, argument), mode="FAST_COMPILE")
    except (NotImplementedError, ValueError, TypeError, RuntimeError) as error:
        raise _OtherFormError("scales without a density") from error

    def density(line: FloatArray) -> FloatArray:
        values = np.exp(line) if is_log else line
        full = np.broadcast_to(values.reshape(-1, *(1,) * len(shape)), (len(line), *shape))
        found = np.asarray(compiled(np.ascontiguousarray(full)), dtype=float).reshape(len(line), -1)
        found = found + (line[:, None] if is_log else 0.0)
        if not np.isfinite(found).any(axis=0).all():
            raise _OtherFormError("scales without a density")
        return np.where(np.isfinite(found), found, -np.inf).T

    return density


def _sum_of_terms(x: FloatArray, term: np.ndarray, power: FloatArray) -> FloatArray:
    """Log products of powers of the scales, (E,)."""
    padded = np.append(x, 0.0)
    return (power * padded[term]).sum(axis=1)


def _match(changes: FloatArray, steps: FloatArray) -> tuple[int, float] | None:
    """The scale and power whose steps (2, n) are these two changes of a log variance; None if there is none."""
    apart = np.abs(changes[:, None, None] - steps[:, :, None] * _POWERS).max(axis=0)  # (n, powers)
    index, which = np.unravel_index(int(apart.argmin()), apart.shape)
    return (int(index), float(_POWERS[which])) if apart[index, which] < _TOLERANCE else None


def _match_ratio(more: FloatArray, one: FloatArray, two: FloatArray) -> tuple[int, float] | None:
    """The scale and power of a slab that explain two changes of 1/v, by their ratio; None if there is none."""
    expected = np.expm1(-one[:, None] * _POWERS) / np.expm1(-two[:, None] * _POWERS)
    apart = np.abs(more[0] / more[1] - expected)
    index, which = np.unravel_index(int(apart.argmin()), apart.shape)
    return (int(index), float(_POWERS[which])) if apart[index, which] < _TOLERANCE else None
