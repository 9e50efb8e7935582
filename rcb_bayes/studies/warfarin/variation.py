r"""How sure a figure is that rests on some plans and some orders of patients.

Every plan p of P, each from worlds of its own seed, is replayed in the same S orders s:

.. math:: y_{ps} = \mu + a_p + b_s + e_{ps}, \qquad \bar y = \mu + \bar a + \bar b + \bar e .

With the mean squares of a table of two ways,

.. math::

    M_a = \frac{S}{P - 1} \sum_p (\bar y_{p\cdot} - \bar y)^2, \quad
    M_b = \frac{P}{S - 1} \sum_s (\bar y_{\cdot s} - \bar y)^2, \quad
    M_e = \frac{\sum_{ps} (y_{ps} - \bar y_{p\cdot} - \bar y_{\cdot s} + \bar y)^2}{(P - 1)(S - 1)},

whose expectations are :math:`\sigma_e^2 + S \sigma_a^2`, :math:`\sigma_e^2 + P \sigma_b^2` and :math:`\sigma_e^2`, the
variance of the mean is

.. math:: \frac{\sigma_a^2}{P} + \frac{\sigma_b^2}{S} + \frac{\sigma_e^2}{PS}
    \approx \frac{M_e + \max(M_a - M_e, 0) + \max(M_b - M_e, 0)}{PS} .

The error over orders alone leaves out :math:`\sigma_a^2 / P`, which no number of orders makes smaller.
"""

import numpy as np

from rcb_bayes.schema import FloatArray


def two_way_error(values: FloatArray) -> FloatArray:
    """Standard error of the mean over plans and orders together, (P, S, ...) -> (...).

    One plan, or none behind the figure: the error over orders alone. One order: NaN, for nothing tells how much orders
    matter.

    Applicability
    -------------
    Plans and orders are draws at random, each plan met every order. A component that comes out negative counts as 0, so
    that with few plans and no spread between them the error errs upwards.

    Examples
    --------
    Two plans that differ by 2 in each of three orders: the error is that of the plans, and orders add nothing to it.

    >>> from rcb_bayes.studies.warfarin import two_way_error
    >>> two_way_error(np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])).item()
    1.0
    """
    values = np.asarray(values, dtype=float)
    n_plans, n_orders = values.shape[:2]
    if n_orders < 2:
        return np.full(values.shape[2:], np.nan)
    if n_plans < 2:
        return values[0].std(axis=0, ddof=1) / np.sqrt(n_orders)
    by_plan, by_order, mean = values.mean(axis=1), values.mean(axis=0), values.mean(axis=(0, 1))
    rest = values - by_plan[:, None] - by_order[None] + mean
    within = (rest**2).sum(axis=(0, 1)) / ((n_plans - 1) * (n_orders - 1))
    plans = n_orders * by_plan.var(axis=0, ddof=1)
    orders = n_plans * by_order.var(axis=0, ddof=1)
    total = within + np.maximum(plans - within, 0.0) + np.maximum(orders - within, 0.0)
    return np.sqrt(total / (n_plans * n_orders))


def one_way_error(values: FloatArray) -> FloatArray:
    """Standard error of the mean over the first axis; NaN for one value."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))
