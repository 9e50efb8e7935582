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
    worse, within the support: a population that can be moved in has ``project``. ``thorough`` above 1 repeats every
    step, goes on with finer ones, and ends with many tries for a few who are apart: the worst may be in a narrow place.
    ``roughly``, a cheaper score, says who of the panel is looked at more closely.
    """
    users = panel.users
    if roughly is not None and len(users) > _SHORTLIST:
        users = users[np.sort(np.argsort(roughly(users), kind="stable")[:_SHORTLIST])]
    scores = score(users)
    order = np.argsort(scores, kind="stable")[:_N_WORST]
    users, scores = users[order].copy(), scores[order]
    project = getattr(covariates, "project", None)
    if panel.is_exact or project is None:
        return users, scores
    for step in np.repeat(_STEPS if thorough == 1 else _STEPS + _FINE, thorough):
        users, scores = _moved(score, project, panel, (users, scores), step=step, tries=_TRIES, rng=rng)
    if thorough > 1:
        some = _apart(users, scores, panel)
        last = users[some], scores[some]
        for step in (_STEPS[1:] + _FINE) * 2:
            last = _moved(score, project, panel, last, step=step, tries=_LAST_TRIES, rng=rng)
        users[some], scores[some] = last
    order = np.argsort(scores, kind="stable")
    return users[order], scores[order]


def _apart(users: FloatArray, scores: FloatArray, panel: Panel) -> np.ndarray:
    """Places of a few of the worst who are not all in one place."""
    least = _APART * float(np.sqrt(((panel.users - panel.users.mean(axis=0)) ** 2).sum(axis=1).mean()))
    found: list[int] = []
    for place in np.argsort(scores, kind="stable"):
        if len(found) < _N_LAST and all(np.linalg.norm(users[place] - users[other]) > least for other in found):
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
    """Users found so far with their scores, each moved by a step to the lowest of some tries, if that is lower."""
    users, scores = found
    others = panel.users[rng.integers(panel.n_users, size=(tries, len(users)))]
    size = step * rng.choice([-1.0, 1.0], size=(tries, len(users), 1))
    moved = project((users + size * (others - users)).reshape(-1, users.shape[1]))
    tried = score(moved).reshape(tries, len(users))
    best, lowest = tried.argmin(axis=0), tried.min(axis=0)
    there = moved.reshape(tries, *users.shape)[best, np.arange(len(users))]
    return np.where((lowest < scores)[:, None], there, users), np.minimum(scores, lowest)
