"""The gallery in ``models/``: every belief builds, and its draws and density are those of an independent twin."""

import ast
import csv
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from tests.twins import gallery_twins as twins

GALLERY = Path(__file__).parents[2] / "models"
REGRESSIONS = ("grouped", "shared", "smooth", "splines")  # their twins are in test_regression.py
NAMES = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem not in REGRESSIONS)
N_DRAWS = 40_000
LIMIT = 4.5  # Monte Carlo errors

# Parameters at which the eighth moment exists, so that the error of a sample variance can itself be estimated.
MOMENTS = [
    ("gaussian", {"mean": [0.3, 0.0, -0.1], "scale": [0.5, 0.2, 1.0]}),
    ("student_t", {"mean": [0.3, 0.0, 0.0], "scale": [0.5, 0.2, 1.0], "nu": 12.0}),
    ("laplace", {"mean": np.arange(12.0).reshape(3, 4) / 10, "scale": 0.3}),
    ("horseshoe", {"slab_nu": 12.0, "mean": [0.2, 0.0, 0.0]}),
    ("horseshoe", {"slab_nu": 14.0, "scale": 1.0, "slab_scale": 0.3}),
    ("mixture", {}),
    ("mixture", {"weights": (0.2, 0.8), "means": ([1.0, 0.5, 0.5], 0.0), "scales": (0.5, 0.1)}),
    ("skewed", {"mean": [0.5, 1.0, 0.2]}),
    ("skewed", {"family": "lognormal", "mean": [0.5, 1.0, 0.3], "scale": [0.1, 0.3, 0.06]}),
    ("hierarchical", {"mean": [0.3, 0.0, 0.0]}),
    ("hierarchical", {"tau": 0.2, "scale": 0.7}),
    ("hierarchical", {"centred": False}),
    ("correlated", {"mean": [0.3, 0.0, 0.0], "eta": 1.5}),
    ("unknown_noise", {"mean": [0.3, 0.0, 0.0], "scale": 0.4}),
    ("arm_features", {"mean": [0.3, 0.0, 0.0], "table": [[1.0, 0.2], [1.0, -0.5], [1.0, 0.9]], "scale": [0.5, 0.3]}),
    ("per_arm", {"mean": [0.3, 0.0, -0.2], "scale": [0.5, 0.4, 0.3], "nu": 12.0}),
    ("setting_1", {}),
    ("setting_2", {}),
    ("setting_3", {"lam": 10.0}),
    ("setting_4", {"variance": 0.04}),
    ("warfarin_physician", {"variance": 0.6}),
]
FIRST = {name: parameters for name, parameters in reversed(MOMENTS)}  # of every belief
DENSITIES = [case for case in MOMENTS if case[0] not in ("horseshoe", "hierarchical", "correlated", "arm_features")]
DENSITIES += [("student_t", {}), ("per_arm", {"families": ["laplace", "gaussian"]}), ("skewed", {"scale": 0.9})]
SIZES = {"n_arms": 3, "n_features": 4}


def label(case: object) -> str:
    return case if isinstance(case, str) else ",".join(case) if isinstance(case, dict) else ""


@pytest.fixture(autouse=True)
def _no_compiler() -> Iterator[None]:
    """Python implementations only: nothing here is worth a compilation."""
    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):
        yield


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(name: str, **parameters: object) -> pm.Model:
    return load(name).build_model(**parameters)


def draw(model: pm.Model, *names: str, seed: int, n_draws: int = N_DRAWS) -> list[np.ndarray]:
    """Forward draws, all at once: variables that depend on no other are resized, the rest follow."""
    random = set(model.basic_RVs)
    replace = {}
    for variable in model.basic_RVs:
        assert variable.owner is not None
        if any(parent in random for parent in ancestors([variable]) if parent is not variable):
            size = variable.owner.op.size_param(variable.owner)  # not extended where the first parameter is a constant
            replace[size] = pt.concatenate([[n_draws], size])
        else:
            replace[variable] = change_dist_size(variable, (n_draws,), expand=True)
    batched = vectorize_graph([model[name] for name in names], replace=replace)
    return pm.draw(batched, random_seed=seed)  # pyright: ignore


