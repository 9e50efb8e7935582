"""Beliefs from what people say: known quantiles come back, planted errors do not, bad answers are refused."""
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.belief.answers import read_answers
from rcb_bayes.belief.comparing import chance_better, quantiles_of
from rcb_bayes.belief.elicited_file import as_records, belief_text
from rcb_bayes.errors import BeliefError, BeliefWarning, RcbError

ARMS = ("old", "new", "third")
LEVELS = (0.1, 0.5, 0.9)
RNG = np.random.default_rng(5)
USERS = RNG.uniform(-1.0, 1.0, size=(8, 2))
MEANS = RNG.normal(0.0, 0.4, size=(3, 3))
ROOTS = RNG.normal(0.0, 0.3, size=(3, 3, 3))
COVARIANCES = ROOTS @ np.swapaxes(ROOTS, 1, 2)


def told(mean, covariance, *, arm: str, users=USERS, rival: str | None = None, shift: float = 0.0, expert="ann"):
    """What somebody with a known belief about (1, age, dose) would say."""
    rows = []
    for x in users:
        features = np.array([1.0, *x])
        centre, spread = features @ mean, np.sqrt(features @ covariance @ features)
        quantiles = {f"q{100 * p:g}": centre + shift + spread * norm.ppf(p) for p in LEVELS}
        rows.append({"expert": expert, "arm": arm, "rival": rival or "", "age": x[0], "dose": x[1]} | quantiles)
    return rows


def everything(**changes):
    return [row for k, arm in enumerate(ARMS) for row in told(MEANS[k], COVARIANCES[k], arm=arm, **changes)]


def test_a_known_belief_comes_back() -> None:
    prior = rcb.Prior.from_quantiles(everything())
    assert (prior.arms, prior.features, prior.inputs) == (ARMS, ("intercept", "age", "dose"), ("age", "dose"))
    np.testing.assert_allclose(prior.mean, MEANS, atol=1e-8)
    for k, arm in enumerate(ARMS):
        np.testing.assert_allclose(prior.covariance.sel(arm=arm, arm_2=arm), COVARIANCES[k], atol=1e-7)
    assert prior.arms_independent
    assert prior.fit.fits
    assert prior.fit.spread == "full"
    assert "fitted to 72 quantiles (full)" in prior.describe()


def test_a_planted_error_does_not_fit() -> None:
    rows = everything()
    rows[3]["q90"] += 1.0
    with pytest.warns(BeliefWarning, match="off by .* standard deviations at arm 'old' for age="):
        prior = rcb.Prior.from_quantiles(rows)
    assert not prior.fit.fits
    assert np.abs(prior.mean.values - MEANS).max() > 1e-3


def test_answers_with_errors_of_their_own() -> None:
    """Quantiles told with noise: means within errors of least squares, over 60 repetitions."""
    rng = np.random.default_rng(9)
    noise, found = 0.01, []
    for _ in range(60):
        rows = [
            row | {q: row[q] + noise * rng.standard_normal() for q in ("q10", "q50", "q90")} for row in everything()
        ]
        found.append(rcb.Prior.from_quantiles(rows).mean.values)
    centre, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(60)
    assert (np.abs(centre - MEANS) < 4.5 * error).all()
    assert not (np.abs(centre + noise - MEANS) < 4.5 * error).all()


def test_differences_from_a_rival_add_up() -> None:
    rows = told(MEANS[0], COVARIANCES[0], arm="old") + told(MEANS[1], COVARIANCES[1], arm="new", rival="old")
    rows += told(MEANS[2], COVARIANCES[2], arm="third", rival="new")
    prior = rcb.Prior.from_quantiles(rows)
    np.testing.assert_allclose(prior.mean, np.cumsum(MEANS, axis=0), atol=1e-8)
    sums = np.cumsum(COVARIANCES, axis=0)
    for a in range(3):
        for b in range(3):
            found = prior.covariance.sel(arm=ARMS[a], arm_2=ARMS[b])
            np.testing.assert_allclose(found, sums[min(a, b)], atol=1e-7)


