"""The basis of a regression: functions of x alone that its mean is affine in, and the coefficients that these get."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import collect_default_updates, reseed_rngs

from rcb_bayes.belief.branches import may_branch
from rcb_bayes.belief.draws import light_mode
from rcb_bayes.belief.graph import without_compiler
from rcb_bayes.belief.rewriting import substitute
from rcb_bayes.belief.separation import Dependence
from rcb_bayes.belief.tails import improper_behind
from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray

INTERCEPT = "intercept"
FAILURES = (ValueError, TypeError, IndexError, ArithmeticError, AssertionError)
_N_DRAWS, _N_DRAWS_OF_BRANCHES = 6, 2000
_CHECKED_USERS = 64  # in each draw of a mean that branches
_CLOSE = 1e-8
_N_AROUND, _N_FAR, _FAR = 192, 16, (10.0, 1e3, 1e6)


class NonlinearError(Exception):
    """The mean is not affine in functions of x alone."""


class CrowdError(Exception):
    """Features of a user depend on other users."""


class GraphOfX:
    """Parts of a graph that depend on x alone as a function of it; compiled when first asked, anew elsewhere.

    Parameters
    ----------
    x : the graph's free input, (n, p)
    nodes : parts of the graph
    """

    def __init__(self, x: Any, nodes: Sequence[Any]) -> None:
        self.x, self.nodes = x, list(nodes)
        self._run: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_run": None}

    def __call__(self, x: FloatArray) -> list[np.ndarray]:
        """The parts for these users."""
        if self._run is None:
            self._run = compiled([self.x], self.nodes)[0]
        with without_compiler(), np.errstate(all="ignore"):
            return self._run(np.asarray(x, dtype=float))


class Basis:
    """Functions of x, (n, p) -> (n, B), from parts of a graph.

    Parameters
    ----------
    x : the graph's free input, (n, p)
    nodes : parts of the graph that depend on x alone
    rows : some users, (n, p), to tell shapes and repeated functions by
    """

    def __init__(self, x: Any, nodes: Sequence[Any], *, rows: FloatArray) -> None:
        self._evaluate = GraphOfX(x, nodes)
        self.axes, self.shapes = self._user_axes(rows)
        self.constant = False
        self.places, self.chosen = _distinct(self._at_probes(rows)[1])

    @property
    def n_functions(self) -> int:
        """B, without the constant one."""
        return len(self.chosen)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The functions of users, the constant one first where there is one.

        Raises
        ------
        DataError
            Users for whom the graph fails, such as one in a place that a table does not have.
        """
        try:
            found = self._elements(x)[:, self.chosen]
        except FAILURES as error:
            raise DataError(f"The belief's mean cannot be computed for these users: {one_line(error)}") from error
        return np.concatenate([np.ones((len(x), 1)), found], axis=1) if self.constant else found

    def keep(self, kept: np.ndarray, *, constant: bool) -> None:
        """Only some of the functions, and the constant one or not."""
        self.chosen, self.constant = self.chosen[kept], constant

    def labels(self, features: Sequence[str], rows: FloatArray) -> tuple[str, ...]:
        """Names of the functions: those of x for x itself, else by their numbers."""
        probes, elements = self._at_probes(rows)
        values = elements[:, self.chosen]
        names: list[str] = [INTERCEPT] if self.constant else []
        for k, column in enumerate(values.T):
            same = [j for j, own in enumerate(probes.T) if np.array_equal(column, own)]
            label = features[same[0]] if same else f"basis_{k}"
            names.append(label if label not in names else f"basis_{k}")
        return tuple(names)

    def pseudo_users(self, weights: FloatArray) -> dict[Any, Any]:
        """Replacements of the nodes by users who have these values of the functions, (n, B)."""
        values = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)[:, self.places]
        ends = np.cumsum([int(np.prod(shape, dtype=int)) for shape in self.shapes])[:-1]
        parts = np.split(values, ends, axis=1)
        out = {}
        for node, axis, shape, part in zip(self._evaluate.nodes, self.axes, self.shapes, parts, strict=True):
            array = np.moveaxis(part.reshape(len(weights), *shape), 0, axis)
            out[node] = pt.constant(array)
        x = self._evaluate.x
        if x not in out:  # only its shape is left in the graph
            out[x] = pt.constant(np.zeros((len(weights), x.type.shape[1])))
        return out

    def _at_probes(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Users to tell functions apart by, without those for whom the graph fails, and all elements for them."""
        probes = _probes(rows)
        try:
            return probes, self._elements(probes)
        except FAILURES:
            found = []
            for probe in probes:
                with suppress(*FAILURES):
                    found.append((probe, self._elements(probe[None])[0]))
            return np.array([probe for probe, _ in found]), np.array([elements for _, elements in found])

    def _elements(self, x: FloatArray) -> FloatArray:
        """All elements of all nodes, (n, E)."""
        parts = [
            np.moveaxis(np.asarray(part, dtype=float), axis, 0).reshape(len(x), -1)
            for part, axis in zip(self._evaluate(x), self.axes, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def _user_axes(self, rows: FloatArray) -> tuple[list[int], list[tuple[int, ...]]]:
        """Of each node: the axis that goes over users, which grows with them, and the shape of the rest."""
        few, more = (self._evaluate(np.resize(rows, (n, rows.shape[1]))) for n in (3, 5))
        axes, shapes = [], []
        for small, large in zip(few, more, strict=True):
            grown = [k for k, (one, other) in enumerate(zip(small.shape, large.shape, strict=True)) if one != other]
            if len(grown) != 1 or small.shape[grown[0]] != 3:
                raise CrowdError
            axes.append(grown[0])
            shapes.append(small.shape[: grown[0]] + small.shape[grown[0] + 1 :])
        return axes, shapes


@dataclass(frozen=True, slots=True)
class OfWholeNumbers:
    """Functions of x where some of x goes into an index: what is not whole is refused, not rounded.

    Attributes
    ----------
    evaluate : the functions
    wholes : what goes into indices
    inputs : what the model calls x
    """

    evaluate: Any
    wholes: GraphOfX
    inputs: str

    def __call__(self, x: FloatArray) -> FloatArray:
        """The functions of users.

        Raises
        ------
        DataError
            Users whose x is not whole where it has to be.
        """
        for part in self.wholes(x):
            odd = np.asarray(part)[np.asarray(part) != np.round(part)]
            if odd.size:
                raise DataError(
                    f"The model holds '{self.inputs}' as whole numbers and looks up tables by them, got {odd[0]:g}. "
                    f"Pass whole numbers, or hold '{self.inputs}' as real ones in the model and round there."
                )
        return self.evaluate(x)


def basis_nodes(mu: Any, x: Any) -> list[Any]:
    """The largest parts of a graph that depend on x alone, in the order in which they are met."""
    depends = Dependence(x)
    found: dict[Any, None] = {}
    seen, waiting = set(), [mu]
    while waiting:
        variable = waiting.pop()
        if variable in seen or not depends.on_x(variable):
            continue
        seen.add(variable)
        if not depends.on_random(variable):
            found[variable] = None
        else:
            waiting.extend(reversed(variable.owner.inputs))
    return list(found)


def read_coefficients(mu: Any, x: Any, basis: Basis, *, rows: FloatArray, written: Any) -> Any:
    """The graph of the coefficients (arm, basis); functions without any are dropped from the basis.

    The mean of the user whose functions are all zero is the constant, and that of one with a single function equal to 1
    exceeds it by this function's coefficient. Whether the mean is affine is seen at users with random functions, and at
    the given ones, for several draws of the latents; for many where the mean may be another function of x in some.

    Parameters
    ----------
    written : the mean as its author wrote it, which has to agree

    Raises
    ------
    NonlinearError
        The mean is not affine in the functions.
    CrowdError
        A user's functions depend on other users.
    """
    n = basis.n_functions
    rng = np.random.default_rng(0)
    users = np.concatenate([np.zeros((1, n)), np.eye(n)])
    mixed = rng.standard_normal((8, n)) * rng.choice([0.3, 1.0, 5.0], size=(8, 1))
    answers = _mean_of(mu, basis, users)  # (1 + B, K)
    branches = may_branch(mu, x)
    some = rows[:_CHECKED_USERS] if branches else rows
    functions = basis(some)
    used, has_constant = np.zeros(n, dtype=bool), False
    for given, at_mixed, at_rows in _draws(
        x, [answers, _mean_of(mu, basis, mixed), written], some, n=_N_DRAWS_OF_BRANCHES if branches else _N_DRAWS
    ):
        constant, slopes = given[0], given[1:] - given[0]
        _check_close(at_mixed, constant, mixed, slopes)
        _check_close(at_rows, constant, functions, slopes)
        used |= (slopes != 0).any(axis=1)
        has_constant |= bool((constant != 0).any())
    _check_alone(basis, rows)
    kept = np.flatnonzero(used)
    basis.keep(kept, constant=has_constant)
    if not has_constant:
        return answers[1 + kept].T
    joined: Any = pt.concatenate([answers[:1], answers[1 + kept] - answers[0]])
    return joined.T


def _mean_of(mu: Any, basis: Basis, weights: FloatArray) -> Any:
    """The mean (n, K) of users with these functions (n, B), a graph of the latents alone."""
    try:
        return substitute(mu, basis.pseudo_users(weights))
    except (TypeError, ValueError) as error:
        raise NonlinearError from error


def _draws(x: Any, outputs: list[Any], rows: FloatArray, *, n: int) -> Iterator[list[np.ndarray]]:
    """Joint draws of what stands on the latents."""
    run, updates = compiled([x], outputs)
    for seed in range(n):
        reseed_rngs(list(updates), seed)  # type: ignore[arg-type]
        try:
            with without_compiler(), np.errstate(all="ignore"):
                yield [np.asarray(part, dtype=float) for part in run(rows)]
        except FAILURES as error:
            raise NonlinearError from error


def _check_close(mean: FloatArray, constant: FloatArray, functions: FloatArray, slopes: FloatArray) -> None:
    if mean.shape != (len(functions), slopes.shape[1]):
        raise NonlinearError
    scale = np.abs(constant) + np.abs(functions) @ np.abs(slopes)
    gap = np.abs(mean - constant - functions @ slopes)
    if not (gap <= _CLOSE * np.maximum(scale, 1e-300)).all():
        raise NonlinearError


def _check_alone(basis: Basis, rows: FloatArray) -> None:
    together = basis(rows)
    alone = np.concatenate([basis(row[None]) for row in rows[:8]])
    if not np.allclose(alone, together[:8], rtol=_CLOSE, atol=1e-12):
        raise CrowdError


def compiled(inputs: list[Any], outputs: list[Any]) -> tuple[Any, dict[Any, Any]]:
    """A function of inputs, without the heavy rewrites, and the generators that it draws by.

    Flat variables, which cannot be drawn, are drawn as others of the same sign: a formula is looked at, not a law.
    """
    outputs = _drawable(outputs)
    updates = collect_default_updates(outputs, inputs=inputs)
    with without_compiler():
        run = pytensor.function(
            inputs, outputs, updates=list(updates.items()), mode=light_mode(), on_unused_input="ignore"
        )
    return run, updates


def _drawable(outputs: list[Any]) -> list[Any]:
    replaced: dict[Any, Any] = {}
    for flat in improper_behind(outputs):
        op: Any = flat.owner
        normal: Any = pm.Normal.dist(shape=flat.shape)  # type: ignore[attr-defined]
        replaced[flat] = pt.abs(normal) if "Half" in type(op.op).__name__ else normal
    return [substitute(output, replaced) for output in outputs] if replaced else outputs


def _probes(rows: FloatArray) -> FloatArray:
    """Users to tell functions apart by: the given ones, others around them, and some far away.

    The rows that a model comes with need not be like the users to come: zeros in their place, say.
    """
    rng = np.random.default_rng(1)
    spread = np.maximum(rows.std(axis=0), 1e-3 + 0.1 * np.abs(rows).max(axis=0))
    found = [rows[:256]]
    for n, reach in ((_N_AROUND, 1.0), *((_N_FAR, far) for far in _FAR)):
        at = rows[rng.integers(len(rows), size=n)]
        found.append(at + reach * spread * rng.standard_normal(at.shape))
    return np.concatenate(found)


def _distinct(elements: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """The function of each element (E,), and an element of each function (B,): columns that are alike are one.

    Columns of nothing but zeros tell nothing (a group that nobody is in), and stay apart.
    """
    places, chosen, known = np.empty(elements.shape[1], dtype=int), [], {}
    for k, column in enumerate(np.ascontiguousarray(elements.T)):
        column = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, one zero
        key = column.tobytes() if np.nan_to_num(column).any() else k
        if key not in known:
            known[key] = len(chosen)
            chosen.append(k)
        places[k] = known[key]
    return places, np.array(chosen, dtype=int)


def one_line(error: BaseException) -> str:
    """What an error says, in one line of some length."""
    return " ".join(str(error).split())[:160]
