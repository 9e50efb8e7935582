"""What the second moment E[xx'] says about coverage: its spectrum, and the directions hardly or never visited."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray, frozen, is_number

_MOST_TERMS = 8  # terms of a direction shown as text
_NEGLIGIBLE = 1e-6  # entries of a unit vector not worth a term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeakDirections:
    """Eigenvectors of E[xx'] whose eigenvalue is zero or nearly so.

    Parameters
    ----------
    eigenvalues : ndarray
        (m,), ascending; exactly 0.0 for directions no user has a component in.
    directions : ndarray
        (m, d), unit vectors v with E[(x'v)^2] = eigenvalue, the first entry positive; among those with eigenvalue 0 the
        basis is chosen to have few non-zero entries (to be read) and need not be orthogonal.
    text : tuple of str
        The same in words, such as ``"0.71 female - 0.71 male"``; small entries are left out.
    """

    eigenvalues: FloatArray
    directions: FloatArray
    text: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.text)

    def __str__(self) -> str:
        pairs = zip(self.text, self.eigenvalues, strict=True)
        return "; ".join(f"{text} (eigenvalue {value:.3g})" for text, value in pairs) or "none"


def spectrum(moment: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ascending eigenvalues and eigenvectors (in columns), zero where zero up to rounding; (..., d, d) in."""
    values, vectors = np.linalg.eigh(moment)
    # Forming X'X costs about d eps of the largest eigenvalue. A wider cut would take different units for deficiency.
    floor = 64 * moment.shape[-1] * np.finfo(np.float64).eps * values[..., -1:]
    return np.where(values <= floor, 0.0, values), vectors


def weighted_moment(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_r w_r x_r x_r', shape (d, d)."""
    return (rows * weights[:, None]).T @ rows


def find_weak_directions(moment: FloatArray, *, features: Sequence[str], tolerance: float) -> WeakDirections:
    """Eigenvectors whose eigenvalue is at most ``tolerance`` times the largest."""
    if not is_number(tolerance) or not 0 <= tolerance < 1:
        raise DataError(f"tolerance must be a share of the largest eigenvalue in [0, 1), got {tolerance!r}.")
    values, vectors = spectrum(moment)
    weak = values <= tolerance * values[-1]
    directions = vectors.T[weak]
    n_null = int((values == 0).sum())
    directions[:n_null] = _sparse_basis(directions[:n_null])
    leading = (np.abs(directions) > _NEGLIGIBLE).argmax(axis=1)
    directions *= np.sign(directions[np.arange(len(directions)), leading])[:, None]
    text = tuple(_direction_text(direction, features) for direction in directions)
    return WeakDirections(eigenvalues=frozen(values[weak]), directions=frozen(directions), text=text)


def _sparse_basis(null: FloatArray) -> FloatArray:
    """A basis of the same space (m, d) with few non-zero entries, in rows of length 1."""
    basis = null.copy()
    for k in range(len(basis)):  # Gauss-Jordan elimination with full pivoting
        row, column = divmod(int(np.abs(basis[k:]).argmax()), basis.shape[1])
        basis[[k, k + row]] = basis[[k + row, k]]
        basis[k] /= basis[k, column]
        others = np.arange(len(basis)) != k
        basis[others] -= np.outer(basis[others, column], basis[k])
    basis[np.abs(basis) < 1e-9] = 0.0
    return basis / np.linalg.norm(basis, axis=1, keepdims=True)


def _direction_text(direction: FloatArray, features: Sequence[str]) -> str:
    """``"0.71 female - 0.71 male"``: the largest terms, in the order of the features."""
    terms = np.flatnonzero(np.abs(direction) > _NEGLIGIBLE)
    shown = sorted(terms[np.argsort(-np.abs(direction[terms]), kind="stable")[:_MOST_TERMS]])
    text = " ".join(f"{'-' if direction[k] < 0 else '+'} {abs(direction[k]):.2g} {features[k]}" for k in shown)
    return text.removeprefix("+ ") + (" + ..." if len(terms) > len(shown) else "")
