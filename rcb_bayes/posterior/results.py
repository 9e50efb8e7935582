"""What an engine returns for a batch of data sets: means, covariances on request, and a diagnostic for each."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DiagnosticWarning
from rcb_bayes.posterior.vouching import LARGEST_ERROR, LARGEST_GAP
from rcb_bayes.schema import ARM, FEATURE, BoolArray, FloatArray, as_labels

if TYPE_CHECKING:
    import xarray as xr

RHAT_LIMIT = 1.01
MIN_BULK_ESS = 200.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosteriorBatch:
    """Posterior moments of M data sets.

    Parameters
    ----------
    mean : ndarray
        E[beta | S], (M, K, d).
    covariance : ndarray, optional
        Joint covariance of the stacked beta, (M, K d, K d), or only that of every arm's own coefficients, (M, K, d, d);
        None where it was not asked for.
    vouched : ndarray
        Whether the diagnostics of each data set are good, (M,).
    engine : ndarray
        The engine that answered for each data set, (M,).
    diagnostics : mapping of str to ndarray
        Per data set (M,), NaN where a diagnostic does not belong to the engine: ``khat``, ``effective_size``,
        ``effective_share`` (importance sampling); ``rhat``, ``ess_bulk``, ``divergences``, ``mean_error`` (NUTS);
        ``gap``, between halves of the draws or between chains, in posterior sd (laplace, NUTS).
    n_sent : int
        How many data sets the first engine did not vouch for and sent on.
    reason : str
        Which engine was chosen, and why.
    reward : ndarray, optional
        E[mean reward of user u by arm k | S], (M, U, K), or None where no users were given.
    reward_variance : ndarray, optional
        Its posterior variance, (M, U, K): of 0/1 rewards where users were given and covariances asked for.
    """

    mean: FloatArray
    covariance: FloatArray | None
    vouched: BoolArray
    engine: np.ndarray
    diagnostics: Mapping[str, FloatArray]
    n_sent: int = 0
    reason: str = ""
    reward: FloatArray | None = None
    reward_variance: FloatArray | None = None

    @property
    def n_sets(self) -> int:
        """M, the number of data sets."""
        return len(self.mean)

    def arm_covariances(self) -> FloatArray:
        """Covariance of every arm's own coefficients, (M, K, d, d)."""
        assert self.covariance is not None  # asked for when fitted
        m, k, d = self.mean.shape
        if self.covariance.ndim == 4:
            return self.covariance
        return np.einsum("mkdke->mkde", self.covariance.reshape(m, k, d, k, d))

    def to_dataset(self, *, arms: tuple[str, ...], features: tuple[str, ...]) -> "xr.Dataset":
        """The batch with labels: dims (world, arm, feature)."""
        import xarray as xr

        arms, features = (
            as_labels(labels, dim=dim, size=size)
            for labels, dim, size in zip((arms, features), (ARM, FEATURE), self.mean.shape[1:], strict=True)
        )
        variables: dict[str, tuple] = {
            "mean": (("world", ARM, FEATURE), self.mean),
            "vouched": (("world",), self.vouched),
            "engine": (("world",), self.engine.astype(str)),
        }
        variables.update({name: (("world",), values) for name, values in self.diagnostics.items()})
        if self.covariance is not None:
            k, d = len(arms), len(features)
            dims = ("world", ARM, FEATURE, f"{ARM}_2", f"{FEATURE}_2")
            variables["covariance"] = (dims, self.covariance.reshape(-1, k, d, k, d))
        coords = {ARM: list(arms), FEATURE: list(features)}
        if self.covariance is not None:
            coords |= {f"{ARM}_2": list(arms), f"{FEATURE}_2": list(features)}
        attrs = {"n_sent": self.n_sent, "n_not_vouched": int((~self.vouched).sum()), "reason": self.reason}
        return xr.Dataset(variables, coords=coords, attrs=attrs)


def users_of(users: FloatArray | None, index: np.ndarray) -> FloatArray | None:
    """The users of some data sets, where each data set has users of its own."""
    return users if users is None or users.ndim == 2 else users[index]


