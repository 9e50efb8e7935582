"""The notions: their linear form, against the two written out; what else they own; no switching on names elsewhere."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.notions import DEFINITION, NOTIONS, PROOF, USER, Notion, as_notion

EPSILON = 0.05
RNG = np.random.default_rng(1)
CHANCES, LEADS = RNG.uniform(size=(4, 50)), RNG.normal(size=(4, 50))


def written_out(name: str) -> np.ndarray:
    """The forms as the paper's readings have them."""
    return {
        "user": CHANCES * (LEADS + EPSILON),
        "definition": CHANCES * (LEADS + EPSILON),
        "proof": CHANCES * LEADS + EPSILON,
    }[name]


class EpsilonTimesChance(Notion):
    """A proof whose epsilon counts only as often as the arm is recommended: the planted error."""

    __slots__ = ()

    def mass(self, chances: np.ndarray) -> np.ndarray:
        return chances


def planted() -> Notion:
    return EpsilonTimesChance(**{name: getattr(PROOF, name) for name in Notion.__dataclass_fields__})


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
def test_the_linear_form_is_the_one_written_out(notion: Notion) -> None:
    form = notion.linear_form(CHANCES, LEADS, EPSILON)
    np.testing.assert_allclose(form, written_out(notion.name), atol=1e-15)
    np.testing.assert_array_equal(form, notion.allowing(CHANCES * LEADS, CHANCES, EPSILON))
    fixed, extra = notion.epsilon_parts(EPSILON)
    np.testing.assert_allclose(CHANCES * (LEADS + extra) + fixed, form, atol=1e-15)
    # Divided by its mass it is a margin: conditional on the recommendation, or joint with it.
    margin = form.mean(axis=1) / notion.mass(CHANCES).mean(axis=1) - EPSILON
    gains = (CHANCES * LEADS).mean(axis=1)
    np.testing.assert_allclose(margin, gains if notion is PROOF else gains / CHANCES.mean(axis=1), atol=1e-14)


def test_an_epsilon_times_the_chance_is_not_the_proof_s() -> None:
    form = planted().linear_form(CHANCES, LEADS, EPSILON)
    assert np.abs(form - written_out("proof")).max() > 0.01
    assert planted().epsilon_parts(EPSILON) != PROOF.epsilon_parts(EPSILON)


def test_forms_broadcast() -> None:
    rewards, chances = RNG.normal(size=(3, 4, 50)), RNG.uniform(size=(4, 50))
    found = PROOF.linear_form(chances, rewards[0] - rewards, EPSILON)
    assert found.shape == (3, 4, 50)
    np.testing.assert_allclose(found[0], EPSILON)


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
def test_the_largest_chance_just_leaves_the_form_of_a_world_as_it_should_be(notion: Notion) -> None:
    gaps = np.concatenate([[0.0, EPSILON], np.geomspace(1e-6, 10, 200)])
    most = notion.largest_chance(gaps, EPSILON)
    assert (notion.linear_form(most, -gaps, EPSILON) >= -1e-15).all()
    more = most + 1e-6
    assert (notion.linear_form(more, -gaps, EPSILON) < 0)[most < 1].all()
    assert (most[:2] == 1).all()
    assert (most < 1).any()


def test_what_implies_what() -> None:
    """In a world in which nobody's form is negative: a loss given a recommendation bounds it times its probability."""
    held = {one.name: {other.name for other in NOTIONS.values() if one.implies(other)} for one in NOTIONS.values()}
    assert held == {"user": {*NOTIONS}, "definition": {*NOTIONS}, "proof": {"proof"}}
    for one in NOTIONS.values():
        holds = one.linear_form(CHANCES, LEADS, EPSILON) >= 0
        for name in held[one.name]:
            assert (NOTIONS[name].linear_form(CHANCES, LEADS, EPSILON)[holds] >= -1e-15).all()
    assert (USER.linear_form(CHANCES, LEADS, EPSILON)[PROOF.linear_form(CHANCES, LEADS, EPSILON) >= 0] < 0).any()


def test_what_a_notion_says_of_users_and_logs() -> None:
    assert [notion.is_per_user for notion in (USER, PROOF, DEFINITION)] == [True, True, False]
    assert [notion.by_user.name for notion in (USER, PROOF, DEFINITION)] == ["user", "proof", "user"]
    assert [notion.judges_logs for notion in (USER, PROOF, DEFINITION)] == [False, True, True]
    assert (USER.dims, DEFINITION.dims) == (("user", "arm", "rival"), ("arm", "rival"))


def test_names_are_found_and_misspelt_ones_answered_with_a_suggestion() -> None:
    assert list(NOTIONS) == ["proof", "definition", "user"]
    assert all(as_notion(name) is notion and as_notion(notion) is notion for name, notion in NOTIONS.items())
    with pytest.raises(RcbError, match=r"There is no notion 'definiton'\. Did you mean 'definition'\?"):
        as_notion("definiton")
    for word in ("zzz", None, 3, ["user"]):
        with pytest.raises(RcbError, match="Use one of proof, definition, user"):
            as_notion(word)


def test_a_new_notion_is_one_object() -> None:
    """Averaged over users and joint with the recommendation: told by ``proof`` of users one by one."""
    new = replace(PROOF, name="averaged proof", is_per_user=False, told_by=PROOF)
    np.testing.assert_allclose(new.linear_form(CHANCES, LEADS, EPSILON), written_out("proof"))
    assert new.by_user is PROOF
    assert new.dims == DEFINITION.dims


def test_nothing_else_switches_on_the_name_of_a_notion() -> None:
    pattern = re.compile(r"""notion\s*[!=]=|[!=]=\s*["'](proof|definition|user)["']""")
    package = Path(rcb_bayes.__file__).parent
    hits = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if path.name != "notions.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert hits == []
