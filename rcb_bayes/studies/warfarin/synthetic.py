"""A SYNTHETIC cohort: made-up patients who resemble the consortium's as a group, and nobody in particular.

Each patient is drawn from rounded marginals by ancestry (age, sex, height, weight, diagnoses, medications, what was
not recorded), genotypes from allele frequencies near the published ones (1000 Genomes: VKORC1 -1639A 5 / 39 / 89 %,
CYP2C9*2 1 / 12 / 0 %, CYP2C9*3 0 / 7 / 3 % in African, European and East Asian people; African Americans have twice the
first), VKORC1 as haplotypes, and the square root of the weekly dose from the published pharmacogenetic formula plus a
residual of sd 1.0. Some doses are rounded to half a milligram a day, as prescriptions are, so that many sit on a
bucket's bound. Side by side, rule "below_21" (synthetic: seed 0):

=====================================  ============  ============
figure                                 real          SYNTHETIC
=====================================  ============  ============
patients, with a dose                  5,700, 5,528  5,700, 5,523
low / medium / high, %                 27 / 60 / 13  26 / 62 / 13
always-medium error                    .397          .380
clinical formula, error                .365          .362
pharmacogenetic formula, error         .317          .311
ridge, in sample, error                .327          .336
multinomial logit, out of fold, error  .311          .326
doses of exactly 21, of exactly 49     340, 50       311, 112
RCB, N = 20, error over 10 orders      .353          .365
the same with a dose oracle            .331          .347
=====================================  ============  ============

It serves where the real file is not at hand. What is learnt from it about warfarin is what its author put in.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.studies.warfarin.cohort import Cohort, Rule, as_cohort
from rcb_bayes.studies.warfarin.formulas import formula_dose
from rcb_bayes.studies.warfarin.table import AGES, CYP2C9, ETHNICITIES, VKORC1, as_patients

if TYPE_CHECKING:
    import pandas as pd

N_PATIENTS = 5700
RESIDUAL_SD = 1.0
_DEGREES = 6.0  # of the residual's t distribution: a few patients need far more or less than any formula says
_NO_DOSE = 0.03
_ROUNDED = 0.55
_STEP = 3.5  # mg a week: half a milligram a day
_LEAST_ROOT = 1.5  # square root of mg a week


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """One ancestry's marginals; shares are probabilities."""

    race: str | None
    share: float
    male: float
    ages: tuple[float, ...]
    height: tuple[float, float]  # women, men; sd 7
    weight: tuple[float, float]
    weight_sd: float
    ethnicity: tuple[float, float]  # Hispanic, not; the rest not recorded
    reasons: tuple[float, ...]  # of the eight; the rest none recorded
    yes: dict[str, tuple[float, float]]  # recorded, and yes among those
    vkorc1: dict[str, float]  # see _haplotypes
    cyp2c9: dict[str, float]
    recorded: dict[str, float]


def _yes(*pairs: tuple[float, float]) -> dict[str, tuple[float, float]]:
    names = ("diabetes", "heart_failure", "valve_replacement", "smoker", "aspirin", "acetaminophen", "simvastatin")
    drugs = ("amiodarone", "carbamazepine", "phenytoin", "rifampin")
    return dict(zip((*names, *drugs, "stable"), pairs, strict=True))


def _recorded(*shares: float) -> dict[str, float]:
    plain = ("height", "weight", "age", "indications", "cyp2c9")
    return dict(zip((*plain, *(f"vkorc1_{place}" for place in VKORC1)), shares, strict=True))


