r"""The paper's ground truth to the letter: the dose, scaled to [0, 1], is what is rewarded, in the right bucket only.

The paper says two things of rewards. One is 1 for the right bucket and 0 for another, which ``replay`` has. The other
is this: doses are scaled to [0, 1]; in each group of patients, those for whom bucket i is right, the scaled dose is
regressed on the features; a patient of group i expects

.. math:: \mu(x, i) = x'\hat\beta_i, \qquad \mu(x, j) = 0 \quad (j \ne i),

and the noise is the sd .054. A right low dose then earns about .05 and a right high one about .2, so that patients
count by their dose.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.warfarin.beliefs import PAPER_SIGMA
from rcb_bayes.studies.warfarin.cohort import ARMS, Cohort


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DoseRewards:
    """Rewards of patients.

    Attributes
    ----------
    mean : what each patient's right bucket earns on average, (n,); others earn 0
    sigma : sd of the noise around both
    """

    mean: FloatArray
    sigma: float = PAPER_SIGMA

    def part(self, index: np.ndarray) -> "DoseRewards":
        """Those of some patients, by their positions."""
        return DoseRewards(mean=self.mean[index], sigma=self.sigma)


def dose_rewards(cohort: Cohort) -> DoseRewards:
    """The paper's ground truth: a regression of the scaled dose on the features in each group.

    Raises
    ------
    DataError
        Patients who all have one dose, which cannot be scaled.

    Applicability
    -------------
    The minimum-norm solution where a group's features are collinear, as dummies are; fitted values are the same. With
    fewer patients than features in a group the fit is exact, and says nothing.
    """
    dose = scaled_dose(cohort)
    mean = np.zeros(len(cohort))
    for arm in range(len(ARMS)):
        own = cohort.arm == arm
        if own.any():
            x = cohort.features[own]
            mean[own] = x @ np.linalg.lstsq(x, dose[own], rcond=None)[0]
    return DoseRewards(mean=mean)


def scaled_dose(cohort: Cohort) -> FloatArray:
    """Weekly doses with the smallest as 0 and the largest as 1, (n,)."""
    dose = cohort.table["dose"].to_numpy(dtype=float)
    low, high = float(dose.min()), float(dose.max())
    if not low < high:
        raise DataError(f"Doses are scaled to [0, 1]: expected two different ones or more, got {low:g} only.")
    return (dose - low) / (high - low)