def test_few_users_tell_variances_only() -> None:
    square = np.diag([0.04, 0.09, 0.01])
    rows = [row for k, arm in enumerate(ARMS) for row in told(MEANS[k], square, arm=arm, users=USERS[:4])]
    prior = rcb.Prior.from_quantiles(rows)
    assert prior.fit.spread == "diagonal"
    np.testing.assert_allclose(prior.covariance.sel(arm="new", arm_2="new"), square, atol=1e-7)


def test_chances_on_the_logit_scale() -> None:
    rows = everything()
    chances = [row | {q: 1.0 / (1.0 + np.exp(-row[q])) for q in ("q10", "q50", "q90")} for row in rows]
    prior = rcb.Prior.from_quantiles(chances, link="logit")
    np.testing.assert_allclose(prior.mean, MEANS, atol=1e-7)


def test_tables_of_every_kind_say_the_same(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rows = everything()
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "answers.csv", index=False)
    long = [
        {"arm": row["arm"], "age": row["age"], "dose": row["dose"], "level": p, "value": row[f"q{100 * p:g}"]}
        for row in rows
        for p in LEVELS
    ]
    for table in (frame, frame.to_dict("list"), long, str(tmp_path / "answers.csv"), tmp_path / "answers.csv"):
        np.testing.assert_allclose(rcb.Prior.from_quantiles(table).mean, MEANS, atol=1e-8)


def test_experts_are_pooled_or_taken_one_by_one() -> None:
    rows = everything() + everything(shift=0.5, expert="bob")
    both = rcb.Prior.from_quantiles(rows, weights={"ann": 3.0, "bob": 1.0})
    assert both.is_mixture
    assert both.fit.n_experts == 2
    x = np.array([1.0, 0.2, -0.3])
    np.testing.assert_allclose(both.mean.values @ x, MEANS @ x + 0.125, atol=1e-7)
    bob = rcb.Prior.from_quantiles(rows, expert="bob")
    np.testing.assert_allclose(bob.mean.values @ x, MEANS @ x + 0.5, atol=1e-7)
    types = [
        rcb.UserType(name=one, share=0.5, prior=rcb.Prior.from_quantiles(rows, expert=one)) for one in ("ann", "bob")
    ]
    assert [one.prior.arms for one in types] == [ARMS, ARMS]


def test_what_a_belief_says_of_a_user() -> None:
    prior = rcb.Prior.from_quantiles(everything() + everything(shift=0.5, expert="bob"))
    features = np.array([1.0, 0.3, -0.4])
    draws = prior.draw_arrays(200_000, rng=np.random.default_rng(1))[0] @ features
    error = 4.5 * np.sqrt(0.25 / 200_000)
    assert (np.abs((draws > draws[:, :1]).mean(axis=0) - chance_better(prior, features)) < error).all()
    low = quantiles_of(prior, features, levels=(0.1,))[:, 0]
    assert (np.abs((draws < low).mean(axis=0) - 0.1) < error).all()
    assert not (np.abs((draws < low + 0.02).mean(axis=0) - 0.1) < error).all()


def test_a_file_to_read_and_edit(tmp_path: Path) -> None:
    rows = everything() + everything(shift=0.5, expert="bob")
    answers = read_answers(rows)
    weights = {"ann": 2.0, "bob": 1.0}
    text = belief_text(answers, name="mine.py", intercept=True, link="identity", weights=weights)
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    prior = rcb.load_prior(tmp_path / "mine.py")
    direct = rcb.Prior.from_quantiles(rows, weights=weights)
    np.testing.assert_allclose(prior.mean, direct.mean, atol=1e-9)
    np.testing.assert_allclose(prior.covariance, direct.covariance, atol=1e-9)
    assert (prior.name, prior.inputs) == ("mine", ("age", "dose"))
    assert as_records(answers)[0]["arm"] == "old"
    edited = text.replace("INTERCEPT = True", "INTERCEPT = False")
    (tmp_path / "mine.py").write_text(edited, encoding="utf-8")
    with pytest.warns(BeliefWarning, match="off by"):
        assert rcb.load_prior(tmp_path / "mine.py").features == ("age", "dose")


