r"""Beliefs that are Gaussian once a few parameters are known: scales, correlations, the noise.

Draw those parameters (the conditioners) from the belief; given each draw, ``beta`` is Gaussian in closed form. A
hierarchical belief then is, up to Monte Carlo error in the conditioners alone, an equally weighted mixture of
Gaussians, whose posterior is exact.

Student-t and Laplace variables are scale mixtures of normals themselves (Andrews and Mallows 1974),

.. math:: t_\nu = z \sqrt{\nu / \chi^2_\nu}, \qquad \mathrm{Laplace}(b) = b z \sqrt{2 e}, \quad e \sim \mathrm{Exp}(1),

so that arms which share a level may have heavy tails: then the scale of each such element is drawn, too.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.random.basic import LaplaceRV, MvNormalRV, NormalRV, StudentTRV

from rcb_bayes.belief.affine import AffineReader, Form, NotAffineError
from rcb_bayes.belief.draws import compile_draws
from rcb_bayes.belief.gaussian import read_gaussian
from rcb_bayes.belief.given import FAILURES, compile_given
from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind
from rcb_bayes.belief.independence import Sources, union_all
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.schema import FloatArray

_LATTICE_MARGIN = 0.15  # of both conditioners: data may speak for what the belief hardly allows
_SPACING = 0.12  # between the logarithms of two values of a lattice
_FEWEST_SIDE, _SIDE, _MOST_SIDES = 17, 33, (97, 65, 49, 33)
_LATTICE_VALUES = 20_000_000  # in the covariances of a lattice
_MOST_MIXED = 20  # elements: each takes its share of the effective size, and beyond that little is left

_LARGEST_STEP = 0.05  # between the distribution of draws and of a rule
_LARGEST_BEND = 0.1  # of log variances, and of means in standard deviations, between two values of a rule


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalLaw:
    """J Gaussian components, one per draw of the conditioners, and the noise's sd (J,) where it is among them.

    ``only_sigma`` says that the components differ in nothing but the noise; ``sides`` how many rows and columns a
    lattice has, whose points lie row by row.
    """

    law: GaussianLaw
    sigma: FloatArray | None
    only_sigma: bool = False
    sides: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Conditioners:
    """What beta is Gaussian given: ``drawn`` variables of the model, and scales for the elements of ``mixed`` ones."""

    drawn: tuple[Variable, ...] = ()
    mixed: tuple[Variable, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drawn or self.mixed)


def find_conditioners(
    beta: Variable, *, sigma: Variable | None = None, graph: Graph, most_mixed: float = _MOST_MIXED
) -> Conditioners | None:
    """The variables to condition on, so that beta is Gaussian given them; None where that does not do it.

    First every variable that is not normal; then also the normal ones that stand behind a scale. Student-t and Laplace
    variables are given their scales rather than themselves where that does it: an effect drawn from the belief hardly
    ever agrees with the data. What beta shares with an unknown ``sigma`` comes on top, for only given that is the noise
    independent of beta. More than ``most_mixed`` elements are given themselves.
    """
    behind = drawn_behind([beta])
    scales = [part for v in behind if _is_normal(v) for part in v.owner.op.dist_params(v.owner)[1:]]  # type: ignore[union-attr]
    shared = [v for v in drawn_behind([sigma]) if v in behind] if sigma is not None else []
    mixtures = tuple(v for v in behind if _is_scale_mixture(v) and v not in shared)
    if _n_elements(mixtures, graph) > most_mixed:
        mixtures = ()
    for mixed in (mixtures, ()) if mixtures else ((),):
        others = [v for v in behind if not _is_normal(v) and v not in mixed]
        more = [part for v in mixed for part in _shape_and_scale(v)]
        for candidates in ([*others, *shared], [*others, *shared, *drawn_behind([*scales, *more])]):
            found = Conditioners(tuple(dict.fromkeys(candidates)), mixed)
            if found and beta not in found.drawn and _is_gaussian_given(beta, found, graph=graph):
                return found
    return None


def shares_randomness(beta: Variable, sigma: Variable) -> bool:
    """Whether the noise's sd depends on anything that beta depends on."""
    behind = drawn_behind([beta])
    return any(v in behind for v in drawn_behind([sigma]))


