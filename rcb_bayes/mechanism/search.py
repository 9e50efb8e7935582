"""The worst users of a population: those of a panel first, then by climbing down from them within the support."""

from collections.abc import Callable

import numpy as np

from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Covariates

_N_WORST = 20
_SHORTLIST = 256
_STEPS = (0.3, 0.1, 0.03)  # of the way towards another user
_FINE = (0.01, 0.003, 0.001)
_TRIES = 6  # of each of the worst, at each step
_N_LAST, _LAST_TRIES = 5, 60  # of those who are worst then, in a thorough search
_APART = 0.2  # of the spread of users, between any two of those

Score = Callable[[FloatArray], FloatArray]
"""How well users (U, d) fare, (U,): the lowest are the worst."""


def worst_users(
    score: Score,
    covariates: Covariates,
    panel: Panel,
    *,
    rng: np.random.Generator,
    thorough: int = 1,
    roughly: Score | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The users with the lowest scores, worst first, (n, d), and their scores (n,).

    Where the panel is a sample, each of the worst is moved towards others, or away from them, as long as that makes her
    worse, within the support: a population that can be moved in has ``project``. She is moved as people know her, by x,
    and scored by her features. ``thorough`` above 1 repeats every step, goes on with finer ones, and ends with many
    tries for a few who are apart: the worst may be in a narrow place. ``roughly``, a cheaper score, says who of the
    panel is looked at more closely.
    """
    feature_map = getattr(covariates, "feature_map", None)
    places = np.arange(panel.n_users)
    if roughly is not None and len(places) > _SHORTLIST:
        places = np.sort(np.argsort(roughly(panel.users), kind="stable")[:_SHORTLIST])
    scores = score(panel.users[places])
    order = np.argsort(scores, kind="stable")[:_N_WORST]
    users, people, scores = panel.users[places[order]], panel.people[places[order]], scores[order]
    project = getattr(covariates if feature_map is None else getattr(covariates, "raw", None), "project", None)
    if panel.is_exact or project is None:
        return users.copy(), scores
    people = people.copy()

    def score_of(x: FloatArray) -> FloatArray:
        return score(x if feature_map is None else feature_map(x))

    for step in np.repeat(_STEPS if thorough == 1 else _STEPS + _FINE, thorough):
        people, scores = _moved(score_of, project, panel, (people, scores), step=step, tries=_TRIES, rng=rng)
    if thorough > 1:
        some = _apart(people, scores, panel)
        last = people[some], scores[some]
        for step in (_STEPS[1:] + _FINE) * 2:
            last = _moved(score_of, project, panel, last, step=step, tries=_LAST_TRIES, rng=rng)
        people[some], scores[some] = last
    order = np.argsort(scores, kind="stable")
    users = people if feature_map is None else feature_map(people)
    return users[order], scores[order]


def _apart(people: FloatArray, scores: FloatArray, panel: Panel) -> np.ndarray:
    """Places of a few of the worst who are not all in one place."""
    least = _APART * float(np.sqrt(((panel.people - panel.people.mean(axis=0)) ** 2).sum(axis=1).mean()))
    found: list[int] = []
    for place in np.argsort(scores, kind="stable"):
        if len(found) < _N_LAST and all(np.linalg.norm(people[place] - people[other]) > least for other in found):
            found.append(int(place))
    return np.array(found)


def _moved(
    score: Score,
    project: Callable[[FloatArray], FloatArray],
    panel: Panel,
    found: tuple[FloatArray, FloatArray],
    *,
    step: float,
    tries: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """People found so far with their scores, each moved by a step to the lowest of some tries, if that is lower."""
    people, scores = found
    others = panel.people[rng.integers(panel.n_users, size=(tries, len(people)))]
    size = step * rng.choice([-1.0, 1.0], size=(tries, len(people), 1))
    moved = project((people + size * (others - people)).reshape(-1, people.shape[1]))
    tried = score(moved).reshape(tries, len(people))
    best, lowest = tried.argmin(axis=0), tried.min(axis=0)
    there = moved.reshape(tries, *people.shape)[best, np.arange(len(people))]
    return np.where((lowest < scores)[:, None], there, people), np.minimum(scores, lowest)
