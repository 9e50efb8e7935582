"""A PyMC model read as a belief: what it says about ``beta`` and how, in plain arrays.

Reading compiles nothing. Draws and densities are compiled when first asked for.
"""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from pymc.distributions.mixture import MixtureRV
from pytensor.graph.traversal import ancestors

from rcb_bayes.belief.beside import refuse_constraints, refuse_potentials, warn_about_noise
from rcb_bayes.belief.conditional import (
    ConditionalLaw,
    Conditioners,
    conditional_grid,
    conditional_lattices,
    conditional_law,
    find_conditioners,
    noise_line,
    shares_randomness,
)
from rcb_bayes.belief.density import Density, find_density
from rcb_bayes.belief.draws import Drawer, compile_draws
from rcb_bayes.belief.expectation import exact_mean
from rcb_bayes.belief.gaussian import recognise_law
from rcb_bayes.belief.graph import Graph, drawn_behind, freeze
from rcb_bayes.belief.independence import Sources, independent_groups
from rcb_bayes.belief.law import SINGULAR, GaussianLaw
from rcb_bayes.belief.scale_mixture import ScaleMixture, read_scale_mixture
from rcb_bayes.belief.spelling import BETA, Spelt
from rcb_bayes.belief.support import reach, refuse_impossible
from rcb_bayes.belief.tails import refuse_improper, tail_index
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.schema import FloatArray

SIGMA = "sigma"
_TAIL_DRAWS = 100_000
_GRID_NODES, _LINE_NODES = 113, 4097
_LKJ = {"_LKJCholeskyCovRV": 3, "LKJCorrRV": 2}  # lengths of the last axis for two features
_FEW_POINTS = 20  # a heavy tail of whole numbers still has hundreds of different values
_NO_MEAN_KHAT = 0.9  # the tail's k-hat is 1 where the mean stops existing; its error here is about .06


