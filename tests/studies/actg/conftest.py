from pathlib import Path

import pytest

from rcb_bayes.studies.actg import Trial, load_actg
from tests.studies.actg import files


@pytest.fixture(scope="session")
def real_file() -> Path:
    """The trial's file, which is not part of the project."""
    return files.real_file()


@pytest.fixture(scope="session")
def real(real_file: Path) -> Trial:
    return load_actg(real_file)


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return load_actg(files.write_table(tmp_path_factory.mktemp("actg") / "made_up.csv"))