def _groups() -> tuple[_Group, ...]:
    white = _Group(
        race="White",
        share=0.55,
        male=0.62,
        ages=(0.002, 0.025, 0.034, 0.071, 0.164, 0.225, 0.315, 0.155, 0.009),
        height=(162, 177),
        weight=(76, 89),
        weight_sd=19,
        ethnicity=(0.01, 0.77),
        reasons=(0.10, 0.10, 0.44, 0.07, 0.03, 0.02, 0.03, 0.14),
        yes=_yes(
            *((0.7, 0.20), (0.7, 0.19), (0.65, 0.10), (0.7, 0.14), (0.8, 0.26), (0.4, 0.26), (0.8, 0.18)),
            *((0.9, 0.075), (0.4, 0.017), (0.4, 0.012), (0.4, 0.002), (0.98, 0.95)),
        ),
        vkorc1={"A": 0.39, "497": 0.65, "3730": 0.60, "-4451": 0.25, "2255": 0.0, "1542": 0.03},
        cyp2c9={"*2": 0.125, "*3": 0.073},
        recorded=_recorded(0.84, 0.94, 1.0, 0.85, 0.98, 0.72, 0.41, 0.42, 0.59, 0.46, 0.32, 0.19),
    )
    asian = _Group(
        race="Asian",
        share=0.29,
        male=0.58,
        ages=(0.002, 0.013, 0.04, 0.114, 0.222, 0.296, 0.256, 0.055, 0.002),
        height=(154, 166),
        weight=(55, 66),
        weight_sd=10.5,
        ethnicity=(0.0, 1.0),
        reasons=(0.065, 0.05, 0.345, 0.44, 0.0, 0.07, 0.02, 0.255),
        yes=_yes(
            *((0.3, 0.11), (0.8, 0.17), (0.8, 0.48), (0.17, 0.06), (0.3, 0.07), (0.26, 0.016), (0.3, 0.006)),
            *((0.3, 0.037), (0.3, 0.004), (0.3, 0.002), (0.3, 0.002), (1.0, 0.97)),
        ),
        vkorc1={"A": 0.88, "497": 0.02, "3730": 0.93, "-4451": 0.05, "2255": 0.0, "1542": 0.0},
        cyp2c9={"*2": 0.001, "*3": 0.034, "*13": 0.0005, "*14": 0.0005},
        recorded=_recorded(0.75, 0.94, 0.98, 0.99, 0.96, 0.83, 0.19, 0.99, 0.84, 0.98, 0.84, 0.06),
    )
    black = _Group(
        race="Black or African American",
        share=0.08,
        male=0.49,
        ages=(0.004, 0.03, 0.063, 0.174, 0.252, 0.24, 0.167, 0.065, 0.005),
        height=(164, 178),
        weight=(89, 97),
        weight_sd=27,
        ethnicity=(0.0, 0.99),
        reasons=(0.20, 0.13, 0.33, 0.04, 0.035, 0.075, 0.02, 0.29),
        yes=_yes(
            *((0.85, 0.31), (0.9, 0.22), (0.67, 0.07), (0.95, 0.21), (0.98, 0.38), (0.63, 0.5), (1.0, 0.18)),
            *((0.94, 0.053), (0.84, 0.005), (0.84, 0.015), (0.84, 0.001), (1.0, 0.99)),
        ),
        vkorc1={"A": 0.10, "497": 0.3, "3730": 0.48, "-4451": 0.2, "2255": 0.13, "1542": 0.21},
        cyp2c9={"*2": 0.025, "*3": 0.01, "*5": 0.0075, "*6": 0.004, "*11": 0.0075},
        recorded=_recorded(0.97, 0.98, 1.0, 0.98, 0.95, 0.76, 0.51, 0.87, 0.51, 0.51, 0.27, 0.44),
    )
    other = _Group(
        race=None,
        share=0.08,
        male=0.47,
        ages=(0.006, 0.031, 0.064, 0.117, 0.216, 0.207, 0.208, 0.145, 0.006),
        height=(160, 171.5),
        weight=(70, 85),
        weight_sd=19.5,
        ethnicity=(0.03, 0.03),
        reasons=(0.008, 0.004, 0.27, 0.31, 0.008, 0.004, 0.004, 0.05),
        yes=_yes(
            *((0.5, 0.06), (0.07, 0.19), (0.5, 0.6), (0.5, 0.065), (0.55, 0.09), (0.46, 0.014), (0.55, 0.07)),
            *((0.98, 0.057), (0.46, 0.005), (0.46, 0.009), (0.46, 0.0), (1.0, 0.99)),
        ),
        vkorc1={"A": 0.35, "497": 0.6, "3730": 0.6, "-4451": 0.25, "2255": 0.0, "1542": 0.03},
        cyp2c9={"*2": 0.115, "*3": 0.048},
        recorded=_recorded(0.55, 0.97, 1.0, 0.56, 0.99, 0.51, 0.10, 0.52, 0.15, 0.12, 0.08, 0.06),
    )
    return white, asian, black, other


