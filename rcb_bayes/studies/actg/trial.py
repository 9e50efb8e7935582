"""A trial: patients, what was known of them, the treatment drawn for each, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.schema import FloatArray, suggestion
from rcb_bayes.studies.actg.table import AFTER, BASELINE, read_trial
from rcb_bayes.users import Empirical

if TYPE_CHECKING:
    import pandas as pd

ARMS = ("zdv", "zdv_ddi", "zdv_ddc", "ddi")
"""Zidovudine alone, which everybody was given; with didanosine; with zalcitabine; didanosine alone."""

FEATURES = ("cd40", "str2", "symptom", "age", "karnof")
"""CD4 count at entry, earlier therapy, symptoms, age, Karnofsky score: what the protocol admitted and stratified by."""

SHARE = 0.25
"""The chance of each treatment, by the trial's design."""

Outcome = Literal["cd4", "event"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CELLS = 100.0
"""CD4 cells per cubic millimetre that a reward of 1 stands for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """Patients of a randomised trial, in any order.

    Attributes
    ----------
    features, names : (n, d), a 1 for everybody and standardised features, and their labels
    arm : the treatment drawn, positions in ``ARMS``, (n,)
    reward : what came of it, (n,); the larger, the better
    outcome : "cd4": the change of the CD4 count from entry to week 20, in hundreds of cells; "event": 1 for a patient
        without an event (a CD4 count halved, AIDS or death) during follow-up, else 0
    source : the file's name
    """

    features: FloatArray
    names: tuple[str, ...]
    arm: np.ndarray
    reward: FloatArray
    outcome: Outcome
    source: str

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def users(self) -> Empirical:
        """The patients as a population."""
        return Empirical(self.features, features=self.names)

    def part(self, index: np.ndarray) -> "Trial":
        """Some of the patients, by their positions, with features as they are."""
        return replace(self, features=self.features[index], arm=self.arm[index], reward=self.reward[index])

    def halves(self, *, seed: int) -> tuple["Trial", "Trial"]:
        """Two parts at random, the second as large as the first or larger by one."""
        order = np.random.default_rng(seed).permutation(len(self))
        return self.part(order[: len(order) // 2]), self.part(order[len(order) // 2 :])

    def log(self) -> "pd.DataFrame":
        """The trial as a log for ``evaluate``: features, ``arm``, ``reward`` and the propensities of all arms."""
        import pandas as pd

        table = pd.DataFrame(self.features, columns=list(self.names))
        table["arm"] = np.array(ARMS)[self.arm]
        table["reward"] = self.reward
        return table.assign(**{f"p_{arm}": SHARE for arm in ARMS})

    def describe(self) -> str:
        """The trial in a line or two."""
        means = ", ".join(
            f"{label} {self.reward[self.arm == k].mean():.3f} ({(self.arm == k).sum():,})"
            for k, label in enumerate(ARMS)
        )
        what = "change of CD4 at week 20, hundreds of cells" if self.outcome == "cd4" else "no event during follow-up"
        return (
            f"{len(self):,} patients of {self.source}, {self.features.shape[1]} features ({', '.join(self.names)}); "
            f"{what}, mean (patients): {means}"
        )


def load_actg(path: str | Path | None = None, *, outcome: str = "cd4", features: Sequence[str] = FEATURES) -> Trial:
    """ACTG 175 as a trial.

    Parameters
    ----------
    path : str or path-like, optional
        The file; the one that comes with the package ``lifelines`` unless given.
    outcome : {"cd4", "event"}
        The change of the CD4 count at week 20 in hundreds of cells, or 1 for no event and 0 for one.
    features : sequence of str
        Columns known before treatment, standardised over all patients; a 1 for everybody is added.

    Returns
    -------
    Trial
        The patients.

    Raises
    ------
    DataError
        No file, another file, a value that cannot be: the line and the column are named.
    RcbError
        Another outcome; features that come after treatment, that do not exist, or that do not vary.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> trial = rcb.studies.load_actg("actg175.csv")
    >>> trial.names
    ('intercept', 'cd40', 'str2', 'symptom', 'age', 'karnof')
    """
    if outcome not in OUTCOMES:
        raise RcbError(f"There is no outcome '{outcome}'.{suggestion(str(outcome), OUTCOMES)} Use cd4 or event.")
    names = tuple(features)
    _check_features(names)
    table = read_trial(path)
    raw = table[list(names)].to_numpy(dtype=float)
    spread = raw.std(axis=0)
    if not (spread > 0).all():
        still = names[int(np.flatnonzero(spread == 0)[0])]
        raise DataError(f"The feature '{still}' is the same for all {len(raw):,} patients. Leave it out.")
    standard = (raw - raw.mean(axis=0)) / spread
    change = (table["cd420"] - table["cd40"]).to_numpy(dtype=float) / CELLS
    free = 1.0 - table["cens"].to_numpy(dtype=float)
    return Trial(
        features=np.column_stack([np.ones(len(raw)), standard]),
        names=("intercept", *names),
        arm=table["arms"].to_numpy(dtype=np.int64),
        reward=change if outcome == "cd4" else free,
        outcome="cd4" if outcome == "cd4" else "event",
        source="lifelines" if path is None else Path(path).name,
    )


def _check_features(names: tuple[str, ...]) -> None:
    late = [name for name in names if name in AFTER]
    if late:
        raise RcbError(f"'{late[0]}' comes with or after treatment. Features are of {', '.join(BASELINE)}.")
    unknown = [name for name in names if name not in BASELINE]
    if unknown or not names:
        told = f"There is no feature '{unknown[0]}'.{suggestion(unknown[0], BASELINE)}" if unknown else "No features."
        raise RcbError(f"{told} Use some of {', '.join(BASELINE)}.")
    if len(set(names)) < len(names):
        raise RcbError(f"Features must be distinct, got {', '.join(names)}.")
