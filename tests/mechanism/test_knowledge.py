"""What users can tell apart of a run, and what it is called."""

from itertools import combinations

import pytest

from rcb_bayes.mechanism.knowledge import STAGE, Moment

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
