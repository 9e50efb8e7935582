"""Which engine answers, why, what happens to what it does not vouch for, and how the answers are put together."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import BeliefError, DataError, RcbError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise
from rcb_bayes.posterior import (
    ENGINES,
    DiagnosticWarning,
    PosteriorBatch,
    Rows,
    Statistics,
    make_engine,
    posterior_means,
)
from rcb_bayes.posterior import engines as engines_module
from rcb_bayes.posterior import importance as importance_module
from rcb_bayes.posterior import laplace as laplace_module
from rcb_bayes.posterior import vouching as vouching_module
from rcb_bayes.posterior.engines import CheckedEngine, check_data
from rcb_bayes.posterior.importance import Attempt
from rcb_bayes.posterior.nuts import Chains, NutsEngine, NutsSettings, diagnose
from rcb_bayes.posterior.results import linear_rewards, merged, users_of, warn_if_not_vouched
from rcb_bayes.posterior.stretched import StretchedEngine
from rcb_bayes.schema import FloatArray
from tests.posterior.references import LIMIT, bernoulli_rows
from tests.posterior.twins import simulate_statistics

SIGMA = 0.3
KNOWN = GaussianNoise(SIGMA)
UNKNOWN = GaussianNoise()
BINARY = BernoulliLogit()


def gallery(name: str, **parameters: Any) -> Prior:
    return load_prior(name, n_arms=2, n_features=2, **parameters)


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "noise", "engine", "why"),
    [
        ("gaussian", KNOWN, "exact", "the belief is Gaussian"),
        ("mixture", KNOWN, "exact", "a finite mixture of Gaussians"),
        ("student_t", KNOWN, "importance", "has a density"),
        ("skewed", KNOWN, "importance", "has a density"),
        ("per_arm", KNOWN, "importance", "has a density"),
        ("hierarchical", KNOWN, "conditional", "Gaussian given its scales"),
        ("horseshoe", KNOWN, "conditional", "Gaussian given its scales"),
        ("unknown_noise", UNKNOWN, "conditional", "Gaussian given its scales"),
        ("gaussian", BINARY, "laplace", "Bernoulli rewards and a belief with a density"),
        ("mixture", BINARY, "laplace", "Bernoulli rewards and a belief with a density"),
        ("skewed", BINARY, "laplace", "Bernoulli rewards and a belief with a density"),
        ("hierarchical", BINARY, "laplace", "Bernoulli rewards and a belief with a density"),
        ("horseshoe", BINARY, "nuts", "any belief"),
    ],
)
def test_auto_picks_what_the_table_says(name: str, noise: Noise, engine: str, why: str):
    chosen = make_engine(gallery(name), noise)
    assert chosen.name == engine
    assert chosen.reason.startswith(f"{engine}: ")
    assert why in chosen.reason
    assert ("goes to nuts" in chosen.reason) == (engine in ("importance", "conditional", "gibbs", "laplace"))
    assert make_engine(gallery(name), noise, engine=engine).reason == chosen.reason


@pytest.mark.parametrize(("n_features", "engine"), [(2, "conditional"), (30, "nuts")])
def test_an_unknown_noise_with_few_and_with_many_heavy_tails(n_features: int, engine: str):
    import pymc

    pm: Any = pymc
    with pm.Model(coords={"arm": ["a", "b"], "feature": [f"x{k}" for k in range(n_features)]}) as model:
        pm.StudentT("beta", nu=4.0, mu=0.0, sigma=1.0, dims=("arm", "feature"))
        pm.HalfNormal("sigma", 1.0)
    assert make_engine(Prior.from_pymc(model), UNKNOWN).name == engine


@pytest.mark.parametrize(
    ("name", "noise", "engine", "message"),
    [
        ("gaussian", KNOWN, "exakt", "no engine 'exakt'. Did you mean 'exact'"),
        ("gaussian", KNOWN, "stan", "Use one of auto, exact, importance, conditional, gibbs, laplace, nuts"),
        ("student_t", KNOWN, "exact", "'student_t' is not that.*engine='auto'"),
        ("unknown_noise", UNKNOWN, "exact", "known sigma"),
        ("hierarchical", KNOWN, "importance", "needs a density.*engine='conditional' or engine='nuts'"),
        ("unknown_noise", UNKNOWN, "importance", "known sigma.*engine='conditional' or engine='nuts'"),
        ("skewed", KNOWN, "conditional", "Gaussian given its scales.*engine='auto' or engine='nuts'"),
        ("gaussian", KNOWN, "laplace", "for Bernoulli rewards"),
        ("gaussian", BINARY, "exact", "for Gaussian rewards.*'laplace', 'nuts' or 'auto'"),
        ("student_t", BINARY, "importance", "for Gaussian rewards"),
        ("hierarchical", BINARY, "conditional", "for Gaussian rewards"),
        ("horseshoe", BINARY, "laplace", "needs a density.*engine='nuts'"),
        ("gaussian", UNKNOWN, "auto", "no variable 'sigma'"),
        ("gaussian", UNKNOWN, "nuts", "no variable 'sigma'"),
        ("hierarchical", UNKNOWN, "conditional", "no variable 'sigma'"),
    ],
)
def test_what_cannot_be_done_is_said_before_sampling(name: str, noise: Noise, engine: str, message: str):
    with pytest.raises(RcbError, match=message):
        make_engine(gallery(name), noise, engine=engine)


def test_every_name_is_known():
    assert set(ENGINES) == {"exact", "importance", "conditional", "gibbs", "laplace", "nuts"}


# --- data that do not fit --------------------------------------------------------------------------------------------


def test_data_of_another_kind_or_size():
    prior = gallery("gaussian")
    statistics = simulate_statistics(prior, 3, SIGMA, 2, 0)
    rows = bernoulli_rows(prior, 3, n_sets=2, seed=0)
    other = simulate_statistics(load_prior("gaussian", n_arms=3, n_features=2), 3, SIGMA, 2, 0)
    for call, message in (
        (lambda: posterior_means(prior, KNOWN, rows), "Gaussian rewards are given as Statistics"),
        (lambda: posterior_means(prior, BINARY, statistics), "Bernoulli rewards are given as Rows"),
        (lambda: posterior_means(prior, KNOWN, other), "3 arms and 2 features, the belief 2 and 2"),
        (lambda: check_data(prior, KNOWN, statistics, n_sets=1), "Expected 1 data set.*posterior_means"),
        (lambda: make_engine(prior, KNOWN).fit(rows), "Gaussian rewards are given as Statistics"),
        (lambda: make_engine(prior, BINARY).fit(statistics), "Bernoulli rewards are given as Rows"),
        (lambda: make_engine(gallery("student_t"), KNOWN).fit(rows), "Gaussian rewards are given as Statistics"),
    ):
        with pytest.raises(DataError, match=message):
            call()


@pytest.mark.parametrize("name", ["gaussian", "student_t", "hierarchical"])
def test_no_data_sets(name: str):
    prior = gallery(name)
    nothing = simulate_statistics(prior, 3, SIGMA, 2, 0).take(slice(0, 0))
    batch = make_engine(prior, KNOWN).fit(nothing, covariance=True)
    assert batch.mean.shape == (0, 2, 2)
    assert batch.covariance is not None
    assert batch.covariance.shape == (0, 4, 4)
    assert batch.vouched.shape == (0,)


# --- what is sent on -------------------------------------------------------------------------------------------------


class Recorder:
    """Stands in for NUTS: remembers what it was sent, and answers with means of 7."""

    name = "nuts"
    discrete = ()

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.sent: list[Statistics | Rows] = []
        self.users: list[FloatArray | None] = []

    def fit(self, data: Any, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        self.sent.append(data)
        self.users.append(users)
        m, size = data.n_sets, self.prior.n_arms * self.prior.n_features
        return PosteriorBatch(
            mean=np.full((m, self.prior.n_arms, self.prior.n_features), 7.0),
            covariance=np.tile(np.eye(size), (m, 1, 1)) if covariance else None,
            vouched=np.arange(m) % 2 == 0,
            engine=np.full(m, "nuts", dtype=object),
            diagnostics={"rhat": np.full(m, 1.005), "ess_bulk": np.full(m, 500.0), "divergences": np.zeros(m)},
            reward=None if users is None else np.full((m, users.shape[-2], self.prior.n_arms), 7.0),
        )

    def draw(self, data: Any, n: int, *, rng: np.random.Generator) -> FloatArray:
        self.sent.append(data)
        return np.full((data.n_sets, n, self.prior.n_arms, self.prior.n_features), 7.0)


@pytest.fixture(autouse=True)
def no_gibbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not vouched for goes straight to NUTS; ``test_gibbs`` has the way in between."""
    monkeypatch.setattr(engines_module, "_gibbs_or_none", lambda *_: None)


