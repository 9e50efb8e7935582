"""The length of the cold start over epsilon and N: as ``tradeoff`` has it, with gaps where no plan is feasible."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit
from rcb_bayes.planning.tradeoffs import tradeoff
from rcb_bayes.reporting.data import chart_data
from rcb_bayes.reporting.sized import lengths_by_size, size_rows
from rcb_bayes.telling.wording import figure
from rcb_bayes.users import Sphere
from tests.planning.revising import revised
from tests.reporting.reports import market_of, small_report

WORLDS: dict[str, Any] = {"n_worlds": 60, "audit_worlds": 200}
MULTIPLES = (0.5, 2.0)


def test_lengths_are_those_of_tradeoff_and_of_the_sweep() -> None:
    found = small_report()
    table = found.by_size
    assert table is not None
    assert table["n"].values.tolist() == [5, 10, 20]
    assert table["epsilon"].values.tolist() == [0.0, 0.05, 0.2]
    same = tradeoff(market_of(), epsilons=[0.0, 0.05, 0.2], n_grid=[5, 20], seed=1, **WORLDS)
    for name in ("expected_cold_start", "expected_cold_start_mcse", "feasible"):
        assert np.array_equal(table[name].sel(n=[5, 20]).values, same[name].values)
        assert table[name].sel(n=10).values.tolist() == [getattr(plan, name) for plan in found.sweep]


def test_they_are_told_on_the_page_in_markdown_and_in_json() -> None:
    found = small_report()
    assert found.by_size is not None
    page, text, told = found.to_html(), found.to_markdown(), found.to_dict()["by_size"]
    head, rows = size_rows(found.by_size)
    assert f"| {' | '.join(head)} |" in text
    for row in rows:
        assert f"| {' | '.join(row)} |" in text
        assert all(f">{cell}</td>" in page for cell in row)
    assert len(told) == 9
    one = found.by_size.sel(n=20, epsilon=0.2)
    assert told[-1]["expected_cold_start"] == one["expected_cold_start"].item()
    assert rows[-1][-1] == figure(one["expected_cold_start"].item(), one["expected_cold_start_mcse"].item())
    without = replace(found, by_size=None)
    assert 'id="chart-sizes"' not in without.to_html()
    assert without.to_dict()["by_size"] is None
    assert "sizes" not in chart_data(without)


def test_a_point_without_a_plan_is_a_gap_that_says_so() -> None:
    found = small_report()
    assert found.by_size is not None
    table = found.by_size.copy(deep=True)
    table["feasible"].loc[{"n": 20, "epsilon": 0.05}] = False
    partly = replace(found, by_size=table)
    curve = chart_data(partly)["sizes"]["curves"][2]
    assert [value is None for value in curve["mean"]] == [False, True, False]
    assert size_rows(table)[1][2][2] == "not feasible"
    table["feasible"][:] = False
    nowhere = replace(found, by_size=table).to_html()
    assert 'id="chart-sizes"' not in nowhere
    assert "No plan is feasible with any of these N: 5, 10, 20 samples of each arm." in nowhere


def test_they_are_left_out_where_they_do_not_apply() -> None:
    found = small_report()
    market, plan, sweep = found.market, found.plan, found.sweep
    asked: dict[str, Any] = {"multiples": MULTIPLES, **WORLDS}
    assert lengths_by_size(market, plan, sweep[1:2], **asked) is None
    assert lengths_by_size(market, plan, sweep, multiples=(), **WORLDS) is None
    assert lengths_by_size(market, revised(plan, kind="theorem"), sweep, **asked) is None
    assert lengths_by_size(market, revised(plan, knows="mechanism"), sweep, **asked) is None
    counts = Market(prior=Prior.gaussian([[0.1], [0.0]], 0.2), covariates=Sphere(1), noise=BernoulliLogit())
    assert lengths_by_size(counts, plan, sweep, **asked) is None


@pytest.mark.parametrize("n_multiples", [(0.0,), (float("nan"),), (100.0,)])
def test_multiples_are_checked(n_multiples: tuple[float, ...]) -> None:
    from rcb_bayes.errors import RcbError
    from rcb_bayes.reporting import ReportSizes

    with pytest.raises(RcbError, match="n_multiples must be above 0"):
        ReportSizes(n_multiples=n_multiples)
