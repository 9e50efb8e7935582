import os
from pathlib import Path

import pytest

from rcb_bayes.market import Market
from rcb_bayes.studies.warfarin.beliefs import physician_market
from rcb_bayes.studies.warfarin.cohort import Cohort, load_warfarin
from rcb_bayes.studies.warfarin.synthetic import synthetic_cohort

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def real_file() -> Path:
    """The consortium's file, which is not part of the project."""
    named = os.environ.get("RCB_WARFARIN_CSV")
    for path in [Path(named)] if named else [ROOT.parent / "shared" / "data" / "warfarin.csv"]:
        if path.is_file():
            return path
    pytest.skip("the IWPC file is not at hand: set RCB_WARFARIN_CSV to its path")


@pytest.fixture(scope="session")
def real(real_file: Path) -> Cohort:
    return load_warfarin(real_file)


@pytest.fixture(scope="session")
def made_up() -> Cohort:
    return synthetic_cohort()


@pytest.fixture(scope="session")
def few() -> Cohort:
    return synthetic_cohort(500, seed=3)


@pytest.fixture(scope="session")
def few_market(few: Cohort) -> Market:
    return physician_market(few, variance=0.8)