def watched(engine: Any) -> tuple[CheckedEngine, Recorder]:
    assert isinstance(engine, CheckedEngine)
    recorder = Recorder(engine.prior)
    engine.nuts = recorder  # type: ignore[assignment]
    return engine, recorder


def hard_and_easy(prior: Prior) -> Statistics:
    """Data sets of which those at 1 and 4 say, not too loudly, that the belief is far off: few draws fit."""
    data = simulate_statistics(prior, 20, SIGMA, 6, 0)
    hard = np.isin(np.arange(6), (1, 4))
    xtx = np.where(hard[:, None, None, None], 0.02 * np.eye(2), data.xtx)
    xty = np.where(hard[:, None, None], 0.02 * 12.0, data.xty)
    return Statistics(xtx=xtx, xty=xty, yty=data.yty + 100.0, n=data.n)


@pytest.mark.parametrize("own_users", [False, True])
def test_exactly_what_is_not_vouched_for_is_sent(own_users: bool, monkeypatch: pytest.MonkeyPatch):
    prior = gallery("student_t", nu=3.0)
    monkeypatch.setattr(importance_module, "LADDER", (Attempt("moments", 256),) * 2)  # no better try
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", 100.0)
    engine, recorder = watched(make_engine(prior, KNOWN))
    data = hard_and_easy(prior)
    users = np.random.default_rng(0).standard_normal((6, 3, 2) if own_users else (3, 2))
    first = engine._first.fit(data, covariance=True, users=users)
    sent = np.flatnonzero(~first.vouched)
    assert {1, 4} <= set(sent) < set(range(6))

    batch = engine.fit(data, covariance=True, users=users)
    assert batch.n_sent == len(sent)
    np.testing.assert_array_equal(batch.engine == "nuts", ~first.vouched)
    (received,) = recorder.sent
    np.testing.assert_array_equal(received.xty, data.xty[sent])  # type: ignore[union-attr]
    (asked,) = recorder.users
    assert asked is not None
    np.testing.assert_array_equal(asked, users[sent] if own_users else users)
    np.testing.assert_array_equal(batch.mean[sent], 7.0)
    np.testing.assert_array_equal(batch.mean[first.vouched], first.mean[first.vouched])
    np.testing.assert_array_equal(batch.vouched[sent], np.arange(len(sent)) % 2 == 0)
    assert batch.reward is not None
    np.testing.assert_array_equal(batch.reward[sent], 7.0)
    assert np.isnan(batch.diagnostics["khat"][sent]).all()
    assert np.isnan(batch.diagnostics["rhat"][first.vouched]).all()
    assert "goes to nuts" in batch.reason


