"""Small PyMC models that are hard to read rightly, and which of their arms are independent.

A definition runs inside a model with 3 arms and 2 features (unlike numbers, so that a transpose shows). It returns the
coefficients as an expression, or None when it has made the variable ``beta`` itself.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc
import pytensor
from pymc import Model

from rcb_bayes.belief.draws import compile_draws
from rcb_bayes.belief.graph import Graph, freeze

# Their annotations do not fit their own use.
pm: Any = pymc
pt: Any = pytensor.tensor
scan: Any = pytensor.scan

K = 3
D = 2
DIMS = ("arm", "feature")
ARMS = ["a", "b", "c"]
FEATURES = ["x", "y"]
CORRELATED = np.array([[1.0, 0.5], [0.5, 2.0]])
LOWER = np.array([[1.0, 0.0], [0.5, 2.0]])
TABLE = np.array([[0.0, 1.0], [3.0, 5.0]])  # label, feature
LIMIT = 4.5  # Monte Carlo errors

Groups = tuple[tuple[int, ...], ...]
Definition = Callable[[], Any]
APART: Groups = ((0,), (1,), (2,))
TOGETHER: Groups = ((0, 1, 2),)

INDEPENDENT: dict[str, Definition] = {}
COUPLED: dict[str, tuple[Definition, Groups]] = {}
FALSELY_COUPLED: dict[str, Definition] = {}


def build(define: Definition, *, arms: list[str] | None = None, features: list[str] | None = None) -> Model:
    """The model of a definition."""
    with pm.Model(coords={"arm": arms or ARMS, "feature": features or FEATURES}) as model:
        beta = define()
        if beta is not None:
            pm.Deterministic("beta", beta, dims=DIMS)
    return model


def forward_draws(model: Model, n: int, *, seed: int, name: str = "beta") -> np.ndarray:
    """Draws by the model's own graph, whatever closed form is known for it, (n, ...)."""
    (draws,) = compile_draws([freeze(model)[name]], graph=Graph())(n, np.random.default_rng(seed))
    return np.asarray(draws, dtype=float)