def log_density(model: pm.Model) -> Callable[[np.ndarray], float]:
    value = pt.matrix("value")
    run = pytensor.function([value], pt.sum(pm.logp(model["beta"], value)))
    return lambda point: float(np.asarray(run(point)))


def mean_errors(draws: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Distance of the sample means from ``mean``, in Monte Carlo errors."""
    return (draws.mean(axis=0) - mean) / (draws.std(axis=0) / np.sqrt(len(draws)))


def variance_errors(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Distance of the mean squares about ``mean`` from ``variance``, in Monte Carlo errors."""
    return mean_errors((draws - mean) ** 2, variance)


# --- every file, as a user meets it ---------------------------------------------------------------------------------


def test_the_gallery_is_complete():
    assert {*NAMES} == {name for name, _ in MOMENTS} | {"empirical_bayes"}


@pytest.mark.parametrize("name", [*NAMES, *REGRESSIONS])
def test_a_file_explains_itself_and_stands_alone(name):
    text = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    doc = (ast.get_docstring(tree) or "").splitlines()
    assert doc[0].endswith(".")
    assert len(doc[0]) <= 58  # one line of `rcb models`
    assert doc[1] == ""
    assert "Applicability" in doc
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    tops = {module.split(".")[0] for module in imported}
    assert tops - set(sys.stdlib_module_names) <= {"numpy", "pymc", "pytensor", "rcb_bayes"}


@pytest.mark.parametrize("name", [*NAMES, *REGRESSIONS])
def test_parameters_are_keywords_with_defaults(name):
    parameters = inspect.signature(load(name).build_model).parameters
    assert {"n_arms", "n_features", "arms", "features"} <= set(parameters)
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
    assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters.values())


@pytest.mark.parametrize("name", NAMES)
def test_beta_has_labelled_arms_and_features(name):
    parameters = inspect.signature(load(name).build_model).parameters
    sizes = {dim: parameters[f"n_{dim}s"].default for dim in ("arm", "feature")}
    others = {"arm": 3 if name == "warfarin_physician" else 4, "feature": 2}
    for model, size in [(build(name), sizes), (build(name, n_arms=others["arm"], n_features=2), others)]:
        assert model.named_vars_to_dims["beta"] == ("arm", "feature")
        expected = {dim: tuple(f"{dim}_{k}" for k in range(size[dim])) for dim in size}
        if name == "warfarin_physician":
            expected["arm"] = ("low", "medium", "high")
        assert {dim: model.coords[dim] for dim in size} == expected
        assert model["beta"].shape.eval().tolist() == list(size.values())


@pytest.mark.parametrize("name", NAMES)
def test_labels_override_the_sizes(name):
    model = build(name, arms=["a", "b", "c"], features=["age", "weight"])
    assert model.coords["arm"] == ("a", "b", "c")
    assert model.coords["feature"] == ("age", "weight")
    assert draw(model, "beta", seed=1, n_draws=7)[0].shape == (7, 3, 2)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("warfarin_physician", "empirical_bayes")])
def test_two_arms_and_one_feature_are_enough(name):
    n_features = 2 if name == "correlated" else 1
    assert draw(build(name, n_arms=2, n_features=n_features), "beta", seed=1, n_draws=7)[0].shape == (7, 2, n_features)