def conditional_law(
    beta: Variable,
    sigma: Variable | None,
    *,
    conditioners: Conditioners,
    groups: tuple[tuple[int, ...], ...],
    n_draws: int,
    replicate: int,
    graph: Graph,
) -> ConditionalLaw:
    """Draw the conditioners and write the belief as a mixture of what it is given each draw.

    An unknown sigma couples all arms a posteriori, so that they become one group. Every ``replicate`` is a fresh set of
    draws.
    """
    outputs = [*conditioners.drawn, sigma] if sigma is not None else list(conditioners.drawn)
    drawn = compile_draws(outputs, graph=graph)(n_draws, np.random.default_rng([3, replicate])) if outputs else []
    n_arms, d = graph.shape(beta)
    means, roots = _given_draws(
        beta, conditioners, drawn, n_draws, graph=graph, rng=np.random.default_rng([5, replicate])
    )
    means = np.broadcast_to(means, (n_draws, n_arms * d))
    if sigma is not None:
        groups = (tuple(range(n_arms)),)
    blocks = []
    for arms in groups:
        index = [arm * d + k for arm in arms for k in range(d)]
        part = roots[:, index]
        blocks.append(
            Block(
                arms=arms,
                weights=np.full(n_draws, 1.0 / n_draws),
                means=means[:, index],
                covariances=np.broadcast_to(part @ part.swapaxes(-1, -2), (n_draws, len(index), len(index))),
            )
        )
    law = GaussianLaw(n_arms=n_arms, n_features=d, blocks=tuple(blocks))
    sigmas = np.asarray(drawn[-1], dtype=float) if sigma is not None else None
    return ConditionalLaw(law, sigmas, only_sigma=sigma is not None and not conditioners)


def conditional_grid(
    beta: Variable,
    sigma: Variable | None,
    *,
    conditioners: Conditioners,
    groups: tuple[tuple[int, ...], ...],
    n_nodes: int,
    graph: Graph,
) -> ConditionalLaw | None:
    """The belief given each of some values of its only conditioner, weighted by their density; None if it has others.

    The values are equally spaced, in logarithms where the variable is positive, and reach a little further than
    thousands of draws: sums over them are integrals by the trapezoid rule. None, too, where the belief does something
    between two values that neither tells of: no data set could notice.
    """
    if len(conditioners.drawn) != 1 or conditioners.mixed:
        return None
    line = _line_of(conditioners.drawn[0], n_nodes=n_nodes, graph=graph)
    if line is None or (sigma is not None and drawn_behind([sigma]) != list(conditioners.drawn)):
        return None
    values, log_density = line
    means, roots = _given_many(beta, conditioners, [values], graph=graph)
    n_arms, d = graph.shape(beta)
    if not _is_smooth(beta, conditioners.drawn[0], values, means, roots):
        return None
    groups = (tuple(range(n_arms)),) if sigma is not None else groups
    blocks = tuple(_grid_block(arms, means, roots, log_density, d=d) for arms in groups)
    known = [{conditioners.drawn[0]: np.asarray(value)} for value in values]
    sigmas = None if sigma is None else np.array([float(Graph(known=one).value(sigma)) for one in known])
    if sigmas is not None and not (sigmas > 0).all():
        return None
    return ConditionalLaw(GaussianLaw(n_arms=n_arms, n_features=d, blocks=blocks), sigmas)


def conditional_lattices(
    beta: Variable,
    *,
    conditioners: Conditioners,
    groups: tuple[tuple[int, ...], ...],
    sources: Sources,
    graph: Graph,
) -> tuple[ConditionalLaw, ...] | None:
    """For each independent group of arms: its law given each point of a lattice of its two conditioners.

    Points lie row by row. Sides are a multiple of eight and one, so that every other point, every fourth and every
    eighth reach from rim to rim. None where a group has fewer conditioners or more, or where they depend on one
    another.
    """
    drawn = conditioners.drawn
    masks = [union_all(sources.of(beta)[list(arms)]) for arms in groups]
    own = [[k for k, v in enumerate(drawn) if union_all(sources.of(v)) & mask] for mask in masks]
    if conditioners.mixed or not all(len(one) == 2 for one in own):
        return None
    n_arms, d = graph.shape(beta)
    lines = _finest_lines(drawn, own, size=n_arms * d, graph=graph)
    if lines is None:
        return None
    sides = [(len(lines[rows][0]), len(lines[columns][0])) for rows, columns in own]
    n_points = max(rows * columns for rows, columns in sides)
    values, densities = [np.empty(n_points) for _ in drawn], []
    for (row, column), (n_rows, n_columns) in zip(own, sides, strict=True):
        here = n_rows * n_columns
        for k, points in ((row, np.repeat(lines[row][0], n_columns)), (column, np.tile(lines[column][0], n_rows))):
            values[k][:here], values[k][here:] = points, points[-1]  # as many for all groups: read at once
        densities.append(np.add.outer(lines[row][1], lines[column][1]).reshape(-1))
    means, roots = _given_many(beta, conditioners, values, graph=graph)
    laws = []
    for arms, density, side in zip(groups, densities, sides, strict=True):
        block = _grid_block(arms, means[: len(density)], roots[: len(density)], density, d=d)
        laws.append(ConditionalLaw(GaussianLaw(n_arms=n_arms, n_features=d, blocks=(block,)), None, sides=side))
    return tuple(laws)


