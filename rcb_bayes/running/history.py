"""What a platform has seen: users, arms and rewards, as sufficient statistics and, where an oracle needs them, rows.

Samples are summed in chunks of a fixed number of them, however they come in: sums of floating-point numbers depend on
their grouping in the last bits, and a run one by one is to be the same as one in blocks.
"""

from collections.abc import Iterable

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.posterior.data import Rows, Statistics, unchecked_statistics
from rcb_bayes.schema import FloatArray

CHUNK = 4096
_SUMS = ("xtx", "xty", "yty", "n")


class History:
    """Samples of every arm, added to as they come.

    Attributes
    ----------
    n : samples of each arm, (K,)
    keeps_rows : whether rows are kept beside the sums
    """

    def __init__(self, n_arms: int, n_features: int, *, keep_rows: bool = False) -> None:
        self.n = np.zeros(n_arms)
        self.keeps_rows = keep_rows
        self._sums = Statistics.of_nothing(n_arms, n_features)
        self._x = np.empty((CHUNK, n_features))
        self._arm = np.empty(CHUNK, dtype=np.int64)
        self._reward = np.empty(CHUNK)
        self._filled = 0
        self._parts: list[tuple[FloatArray, np.ndarray, FloatArray]] = []

    @classmethod
    def of_market(cls, market: Market, *, keep_rows: bool = False) -> "History":
        """What the platform of a market knows before the first round: its private history, or nothing."""
        made = cls(market.n_arms, market.n_features, keep_rows=keep_rows)
        if market.past is not None:
            made.add(market.past.x, market.past.arm, market.past.reward)
        return made

    @property
    def n_samples(self) -> int:
        """Samples of all arms."""
        return int(self.n.sum())

    def add(self, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> None:
        """More samples: x (m, d), arm positions (m,), reward (m,)."""
        self.n += np.bincount(arm, minlength=len(self.n))
        start = 0
        while start < len(arm):
            size = min(CHUNK - self._filled, len(arm) - start)
            here, there = slice(self._filled, self._filled + size), slice(start, start + size)
            self._x[here], self._arm[here], self._reward[here] = x[there], arm[there], reward[there]
            self._filled += size
            start += size
            self._empty_if_full()

    def add_one(self, x: FloatArray, arm: int, reward: float) -> None:
        """One more sample, x (d,)."""
        self.n[arm] += 1.0
        k = self._filled
        self._x[k], self._arm[k], self._reward[k] = x, arm, reward
        self._filled = k + 1
        self._empty_if_full()

    def sums(self) -> Statistics:
        """Sums over all samples: one data set."""
        return self._sums.plus(_sums(*self._waiting(), n_arms=len(self.n)))

    def rows(self) -> tuple[FloatArray, np.ndarray, FloatArray]:
        """All rows in the order they came: x (n, d), arm (n,), reward (n,)."""
        assert self.keeps_rows  # for whoever asks
        x, arm, reward = (np.concatenate(part) for part in zip(*self._parts, self._waiting(), strict=True))
        return x, arm, reward

    def as_rows(self, arms: Iterable[int]) -> Rows:
        """The samples of some arms, as an engine for Bernoulli rewards takes them."""
        x, arm, reward = self.rows()
        kept = np.isin(arm, list(arms))
        return Rows(x=x[kept][None], arm=arm[kept][None], reward=reward[kept][None], n_arms=len(self.n))

    def first(self, n: FloatArray) -> "History":
        """The first n (K,) samples of each arm."""
        if (n >= self.n).all():
            return self
        x, arm, reward = self.rows()
        order = np.argsort(arm, kind="stable")
        number = np.empty(len(arm))  # of each sample among its arm's
        number[order] = np.arange(len(arm)) - (np.cumsum(self.n) - self.n)[arm[order]]
        kept = number < n[arm]
        some = History(len(self.n), x.shape[1], keep_rows=True)
        some.add(x[kept], arm[kept], reward[kept])
        return some

    def join(self, other: "History") -> None:
        """All samples of another history."""
        if self.keeps_rows:
            x, arm, reward = other.rows()
            self._parts += [self._waiting_copy(), (x, arm, reward)]
        self._sums, self._filled = self.sums().plus(other.sums()), 0
        self.n = self._sums.n[0].copy()

    def copied(self) -> "History":
        """The same samples, summed alike, to be added to on their own."""
        return History.from_state(self.state())

    def widened(self, n_arms: int) -> "History":
        """The same samples among so many arms; those that are new have none."""
        more = n_arms - len(self.n)
        state = self.state()
        sums = {name: np.pad(state[name], ((0, more), *(((0, 0),) * (state[name].ndim - 1)))) for name in _SUMS}
        return History.from_state(state | sums)

    def state(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        x, arm, reward = self._waiting()
        out: dict[str, np.ndarray] = {name: getattr(self._sums, name)[0] for name in _SUMS}
        out |= {"x": x, "arm": arm, "reward": reward}
        if self.keeps_rows:
            parts = [(x[:0], arm[:0], reward[:0]), *self._parts]
            old = (np.concatenate(part) for part in zip(*parts, strict=True))
            out |= dict(zip(("old_x", "old_arm", "old_reward"), old, strict=True))
        return out

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> "History":
        """A history as it was."""
        k, d = state["xty"].shape
        made = cls(k, d, keep_rows="old_x" in state)
        made._sums = unchecked_statistics(*(np.array(state[name])[None] for name in _SUMS))
        made.n = made._sums.n[0].copy()
        if made.keeps_rows:
            made._parts = [(state["old_x"], state["old_arm"].astype(np.int64), state["old_reward"])]
        made.add(state["x"], state["arm"].astype(np.int64), state["reward"])
        return made

    def _waiting(self) -> tuple[FloatArray, np.ndarray, FloatArray]:
        n = self._filled
        return self._x[:n], self._arm[:n], self._reward[:n]

    def _waiting_copy(self) -> tuple[FloatArray, np.ndarray, FloatArray]:
        x, arm, reward = self._waiting()
        return x.copy(), arm.copy(), reward.copy()

    def _empty_if_full(self) -> None:
        if self._filled == CHUNK:
            self._sums = self._sums.plus(_sums(*self._waiting(), n_arms=len(self.n)))
            if self.keeps_rows:
                self._parts.append(self._waiting_copy())
            self._filled = 0


def _sums(x: FloatArray, arm: np.ndarray, reward: FloatArray, *, n_arms: int) -> Statistics:
    total = Statistics.of_nothing(n_arms, x.shape[1])
    total.n[0] = np.bincount(arm, minlength=n_arms)
    order = np.argsort(arm.astype(np.int8 if n_arms < 128 else np.int64), kind="stable")
    x, reward = x.take(order, axis=0), reward.take(order)
    stop = 0
    for k, n in enumerate(total.n[0].astype(int).tolist()):
        start, stop = stop, stop + n
        if n:
            rows, y = x[start:stop], reward[start:stop]
            total.xtx[0, k], total.xty[0, k], total.yty[0, k] = rows.T @ rows, y @ rows, y @ y
    return total