def test_nothing_is_sent_where_all_is_well():
    engine, recorder = watched(make_engine(gallery("student_t"), KNOWN))
    batch = engine.fit(simulate_statistics(engine.prior, 20, SIGMA, 5, 0))
    assert batch.vouched.all()
    assert batch.n_sent == 0
    assert not recorder.sent
    assert set(batch.engine) == {"importance"}


def test_draws_are_sent_on_too(monkeypatch: pytest.MonkeyPatch):
    engine, recorder = watched(make_engine(gallery("student_t"), KNOWN))
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", np.inf)
    draws = engine.draw(simulate_statistics(engine.prior, 20, SIGMA, 2, 0), 10, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(draws, 7.0)
    assert len(recorder.sent) == 1


def test_bernoulli_rewards_are_sent_on_too(monkeypatch: pytest.MonkeyPatch):
    engine, recorder = watched(make_engine(gallery("gaussian"), BINARY))
    monkeypatch.setattr(vouching_module, "MIN_EFFECTIVE_SIZE", np.inf)
    batch = engine.fit(bernoulli_rows(engine.prior, 10, n_sets=3, seed=0), users=np.ones((2, 2)))
    assert batch.n_sent == 3
    assert len(recorder.sent) == 1
    np.testing.assert_array_equal(batch.mean, 7.0)


def test_beliefs_with_discrete_variables_keep_what_they_have(monkeypatch: pytest.MonkeyPatch):
    engine, recorder = watched(make_engine(gallery("student_t"), KNOWN))
    recorder.discrete = ("label",)  # type: ignore[assignment]
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", np.inf)
    batch = engine.fit(simulate_statistics(engine.prior, 20, SIGMA, 2, 0))
    assert not batch.vouched.any()
    assert batch.n_sent == 0
    assert not recorder.sent


@cache
def two_spikes() -> Prior:
    """A mixture of Student-t's, which no closed form covers."""
    import pymc

    pm: Any = pymc
    parts = [pm.StudentT.dist(nu=3.0, mu=m, sigma=0.3) for m in (3.0, -3.0)]
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["x", "y"]}) as model:
        pm.Mixture("beta", w=[0.5, 0.5], comp_dists=parts, dims=("arm", "feature"))
    return Prior.from_pymc(model)


