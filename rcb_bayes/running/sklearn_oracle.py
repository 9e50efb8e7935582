"""Any scikit-learn estimator as an oracle."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Predictor
from rcb_bayes.schema import FloatArray, is_number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SklearnOracle:
    """Any scikit-learn regressor, classifier or pipeline, one for each arm or, ``joint``, one for all.

    A classifier with ``predict_proba`` is asked for the mean of the reward over its classes; one that has seen a single
    reward expects that. An arm without data is expected to give ``default``.

    Parameters
    ----------
    estimator : scikit-learn estimator
        A regressor, a classifier or a pipeline; clones of it are fitted. Give it a ``random_state`` if it draws.
    joint : bool or "shared"
        False: one for each arm. True: one for all, with features of each arm's own, x in the place of its arm and zeros
        elsewhere, (K d): a linear model then has coefficients of its own for every arm, and one penalty. "shared": one
        for all, with x and a dummy for each arm, (d + K): for boosting, neural nets and Gaussian processes, which find
        out by themselves what arms have in common.
    default : float
        What an arm without data is expected to give.
    needs_rows : bool
        It is fitted to rows.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> from sklearn.linear_model import LinearRegression
    >>> oracle = rcb.SklearnOracle(estimator=LinearRegression(fit_intercept=False))
    >>> runs = rcb.simulate(market, plan, horizon=200, n_worlds=5, oracle=oracle, seed=1)
    >>> round(runs["regret"].sum("t").mean().item(), 1)
    16.1
    """

    estimator: Any
    joint: bool | Literal["shared"] = False
    default: float = 0.0
    needs_rows: bool = True

    def __post_init__(self) -> None:
        named = (callable(getattr(self.estimator, name, None)) for name in ("fit", "predict", "get_params"))
        if isinstance(self.estimator, type) or not all(named):
            raise RcbError(f"estimator must be a scikit-learn regressor or classifier, got {self.estimator!r:.60}.")
        if not (isinstance(self.joint, bool) or self.joint == "shared"):
            raise RcbError(f"joint must be True, False or 'shared', got {self.joint!r}.")
        if not is_number(self.default):
            raise RcbError(f"default must be a finite number, got {self.default!r}.")

    def fit(self, history: History) -> Predictor:
        """Fit clones of the estimator."""
        x, arm, reward = history.rows()
        k = len(history.n)
        if self.joint:
            fitted = _fitted(self.estimator, _with_arm(x, arm, k, self.joint), reward) if len(x) else None
            return _SklearnPredictor([fitted] * k, joint=self.joint, default=self.default)
        models = []
        for which in range(k):
            own = arm == which
            models.append(_fitted(self.estimator, x[own], reward[own]) if own.any() else None)
        return _SklearnPredictor(models, joint=False, default=self.default)


@dataclass(frozen=True, eq=False)
class _SklearnPredictor:
    models: list[Any]
    joint: bool | Literal["shared"]
    default: float

    def scores(self, features: FloatArray) -> FloatArray:
        x = np.ascontiguousarray(features.T)
        k = len(self.models)
        out = np.full((k, len(x)), self.default)
        for arm, model in enumerate(self.models):
            if model is None:
                continue
            rows = _with_arm(x, np.full(len(x), arm), k, self.joint) if self.joint else x
            out[arm] = _predicted(model, rows)
        return out

    def variances(self, features: FloatArray) -> FloatArray | None:
        return None


def _fitted(estimator: Any, x: FloatArray, reward: FloatArray) -> Any:
    """A clone of the estimator, fitted; the reward itself where a classifier has seen no other."""
    from sklearn.base import clone, is_classifier

    if is_classifier(estimator):
        if len(np.unique(reward)) == 1:
            return float(reward[0])
        if not hasattr(estimator, "predict_proba"):
            raise RcbError(
                f"{type(estimator).__name__} has no probabilities to expect a reward from. Use a classifier with "
                "predict_proba, or CalibratedClassifierCV around it."
            )
    model: Any = clone(estimator)
    try:
        return model.fit(x, reward)
    except Exception as error:
        raise _failed(model, f"be fitted to {len(x)} samples", error) from error


def _predicted(model: Any, rows: FloatArray) -> FloatArray:
    if isinstance(model, float):
        return np.full(len(rows), model)
    try:
        if hasattr(model, "predict_proba"):
            found = model.predict_proba(rows) @ np.asarray(model.classes_, dtype=float)
        else:
            found = model.predict(rows)
        found = np.asarray(found, dtype=float)
    except Exception as error:
        raise _failed(model, f"predict for {len(rows)} user(s)", error) from error
    if found.shape not in ((len(rows),), (len(rows), 1)):
        raise RcbError(
            f"{type(model).__name__} predicts an array of shape {found.shape} for {len(rows)} user(s), and one number "
            "for each is needed. Nothing has changed."
        )
    return found.reshape(len(rows))


def _failed(model: Any, what: str, error: Exception) -> RcbError:
    told = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return RcbError(f"{type(model).__name__} could not {what}: {told[:200].rstrip('.')}. Nothing has changed.")


def _with_arm(x: FloatArray, arm: np.ndarray, n_arms: int, joint: bool | Literal["shared"]) -> FloatArray:
    """Users with their arms: x and dummies (n, d + K), or x in the place of the arm and zeros elsewhere (n, K d)."""
    n, d = x.shape
    if joint == "shared":
        return np.hstack([x, np.eye(n_arms)[arm]])
    out = np.zeros((n, n_arms, d))
    out[np.arange(n), arm] = x
    return out.reshape(n, n_arms * d)
