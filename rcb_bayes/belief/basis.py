"""The basis of a regression: functions of x alone that its mean is affine in, and the coefficients that these get."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import collect_default_updates, reseed_rngs

from rcb_bayes.belief.draws import light_mode
from rcb_bayes.belief.graph import substitute, without_compiler
from rcb_bayes.belief.separation import Dependence
from rcb_bayes.schema import FloatArray

INTERCEPT = "intercept"
_N_DRAWS = 6
_CLOSE = 1e-8


class NonlinearError(Exception):
    """The mean is not affine in functions of x alone."""


class CrowdError(Exception):
    """Features of a user depend on other users."""


class Basis:
    """Functions of x, (n, p) -> (n, B), from parts of a graph; compiled when first asked, anew in other processes.

    Parameters
    ----------
    x : the graph's free input, (n, p)
    nodes : parts of the graph that depend on x alone
    rows : some users, (n, p), to tell shapes and repeated functions by
    """

    def __init__(self, x: Any, nodes: Sequence[Any], *, rows: FloatArray) -> None:
        self._x, self.nodes = x, list(nodes)
        self._run: Any = None
        self.axes, self.shapes = self._user_axes(rows)
        self.constant = False
        self.places, self.chosen = _distinct(self._elements(_probes(rows)))

    @property
    def n_functions(self) -> int:
        """B, without the constant one."""
        return len(self.chosen)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The functions of users, the constant one first where there is one."""
        found = self._elements(x)[:, self.chosen]
        return np.concatenate([np.ones((len(x), 1)), found], axis=1) if self.constant else found

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_run": None}

    def keep(self, kept: np.ndarray, *, constant: bool) -> None:
        """Only some of the functions, and the constant one or not."""
        self.chosen, self.constant = self.chosen[kept], constant

    def labels(self, features: Sequence[str], rows: FloatArray) -> tuple[str, ...]:
        """Names of the functions: those of x for x itself, else by their numbers."""
        probes = _probes(rows)
        values = self._elements(probes)[:, self.chosen]
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
        for node, axis, shape, part in zip(self.nodes, self.axes, self.shapes, parts, strict=True):
            array = np.moveaxis(part.reshape(len(weights), *shape), 0, axis)
            out[node] = pt.constant(array).astype(node.type.dtype)
        if self._x not in out:  # only its shape is left in the graph
            out[self._x] = pt.constant(np.zeros((len(weights), self._x.type.shape[1])))
        return out

    def _elements(self, x: FloatArray) -> FloatArray:
        """All elements of all nodes, (n, E)."""
        parts = [
            np.moveaxis(np.asarray(part, dtype=float), axis, 0).reshape(len(x), -1)
            for part, axis in zip(self._evaluate(x), self.axes, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def _evaluate(self, x: FloatArray) -> list[np.ndarray]:
        if self._run is None:
            self._run = compiled([self._x], self.nodes)[0]
        with without_compiler(), np.errstate(all="ignore"):
            return self._run(np.asarray(x, dtype=float))

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


def read_coefficients(mu: Any, x: Any, basis: Basis, *, rows: FloatArray) -> Any:
    """The graph of the coefficients (arm, basis); functions without any are dropped from the basis.

    The mean of the user whose functions are all zero is the constant, and that of one with a single function equal to 1
    exceeds it by this function's coefficient. Whether the mean is affine is seen at users with random functions, and
    at the given ones, for several draws of the latents.

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
    drawn = _draws(x, [answers, _mean_of(mu, basis, mixed), mu], rows)
    for given, at_mixed, at_rows in drawn:
        constant, slopes = given[0], given[1:] - given[0]
        _check_close(at_mixed, constant, mixed, slopes)
        _check_close(at_rows, constant, basis(rows), slopes)
    _check_alone(basis, rows)
    used = np.any([(given[1:] != given[0]).any(axis=1) for given, _, _ in drawn], axis=0)
    has_constant = any((given[0] != 0).any() for given, _, _ in drawn)
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


def _draws(x: Any, outputs: list[Any], rows: FloatArray) -> list[list[np.ndarray]]:
    run, updates = compiled([x], outputs)
    found = []
    for seed in range(_N_DRAWS):
        reseed_rngs(list(updates), seed)  # type: ignore[arg-type]
        try:
            with without_compiler(), np.errstate(all="ignore"):
                found.append([np.asarray(part, dtype=float) for part in run(rows)])
        except (ValueError, IndexError, ArithmeticError) as error:
            raise NonlinearError from error
    return found


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
    """A function of inputs, without the heavy rewrites, and the generators that it draws by."""
    updates = collect_default_updates(outputs, inputs=inputs)
    with without_compiler():
        run = pytensor.function(
            inputs, outputs, updates=list(updates.items()), mode=light_mode(), on_unused_input="ignore"
        )
    return run, updates


def _probes(rows: FloatArray) -> FloatArray:
    """Users to tell functions apart by: the given ones, and others around them."""
    rng = np.random.default_rng(1)
    spread = np.maximum(rows.std(axis=0), 1e-3 + 0.1 * np.abs(rows).max(axis=0))
    around = rows[rng.integers(len(rows), size=64)]
    return np.concatenate([rows[:256], around + spread * rng.standard_normal(around.shape)])


def _distinct(elements: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """The function of each element (E,), and an element of each function (B,): columns that are alike are one.

    Columns of nothing but zeros tell nothing (a group that nobody is in), and stay apart.
    """
    places, chosen, known = np.empty(elements.shape[1], dtype=int), [], {}
    for k, column in enumerate(np.ascontiguousarray(elements.T)):
        key = (column + 0.0).tobytes() if column.any() else k
        if key not in known:
            known[key] = len(chosen)
            chosen.append(k)
        places[k] = known[key]
    return places, np.array(chosen, dtype=int)
