"""What RCB is compared with: doses given beforehand."""

import numpy as np

from rcb_bayes.schema import DEFAULT_SEED, as_count
from rcb_bayes.studies.warfarin.cohort import Cohort, bucket
from rcb_bayes.studies.warfarin.formulas import FormulaName, formula_dose


def formula_arms(cohort: Cohort, *, formula: FormulaName = "pharmacogenetic") -> np.ndarray:
    """The bucket of the dose that a published formula gives each patient, (n,)."""
    return bucket(formula_dose(cohort.table, formula=formula), rule=cohort.rule)


def offline_arms(
    cohort: Cohort, *, n_folds: int = 10, inverse_penalty: float = 100.0, seed: int = DEFAULT_SEED
) -> np.ndarray:
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
