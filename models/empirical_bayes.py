"""Empirical Bayes: fitted to past outcomes in a CSV file.

The history has one row per outcome: a column ``arm``, a column ``reward`` and one column per feature. It is taken as

    y_i = X_i beta_i + noise,  noise ~ Normal(0, sigma^2),  beta_i ~ Normal(m, tau^2 I),  m unknown (flat)

with sigma and tau, the spread between arms, fitted by restricted maximum likelihood (EM). Given these,

    C_i = (X_i'X_i/sigma^2 + I/tau^2)^-1                          the error of arm i's own estimate, m being known
    M = (sum_i (I - C_i/tau^2)/tau^2)^-1                          the error of the common mean
    m = M sum_i C_i X_i'y_i/(sigma tau)^2                         the common mean
    beta_i ~ Normal(C_i (X_i'y_i/sigma^2 + m/tau^2),  C_i + C_i M C_i/tau^4)

so the prior mean is arm i's ridge estimate, shrunk towards m. An arm named in ``arms`` but absent from the file is new:
it gets Normal(m, tau^2 I + M). ``discount`` below one makes a past outcome count for that share of one (a power prior),
for a history that is old or comes from elsewhere.

Applicability
-------------
Who got which arm must have depended on the features alone: choices driven by anything unseen bias the estimates. One
tau serves all features, so put them on one scale. With few arms tau is poorly known, and near zero if they differ by
less than chance: then give it. Its error is left out, so that with three to five arms a 90 % interval holds 80 to 90 %
of the time. Arms come out independent, although they share the error of m.
Without ``history`` a small SYNTHETIC one is made, with a fixed seed, so that the example runs: replace it.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pymc as pm

from rcb_bayes.authoring import labelled_coords, number_above


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 5,
    history: str | Path | None = None,
    tau: float | None = None,
    discount: float = 1.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief fitted to the file ``history``, which brings its own sizes; ``n_arms`` and ``n_features`` without one.

    ``arms`` orders the arms and may add new ones, ``features`` picks columns, ``tau`` is the spread if it is known.
    """
    if number_above(discount, name="discount") > 1:
        raise ValueError(f"discount must be above 0 and at most 1, got {discount}.")
    tau = None if tau is None else number_above(tau, name="tau", why="or None to be fitted")
    given = labelled_coords(n_arms, n_features, arms=arms, features=features)
    if history is None:
        arms, features = given["arm"], given["feature"]
        arm, X, y = _synthetic_history(arms, len(features))
    else:
        arm, X, y, features = _read_history(history, None if features is None else given["feature"])
        arms = sorted(set(arm)) if arms is None else given["arm"]
    _check(Counter(arm), arms, features, rank=int(np.linalg.matrix_rank(X)), tau=tau)
    rows = [np.array([label == name for label in arm]) for name in arms]
    gram = np.stack([X[own].T @ X[own] for own in rows])  # (n_arms, n_features, n_features)
    moment = np.stack([X[own].T @ y[own] for own in rows])  # (n_arms, n_features)
    noise, spread = _fit(gram, moment, float(y @ y), len(y), tau)
    mean, covariance, _ = _posterior(discount * gram, discount * moment, noise, spread)
    with pm.Model(coords={"arm": arms, "feature": features}) as model:
        pm.MvNormal("beta", mean, cov=covariance, dims=("arm", "feature"))
    return model


