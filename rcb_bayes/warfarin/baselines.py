"""What RCB is compared with: doses given beforehand, and the Lasso bandit."""

from math import log, sqrt
from typing import Any

import numpy as np

from rcb_bayes.choice import best_shares
from rcb_bayes.decisions import EXPLOIT, Decisions
from rcb_bayes.errors import RcbError
from rcb_bayes.history import History
from rcb_bayes.kernel import pick
from rcb_bayes.market import Market
from rcb_bayes.schema import FloatArray, as_count, is_number
from rcb_bayes.warfarin.cohort import Cohort, bucket
from rcb_bayes.warfarin.features import NORM
from rcb_bayes.warfarin.formulas import FormulaName, formula_dose

_GROWTH = 0.15  # share of new samples after which estimates are renewed


def formula_arms(cohort: Cohort, *, formula: FormulaName = "pharmacogenetic") -> np.ndarray:
    """The bucket of the dose that a published formula gives each patient, (n,)."""
    return bucket(formula_dose(cohort.table, formula=formula), rule=cohort.rule)


def offline_arms(cohort: Cohort, *, n_folds: int = 10, inverse_penalty: float = 100.0, seed: int = 0) -> np.ndarray:
    """The bucket that multinomial logistic regression picks for each patient, fitted to the right bucket of all others.

    Parameters
    ----------
    n_folds : patients are left out a fold at a time, so that nobody's own dose is used
    inverse_penalty : scikit-learn's C

    Applicability
    -------------
    No bandit can do this: it sees every bucket's reward of every patient but those of the fold.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(as_count(n_folds, name="n_folds", least=2), shuffle=True, random_state=seed)
    model = LogisticRegression(C=inverse_penalty, max_iter=2000)
    return np.asarray(cross_val_predict(model, cohort.features, cohort.arm, cv=folds))


class LassoBandit:
    """The Lasso bandit (Bastani and Bayati, Operations Research 68, 2020).

    Each arm has a Lasso fitted to forced samples only and one fitted to all its samples. Arms within ``width``/2 of the
    best by the first are compared by the second. Arm i of K is forced at rounds (2^n - 1) K q + j for n = 0, 1, ... and
    j = q i + 1, ..., q (i + 1).

    Parameters
    ----------
    forced : q, samples of each arm that a round of forcing takes
    width : h
    penalty : lambda_1, and what lambda_2 is sqrt((log t + log d) / t) times of
    unit : features are divided by this before a Lasso is fitted: what a dummy that is one comes to, unless given

    Raises
    ------
    RcbError
        A width or penalty that is not positive, q below 1.

    Applicability
    -------------
    Estimates are renewed whenever an arm has 15 % more samples, not at every round.
    """

    def __init__(
        self,
        market: Market,
        *,
        forced: int = 1,
        width: float = 5.0,
        penalty: float = 0.05,
        unit: float = 1.0 / NORM,
    ) -> None:
        for name, value in (("width", width), ("penalty", penalty), ("unit", unit)):
            if not (is_number(value) and value > 0):
                raise RcbError(f"{name} must be a positive number, got {value!r}.")
        self.forced = as_count(forced, name="forced", least=1)
        self.width, self.penalty = float(width), float(penalty)
        self.n_arms, self.n_features = market.n_arms, market.n_features
        self.unit = float(unit)
        self.rounds = 0
        self._history = History(self.n_arms, self.n_features, keep_rows=True)
        self._forced_history = History(self.n_arms, self.n_features, keep_rows=True)
        self._fitted_at = np.zeros((2, self.n_arms), dtype=int)
        self._weights = np.zeros((2, self.n_arms, self.n_features))
        self._offsets = np.zeros((2, self.n_arms, 1))

    def recommend_proba(self, x: FloatArray) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        return self._probabilities(np.ascontiguousarray(x.T))[0].T

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The next user's recommendation."""
        probabilities, scores = self._probabilities(features[:, :1])
        return Decisions(
            arm=pick(probabilities, uniforms[:1, 1]),
            stage=np.full(1, EXPLOIT, dtype=np.int8),
            counted=np.ones(1, dtype=bool),
            probabilities=probabilities,
            scores=scores,
        )

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from one user."""
        arm = int(decisions.arm[0])
        if self._forced_arm() is not None:
            self._forced_history.add_one(x[0], arm, float(reward[0]))
        self._history.add_one(x[0], arm, float(reward[0]))
        self.rounds += 1
        self._renew(arm)

    def _forced_arm(self) -> int | None:
        """The arm that the next round, counted from 1, forces."""
        cycle = self.n_arms * self.forced
        start = 0
        while start <= self.rounds:
            place = self.rounds - start
            if place < cycle:
                return place // self.forced
            start = 2 * start + cycle
        return None

    def _probabilities(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, scores = (self._weights[k] @ features + self._offsets[k] for k in (0, 1))
        arm = self._forced_arm()
        if arm is not None:
            out = np.zeros(scores.shape)
            out[arm] = 1.0
            return out, scores
        left = first >= first.max(axis=0) - 0.5 * self.width
        return best_shares(np.where(left, scores, -np.inf), axis=0), scores

    def _renew(self, arm: int) -> None:
        later = self.penalty * sqrt((log(self.rounds + 1) + log(self.n_features)) / (self.rounds + 1))
        for k, (history, penalty) in enumerate(((self._forced_history, self.penalty), (self._history, later))):
            n = int(history.n[arm])
            if n > (1.0 + _GROWTH) * self._fitted_at[k, arm]:
                x, arms, reward = history.rows()
                own = arms == arm
                self._weights[k, arm], self._offsets[k, arm] = self._lasso(x[own], reward[own], penalty)
                self._fitted_at[k, arm] = n

    def _lasso(self, x: FloatArray, reward: FloatArray, penalty: float) -> tuple[FloatArray, float]:
        """Coefficients and intercept; an arm that gave one and the same reward so far is expected to go on so."""
        from sklearn.linear_model import Lasso

        if len(np.unique(reward)) == 1:
            return np.zeros(self.n_features), float(reward[0])
        model: Any = Lasso(alpha=0.5 * penalty, max_iter=1000, tol=1e-2)
        model.fit(x / self.unit, reward)
        return model.coef_ / self.unit, float(model.intercept_)