# --- draws and densities against the twins --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[1] is not FIRST[case[0]])) for case in MOMENTS],
    ids=label,
)
def test_draws_have_the_twins_moments_and_a_planted_error_shows(name, parameters):
    twin = getattr(twins, name)(**SIZES, **parameters)
    [draws] = draw(build(name, **SIZES, **parameters), "beta", seed=20)
    assert draws.shape == (N_DRAWS, 3, 4)
    assert abs(mean_errors(draws, twin.mean)).max() < LIMIT
    assert abs(variance_errors(draws, twin.mean, twin.variance)).max() < LIMIT

    shifted = draws + 0.05 * np.sqrt(twin.variance)
    assert abs(mean_errors(shifted, twin.mean)).min() > LIMIT
    stretched = twin.mean + 1.08 * (draws - twin.mean)
    assert abs(variance_errors(stretched, twin.mean, twin.variance)).max() > LIMIT


@pytest.mark.parametrize(("name", "parameters"), DENSITIES, ids=label)
def test_the_log_density_is_scipys(name, parameters):
    twin = getattr(twins, name)(**SIZES, **parameters)
    assert twin.logpdf is not None
    model = build(name, **SIZES, **parameters)
    logp = log_density(model)
    for point in draw(model, "beta", seed=3, n_draws=5)[0]:
        assert logp(point) == pytest.approx(twin.logpdf(point), rel=1e-9)
        assert logp(1.05 * point) != pytest.approx(twin.logpdf(point), rel=1e-3)


# --- what a belief says beyond the moments of single elements -------------------------------------------------------


def test_arms_of_one_family_move_together():
    [beta] = draw(build("hierarchical", **SIZES, scale=0.4), "beta", seed=4)
    products = beta[:, 0] * beta[:, 2]  # (n_draws, n_features)
    assert abs(mean_errors(products, np.full(4, 0.4**2))).max() < LIMIT
    assert abs(mean_errors(products, np.full(4, 0.43**2))).min() > LIMIT
    assert abs(mean_errors(beta[:, 0, :3] * beta[:, 0, 1:], np.zeros(3))).max() < LIMIT


def test_a_mixture_has_one_label_per_arm():
    [beta] = draw(build("mixture", **SIZES, weights=(0.3, 0.7), means=(1.0, -1.0)), "beta", seed=5)
    away = beta - (0.3 - 0.7)
    within, between = away[:, 0, 0] * away[:, 0, 1], away[:, 0, 0] * away[:, 1, 0]
    assert abs(mean_errors(within, np.array(0.3 * 0.7 * 2.0**2))) < LIMIT
    assert abs(mean_errors(between, np.array(0.0))) < LIMIT


@pytest.mark.parametrize(
    ("n_features", "eta"), [(3, 2.0), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(2, 1.0), (6, 2.0)])]
)
def test_correlations_follow_the_lkj_law(n_features, eta):
    model = build("correlated", n_arms=2, n_features=n_features, scale=0.5, eta=eta)
    correlation, beta = draw(model, "correlation", "beta", seed=6)
    np.testing.assert_allclose(np.diagonal(correlation, axis1=1, axis2=2), 1.0, rtol=1e-9)
    assert np.linalg.eigvalsh(correlation).min() > -1e-9
    pairs = correlation[:, *np.triu_indices(n_features, k=1)]
    variance = twins.lkj_variance(n_features=n_features, eta=eta)
    assert abs(mean_errors(pairs, np.zeros(pairs.shape[1]))).max() < LIMIT
    assert abs(mean_errors(pairs**2, np.full(pairs.shape[1], variance))).max() < LIMIT
    planted = twins.lkj_variance(n_features=n_features, eta=1.2 * eta)
    assert abs(mean_errors(pairs**2, np.full(pairs.shape[1], planted))).min() > LIMIT
    # Given its matrix, beta has that covariance: E[r b_0 b_1] = scale^2 E[r^2].
    product = correlation[:, 0, 1] * beta[:, 1, 0] * beta[:, 1, 1]
    assert abs(mean_errors(product, np.array(0.25 * variance))) < LIMIT


def test_most_horseshoe_effects_are_small_and_some_are_not():
    [beta] = draw(build("horseshoe", **SIZES), "beta", seed=7)
    spread = beta.std()
    assert np.mean(abs(beta) < 0.25 * spread) > 0.5  # a Gaussian has .20 there
    assert np.mean(abs(beta) > 3 * spread) > 0.01  # and .003 there