def _finest_lines(
    drawn: tuple[Variable, ...], own: list[list[int]], *, size: int, graph: Graph
) -> list[tuple[FloatArray, FloatArray]] | None:
    """Values of each conditioner and their log densities, as fine as covariances (size, size) leave room for."""
    lines = None
    for most in _MOST_SIDES:
        found = [_line_of(v, n_nodes=_SIDE, graph=graph, margin=_LATTICE_MARGIN, most=most) for v in drawn]
        lines = [line for line in found if line is not None]
        if len(lines) < len(found):
            return None
        if max(len(lines[row][0]) * len(lines[column][0]) for row, column in own) * size**2 <= _LATTICE_VALUES:
            break
    return lines


def _grid_block(
    arms: tuple[int, ...], means: FloatArray, roots: FloatArray, log_density: FloatArray, *, d: int
) -> Block:
    """Some arms given each value of a grid, weighted by their densities."""
    index = [arm * d + k for arm in arms for k in range(d)]
    weights = np.exp(log_density - log_density.max())
    return Block(
        arms=arms,
        weights=weights / weights.sum(),
        means=means[:, index],
        covariances=roots[:, index] @ roots[:, index].swapaxes(1, 2),
    )


def noise_line(sigma: Variable, *, n_nodes: int, graph: Graph) -> tuple[FloatArray, FloatArray] | None:
    """Equally spaced logarithms of an unknown noise and their log densities, each (n,); None where it has none."""
    line = _line_of(sigma, n_nodes=n_nodes, graph=graph, margin=0.6)
    if line is None or line[0][0] <= 0:
        return None
    return np.log(line[0]), line[1]


def _line_of(
    variable: Any, *, n_nodes: int, graph: Graph, margin: float = 0.0, most: int | None = None
) -> tuple[FloatArray, FloatArray] | None:
    """Values (n,) of a single number and their log densities, of its logarithm where it is positive; or None.

    They reach a ``margin`` below all but a few of thousands of draws, in distances of these from the median. With
    ``most`` given, logarithms are as many as their spacing asks for.
    """
    if drawn_behind([variable]) != [variable] or np.dtype(variable.type.dtype).kind != "f":
        return None
    if _n_elements((variable,), graph) != 1 or graph.shape(variable) != ():
        return None
    draws = np.asarray(compile_draws([variable], graph=graph)(4096, np.random.default_rng(7))[0], dtype=float)
    is_positive = bool((draws > 0).all())
    scaled = np.log(draws) if is_positive else draws
    low, middle, high = np.quantile(scaled, [0.0005, 0.5, 1.0])
    ends = low - margin * (middle - low), high + (0.3 + margin) * (high - middle)
    if most is not None and is_positive:
        n_nodes = int(np.clip(1 + 8 * np.ceil((ends[1] - ends[0]) / _SPACING / 8), _FEWEST_SIDE, most))
    line = np.linspace(*ends, n_nodes)
    values = np.exp(line) if is_positive else line
    try:
        argument = pt.dvector("values")
        compiled = pytensor.function([argument], pm.logp(variable, argument), mode="FAST_COMPILE")
        log_density = np.asarray(compiled(values), dtype=float)
    except (NotImplementedError, ValueError, TypeError, RuntimeError):
        return None
    if log_density.shape != values.shape or not np.isfinite(log_density).any():
        return None
    log_density = log_density + (line if is_positive else 0.0)
    if not _follows(scaled, line, log_density):
        return None
    return values, np.where(np.isfinite(log_density), log_density, -np.inf)


def _follows(draws: FloatArray, line: FloatArray, log_density: FloatArray) -> bool:
    """Whether draws are distributed as the rule over the line says: a lump between two of its values would show."""
    weight = np.exp(log_density - log_density[np.isfinite(log_density)].max())
    middle = np.cumsum(weight) - 0.5 * weight
    expected = np.interp(np.sort(draws), line, middle / weight.sum())
    return bool(np.abs(expected - (np.arange(len(draws)) + 0.5) / len(draws)).max() < _LARGEST_STEP)


