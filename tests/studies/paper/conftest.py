import pytest


@pytest.fixture(scope="module", autouse=True)
def _small_panels(small_panels: None) -> None:
    """Nothing here depends on how many users stand for a population."""
