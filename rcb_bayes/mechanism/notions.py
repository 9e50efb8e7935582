r"""Notions of epsilon-DBIC: in which sense users lose at most epsilon by following.

In a world user x is recommended arm i with probability p_i and expects m_i of it. Every notion is a linear form in
these, non-negative where the constraint holds for arm i against rival j:

.. math:: H_{ij} = E[p_i (m_i - m_j)] + \epsilon\, E[M(p_i)],

for each user by herself or averaged over users. The mass M says what epsilon is a loss of: of a recommendation,
:math:`M(p) = p`, so that the constraint is conditional on it (``user``, ``definition``); or joint with how rarely it is
made, :math:`M(p) = 1` (``proof``). Divided by the mass the form is a margin:
:math:`H_{ij} / E[M] - \epsilon = E[p_i (m_i - m_j)] / E[M]`, to be compared with -epsilon.

Plans, audits and files hold a notion's name; whatever computes holds the object (``as_notion``). A new notion is one
more object here, entered in ``NOTIONS``.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.schema import ARM, FloatArray, no_such

_TINY = 1e-300  # a gap of zero allows any probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Notion:
    """A sense in which users lose at most epsilon.

    Attributes
    ----------
    name : as plans, audits and files have it
    meaning : in a sentence, epsilon told before
    is_per_user : whether it asks of each user by herself; else of the average over users, of whom nobody then knows
        her own features, so that a rate of each user's own is not judged by it
    is_joint : whether epsilon is the loss times the probability of the recommendation, rather than the loss given it
    judges_logs : whether a log, which has each user once, can be judged by it
    told_by : which notion tells of users one by one where this one does not: compliance, and who stands worst
    """

    name: str
    meaning: str
    is_per_user: bool
    is_joint: bool
    judges_logs: bool
    told_by: "Notion | None" = None

    def mass(self, chances: FloatArray) -> FloatArray:
        """M(p), by which a linear form becomes a margin: the shape of ``chances``."""
        return np.ones_like(chances) if self.is_joint else chances

    def allowing(self, gains: FloatArray, chances: FloatArray, epsilon: float) -> FloatArray:
        """Terms of the linear form from gains p (m_i - m_j), however these were computed, and chances p."""
        return gains + epsilon * self.mass(chances)

    def linear_form(self, chances: FloatArray, leads: FloatArray, epsilon: float) -> FloatArray:
        """Terms of the linear form from chances p and leads m_i - m_j, which broadcast against each other."""
        return self.allowing(chances * leads, chances, epsilon)

    def epsilon_parts(self, epsilon: float) -> tuple[float, float]:
        """What the form has of epsilon whatever p, and for every unit of p: form = p (lead + second) + first."""
        fixed = epsilon * float(self.mass(np.zeros(())))
        return fixed, epsilon - fixed

    def largest_chance(self, gaps: FloatArray, epsilon: float) -> FloatArray:
        """The largest p for which the form of a single world, -p gap + epsilon M(p), is not negative; at most 1."""
        fixed, extra = self.epsilon_parts(epsilon)
        return np.minimum(np.where(gaps > extra, fixed / np.maximum(gaps - extra, _TINY), 1.0), 1.0)

    def implies(self, other: "Notion") -> bool:
        """Whether a form that is negative in no world, for no user, leaves the other's so: it allows no less."""
        return other.is_joint or not self.is_joint

    @property
    def by_user(self) -> "Notion":
        """The notion that tells of users one by one."""
        return self.told_by or self

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the margins of a stage."""
        return ("user", ARM, "rival") if self.is_per_user else (ARM, "rival")


USER = Notion(
    name="user",
    meaning="each user, knowing her own features and her recommendation, expects to lose at most epsilon by following",
    is_per_user=True,
    is_joint=False,
    judges_logs=False,
)
PROOF = Notion(
    name="proof",
    meaning=(
        "each user's expected loss by following, times the probability of the recommendation, is at most epsilon "
        "(the paper's proof, weaker than its definition)"
    ),
    is_per_user=True,
    is_joint=True,
    judges_logs=True,
)
DEFINITION = Notion(
    name="definition",
    meaning="a user who knows her recommendation, but not her features, expects to lose at most epsilon",
    is_per_user=False,
    is_joint=False,
    judges_logs=True,
    told_by=USER,
)
NOTIONS: dict[str, Notion] = {notion.name: notion for notion in (PROOF, DEFINITION, USER)}


def as_notion(word: object) -> Notion:
    """The notion of a name, or a clear error; a notion stays what it is."""
    if isinstance(word, Notion):
        return word
    if not isinstance(word, str) or word not in NOTIONS:
        raise no_such("notion", word, NOTIONS)
    return NOTIONS[word]
