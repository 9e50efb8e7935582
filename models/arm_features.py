"""Arms described by a table: a new arm is not a stranger.

    beta[i, k] ~ Normal(mean[i, k] + sum_l z[i, l] B[l, k], own^2),  B[l, k] ~ Normal(0, scale[l]^2)

z[i] is the row of arm i in the table: price, genre, dose, a 1 for what all arms share. Arms i and j have covariance
sum_l scale[l]^2 z[i, l] z[j, l] in each coefficient, and each has own^2 besides: what its row does not tell.

Applicability
-------------
Jointly Gaussian, and solved exactly. Data on one arm move the expectation of every arm with a row like hers, of those
never tried too. So an arm that comes later, with its row, has learnt from the others: pass the belief about the longer
table to ``Recommender.add_arm``. Rows are taken as they are: put columns on comparable scales.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

from rcb_bayes.authoring import described_arms, labelled_coords, number_above, per_coefficient

_USUAL = 3  # arms, where no table tells


def build_model(
    *,
    n_arms: int = _USUAL,
    n_features: int = 5,
    table: Any = None,
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 0.4,
    own: float = 0.2,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of described arms; ``table`` is a CSV file, a DataFrame, rows by arm or an array, ``arm`` their names.

    Without a table ``n_arms`` arms are told by a 1 and a number from -1 to 1. ``scale`` is one number, or
    one per column of the table.
    """
    if table is None:
        n = len(labelled_coords(n_arms, n_features, arms=arms, features=features)["arm"])
        rows, names = np.stack([np.ones(n), np.linspace(-1.0, 1.0, n)], axis=1), None
    else:
        rows, names = described_arms(table)
    if table is not None and n_arms not in (_USUAL, len(rows)):
        raise ValueError(f"The table has {len(rows)} arms, and n_arms is {n_arms}. Leave out n_arms.")
    coords = labelled_coords(len(rows), n_features, arms=names if arms is None else arms, features=features)
    if len(coords["arm"]) != len(rows):
        raise ValueError(f"The table has {len(rows)} arms, and there are {len(coords['arm'])} labels.")
    offset = per_coefficient(mean, name="mean", coords=coords)
    own = number_above(own, name="own")
    scales = np.atleast_1d(np.asarray(scale, dtype=float))
    if scales.shape not in ((1,), (rows.shape[1],)) or not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(f"scale must be a positive number, or one for each of {rows.shape[1]} columns, got {scale!r}.")
    with pm.Model(coords=coords | {"column": range(rows.shape[1])}) as model:
        weights = pm.Normal("B", 0.0, np.broadcast_to(scales, rows.shape[1])[:, None], dims=("column", "feature"))
        told = sum(rows[:, [k]] * weights[k][None, :] for k in range(rows.shape[1]))
        pm.Normal("beta", offset + told, own, dims=("arm", "feature"))
    return model