@pytest.mark.parametrize(("belief", "expected"), [("mixture", False), ("student_t", True)])
@pytest.mark.parametrize("chain", ["importance", "laplace", "nuts", "nuts, 0/1", "stretched"])
def test_the_end_of_every_chain_marks_what_nobody_vouches_for(
    chain: str, belief: str, expected: bool, monkeypatch: pytest.MonkeyPatch
):
    """Chains that look perfect, of a mixture: the last batch says that it is not vouched for."""
    prior = two_spikes() if belief == "mixture" else gallery("student_t")
    perfect = np.random.default_rng(0).standard_normal((2, 1000, 2, 2))
    monkeypatch.setattr(NutsEngine, "_chains", lambda self, data, *, seed: Chains(perfect, diagnose(perfect, 0)))
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", np.inf)  # the first engines vouch for nothing
    monkeypatch.setattr(laplace_module, "_LADDER", (64,))
    monkeypatch.setattr(importance_module, "LADDER", (Attempt("moments", 256),) * 2)
    binary = chain in ("laplace", "nuts, 0/1")
    data = bernoulli_rows(prior, 5, n_sets=3, seed=0) if binary else simulate_statistics(prior, 5, SIGMA, 3, 0)
    if chain == "stretched":
        engine = StretchedEngine(prior, KNOWN, factor=2.0)
    else:
        engine = make_engine(prior, BINARY if binary else KNOWN, engine=chain.split(",")[0])
    batch = engine.fit(data)
    assert set(batch.engine) == {"nuts"}
    assert (batch.vouched == expected).all()
    assert not expected or not (batch.diagnostics["rhat"] > 1.01).any()


def test_posterior_means_warn(monkeypatch: pytest.MonkeyPatch):
    prior = gallery("student_t")
    data = simulate_statistics(prior, 20, SIGMA, 3, 0)
    posterior_means(prior, KNOWN, data)  # no warning: the suite would fail
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", np.inf)
    monkeypatch.setattr(CheckedEngine, "fit", lambda self, given, **options: self._first.fit(given, **options))
    with pytest.warns(
        DiagnosticWarning, match=r"3 of 3 posteriors are not vouched for \(k-hat up to .* effective size"
    ):
        batch = posterior_means(prior, KNOWN, data)
    assert not batch.vouched.any()  # and the result is marked


# --- results ---------------------------------------------------------------------------------------------------------


def batch_of(n_sets: int, *, vouched: bool = True, **diagnostics: Any) -> PosteriorBatch:
    return PosteriorBatch(
        mean=np.arange(4.0 * n_sets).reshape(n_sets, 2, 2),
        covariance=np.arange(16.0 * n_sets).reshape(n_sets, 4, 4),
        vouched=np.full(n_sets, vouched),
        engine=np.full(n_sets, "importance", dtype=object),
        diagnostics={name: np.asarray(values, dtype=float) for name, values in diagnostics.items()},
        reason="importance: the belief has a density",
        n_sent=1,
    )