class ModelBelief:
    """One PyMC model with a variable ``beta`` (arm, feature), and perhaps a scalar ``sigma``, the noise's sd.

    What else it may be called, and where it comes from, is settled before (``spelling``, ``regression``).

    Attributes
    ----------
    arms, features : labels
    groups : independent groups of arms, as indices
    law : the closed form, or None
    tail : tail index of beta (no mean at 1 or below, no variance at 2 or below), or None where it is not known
    """

    def __init__(self, spelt: Spelt) -> None:
        model = self.model = spelt.model
        self.arms, self.features, self.feature_map = spelt.arms, spelt.features, spelt.feature_map
        refuse_potentials(model)
        self.has_sigma = _has_sigma(model)
        refuse_constraints(model, [model[BETA], model[SIGMA]] if self.has_sigma else [model[BETA]])
        frozen = freeze(model)
        self._beta: Any = frozen[BETA]
        self._sigma: Any = frozen[SIGMA] if self.has_sigma else None
        self._variables = [frozen[str(variable.name)] for variable in model.basic_RVs]
        self._graph = Graph()
        self._sources = Sources(self._graph)
        self._conditional_laws: dict[tuple[int, int], ConditionalLaw] = {}
        self._refuse_improper()
        _warn_about_lkj(self._beta, graph=self._graph)
        if self.has_sigma:
            warn_about_noise(model, model[SIGMA], beta=model[BETA])
        self.groups = independent_groups(self._beta, n_arms=len(self.arms), sources=self._sources)
        self.law: GaussianLaw | None = recognise_law(
            self._beta, graph=self._graph, sources=self._sources, groups=self.groups
        )
        refuse_impossible([self._beta, self._sigma] if self.has_sigma else [self._beta], graph=self._graph)
        self._refuse_low_sigma()
        self.tail = np.inf if self.law is not None else tail_index(self._beta, graph=self._graph, sources=self._sources)
        self._check_mean_exists()

    @cached_property
    def exact_mean(self) -> FloatArray | None:
        """Prior mean (n_arms, n_features) where it is known exactly."""
        if self.law is not None:
            return self.law.mean()
        return exact_mean(self._beta, graph=self._graph, sources=self._sources)

    @cached_property
    def density(self) -> Density:
        """The log density by block of arms, or the reason why there is none."""
        if self.law is not None:
            has_density = self.law.has_density
            return Density(self.law.log_density if has_density else None, "closed form" if has_density else SINGULAR)
        behind = set(ancestors([self._beta]))
        free = [variable for variable in self._variables if variable in behind]
        return find_density(self._beta, free=free, graph=self._graph, sources=self._sources, groups=self.groups)

    @property
    def has_mixture(self) -> bool:
        """Whether a finite mixture stands behind beta."""
        mixed = any(isinstance(v.owner.op, MixtureRV) for v in drawn_behind([self._beta]) if v.owner is not None)
        return mixed or (self.law is not None and not self.law.is_gaussian)

    @cached_property
    def conditioners(self) -> Conditioners | None:
        """What beta is Gaussian given: nothing for a Gaussian belief, None where that cannot be."""
        coupled = self._sigma is not None and shares_randomness(self._beta, self._sigma)
        if self.law is not None and not coupled:
            return Conditioners() if self.law.is_gaussian else None
        return find_conditioners(self._beta, sigma=self._sigma, graph=self._graph)

    def conditional_law(self, n_draws: int, *, replicate: int = 0) -> ConditionalLaw:
        """The belief as a mixture over draws of its conditioners (and of sigma, where it has one)."""
        if (n_draws, replicate) not in self._conditional_laws:
            assert self.conditioners is not None  # callers ask first
            self._conditional_laws[n_draws, replicate] = conditional_law(
                self._beta,
                self._sigma,
                conditioners=self.conditioners,
                groups=self.groups,
                n_draws=n_draws,
                replicate=replicate,
                graph=self._graph,
            )
            _check_sigma(self._conditional_laws[n_draws, replicate].sigma)
        return self._conditional_laws[n_draws, replicate]

    @cached_property
    def conditional_grid(self) -> ConditionalLaw | None:
        """The belief given each of some values of its only conditioner, or None."""
        if self.conditioners is None:
            return None
        return conditional_grid(
            self._beta,
            self._sigma,
            conditioners=self.conditioners,
            groups=self.groups,
            n_nodes=_GRID_NODES,
            graph=self._graph,
        )

    @cached_property
    def scale_mixture(self) -> ScaleMixture | None:
        """The belief as normal effects with unknown scales, or None."""
        return None if self.law is not None else read_scale_mixture(self._beta, graph=self._graph)

    @cached_property
    def conditional_lattices(self) -> tuple[ConditionalLaw, ...] | None:
        """Each group of arms given points of a lattice of its two conditioners, or None."""
        if self.conditioners is None or self._sigma is not None or len(self.conditioners.drawn) < 2:
            return None
        return conditional_lattices(
            self._beta,
            conditioners=self.conditioners,
            groups=self.groups,
            sources=self._sources,
            graph=self._graph,
        )

    @cached_property
    def noise_line(self) -> tuple[FloatArray, FloatArray] | None:
        """Logarithms of the noise's sd and their log densities where nothing else is unknown but beta, or None."""
        if self._sigma is None or self.conditioners is None or self.conditioners:
            return None
        return noise_line(self._sigma, n_nodes=_LINE_NODES, graph=self._graph)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
        """Joint draws: beta (n, n_arms, n_features) and sigma (n,), None where the belief has none."""
        if self.law is not None and not self.has_sigma:
            return self.law.draw(n, rng=rng), None
        try:
            parts = [np.asarray(part, dtype=float) for part in self._drawer(n, rng)]
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            raise BeliefError(
                "The belief cannot be drawn from: check its parameters, such as a scale that is not always positive."
            ) from error
        beta, sigma = parts[0], parts[1] if self.has_sigma else None
        if not np.isfinite(beta).all():
            raise BeliefError("Draws of beta are not finite: check the belief's parameters for NaN or overflow.")
        _check_sigma(sigma)
        return beta, sigma

    @cached_property
    def _drawer(self) -> Drawer:
        return compile_draws([self._beta, self._sigma] if self.has_sigma else [self._beta], graph=self._graph)

    def _refuse_improper(self) -> None:
        refuse_improper(self._beta, name=BETA, example="Normal")
        if self._sigma is not None:
            refuse_improper(self._sigma, name=SIGMA, example="HalfNormal")

    def _refuse_low_sigma(self) -> None:
        """A noise without spread, or with a spread below zero; what the graph does not tell is seen in the draws."""
        if self._sigma is None:
            return
        if not self._graph.is_random(self._sigma):
            _check_sigma(np.asarray(self._graph.value(self._sigma), dtype=float))
        elif reach(self._sigma, self._graph) < 0:
            raise _bad_sigma()

    def _check_mean_exists(self) -> None:
        if self.law is not None and not np.isfinite(self.law.mean()).all():
            raise BeliefError("The prior mean of beta is not finite: check the belief's parameters for NaN.")
        if self.tail is not None and self.tail > 1.0:
            return
        if self.tail is None:
            khat = _tail_khat(self.draw(_TAIL_DRAWS, np.random.default_rng(0))[0])
            if khat < _NO_MEAN_KHAT:
                return
        raise BeliefError(
            "The belief has no finite mean (tails as heavy as a Cauchy's), so users' expectations do not exist. "
            "Use lighter tails: a regularised horseshoe, or a Student-t with nu > 1."
        )