def test_the_noise_is_a_variable_of_its_own():
    model = build("unknown_noise", **SIZES, noise_scale=0.3)
    sigma, beta = draw(model, "sigma", "beta", seed=8)
    assert sigma.shape == (N_DRAWS,)
    assert abs(mean_errors(sigma, np.array(0.3 * np.sqrt(2 / np.pi)))) < LIMIT
    assert abs(mean_errors(sigma[:, None, None] * beta, np.zeros((3, 4)))).max() < LIMIT


# --- empirical Bayes --------------------------------------------------------------------------------------------------

ARMS = ["new", "a", "b", "c", "rare"]
FEATURES = ["one", "age"]


def history(seed: int = 9) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Three arms with 30, 12 and 8 outcomes and one with a single outcome, fewer than features."""
    rng = np.random.default_rng(seed)
    arm = ["a"] * 30 + ["b"] * 12 + ["c"] * 8 + ["rare"]
    X = np.column_stack([np.ones(len(arm)), rng.normal(size=len(arm))])
    effects = {name: rng.normal(0.3, 0.6, size=2) for name in ARMS}
    y = np.array([row @ effects[name] for name, row in zip(arm, X, strict=True)]) + rng.normal(0, 0.4, size=len(arm))
    return arm, X, y


@pytest.fixture
def history_file(tmp_path: Path) -> Path:
    path = tmp_path / "history.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", *FEATURES, "reward"])
        writer.writerows([name, *row, reward] for name, row, reward in zip(*history(), strict=True))
    return path


@pytest.mark.parametrize("parameters", [{}, {"tau": 0.3}, {"discount": 0.25}], ids=label)
def test_a_fitted_belief_is_the_dense_solution(history_file, parameters):
    model = build("empirical_bayes", history=history_file, arms=ARMS, **parameters)
    twin = twins.empirical_bayes(*history(), arms=ARMS, **parameters)
    assert twin.logpdf is not None
    assert (model.coords["arm"], model.coords["feature"]) == (tuple(ARMS), tuple(FEATURES))
    [draws] = draw(model, "beta", seed=10)
    assert abs(mean_errors(draws, twin.mean)).max() < LIMIT
    assert abs(variance_errors(draws, twin.mean, twin.variance)).max() < LIMIT
    logp = log_density(model)
    for point in draws[:5]:
        assert logp(point) == pytest.approx(twin.logpdf(point), abs=1e-4)
        assert logp(1.05 * point) != pytest.approx(twin.logpdf(point), abs=1e-2)


def test_less_history_means_a_wider_belief(history_file):
    spreads = [
        draw(build("empirical_bayes", history=history_file, arms=ARMS, discount=share), "beta", seed=11)[0].std(axis=0)
        for share in (1.0, 0.3)
    ]
    assert (spreads[1] > spreads[0]).all()
    new, a, *_, rare = spreads[0].mean(axis=1)
    assert new > rare > a


def test_a_history_brings_its_own_labels(history_file):
    model = build("empirical_bayes", history=str(history_file), features=["age"])
    assert model.coords["arm"] == ("a", "b", "c", "rare")
    assert model.coords["feature"] == ("age",)


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "n_features", "n_rows", "tau"), [(3, 5, 30, 0.4), (3, 5, 8, 0.4), (5, 3, 30, 0.1)])
def test_fitted_intervals_hold_about_as_often_as_the_file_says(n_arms, n_features, n_rows, tau):
    module, rng = load("empirical_bayes"), np.random.default_rng(12)
    held = []
    for _ in range(200):
        beta = rng.normal(size=n_features) + tau * rng.normal(size=(n_arms, n_features))
        X = rng.normal(size=(n_arms, n_rows, n_features))
        y = np.einsum("ink,ik->in", X, beta) + 0.5 * rng.normal(size=(n_arms, n_rows))
        gram, moment = np.einsum("inj,ink->ijk", X, X), np.einsum("inj,in->ij", X, y)
        noise, spread = module._fit(gram, moment, float((y**2).sum()), y.size, None)
        mean, covariance, _ = module._posterior(gram, moment, noise, spread)
        held.append(abs(beta - mean) < 1.645 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)))
    assert 0.79 < np.mean(held) < 0.92


HEADER = "arm,reward,x,z"
ROWS = "a,1,1,0\na,2,0,1\na,3,1,1\nb,1,2,1\n"


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("", {}, "must have rows"),
        (HEADER, {}, "must have rows"),
        ("arm,reward\na,1\n", {}, "features"),
        ("arm,x\na,1\n", {}, "reward"),
        (f"{HEADER}\n{ROWS}", {"features": ["x", "age"]}, "age"),
        (f"{HEADER}\n{ROWS}b,1,much,1\n", {}, "much"),
        (f"{HEADER}\n{ROWS}b,1\n", {}, "number in every cell"),
        (f"{HEADER}\n{ROWS}b,1,nan,1\n", {}, "NaN"),
        (f"{HEADER}\n{ROWS},1,1,1\n", {}, "without an arm"),
        (f"{HEADER}\n{ROWS}", {"arms": ["a", "c"]}, "every arm of the history"),
        (f"{HEADER}\n{ROWS}", {"arms": ["a", "b", "b"]}, "distinct"),
        (f"{HEADER}\na,1,1,0\na,2,0,1\na,3,1,1\n", {}, "two or more arms"),
        (f"{HEADER}\na,1,1,0\nb,2,0,1\nb,3,1,1\n", {}, "more rows than features"),
        (f"{HEADER}\na,1,1,2\na,2,2,4\na,3,1,2\nb,1,2,4\n", {}, "collinear"),
    ],
)
def test_a_bad_history_is_named_in_one_line(tmp_path, text, parameters, message):
    path = tmp_path / "history.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        build("empirical_bayes", history=path, **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["arm,reward,größe\na,1,2\n".encode("latin-1"), "arm,reward,x\n".encode("utf-16")])
def test_a_history_in_another_encoding_is_named_in_one_line(tmp_path, content):
    (tmp_path / "history.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"^history.csv must be a CSV file in UTF-8: save or export it as such\.$"):
        build("empirical_bayes", history=tmp_path / "history.csv")


# --- parameters that cannot be ----------------------------------------------------------------------------------------

ELEMENTWISE = ("gaussian", "student_t", "laplace", "unknown_noise", "per_arm", "skewed")
ONE_SCALE = ("horseshoe", "hierarchical", "correlated")
ONE_VARIANCE = ("setting_1", "setting_2", "setting_4", "warfarin_physician")
SIZED = [name for name in NAMES if name != "warfarin_physician"]
COUNTS = (0, 1, 2.5, "abc", True)
LABELLED = [name for name in NAMES if name not in ("empirical_bayes", "warfarin_physician")]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        *[(name, {"scale": 0.0}, "scale must be finite and positive") for name in ELEMENTWISE],
        *[(name, {"scale": [0.5, 0.5]}, "scale must be one number, one per arm") for name in ELEMENTWISE],
        *[(name, {"mean": np.nan}, "mean must be finite") for name in (*ELEMENTWISE, "horseshoe", "correlated")],
        *[(name, {"arms": ["a", "a"]}, "distinct arm labels") for name in LABELLED],
        *[(name, {"n_features": 0}, "n_features must be an integer of at least 1, got 0") for name in NAMES],
        *[
            (name, {"n_arms": n}, f"n_arms must be an integer of at least 2, got {n!r}")
            for name in SIZED
            for n in COUNTS
        ],
        *[(name, {"arms": "a"}, "arms must be a list of labels, got 'a': write arms=") for name in NAMES],
        *[(name, {"features": 3}, "features must be a list of labels, got 3") for name in NAMES],
        *[(name, {"scale": "abc"}, "scale must be one number.*got 'abc'") for name in ELEMENTWISE],
        *[(name, {"scale": "abc"}, "scale must be positive and finite, got 'abc'") for name in ONE_SCALE],
        *[(name, {"variance": "abc"}, "variance must be positive and finite, got 'abc'") for name in ONE_VARIANCE],
        *[(name, {"variance": 0.0}, "variance must be positive") for name in ONE_VARIANCE],
        ("gaussian", {"mean": np.zeros((2, 5))}, r"of shape \(3, 5\), got shape \(2, 5\)"),
        ("gaussian", {"arms": ["a"]}, "arms must be 2 or more distinct arm labels"),
        ("gaussian", {"mean": [[1.0], [2.0, 3.0]]}, "mean must be one number"),
        ("student_t", {"nu": 1.0}, "nu must be finite and exceed 1"),
        ("per_arm", {"nu": 1.0}, "nu must be finite and exceed 2"),
        ("per_arm", {"families": ["cauchy"]}, "families must be"),
        ("per_arm", {"families": []}, "families must be"),
        ("per_arm", {"families": "laplace"}, "families must be a list of .*, got 'laplace'"),
        ("per_arm", {"families": 3}, "families must be a list"),
        ("student_t", {"nu": "abc"}, "nu must be finite and exceed 1, for the mean to exist, got 'abc'"),
        ("horseshoe", {"slab_nu": 2.0}, "slab_nu must be finite and exceed 2"),
        ("horseshoe", {"scale": -1.0}, "scale must be positive"),
        ("mixture", {"weights": (0.5, 0.6)}, "sum to one"),
        ("mixture", {"weights": (1.0, 0.0)}, "must be positive"),
        ("mixture", {"weights": 0.5}, "two entries each"),
        ("mixture", {"weights": ("a", "b")}, "weights must be positive and finite, got 'a'"),
        ("mixture", {"scales": "ab"}, "two entries each"),
        ("mixture", {"scales": (0.5, 0.0)}, "scales must be positive"),
        ("mixture", {"means": (0.5,)}, "two entries each"),
        ("mixture", {"means": (0.5, [0.0, 0.0])}, "means must be one number"),
        ("skewed", {"family": "normal"}, "family must be"),
        ("skewed", {"mean": 0.0}, "mean must be finite and positive"),
        ("hierarchical", {"tau": 0.0}, "must be positive"),
        ("hierarchical", {"mean": np.inf}, "mean must be finite"),
        ("hierarchical", {"scale": np.inf}, "must be positive and finite"),
        ("correlated", {"eta": 0.0}, "must be positive"),
        ("correlated", {"n_features": 1}, "two or more"),
        ("unknown_noise", {"noise_scale": 0.0}, "noise_scale must be positive"),
        ("setting_3", {"lam": 0.0}, "lam must be positive"),
        ("warfarin_physician", {"n_arms": 2}, "three arms"),
        ("warfarin_physician", {"n_arms": 2.5}, "three arms"),
        ("warfarin_physician", {"arms": ["low", "high"]}, "three arms"),
        ("warfarin_physician", {"variance": -0.4}, "variance must be positive"),
        ("empirical_bayes", {"history": "no_such_file.csv"}, "No history at no_such_file.csv"),
        ("empirical_bayes", {"history": 3}, "No history at 3"),
        ("empirical_bayes", {"discount": 0.0}, "discount must be positive"),
        ("empirical_bayes", {"discount": 1.5}, "discount must be above 0 and at most 1"),
        ("empirical_bayes", {"discount": "abc"}, "discount must be positive and finite, got 'abc'"),
        ("empirical_bayes", {"tau": -1.0}, "tau must be positive"),
    ],
)
def test_a_bad_parameter_is_named_in_one_line(name, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        build(name, **parameters)
    assert "\n" not in str(caught.value)