def synthetic_patients(n_patients: int = N_PATIENTS, *, seed: int = DEFAULT_SEED) -> "pd.DataFrame":
    """A table of made-up patients, in the format of ``read_patients``."""
    import pandas as pd

    n = as_count(n_patients, name="n_patients", least=1)
    rng = np.random.default_rng(as_count(seed, name="seed"))
    groups = _groups()
    which = rng.choice(len(groups), size=n, p=[group.share for group in groups])
    parts = []
    for k, group in enumerate(groups):
        places = np.flatnonzero(which == k)
        columns, genotype = _patients(group, len(places), rng)
        parts.append(pd.DataFrame(columns | {"dose": _doses(columns | genotype, rng)}, index=places))
    table = pd.concat([part for part in parts if len(part)]).sort_index()
    table["id"] = [f"SYNTHETIC{k:05d}" for k in range(n)]
    table.loc[rng.random(n) < _NO_DOSE, "dose"] = np.nan
    return as_patients(table)


def synthetic_cohort(
    n_patients: int = N_PATIENTS, *, rule: Rule = "below_21", missing_indicators: bool = False, seed: int = DEFAULT_SEED
) -> Cohort:
    """A cohort of SYNTHETIC patients, for whatever the real one is used for.

    Parameters
    ----------
    n_patients : int
        The real file's 5,700 unless given; 3 % of them come without a dose.
    rule : {"sharp", "third"}
        As in ``load_warfarin``.
    missing_indicators : bool
        As in ``load_warfarin``.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Cohort
        The patients.

    Applicability
    -------------
    Shares of the buckets, the error of always-medium and the accuracy of the formulas come near the real ones, because
    doses follow the formula. Correlations that the marginals do not tell (sites, co-morbidity, co-medication) are
    missing, so that learners that live on them do better on the real file than here.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> cohort = rcb.studies.synthetic_cohort(300, seed=1)
    >>> cohort.is_synthetic, cohort.n_read, cohort.features.shape[1]
    (True, 300, 70)
    >>> cohort.counts  # of low, medium and high doses
    (70, 177, 42)
    """
    table = synthetic_patients(n_patients, seed=seed)
    return as_cohort(table, source="synthetic", rule=rule, missing_indicators=missing_indicators)