def linear_rewards(mean: FloatArray, users: FloatArray | None) -> FloatArray | None:
    """x'E[beta | S] of users (U, d), or of each data set's own users (M, U, d): (M, U, K)."""
    if users is None:
        return None
    return np.broadcast_to(users, (len(mean), *users.shape[-2:])) @ mean.swapaxes(1, 2)


def merged(first: PosteriorBatch, second: PosteriorBatch, index: np.ndarray) -> PosteriorBatch:
    """The first batch with the data sets at ``index`` replaced by the second's."""
    names = dict.fromkeys([*first.diagnostics, *second.diagnostics])
    diagnostics = {}
    for name in names:
        values = first.diagnostics.get(name, np.full(first.n_sets, np.nan)).copy()
        values[index] = second.diagnostics.get(name, np.full(len(index), np.nan))
        diagnostics[name] = values
    return PosteriorBatch(
        mean=_replaced(first.mean, second.mean, index),
        covariance=_replaced_if_any(first.covariance, second.covariance, index),
        vouched=_replaced(first.vouched, second.vouched, index),
        engine=_replaced(first.engine, second.engine, index),
        diagnostics=diagnostics,
        n_sent=first.n_sent,
        reason=first.reason,
        reward=_replaced_if_any(first.reward, second.reward, index),
        reward_variance=_replaced_if_any(first.reward_variance, second.reward_variance, index),
    )


def _replaced_if_any(old: FloatArray | None, new: FloatArray | None, index: np.ndarray) -> FloatArray | None:
    return None if old is None or new is None else _replaced(old, new, index)


def _replaced(old: np.ndarray, new: np.ndarray, index: np.ndarray) -> np.ndarray:
    out = old.copy()
    out[index] = new
    return out


def warn_if_not_vouched(batch: PosteriorBatch) -> PosteriorBatch:
    """Say, once per batch, how many posteriors are not vouched for and what to do about it."""
    bad = int((~batch.vouched).sum())
    if bad:
        warnings.warn(
            f"{bad} of {batch.n_sets} posteriors are not vouched for ({_symptoms(batch)}). "
            "Use more draws, a non-centred form of the belief, or lighter tails; results built on them are marked.",
            DiagnosticWarning,
            stacklevel=3,
        )
    return batch


def _symptoms(batch: PosteriorBatch) -> str:
    bad = ~batch.vouched
    found = []
    for name, label in (("rhat", "r-hat up to"), ("khat", "k-hat up to"), ("gap", "halves of the draws apart by")):
        values = batch.diagnostics.get(name)
        if name == "gap" and values is not None and not (values[bad] > LARGEST_GAP).any():
            continue
        if values is not None and np.isfinite(values[bad]).any():
            unit = " sd" if name == "gap" else ""
            found.append(f"{label} {np.nanmax(values[bad]):.2f}{unit}")
    for name, label in (("ess_bulk", "effective size down to"), ("effective_size", "effective size down to")):
        values = batch.diagnostics.get(name)
        if values is not None and np.isfinite(values[bad]).any():
            found.append(f"{label} {np.nanmin(values[bad]):.0f}")
    divergences = batch.diagnostics.get("divergences")
    if divergences is not None and np.nansum(divergences[bad]) > 0:
        found.append(f"{int(np.nansum(divergences[bad]))} divergences")
    if _looks_good(batch)[bad].any():
        found.append("chains may miss a camp of the mixture")
    return ", ".join(found) or "weights collapsed"


def _looks_good(batch: PosteriorBatch) -> BoolArray:
    """Whether chains have nothing against them but the belief, (M,)."""
    rhat, size = (batch.diagnostics.get(name, np.full(batch.n_sets, np.nan)) for name in ("rhat", "ess_bulk"))
    divergences = batch.diagnostics.get("divergences", np.zeros(batch.n_sets))
    error, gap = (batch.diagnostics.get(name, np.zeros(batch.n_sets)) for name in ("mean_error", "gap"))
    apart = (error > LARGEST_ERROR) | (gap > LARGEST_GAP)
    return (rhat <= RHAT_LIMIT) & (size >= MIN_BULK_ESS) & ~(divergences > 0) & ~apart
