"""Sums over rounds by the arm recommended and the arm taken: all that estimates with the offer as instrument need."""

import numpy as np

from rcb_bayes.schema import FloatArray

NAMES = ("offer_n", "offer_xx", "offer_xy", "offer_yy")
DIMS: dict[str, tuple[str, ...]] = {
    "offer_n": ("offered", "taken"),
    "offer_xx": ("offered", "taken", "feature", "other_feature"),
    "offer_xy": ("offered", "taken", "feature"),
    "offer_yy": ("offered", "taken"),
}


class OfferSums:
    """Counts, X'X, X'y and y'y of K x K groups of rounds."""

    def __init__(self, n_arms: int, n_features: int) -> None:
        k, d = n_arms, n_features
        self.n, self.yy = np.zeros((k, k)), np.zeros((k, k))
        self.xx, self.xy = np.zeros((k, k, d, d)), np.zeros((k, k, d))

    def add(self, x: FloatArray, offered: np.ndarray, taken: np.ndarray, reward: FloatArray) -> None:
        """Rounds of users (n, d) who were offered some arms and took others, (n,) each."""
        k = len(self.n)
        group = offered.astype(np.int64) * k + taken
        for which in np.unique(group).tolist():
            some = group == which
            at = divmod(which, k)
            own, y = x[some], reward[some]
            self.n[at] += len(own)
            self.xx[at] += own.T @ own
            self.xy[at] += own.T @ y
            self.yy[at] += y @ y

    def as_arrays(self) -> dict[str, np.ndarray]:
        """By name."""
        return dict(zip(NAMES, (self.n, self.xx, self.xy, self.yy), strict=True))