def _warn_about_lkj(beta: Any, *, graph: Graph) -> None:
    """PyMC 6.3 draws LKJ correlations from another law than its density: variance .142 for .167 at d = 3, eta = 2.

    Of two features there is one correlation, which is drawn as it should be.
    """
    found = [(variable, _LKJ.get(type(variable.owner.op).__name__)) for variable in drawn_behind([beta])]
    if any(right is not None and graph.shape(variable)[-1] > right for variable, right in found):
        warnings.warn(
            "Draws and posteriors of this belief disagree: PyMC's forward draws of LKJ correlations have another law "
            "from three features on. Build the correlations as models/correlated.py does.",
            BeliefWarning,
            stacklevel=4,
        )


def _has_sigma(model: Any) -> bool:
    if SIGMA not in model.named_vars:
        return False
    if model[SIGMA].type.ndim != 0:
        raise BeliefError(
            "The variable 'sigma' is the noise's standard deviation and must be a scalar, "
            f"got {model[SIGMA].type.ndim} dimension(s). Rename it if it means something else."
        )
    return True


def _check_sigma(sigma: FloatArray | None) -> None:
    if sigma is not None and not (np.isfinite(sigma) & (sigma > 0)).all():
        raise _bad_sigma()


def _bad_sigma() -> BeliefError:
    return BeliefError(
        "The variable 'sigma', the noise's standard deviation, is not always positive and finite: "
        "give it a positive distribution, such as pm.HalfNormal."
    )


def _tail_khat(beta: FloatArray) -> float:
    """The largest generalised Pareto shape of any coefficient's tails; a tail of a few points only has none."""
    from arviz_stats.base import array_stats

    n_tail = int(3.0 * np.sqrt(len(beta)))  # as many as the fit looks at
    shapes = [-np.inf]
    for column in beta.reshape(len(beta), -1).T:  # (n,)
        for signed in (column, -column):
            if len(np.unique(np.sort(signed)[-n_tail:])) > _FEW_POINTS:
                khat: Any = array_stats.pareto_khat(signed[None], r_eff=1.0, tail="right")
                shapes.append(float(khat))
    return float(np.max(shapes))