def _is_smooth(beta: Variable, variable: Variable, values: FloatArray, means: FloatArray, roots: FloatArray) -> bool:
    """Whether mean and variances (logarithms) of beta between any two values are about those interpolated.

    Each pair is looked at in a place of its own: what repeats itself from value to value is seen as well.
    """
    share = (0.5 + np.arange(len(values) - 1) * 0.6180339887) % 1.0
    variances = (roots**2).sum(axis=2)  # (J, K d)
    with np.errstate(divide="ignore"):
        heights = np.log(np.maximum(variances, np.finfo(float).tiny))
    for j, t in enumerate(share):
        low, high = values[j], values[j + 1]
        between = low ** (1.0 - t) * high**t if low > 0 else (1.0 - t) * low + t * high
        mean, root, _ = given_values(beta, {variable: np.asarray(between)}, ())
        height = np.log(np.maximum((root**2).sum(axis=1), np.finfo(float).tiny))
        away = np.abs(height - (1.0 - t) * heights[j] - t * heights[j + 1])
        allowed = _LARGEST_BEND + 0.25 * np.abs(heights[j + 1] - heights[j])
        spread = np.sqrt(np.maximum(variances[j], variances[j + 1]))
        moved = np.abs(mean.reshape(-1) - (1.0 - t) * means[j] - t * means[j + 1])
        if (away > allowed).any() or (moved > _LARGEST_BEND * spread + 1e-9).any():
            return False
    return True