def largest_z(draws: np.ndarray, claimed: Any) -> float:
    """The largest distance, in Monte Carlo errors, of the draws' mean from a claimed one."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return float((np.abs(draws.mean(axis=0) - claimed) / (error + 1e-12)).max())


def products(draws: np.ndarray, mean: Any) -> np.ndarray:
    """Products of the centred coefficients, (n, K d, K d): their mean is the covariance."""
    centred = (draws - mean).reshape(len(draws), -1)
    return centred[:, :, None] * centred[:, None, :]


def normal(name: str = "z", *shape: int) -> Any:
    """Standard normals, of the shape of beta unless told otherwise."""
    return pm.Normal(name, 0.0, 1.0, shape=shape or (K, D))


def independent(define: Definition) -> Definition:
    """Register a definition whose arms are independent, and are to be found so."""
    INDEPENDENT[define.__name__] = define
    return define


def coupled(groups: Groups = TOGETHER) -> Callable[[Definition], Definition]:
    """Register a definition whose arms share randomness within the groups."""

    def register(define: Definition) -> Definition:
        COUPLED[define.__name__] = define, groups
        return define

    return register


def falsely_coupled(define: Definition) -> Definition:
    """Register a definition whose arms are independent but are not proved so: slow, never wrong."""
    FALSELY_COUPLED[define.__name__] = define
    return define


# --- independent arms ----------------------------------------------------------------------------------------------


@independent
def iid_grid() -> None:
    pm.StudentT("beta", nu=4.0, mu=0.0, sigma=1.0, dims=DIMS)


@independent
def stacked_families() -> Any:
    first, second = pm.Normal("first", 0.0, 1.0, shape=D), pm.Laplace("second", 1.0, 0.5, shape=D)
    return pt.stack([first, second, pm.StudentT("third", nu=5.0, mu=0.0, sigma=1.0, shape=D)])


@independent
def concatenated_rows() -> Any:
    return pt.concatenate([normal("one", 1, D), pm.Laplace("two", 0.0, 1.0, shape=(2, D))], axis=0)


@independent
def concatenated_columns() -> Any:
    return pt.concatenate([normal("x", K, 1), pm.Laplace("y", 0.0, 1.0, shape=(K, 1))], axis=1)


@independent
def set_row() -> Any:
    return pt.set_subtensor(normal()[0], pm.Laplace("row", 0.0, 1.0, shape=D))


@independent
def set_by_index() -> Any:
    picked = normal()[np.array([0, 1]), np.array([1, 1])]
    return pt.set_subtensor(picked, pm.Laplace("new", 0.0, 1.0, shape=2))


@independent
def set_in_the_middle() -> Any:
    return pt.set_subtensor(pt.zeros((K, D))[:, 1], pm.Laplace("new", 0.0, 1.0, shape=K)) + normal()


@independent
def transposed() -> Any:
    return pm.Laplace("z", 0.0, 1.0, shape=(D, K)).T


@independent
def reshaped() -> Any:
    return pm.Laplace("z", 0.0, 1.0, shape=K * D).reshape((K, D))


@independent
def moved_axes() -> Any:
    return pt.moveaxis(normal("z", 4, D, K), 2, 0)[:, :, 0]


@independent
def masked_rows() -> Any:
    return normal("z", 6, D)[np.array([True, False] * K)]


@independent
def lower_triangle() -> Any:
    return pt.tril(normal("z", K, K))[:, :D] + 1.0


@independent
def non_centred() -> Any:
    return np.arange(6.0).reshape(K, D) + np.array([[0.5], [1.0], [2.0]]) * normal()


@independent
def features_correlated_by_a_constant() -> Any:
    return normal() @ LOWER.T


@independent
def matrix_times_vector_per_arm() -> Any:
    return pt.stack([pt.constant(LOWER) @ normal(f"z{k}", D) for k in range(K)])


@independent
def batched_matrix_product() -> Any:
    return (np.stack([LOWER, np.eye(D), -LOWER]) @ normal()[:, :, None])[:, :, 0]


@independent
def permuting_matrix() -> Any:
    return pt.constant(np.eye(K)[[2, 0, 1]]) @ normal()


@independent
def kronecker_of_an_identity() -> Any:
    return (pt.linalg.kron(pt.eye(K), pt.constant(LOWER)) @ normal("z", K * D, 1)).reshape((K, D))


@independent
def scale_per_arm() -> Any:
    return pm.HalfNormal("scale", 1.0, shape=(K, 1)) * normal()


@independent
def scale_per_arm_centred() -> None:
    pm.Normal("beta", 0.0, pm.HalfNormal("scale", 1.0, shape=(K, 1)), dims=DIMS)


@independent
def mean_per_arm() -> None:
    pm.Laplace("beta", pm.Normal("mean", 0.0, 1.0, shape=(K, 1)), 1.0, dims=DIMS)


@independent
def label_per_arm() -> Any:
    return pt.constant(TABLE)[pm.Categorical("label", [0.3, 0.7], shape=K)] + normal()


@independent
def label_per_coefficient() -> Any:
    return pm.Bernoulli("label", 0.3, dims=DIMS) * 3.0 + normal()


@independent
def switch_per_arm() -> Any:
    label = pm.Bernoulli("label", 0.3, shape=K)
    return pt.switch(pt.eq(label, 1)[:, None], 2.0 + normal(), -normal("other"))


@independent
def mv_normal_over_features() -> None:
    pm.MvNormal("beta", np.zeros(D), CORRELATED, dims=DIMS)


@independent
def mv_student_over_features() -> None:
    pm.MvStudentT("beta", nu=4.0, mu=np.zeros(D), scale=CORRELATED, dims=DIMS)


@independent
def random_covariance_per_arm() -> Any:
    variance = pm.Gamma("variance", 3.0, 3.0, shape=K)
    return pm.MvNormal("z", np.zeros(D), cov=variance[:, None, None] * CORRELATED, shape=(K, D))


@independent
def zero_sum_over_features() -> Any:
    return pm.ZeroSumNormal("z", sigma=1.0, shape=(K, D))


@independent
def dirichlet_over_features() -> Any:
    return pm.Dirichlet("z", np.ones(D), shape=(K, D))


@independent
def cumulative_over_features() -> Any:
    return pt.cumsum(normal(), axis=1)


@independent
def sorted_features() -> Any:
    return pt.sort(normal(), axis=1)


@independent
def softmax_over_features() -> Any:
    return pt.special.softmax(normal(), axis=-1)


@independent
def eigenvalues_per_arm() -> Any:
    z = normal("z", K, D, D)
    return pt.linalg.eigh(z + z.mT)[0]


@independent
def mixture_per_coefficient() -> None:
    pm.Mixture("beta", w=[0.3, 0.7], comp_dists=[pm.Normal.dist(-1.0, 0.5), pm.Normal.dist(1.0, 1.0)], dims=DIMS)


@independent
def mixture_stacked() -> None:
    pm.Mixture("beta", w=[0.3, 0.7], comp_dists=pm.Normal.dist([-1.0, 1.0], [0.5, 1.0]), shape=(K, D), dims=DIMS)


@independent
def mixture_of_vectors() -> None:
    parts = [pm.MvNormal.dist(np.zeros(D), CORRELATED), pm.MvNormal.dist(3 * np.ones(D), np.eye(D))]
    pm.Mixture("beta", w=[0.3, 0.7], comp_dists=parts, dims=DIMS)


@independent
def mixture_weights_per_arm() -> None:
    weights = pm.Dirichlet("weights", np.ones(2), shape=(K, 1, 2))
    pm.Mixture("beta", w=weights, comp_dists=[pm.Normal.dist(-2.0, 0.5), pm.Normal.dist(2.0, 1.0)], dims=DIMS)


@independent
def censored() -> None:
    pm.Censored("beta", pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=1.0, dims=DIMS)


@independent
def truncated() -> None:
    pm.Truncated("beta", pm.Laplace.dist(0.0, 1.0), lower=-1.0, upper=2.0, dims=DIMS)


@independent
def shared_variable_in_one_arm_only() -> Any:
    return pm.Normal("shared") * np.array([[0.0], [3.0], [0.0]]) + normal()


@independent
def chosen_by_a_constant() -> Any:
    return pt.switch(np.array([[False], [True], [False]]), pm.Normal("shared"), normal())


@independent
def zeros_like_a_shared_variable() -> Any:
    return pt.zeros_like(pm.Normal("shared")) + normal()


@independent
def unnamed_noise() -> Any:
    return normal() + pm.Normal.dist(0.0, 1.0, size=(K, D))


# --- arms that share randomness ------------------------------------------------------------------------------------


@coupled()
def shared_mean() -> None:
    pm.Normal("beta", pm.Normal("mean", 0.0, 1.0, shape=D), 1.0, dims=DIMS)


@coupled()
def shared_plus_own() -> Any:
    return pm.Normal("shared", 0.0, 1.0, shape=D) + normal()


@coupled()
def unnamed_shared_mean() -> None:
    pm.Normal("beta", pm.Normal.dist(0.0, 1.0), 1.0, dims=DIMS)


@coupled()
def shared_scale() -> Any:
    return pm.HalfNormal("scale", 1.0) * normal()


@coupled()
def shared_scale_centred() -> None:
    pm.Normal("beta", 0.0, pm.HalfNormal("scale", 1.0), dims=DIMS)


@coupled()
def shared_truncated_scale() -> None:
    pm.Normal("beta", 0.0, pm.Truncated("scale", pm.Laplace.dist(0.0, 1.0), lower=0.0), dims=DIMS)


@coupled(((0, 1), (2,)))
def matrix_mixing_two_arms() -> Any:
    return np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ normal()


@coupled(((0, 2), (1,)))
def shared_variable_in_two_arms() -> Any:
    return pm.Normal("shared") * np.array([[1.0], [0.0], [-2.0]]) + normal()


@coupled(((0, 2), (1,)))
def two_arms_chosen_by_a_constant() -> Any:
    return pt.switch(np.array([[True], [False], [True]]), pm.Normal("shared"), 0.0) + normal()


@coupled(((0, 2), (1,)))
def one_variable_set_in_two_arms() -> Any:
    shared = pm.Normal("shared")
    return pt.set_subtensor(pt.set_subtensor(normal()[0, 0], shared)[2, 1], shared)


@coupled(((0, 1), (2,)))
def one_arm_as_the_mean_of_another() -> Any:
    first = normal("first", D)
    return pt.stack([first, pm.Normal("second", first, 1.0), normal("third", D)])


@coupled()
def repeated_row() -> Any:
    return pt.repeat(normal("z", 1, D), K, axis=0) + 0.5 * normal("own")


@coupled()
def tiled_row() -> Any:
    return pt.tile(normal("z", D), (K, 1)) + 0.5 * normal("own")


@coupled()
def outer_product() -> Any:
    return normal("of_arm", K)[:, None] * normal("of_feature", D)


@coupled()
def shared_label() -> Any:
    return pt.constant(TABLE)[pm.Categorical("label", [0.3, 0.7])] + normal()


@coupled()
def shared_label_picks_from_each_arms_table() -> Any:
    label = pm.Bernoulli("label", 0.5)
    return pt.stack([pt.constant((k + 1) * TABLE)[label] for k in range(K)]) + normal()


@coupled()
def labels_pick_from_one_random_table() -> Any:
    return normal("table", 2, D)[pm.Categorical("label", [0.3, 0.7], shape=K)] + 0.5 * normal("own")


@coupled()
def switch_on_a_shared_comparison() -> Any:
    return pt.switch(pm.Normal("shared") > 0.5, 2.0 + normal(), -normal("other"))


@coupled()
def random_slice() -> Any:
    start = pm.DiscreteUniform("start", 0, 2)
    return pt.constant(np.arange(10.0).reshape(5, D))[start : start + K] + normal()


@coupled()
def mv_normal_over_arms() -> Any:
    return pm.MvNormal("z", np.zeros(K), np.eye(K) + 0.5, shape=(D, K)).T


@coupled()
def mv_student_over_arms() -> Any:
    return pm.MvStudentT("z", nu=5.0, mu=np.zeros(K), scale=np.eye(K), shape=(D, K)).T


@coupled()
def random_covariance_shared() -> Any:
    variance = pm.Gamma("variance", 1.0, 1.0)
    return pm.MvNormal("z", np.zeros(D), cov=variance * CORRELATED, shape=(K, D))


@coupled()
def correlations_shared() -> Any:
    chol, _, _ = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
    return normal() @ chol.T


@coupled()
def zero_sum_over_arms() -> Any:
    return pm.ZeroSumNormal("z", sigma=1.0, shape=(D, K)).T


@coupled()
def centred_over_arms() -> Any:
    z = normal()
    return z - z.mean(axis=0)


@coupled()
def random_walk_over_arms() -> Any:
    return pm.GaussianRandomWalk("z", sigma=1.0, init_dist=pm.Normal.dist(0.0, 1.0), shape=(D, K)).T


@coupled()
def autoregression_over_arms() -> Any:
    return pm.AR("z", rho=[0.8], sigma=1.0, init_dist=pm.Normal.dist(0.0, 1.0), shape=(D, K)).T


@coupled()
def dirichlet_over_arms() -> Any:
    return pm.Dirichlet("z", np.ones(K), shape=(D, K)).T


@coupled()
def cumulative_over_arms() -> Any:
    return pt.cumsum(normal(), axis=0)


@coupled()
def cumulative_over_everything() -> Any:
    return pt.cumsum(normal()).reshape((K, D))


@coupled()
def sorted_arms() -> Any:
    return pt.sort(normal(), axis=0)


@coupled()
def softmax_over_arms() -> Any:
    return pt.special.softmax(normal(), axis=0)


@coupled()
def below_the_best_arm() -> Any:
    z = normal()
    return z - pt.max(z, axis=0)


@coupled()
def mixture_of_whole_tables() -> Any:
    parts = [pm.MvNormal.dist(np.zeros(K * D), np.eye(K * D)), pm.MvNormal.dist(3 * np.ones(K * D), np.eye(K * D))]
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=parts).reshape((K, D))


@coupled()
def mixture_weights_shared() -> None:
    weights = pm.Dirichlet("weights", 0.3 * np.ones(2))
    pm.Mixture("beta", w=weights, comp_dists=[pm.Normal.dist(-2.0, 0.5), pm.Normal.dist(2.0, 1.0)], dims=DIMS)


@coupled()
def mixture_component_mean_shared() -> None:
    parts = [pm.Normal.dist(pm.Normal("mean", 0.0, 2.0), 0.5), pm.Normal.dist(1.0, 1.0)]
    pm.Mixture("beta", w=[0.8, 0.2], comp_dists=parts, dims=DIMS)


@coupled()
def censored_shared_mean() -> None:
    pm.Censored("beta", pm.Normal.dist(pm.Normal("mean"), 1.0), lower=-2.0, upper=2.0, dims=DIMS)


@coupled()
def truncated_shared_scale() -> None:
    scale = 0.05 + pm.HalfNormal("scale", 1.0)
    pm.Truncated("beta", pm.Laplace.dist(0.0, scale), lower=-3.0, upper=3.0, dims=DIMS)


@coupled()
def permuted_arms() -> Any:
    generator = pt.random.shared_rng(seed=None)
    _, order = pt.random.permutation(np.arange(float(K)), rng=generator, return_next_rng=True)
    return order[:, None] + 0.3 * normal()


@coupled(((0, 1), (2,)))
def rows_of_one_eigenvector_matrix() -> Any:
    z = normal("z", 2, D, D)
    return pt.concatenate([pt.linalg.eigh(z + z.mT)[1][0], normal("own", 1, D)], axis=0)


@coupled()
def loop_over_arms() -> Any:
    return scan(
        lambda noise, before: 0.8 * before + noise,
        sequences=[normal()],
        outputs_info=[pt.zeros(D)],
        return_updates=False,
    )


@coupled()
def custom_distribution_with_a_shared_part() -> None:
    def both(mean: Any, size: Any) -> Any:
        return pm.Normal.dist(mean, 1.0) + pm.Normal.dist(mean, 1.0, size=size)

    pm.CustomDist("beta", 0.0, dist=both, dims=DIMS)


@coupled()
def custom_random_function_with_a_shared_part() -> None:
    def random(mean: Any, rng: Any = None, size: Any = None) -> Any:
        return mean + rng.normal() + rng.normal(size=size)

    pm.CustomDist("beta", 0.0, random=random, logp=lambda value, mean: -(value**2), dims=DIMS)


# --- independent arms that are not proved so -----------------------------------------------------------------------


@independent
def random_walk_over_features() -> Any:
    return pm.GaussianRandomWalk("z", sigma=1.0, init_dist=pm.Normal.dist(0.0, 1.0), shape=(K, D))


@falsely_coupled
def index_with_a_slice() -> Any:
    return pt.constant(TABLE)[pm.Categorical("label", [0.3, 0.7], shape=K), :] + normal()


@falsely_coupled
def incremented_row() -> Any:
    return pt.inc_subtensor(normal()[0], 1.0)


@independent
def einsum() -> Any:
    return pt.einsum("ij,jk->ik", normal(), np.eye(D))


@falsely_coupled
def solved_per_feature() -> Any:
    return pt.linalg.solve(LOWER, normal("z", D, K)).T


@independent
def diagonal_matrix() -> Any:
    return pt.diag(normal("z", K)) @ np.ones((K, D)) + normal("own")


@falsely_coupled
def matrix_normal_with_independent_rows() -> None:
    pm.MatrixNormal("beta", mu=np.zeros((K, D)), rowcov=np.eye(K), colcov=CORRELATED, dims=DIMS)


@falsely_coupled
def truncated_mean_per_arm() -> None:
    mean = pm.Normal("mean", 0.0, 1.0, shape=(K, 1))
    pm.Truncated("beta", pm.Laplace.dist(mean, 1.0), lower=-3.0, upper=3.0, dims=DIMS)


@falsely_coupled
def custom_distribution() -> None:
    pm.CustomDist("beta", 0.0, dist=lambda mean, size: pm.Normal.dist(mean, 1.0, size=size), dims=DIMS)