def test_results_with_labels():
    batch = batch_of(3, khat=[0.1, 0.2, 0.3])
    dataset = batch.to_dataset(arms=("a", "b"), features=("x", "y"))
    assert dataset["mean"].dims == ("world", "arm", "feature")
    assert float(dataset["mean"].sel(world=1, arm="b", feature="x")) == batch.mean[1, 1, 0]
    assert batch.covariance is not None
    cell = dataset["covariance"].sel(world=2, arm="a", feature="y", arm_2="b", feature_2="x")
    assert float(cell) == batch.covariance[2, 1, 2]
    assert list(dataset["khat"].values) == [0.1, 0.2, 0.3]
    assert list(dataset["engine"].values) == ["importance"] * 3
    assert dataset.attrs == {"n_sent": 1, "n_not_vouched": 0, "reason": batch.reason}
    assert "covariance" not in replace(batch, covariance=None).to_dataset(arms=("a", "b"), features=("x", "y"))


def test_merged_results():
    first, second = batch_of(4, khat=[0.1, 0.9, 0.2, 0.8]), replace(batch_of(2, rhat=[1.0, 1.2], vouched=False))
    second = replace(second, engine=np.full(2, "nuts", dtype=object), mean=second.mean + 100.0)
    both = merged(first, second, np.array([1, 3]))
    np.testing.assert_array_equal(both.mean[[1, 3]], second.mean)
    np.testing.assert_array_equal(both.mean[[0, 2]], first.mean[[0, 2]])
    np.testing.assert_array_equal(both.vouched, [True, False, True, False])
    assert list(both.engine) == ["importance", "nuts", "importance", "nuts"]
    np.testing.assert_array_equal(both.diagnostics["khat"], [0.1, np.nan, 0.2, np.nan])
    np.testing.assert_array_equal(both.diagnostics["rhat"], [np.nan, 1.0, np.nan, 1.2])
    np.testing.assert_array_equal(first.mean, batch_of(4).mean)  # the parts are as they were
    assert merged(first, replace(second, covariance=None), np.array([1, 3])).covariance is None


@pytest.mark.parametrize(
    ("diagnostics", "message"),
    [
        (
            {"rhat": [1.3, 1.1], "ess_bulk": [30, 150], "divergences": [2, 1]},
            r"r-hat up to 1\.30, .* to 30, 3 divergences",
        ),
        ({"khat": [0.9, np.nan], "effective_size": [12, 80]}, r"k-hat up to 0\.90, effective size down to 12"),
        ({"khat": [np.nan, np.nan]}, "weights collapsed"),
        ({}, "weights collapsed"),
        ({"rhat": [1.0, 1.0], "ess_bulk": [900, 900], "divergences": [0, 0]}, "may miss a camp"),
    ],
)
def test_warnings_say_what_is_wrong_and_what_to_do(diagnostics: dict[str, Any], message: str):
    with pytest.warns(DiagnosticWarning, match=rf"2 of 2 posteriors are not vouched for \(.*{message}.*more draws"):
        warn_if_not_vouched(batch_of(2, vouched=False, **diagnostics))


def test_good_results_do_not_warn():
    batch = batch_of(2, khat=[0.9, 0.9])  # vouched for by whoever made it
    assert warn_if_not_vouched(batch) is batch


def test_users():
    mean = np.random.default_rng(0).standard_normal((3, 2, 4))
    users = np.random.default_rng(1).standard_normal((3, 5, 4))
    own = linear_rewards(mean, users)
    shared = linear_rewards(mean, users[0])
    assert own is not None
    assert shared is not None
    assert own.shape == shared.shape == (3, 5, 2)
    np.testing.assert_allclose(own[2, 4, 1], users[2, 4] @ mean[2, 1])
    np.testing.assert_allclose(shared[2, 4, 1], users[0, 4] @ mean[2, 1])
    assert linear_rewards(mean, None) is None
    assert users_of(None, np.arange(2)) is None
    np.testing.assert_array_equal(users_of(users[0], np.arange(2)), users[0])
    np.testing.assert_array_equal(users_of(users, np.array([2, 0])), users[[2, 0]])


