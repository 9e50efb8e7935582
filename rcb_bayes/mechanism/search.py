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
    and scored by her features. ``thorough`` above 1 repeats every
    step, and goes on with finer ones. ``roughly``, a cheaper score, says who of the panel is looked at more closely.
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
    for step in np.repeat(_STEPS if thorough == 1 else _STEPS + _FINE, thorough):
        others = panel.people[rng.integers(panel.n_users, size=(_TRIES, len(people)))]
        size = step * rng.choice([-1.0, 1.0], size=(_TRIES, len(people), 1))
        moved = project((people + size * (others - people)).reshape(-1, people.shape[1]))
        found = score(moved if feature_map is None else feature_map(moved)).reshape(_TRIES, len(people))
        best = found.argmin(axis=0)
        lower = found.min(axis=0) < scores
        people[lower] = moved.reshape(_TRIES, *people.shape)[best, np.arange(len(people))][lower]
        scores = np.minimum(scores, found.min(axis=0))
    order = np.argsort(scores, kind="stable")
    users = people if feature_map is None else feature_map(people)
    return users[order], scores[order]