def _patients(group: _Group, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is recorded of n patients, and in truth: what their doses depend on."""
    male = rng.random(n) < group.male
    ages = np.array(group.ages) / sum(group.ages)
    taller = rng.standard_normal(n)
    height = np.where(male, group.height[1], group.height[0]) + 7.0 * taller
    mean = np.where(male, group.weight[1], group.weight[0]) + 0.35 * group.weight_sd * taller
    shape = (mean / (0.93 * group.weight_sd)) ** 2
    truth: dict[str, Any] = {
        "sex": np.where(male, "male", "female"),
        "race": np.full(n, group.race, dtype=object),
        "age": rng.choice(np.array(AGES, dtype=object), size=n, p=ages),
        "height": np.round(height, 1),
        "weight": np.round(np.maximum(mean * rng.standard_gamma(shape) / shape, 30.0), 1),
        "indications": _reasons(group, n, rng),
        "cyp2c9": _star_alleles(group.cyp2c9, n, rng),
        **_haplotypes(group.vkorc1, n, rng),
    }
    columns = {name: values.copy() for name, values in truth.items()}
    for name, share in group.recorded.items():
        columns[name] = np.where(rng.random(n) < share, columns[name], np.nan if name in ("height", "weight") else None)
    columns["ethnicity"] = _pick_ethnicity(group, n, rng)
    asked = rng.random(n)  # one number for all: a site that asks one thing asks the others
    for name, (recorded, yes) in group.yes.items():
        present = (rng.random(n) < yes).astype(float)
        truth[name] = present
        columns[name] = np.where(asked < recorded, present, np.nan)
    return columns, truth


def _doses(truth: dict[str, Any], rng: np.random.Generator) -> FloatArray:
    """Weekly doses: the formula's root, a residual, and for some a prescription's rounding."""
    import pandas as pd

    n = len(truth["age"])
    root = np.sqrt(formula_dose(pd.DataFrame(truth)))
    residual = RESIDUAL_SD * np.sqrt((_DEGREES - 2.0) / _DEGREES) * rng.standard_t(_DEGREES, size=n)
    dose = np.maximum(root + residual, _LEAST_ROOT) ** 2
    rounded = np.maximum(np.round(dose / _STEP), 1.0) * _STEP
    return np.where(rng.random(n) < _ROUNDED, rounded, np.round(dose, 2))


def _reasons(group: _Group, n: int, rng: np.random.Generator) -> np.ndarray:
    has = rng.random((n, len(group.reasons))) < np.array(group.reasons)
    return np.array(["".join(str(k + 1) for k in np.flatnonzero(row)) or None for row in has], dtype=object)


def _pick_ethnicity(group: _Group, n: int, rng: np.random.Generator) -> np.ndarray:
    hispanic, other = group.ethnicity
    levels = np.array([*ETHNICITIES, None], dtype=object)
    return levels[rng.choice(3, size=n, p=[hispanic, other, 1.0 - hispanic - other])]


def _star_alleles(frequencies: dict[str, float], n: int, rng: np.random.Generator) -> np.ndarray:
    """CYP2C9 genotypes of two alleles each; a pair that the file does not know is not recorded."""
    alleles = ["*1", *frequencies]
    shares = [1.0 - sum(frequencies.values()), *frequencies.values()]
    pairs = np.sort(rng.choice(len(alleles), size=(n, 2), p=shares), axis=1)
    named = [f"{alleles[a]}/{alleles[b]}" for a, b in pairs]
    return np.array([name if name in CYP2C9 else None for name in named], dtype=object)


def _haplotypes(shares: dict[str, float], n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """VKORC1 genotypes of two haplotypes each.

    A haplotype has -1639A with probability ``A``; then 1173T, 2255T and 1542C come along, and 497G with its own. Those
    with -1639G carry 3730A, or else -4451A, and 2255T or 1542C where these are not tied to -1639 (African ancestry).
    """
    a = rng.random((n, 2)) < shares["A"]
    u = rng.random((5, n, 2))
    late = ~a & (u[0] < shares["3730"])
    has = {
        "-1639": ("A", "G", a),
        "497": ("G", "T", a & (u[1] < shares["497"])),
        "1173": ("T", "C", a),
        "1542": ("C", "G", a | (u[2] < shares["1542"])),
        "3730": ("A", "G", late),
        "2255": ("T", "C", a | (u[3] < shares["2255"])),
        "-4451": ("A", "C", ~a & ~late & (u[4] < shares["-4451"])),
    }
    return {f"vkorc1_{place}": _genotypes(*carried) for place, carried in has.items()}


def _genotypes(allele: str, other: str, carried: np.ndarray) -> np.ndarray:
    first, second = sorted((allele, other))
    levels = {0: f"{other}/{other}", 1: f"{first}/{second}", 2: f"{allele}/{allele}"}
    return np.array([levels[int(count)] for count in carried.sum(axis=1)], dtype=object)