def _posterior(
    gram: np.ndarray, moment: np.ndarray, noise: float, spread: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of each beta_i given sigma^2 and tau^2, and the sum over arms of E|beta_i - m|^2."""
    eye = np.eye(gram.shape[-1])
    own = np.linalg.inv(gram / noise + eye / spread)  # C_i
    shrink = own / spread  # the weight of m in the mean of beta_i
    common = np.linalg.inv((eye - shrink).sum(axis=0) / spread)  # M
    pull = np.einsum("ijk,ik->ij", own, moment) / noise
    center = common @ pull.sum(axis=0) / spread  # m
    mean = pull + shrink @ center
    covariance = own + shrink @ common @ shrink
    apart = own + (eye - shrink) @ common @ (eye - shrink)  # covariance of beta_i - m
    return mean, covariance, float(((mean - center) ** 2).sum() + np.trace(apart, axis1=1, axis2=2).sum())


def _fit(gram: np.ndarray, moment: np.ndarray, total: float, n_rows: int, tau: float | None) -> tuple[float, float]:
    """Restricted maximum likelihood estimates of sigma^2 and (unless known) tau^2, by EM; total is y'y."""
    start = noise = total / n_rows
    spread = start if tau is None else tau**2
    for _ in range(5_000):
        old = noise, spread
        mean, covariance, distance = _posterior(gram, moment, noise, spread)
        error = total - 2 * (mean * moment).sum() + (gram * (covariance + mean[:, :, None] * mean[:, None])).sum()
        noise = max(float(error) / n_rows, 1e-9 * start)
        spread = max(distance / mean.size, 1e-6 * start) if tau is None else spread
        if np.allclose(old, (noise, spread), rtol=1e-9, atol=0.0):
            break
    return noise, spread


def _check(counts: Counter[str], arms: Sequence[str], features: Sequence[str], rank: int, tau: float | None) -> None:
    if len(set(arms)) < len(arms) or len(set(features)) < len(features):
        raise ValueError(f"Labels must be distinct, got arms {list(arms)} and features {list(features)}.")
    if not set(counts) <= set(arms):
        raise ValueError(f"arms must name every arm of the history, {sorted(counts)}, got {list(arms)}.")
    if len(counts) < 2 and tau is None:
        raise ValueError("The history must have two or more arms for tau to be fitted: give tau.")
    if max(counts.values(), default=0) <= len(features):
        raise ValueError("The history must have an arm with more rows than features, to tell effect from noise.")
    if rank < len(features):
        raise ValueError("The features of the history are collinear: drop some (one of each set of dummies).")


def _synthetic_history(arms: Sequence[str], n_features: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Some fifty made-up outcomes per arm, the same at every call."""
    rng = np.random.default_rng(20240229)
    effects = rng.normal(0.2, 0.4, size=(len(arms), n_features))
    X = rng.normal(size=(len(arms), 45 + n_features, n_features))
    y = np.einsum("ink,ik->in", X, effects) + rng.normal(0.0, 0.5, size=X.shape[:2])
    return [name for name in arms for _ in range(X.shape[1])], X.reshape(-1, n_features), y.ravel()


def _read_history(
    history: str | Path, features: Sequence[str] | None
) -> tuple[list[str], np.ndarray, np.ndarray, list[str]]:
    """Arms (n,), features (n, n_features) and rewards (n,) of a CSV file, and the names of its feature columns."""
    path = Path(str(history))
    if not path.is_file():
        raise ValueError(f"No history at {history}: expected a CSV file with columns arm, reward and the features.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), list(reader.fieldnames or ())
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path.name} must be a CSV file in UTF-8: save or export it as such.") from None
    names = [name for name in (columns if features is None else features) if name not in ("arm", "reward")]
    missing = [name for name in ("arm", "reward", *names) if name not in columns]
    if missing or not names or not rows:
        raise ValueError(f"{path.name} must have rows and columns arm, reward, {names or 'features'}; got {columns}.")
    try:
        numbers = np.array([[float(row[name]) for name in ("reward", *names)] for row in rows])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name} must have a number in every cell but the arm's ({error}).") from None
    if not np.isfinite(numbers).all() or not all(row["arm"] for row in rows):
        raise ValueError(f"{path.name} has rows without an arm or with NaN or infinity: fill or drop them.")
    return [row["arm"] for row in rows], numbers[:, 1:], numbers[:, 0], names