GOOD = {"arm": ["a", "a", "b", "b"], "age": [0.0, 1.0, 0.0, 1.0], "q10": [0.0] * 4, "q90": [1.0] * 4}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q10": [0.0, 2.0, 0.0, 0.0]}, "arm 'a' for age=1 cross: 2 at level 0.1, then 1 at level 0.9"),
        ({"q10": [0.0, 1.0, 0.0, 0.0]}, "cross"),
        ({"q150": [2.0, 2.0, 2.0, 2.0]}, "q1 to q99, the level in per cent, got 'q150'"),
        ({"q0": [2.0, 2.0, 2.0, 2.0]}, "q1 to q99, the level in per cent, got 'q0'"),
        (
            {"age": [0.0, 0.0, 0.0, 1.0], "q10": [0.0, 0.5, 0.0, 0.0]},
            "two values of arm 'a' for age=0 at level 0.1: 0 and 0.5",
        ),
        ({"q10": [0.0, None, 0.0, 0.0]}, "Two quantiles tell a centre and a spread; got 1 of arm 'a' for age=1"),
        ({"q10": [0.0, "low", 0.0, 0.0]}, "Row 2 of the answers: a quantile must be a finite number, got 'low'"),
        ({"q10": [0.0, float("inf"), 0.0, 0.0]}, "must be a finite number"),
        ({"age": [0.0, float("nan"), 0.0, 1.0]}, "Row 2 of the answers: age must be a finite number"),
        ({"age": [0.5, 0.5, 0.0, 1.0]}, "cross|tell 1 of 2 coefficients"),
        ({"age": None}, "column for each covariate"),
        ({"arm": None}, "need a column 'arm'"),
        ({"arm": ["a"] * 4, "age": [0.0, 1.0, 2.0, 3.0]}, "at least two arms"),
        ({"q10": None, "q90": None}, "columns such as q10"),
        ({"rival": ["b", "b", "a", "a"]}, "in a circle"),
        ({"rival": ["", "", "c", "c"]}, "No answer is about the arm 'c'"),
        ({"rival": ["", "", "a", ""]}, "choose one rival"),
        ({"rival": ["a", "a", "", ""]}, "own rival"),
        ({"q10": [0.0, 0.0]}, "different lengths"),
    ],
)
def test_answers_that_tell_no_belief(changes, message) -> None:
    table = {name: part for name, part in (GOOD | changes).items() if part is not None}
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.from_quantiles(table)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"link": "log"}, "link must be one of identity, logit"),
        ({"link": "logit"}, "chances between 0 and 1"),
        ({"expert": "carl"}, "no expert 'carl'"),
        ({"weights": {"carl": 1.0}}, "'carl' is none of them"),
        ({"weights": {"expert": -1.0}}, "at least 0"),
    ],
)
def test_requests_that_do_not_fit(asked, message) -> None:
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.from_quantiles(GOOD, **asked)


def test_no_table_at_all() -> None:
    for nothing in ([], 3, [1, 2]):
        with pytest.raises(BeliefError, match="must be a table"):
            rcb.Prior.from_quantiles(nothing)


def test_the_name_of_a_file_is_no_code() -> None:
    answers = read_answers(everything())
    name = 'x"""\nimport os; os.mkdir("made")\n"""\\.py'
    text = belief_text(answers, name=name, intercept=True, link="identity", weights=None)
    assert [type(part).__name__ for part in ast.parse(text).body[:3]] == ["Expr", "Import", "Assign"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": "\x1b[31mnew"}, "arm labels must be text that can be seen"),
        ({"expert": "a\nb"}, "expert labels must be text that can be seen"),
        ({"arm": ""}, "Row 1 of the answers names no arm"),
        ({"q10": -1e308}, "q10 must be a finite number|a quantile must be a finite number"),
    ],
)
def test_names_and_numbers_that_no_file_could_have(change: dict, message: str) -> None:
    rows = [{"arm": "new", "age": 1.0, "q10": 0.0, "q90": 1.0, **change}]
    with pytest.raises(RcbError, match=message):
        read_answers(rows)


def test_a_rival_called_0_is_one() -> None:
    rows = [{"arm": 1, "rival": 0, "age": 1.0, "q10": 0.0, "q90": 1.0}]
    assert read_answers(rows).answers[0].rival == "0"
