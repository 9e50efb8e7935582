"""Settings with other beliefs: what each error changes, and what it leaves alone."""

import pytest

from rcb_bayes.studies.paper import Request
from rcb_bayes.studies.paper.settings import Effort
from rcb_bayes.studies.paper.variants import BASES, error_part, run_bases

TINY = Effort(n_worlds=3, plan_worlds=60, audit_worlds=60, audit_users=10, audit_rounds=20, most_rounds=200)


def test_users_who_are_off_change_margins_and_not_regret():
    found = error_part(BASES[1], "shift", n_arms=2, effort=TINY, seed=1)
    assert found["run"].values.tolist() == [
        "nature off by shift",
        "users off by shift, untold",
        "users off by shift, told",
    ]
    nature, untold, told = (found.isel(run=k) for k in range(3))
    # Users of the first case believe what the plan was made for, those of the second like the first arm even better.
    assert untold["margin_user"] < nature["margin_user"]
    assert told["verdict_user"].item() != "fail"
    assert found.attrs["setting"] == "setting-4"


@pytest.mark.slow
def test_families_stand_in_one_table():
    outcome = run_bases(
        BASES[:1], Request(), effort=TINY, n_arms=2, families=("gaussian", "mixture"), errors=("scale",)
    )
    assert len(outcome.table) == 5
    assert (outcome.table["regret"].to_numpy() > 0).all()
    compliance = outcome.table["compliance"].to_numpy()
    assert ((compliance >= 0) & (compliance <= 1)).all()
