import pytest


@pytest.fixture(autouse=True)
def no_global_state_is_touched() -> None:
    """Not checked here: scikit-learn's ``Lasso`` without ``random_state`` draws a number that it has no use for."""
