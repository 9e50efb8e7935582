"""A made-up trial in the form of the ACTG 175 table, for tests."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.studies.actg import packaged_file

ROOT = Path(__file__).resolve().parents[3]
EFFECTS = np.array([-0.2, 0.5, 0.2, 0.3])


def real_file() -> Path:
    """The trial's file, which is not part of the project; the test is skipped where it is not at hand."""
    named, packaged = os.environ.get("RCB_ACTG_CSV"), packaged_file()
    usual = [ROOT.parent / "shared" / "data" / "actg175.csv", *([] if packaged is None else [packaged])]
    for path in [Path(named)] if named else usual:
        if path.is_file():
            return path
    pytest.skip("the ACTG 175 file is not at hand: pip install --no-deps lifelines, or set RCB_ACTG_CSV to its path")


def made_up_table(n: int = 400, *, seed: int = 1) -> pd.DataFrame:
    """Patients with all columns of the file, randomised to four arms; the change of cd4 depends on arm and cd40."""
    rng = np.random.default_rng(seed)
    binary = {name: rng.integers(0, 2, n) for name in ("hemo", "homo", "drugs", "oprior", "z30", "race", "gender")}
    table = pd.DataFrame({"pidnum": 10_000 + np.arange(n), "age": rng.integers(18, 70, n)})
    table["wtkg"] = rng.normal(75, 10, n).round(2)
    table = table.assign(**binary)
    table["karnof"] = rng.choice([70, 80, 90, 100], n)
    table["zprior"] = 1
    table["str2"] = rng.integers(0, 2, n)
    table["preanti"] = table["str2"] * rng.integers(1, 2000, n)
    table["strat"] = 1 + table["str2"] * rng.integers(1, 3, n)
    table["symptom"] = rng.integers(0, 2, n)
    table["cd40"] = rng.integers(200, 500, n)
    table["cd80"] = rng.integers(300, 2000, n)
    table["arms"] = rng.integers(0, 4, n)
    table["treat"] = (table["arms"] > 0).astype(int)
    change = 100 * EFFECTS[table["arms"]] - 0.3 * (table["cd40"] - 350) + rng.normal(0, 100, n)
    table["cd420"] = np.maximum((table["cd40"] + change).round(), 0).astype(int)
    table["cens"] = rng.integers(0, 2, n)
    for name in ("offtrt", "r", "cd820", "days"):
        table[name] = rng.integers(0, 2, n)
    return table.assign(cd496=np.nan)


def write_table(path: Path, table: pd.DataFrame | None = None) -> Path:
    """The file as it ships: a first column without a name."""
    found = made_up_table() if table is None else table
    found.set_axis(range(1, len(found) + 1), axis=0).to_csv(path, index_label="")
    return path
