r"""Feature maps: what a belief's features are of a user's covariates, :math:`\phi(x)`.

People, plans and reports speak of x; a belief may speak of :math:`\phi(x)`, rewards being
:math:`y = \phi(x)'b_a + \mathrm{noise}`. A map comes from a scikit-learn transformer (``Market(features=...)``) or from
the belief itself (a regression's basis, an intercept kept apart). Whoever holds one asks three things of it: the labels
of x, those of the features, and the features of some users.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.errors import DataError, MarketError
from rcb_bayes.schema import FEATURE, FloatArray, as_labels, default_labels

_PROBES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureMap:
    """Features of users, x (n, p) -> phi(x) (n, d), with labels of both.

    Attributes
    ----------
    inputs : labels of x, p of them
    features : labels of phi(x), d of them
    evaluate : the map itself; a user's features depend on her own x alone
    named : whether the labels of x are names that a belief or a table gave, rather than defaults
    source : what it comes from, in a word or two
    """

    inputs: tuple[str, ...]
    features: tuple[str, ...]
    evaluate: Callable[[FloatArray], Any]
    named: bool = False
    source: str = "a map"

    @property
    def n_inputs(self) -> int:
        """p, the number of covariates."""
        return len(self.inputs)

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.features)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Features of users, (..., p) -> (..., d).

        Raises
        ------
        DataError
            Features that are not finite, or not as many as before.
        """
        rows = np.ascontiguousarray(x, dtype=float).reshape(-1, self.n_inputs)
        found = np.asarray(self.evaluate(rows), dtype=float) if len(rows) else np.zeros((0, self.n_features))
        if found.shape != (len(rows), self.n_features):
            raise DataError(
                f"The feature map ({self.source}) gave shape {found.shape} for {len(rows)} users, expected "
                f"({len(rows)}, {self.n_features}): it must keep its width for any users."
            )
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            raise DataError(
                f"The feature map ({self.source}) gave NaN or infinite values, first for x = "
                f"{np.array2string(rows[row], precision=4, threshold=8)}: impute, clip or extrapolate inside of it."
            )
        return found.reshape(*np.shape(x)[:-1], self.n_features)


def with_intercept(features: Sequence[str], *, name: str) -> FeatureMap:
    """x with a 1 before it: how an intercept that is kept apart becomes a coefficient."""
    return FeatureMap(
        inputs=tuple(features),
        features=(name, *features),
        evaluate=_prepend_one,
        named=True,
        source=f"the intercept '{name}'",
    )


def _prepend_one(x: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def of_transformer(transformer: Any, *, inputs: Sequence[str], sample: FloatArray) -> FeatureMap:
    """The map of a scikit-learn transformer; one that is not fitted yet is fitted on a copy, to ``sample`` alone.

    Parameters
    ----------
    inputs : labels of x
    sample : users (n, p) to fit it to; rewards never enter

    Raises
    ------
    MarketError
        No transformer, one that needs rewards (y), or one whose features are not a function of a user's own x.
    """
    for method in ("fit", "transform"):
        if isinstance(transformer, type) or not callable(getattr(transformer, method, None)):
            got = f"the class {transformer.__name__}" if isinstance(transformer, type) else type(transformer).__name__
            raise MarketError(
                f"features must be a scikit-learn transformer with fit and transform, got {got}. "
                "Use PolynomialFeatures(2), SplineTransformer(), a pipeline of such, or a FeatureMap."
            )
    name = type(transformer).__name__
    fitted = _fitted(transformer, np.ascontiguousarray(sample, dtype=float), inputs=tuple(inputs), name=name)
    evaluate = _Transform(fitted, name, *_columns(fitted, tuple(inputs), name=name))
    width = evaluate(sample[:1]).shape[1]
    found = FeatureMap(
        inputs=tuple(inputs), features=_labels(fitted, inputs, width), evaluate=evaluate, named=True, source=name
    )
    _check_alone(found, sample)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Transform:
    """A fitted transformer as a plain function; a class, so that it can be sent to other processes.

    One that was fitted to named columns is given these, ``columns``, of the labels of x, ``inputs``.
    """

    fitted: Any
    name: str
    inputs: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, x: FloatArray) -> FloatArray:
        try:
            found = self.fitted.transform(_table(x, self.inputs)[list(self.columns)] if self.columns else x)
        except Exception as error:
            raise DataError(f"The feature map ({self.name}) failed: {_line(error)}") from error
        found = found.toarray() if hasattr(found, "toarray") else found
        try:
            features = np.asarray(getattr(found, "values", found), dtype=float)
        except (TypeError, ValueError):
            raise DataError(f"The feature map ({self.name}) gave features that are no numbers: encode them.") from None
        if features.ndim != 2 or not features.shape[1]:
            raise DataError(
                f"The feature map ({self.name}) gave shape {features.shape} for {len(x)} users, expected a row of "
                "features for each."
            )
        return features


