"""What users can tell apart of a run, and what it is called."""

from itertools import combinations, pairwise

import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.knowledge import (
    KNOWLEDGE,
    LEVEL,
    MECHANISM,
    PHASE,
    STAGE,
    Knowledge,
    Moment,
    as_knowledge,
    chosen_knowledge,
    count_sets,
)

ARMS = ("old", "new", "third")


@pytest.mark.parametrize(
    ("moment", "label"),
    [
        (Moment(), "most popular"),
        (Moment(saturated=(0,)), "old"),
        (Moment(saturated=(2, 0)), "old, third"),
        (Moment(saturated=(0, 1, 2), epoch=0), "epoch 0"),
        (Moment(epoch=3), "epoch 3"),
    ],
)
def test_stages_have_the_names_of_an_audit(moment: Moment, label: str) -> None:
    assert STAGE.label(moment, ARMS) == label


def test_users_who_know_the_stage_tell_every_set_and_every_epoch_apart() -> None:
    sets = [Moment(saturated=arms) for size in range(4) for arms in combinations(range(3), size)]
    epochs = [Moment(epoch=epoch) for epoch in range(3)]
    keys = [STAGE.key(moment) for moment in (*sets, *epochs)]
    assert len(set(keys)) == len(keys)
    labels = [STAGE.label(moment, ARMS) for moment in (*sets, *epochs)]
    assert len(set(labels)) == len(keys)


def test_in_which_order_arms_fill_up_is_not_told() -> None:
    assert STAGE.key(Moment(saturated=(2, 0))) == STAGE.key(Moment(saturated=(0, 2)))
    assert STAGE.key(Moment(saturated=(0, 1), epoch=1)) == STAGE.key(Moment(epoch=1))
    assert STAGE.key(Moment(saturated=(0,))) != STAGE.key(Moment(saturated=(0, 2)))


# --- users who know less ---------------------------------------------------------------------------------------------

MOMENTS = [
    *(Moment(saturated=arms) for size in range(3) for arms in combinations(range(3), size)),
    *(Moment(saturated=(0, 1, 2), epoch=epoch) for epoch in range(3)),
]


@pytest.mark.parametrize(("knows", "n_keys"), [(STAGE, 10), (LEVEL, 6), (PHASE, 2), (MECHANISM, 1)])
def test_how_many_moments_users_tell_apart(knows: Knowledge, n_keys: int) -> None:
    assert len({knows.key(moment) for moment in MOMENTS}) == n_keys
    assert len({knows.label(moment, ARMS) for moment in MOMENTS}) == n_keys


def test_who_knows_less_tells_apart_nothing_that_others_do_not() -> None:
    order = list(KNOWLEDGE.values())
    for more, less in pairwise(order):
        for one, other in combinations(MOMENTS, 2):
            if more.key(one) == more.key(other):
                assert less.key(one) == less.key(other)


def test_levels_and_phases_have_names() -> None:
    assert LEVEL.label(Moment(saturated=(2, 0)), ARMS) == "2 of 3 arms"
    assert PHASE.label(Moment(saturated=(2,)), ARMS) == "cold start"
    assert PHASE.label(Moment(epoch=4), ARMS) == "exploitation"
    assert MECHANISM.label(Moment(), ARMS) == "any round"


@pytest.mark.parametrize("name", ["levle", "Phase", "", 3, None, ["level"]])
def test_unknown_knowledge_is_refused(name: object) -> None:
    with pytest.raises(RcbError, match="Users cannot know"):
        as_knowledge(name)


def test_auto_is_the_stage_where_sets_are_few() -> None:
    seven, eight = ([[arm] for arm in range(n)] for n in (7, 8))
    assert count_sets(seven) == 126
    assert chosen_knowledge("auto", alike=seven) is STAGE
    assert chosen_knowledge("auto", alike=eight) is LEVEL
    assert chosen_knowledge("auto", alike=[list(range(30))]) is STAGE  # 29 sets of arms that are alike
    assert chosen_knowledge("phase", alike=seven) is PHASE