# --- agreement -------------------------------------------------------------------------------------------------------


def standard_errors(prior: Prior, data: Statistics, size: FloatArray) -> FloatArray:
    exact = make_engine(prior, KNOWN, engine="exact").fit(data, covariance=True)
    assert exact.covariance is not None
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2)).reshape(exact.mean.shape)
    return sd / np.sqrt(size)[:, None, None]


def in_draws(prior: Prior, data: Statistics, size: FloatArray) -> Callable[[FloatArray], float]:
    exact = make_engine(prior, KNOWN, engine="exact").fit(data).mean
    return lambda mean: float((np.abs(mean - exact) / standard_errors(prior, data, size)).max())


def test_importance_agrees_with_exact():
    """On Gaussians and on mixtures, as if their closed form were not known."""
    for name in ("gaussian", "mixture"):
        prior = gallery(name)
        data = simulate_statistics(prior, 6, SIGMA, 20, 0)
        batch = make_engine(prior, KNOWN, engine="importance").fit(data)
        distance = in_draws(prior, data, batch.diagnostics["effective_size"])
        assert batch.vouched.all()
        assert set(batch.engine) == {"importance"}
        assert distance(batch.mean) < LIMIT < distance(batch.mean + 0.1)


@pytest.mark.slow
def test_all_engines_agree_on_one_belief():
    """One Gaussian belief, written so that every engine for Gaussian rewards can serve it."""
    import pymc

    pm: Any = pymc
    prior = gallery("gaussian", scale=0.5)
    with pm.Model(coords={"arm": list(prior.arms), "feature": list(prior.features)}) as model:
        scale = pm.Deterministic("scale", 0.5 + 0.0 * pm.HalfNormal("unused", 1.0))
        pm.Normal("beta", 0.0, scale, dims=("arm", "feature"))
    same = Prior.from_pymc(model)
    data = simulate_statistics(prior, 6, SIGMA, 4, 0)
    found = {
        "importance": make_engine(prior, KNOWN, engine="importance").fit(data),
        "nuts": NutsEngine(prior, KNOWN, settings=NutsSettings(draws=4000)).fit(data),
    }
    if same.is_conditionally_gaussian:
        found["conditional"] = make_engine(same, KNOWN, engine="conditional").fit(data)
    for name, batch in found.items():
        size = batch.diagnostics["ess_bulk" if name == "nuts" else "effective_size"]
        distance = in_draws(prior, data, size)
        assert set(batch.engine) == {name}
        assert batch.vouched.all()
        assert distance(batch.mean) < LIMIT < distance(batch.mean + 0.1)
    assert set(found) == {"importance", "nuts", "conditional"}


@pytest.mark.slow
def test_what_comes_back_from_nuts_is_right(monkeypatch: pytest.MonkeyPatch):
    """End to end, with the real sampler, beside what better proposals than the first make of the same data."""
    prior = gallery("student_t", nu=3.0)
    data = hard_and_easy(prior)
    reference = make_engine(prior, KNOWN).fit(data, covariance=True)
    monkeypatch.setattr(importance_module, "LADDER", (Attempt("moments", 256),) * 2)
    batch = make_engine(prior, KNOWN).fit(data)
    sent = batch.engine == "nuts"
    assert sent[[1, 4]].all()
    assert batch.n_sent == sent.sum()
    kept = sent & batch.vouched & reference.vouched
    assert kept[[1, 4]].any()
    assert reference.covariance is not None
    sd = np.sqrt(np.diagonal(reference.covariance, axis1=1, axis2=2)).reshape(reference.mean.shape)
    share = 1.0 / batch.diagnostics["ess_bulk"] + 1.0 / reference.diagnostics["effective_size"]
    distance = np.abs(batch.mean - reference.mean) / (sd * np.sqrt(share)[:, None, None])
    assert distance[kept].max() < LIMIT


def test_beliefs_without_a_density_say_why():
    with pytest.raises(BeliefError, match=r"which 'hierarchical' lacks \(.+\)"):
        make_engine(gallery("hierarchical"), KNOWN, engine="importance")