def _table(x: FloatArray, names: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(x, columns=list(names))


def _columns(fitted: Any, inputs: tuple[str, ...], *, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of x, and of these the columns that a transformer was fitted to; none where it was fitted to an array.

    Default labels are no names: then columns are told by their places.

    Raises
    ------
    MarketError
        Columns that the users do not have.
    """
    columns = tuple(str(column) for column in getattr(fitted, "feature_names_in_", ()))
    if len(columns) == len(inputs) and inputs == default_labels(FEATURE, len(inputs)):
        return columns, columns
    missing = [column for column in columns if column not in inputs]
    if missing:
        raise MarketError(
            f"The feature map ({name}) was fitted to a column '{missing[0]}', and the users have "
            f"{', '.join(inputs[:8])}. Name the users' covariates as its columns, or fit it to an array."
        )
    return inputs, columns


def _fitted(transformer: Any, sample: FloatArray, *, inputs: tuple[str, ...], name: str) -> Any:
    """The transformer itself where it is fitted, else a clone fitted to covariates only, named if it asks for names.

    One that cannot be fitted again without y, and can with any, looks at y: nobody knows what it was fitted to.
    """
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    copy: Any = clone(transformer)
    x = _table(sample, inputs) if _asks_for_names(transformer) else sample
    error = _refused(copy, x)
    if error is not None and _refused(clone(transformer), x, np.arange(len(sample)) % 2) is None:
        raise MarketError(_looks_at_rewards(name)) from error
    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        pass
    else:
        if _is_stateful(transformer):
            return transformer
    if error is None:
        return copy
    if "y" in str(error).replace("'", " ").replace("`", " ").split():
        raise MarketError(_looks_at_rewards(name)) from error
    raise MarketError(f"The feature map ({name}) could not be fitted to the covariates: {_line(error)}") from error


def _refused(transformer: Any, *data: Any) -> Exception | None:
    """What a transformer says that cannot be fitted to these data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if len(data) > 1 else "default")
        try:
            transformer.fit(*data)
        except Exception as error:
            return error
    return None


def _asks_for_names(transformer: Any) -> bool:
    """Whether it, or a step of it, picks columns by their names."""
    parts = [transformer, *(step for _, step in getattr(transformer, "steps", []))]
    chosen = [columns for part in parts for _, _, columns in getattr(part, "transformers", None) or ()]
    return any(isinstance(name, str) for one in chosen for name in ([one] if isinstance(one, str) else np.ravel(one)))


def _is_stateful(transformer: Any) -> bool:
    """Whether there is anything fitted about it: a stateless one always passes for fitted."""
    return any(key.endswith("_") and not key.startswith("__") for key in vars(transformer)) or hasattr(
        transformer, "steps"
    )


def _looks_at_rewards(name: str) -> str:
    return (
        f"The feature map ({name}) looks at y: features may depend on covariates only, never on rewards. "
        "Use a transformer that is fitted without y."
    )


def _labels(fitted: Any, inputs: Sequence[str], width: int) -> tuple[str, ...]:
    try:
        own = getattr(fitted, "feature_names_in_", inputs)
        names = [str(label) for label in fitted.get_feature_names_out(list(own))]
    except Exception:
        return as_labels(None, dim=FEATURE, size=width)
    unique = len(names) == width and len(set(names)) == width
    return as_labels(names if unique else None, dim=FEATURE, size=width)


def _check_alone(found: FeatureMap, sample: FloatArray) -> None:
    """Refuse features of a user that change with the company she is transformed in."""
    some = sample[:_PROBES]
    together = found(some)
    alone = np.concatenate([found(row[None]) for row in some[:8]])
    scale = np.abs(together).max(initial=1.0)
    if not np.allclose(alone, together[:8], rtol=1e-10, atol=1e-10 * scale):
        raise MarketError(
            f"The feature map ({found.source}) gives a user other features in other company. "
            "Fit it first, so that a user's features are a function of her own x."
        )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