def _given_draws(
    beta: Variable,
    conditioners: Conditioners,
    drawn: list[np.ndarray],
    n_draws: int,
    *,
    graph: Graph,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Means (J, K d) and covariance roots (J, K d, n) of beta given each draw; J = 1 where nothing is drawn.

    Scales of mixed elements multiply the columns of a root, which is read once where they are all that is drawn.
    """
    n_given = n_draws if conditioners.drawn else 1  # what nothing is drawn for is the same every time
    per_given = n_draws // n_given
    first = {v: part[0] for v, part in zip(conditioners.drawn, drawn, strict=False)}
    mean, root, columns = given_values(beta, first, conditioners.mixed)
    if conditioners.drawn:
        values = [part[:n_given] for part in drawn[: len(conditioners.drawn)]]
        means, roots = _given_many(beta, conditioners, values, graph=graph)
    else:
        means, roots = mean.reshape(1, -1), root[None]
    if conditioners.mixed:
        parts = []
        for j in range(n_given):
            known = {v: part[j] for v, part in zip(conditioners.drawn, drawn, strict=False)}
            factors = np.ones((per_given, root.shape[1]))
            for variable, places in columns.items():
                if variable in conditioners.mixed:
                    factors[:, places] = _mixing_scales(variable, per_given, Graph(known=known), rng)
            parts.append(roots[j] * factors[:, None, :])
        roots = np.concatenate(parts)
    return means, roots


def _given_many(
    beta: Variable, conditioners: Conditioners, values: list[np.ndarray], *, graph: Graph
) -> tuple[np.ndarray, np.ndarray]:
    """Means (J, K d) and roots (J, K d, n) given J values of the drawn conditioners: at once where that can be."""
    known = conditioners.drawn
    ends = [{v: part[j] for v, part in zip(known, values, strict=True)} for j in (0, -1)]
    first, last = (given_values(beta, end, conditioners.mixed) for end in ends)
    run = compile_given(beta, known, leaves=list(first[2]), graph=graph)
    if run is not None and first[2].keys() == last[2].keys():
        with suppress(*FAILURES):  # lengths that disagree only when it runs
            means, roots = run(values)
            if all(_same(means[j], roots[j], found) for j, found in ((0, first), (-1, last))):
                return means, roots
    given = [
        given_values(beta, {v: part[j] for v, part in zip(known, values, strict=True)}, conditioners.mixed)
        for j in range(len(values[0]))
    ]
    return np.array([mean.reshape(-1) for mean, _, _ in given]), np.array([root for _, root, _ in given])


def _same(mean: np.ndarray, root: np.ndarray, found: tuple[np.ndarray, np.ndarray, Any]) -> bool:
    """Whether a mean and a root are those that were read, up to rounding; of roots what counts is R R'."""
    expected, other, _ = found
    spread, wanted = root @ root.T, other @ other.T
    scale = np.sqrt(np.outer(np.diagonal(wanted), np.diagonal(wanted))) + 1e-300
    return np.allclose(mean, expected.reshape(-1), rtol=1e-9, atol=1e-12) and bool(
        (np.abs(spread - wanted) <= 1e-9 * scale + 1e-12 * scale.max()).all()
    )


def given_values(
    beta: Variable, values: dict[Variable, np.ndarray], mixed: tuple[Variable, ...]
) -> tuple[np.ndarray, np.ndarray, dict[Variable, slice]]:
    """Mean and covariance root (K d, n) of beta given the conditioners' values, and each leaf's columns of the root.

    Of mixed variables the root holds the scale of their normal, which is still to be multiplied by a mixing one.
    """

    def read(reader: AffineReader, variable: Any) -> Form:
        return _read_mixture(reader, variable) if variable in mixed else read_gaussian(reader, variable)

    form = AffineReader(Graph(known=values), read).form(beta)
    size = form.constant.size
    slopes = [slope.reshape(size, -1) for slope in form.slopes.values()] or [np.zeros((size, 1))]
    ends = np.cumsum([0, *(slope.shape[1] for slope in slopes)])
    columns = {leaf: slice(ends[k], ends[k + 1]) for k, leaf in enumerate(form.slopes)}
    return form.constant, np.concatenate(slopes, axis=1), columns


def _is_gaussian_given(beta: Variable, conditioners: Conditioners, *, graph: Graph) -> bool:
    """Whether beta is affine in normals given two draws of the conditioners, and not one of these itself.

    A coefficient that the conditioners fix, at values that differ, would be a point mass for every draw of them: to
    draw it from the belief and hope that the data agree is no way to a posterior.
    """
    known = list(conditioners.drawn)
    try:
        drawn = compile_draws(known, graph=graph)(2, np.random.default_rng(0)) if known else []
        values = [{v: part[j] for v, part in zip(known, drawn, strict=True)} for j in range(2)]
        given = [given_values(beta, one, conditioners.mixed)[:2] for one in values]
    except (NotAffineError, UnknownShapeError):
        return False
    fixed = np.all([(root == 0).all(axis=1) for _, root in given], axis=0)
    first, second = (mean.reshape(-1)[fixed] for mean, _ in given)
    return bool((first == second).all())


# --- scale mixtures of normals ----------------------------------------------------------------------------------------


def _is_scale_mixture(variable: Any) -> bool:
    return isinstance(variable.owner.op, StudentTRV | LaplaceRV)


def _size(variable: Any, graph: Graph) -> int:
    return int(np.prod(graph.shape(variable), dtype=int))


def _n_elements(variables: tuple[Variable, ...], graph: Graph) -> float:
    try:
        return sum(_size(variable, graph) for variable in variables)
    except UnknownShapeError:
        return np.inf


def mixing_shape(variable: Any) -> Variable:
    """The degrees of freedom of a Student-t variable."""
    return _shape_and_scale(variable)[0]


def _shape_and_scale(variable: Any) -> list[Variable]:
    """The parameters that have to be known: all but the location."""
    parameters = variable.owner.op.dist_params(variable.owner)
    return [parameters[0], parameters[2]] if isinstance(variable.owner.op, StudentTRV) else [parameters[1]]


def _read_mixture(reader: AffineReader, variable: Any) -> Form:
    """A Student-t or Laplace variable as its location's form plus the scale of its normal times the leaf."""
    op, shape = variable.owner.op, reader.graph.shape(variable)
    parameters = op.dist_params(variable.owner)
    location = parameters[1 if isinstance(op, StudentTRV) else 0]
    if any(reader.graph.is_random(part) for part in _shape_and_scale(variable)):
        raise NotAffineError(f"the scale of {variable} is random")
    scale = np.asarray(reader.graph.value(_shape_and_scale(variable)[-1]), dtype=float)
    size = _size(variable, reader.graph)
    slope = np.diag(np.broadcast_to(scale, shape).reshape(-1)).reshape(*shape, size)
    return reader.form(location).broadcast(shape) + Form(np.zeros(shape), {variable: slope})


def _mixing_scales(variable: Any, n: int, graph: Graph, rng: np.random.Generator) -> FloatArray:
    """Draws of what the normal's scale is multiplied by, for each element, (n, size)."""
    shape = graph.shape(variable)
    size = _size(variable, graph)
    if isinstance(variable.owner.op, LaplaceRV):
        return np.sqrt(2.0 * rng.standard_exponential((n, size)))
    nu = np.broadcast_to(np.asarray(graph.value(_shape_and_scale(variable)[0]), dtype=float), shape).reshape(-1)
    return np.sqrt(nu / rng.chisquare(nu, size=(n, size)))


def _is_normal(variable: Any) -> bool:
    return isinstance(variable.owner.op, NormalRV | MvNormalRV)
