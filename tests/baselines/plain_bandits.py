"""LinUCB and Thompson sampling step by step, as their papers have them: ridge regressions inverted in every round."""

import numpy as np


def run(
    rule: str,
    *,
    prior_mean: np.ndarray,
    prior_variance: float,
    sigma: float,
    beta: np.ndarray,
    users: np.ndarray,
    noise: np.ndarray,
    scale: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Arms and regrets (T,); ``scale`` is LinUCB's alpha/sigma, or a factor on Thompson sampling's deviations."""
    k, d = beta.shape
    a = np.stack([np.eye(d) * sigma**2 / prior_variance] * k)
    b = np.stack([a[j] @ prior_mean[j] for j in range(k)])
    arms, regrets = [], []
    for x, z in zip(users, noise, strict=True):
        values = []
        for j in range(k):
            inverse = np.linalg.inv(a[j])
            theta = inverse @ b[j]
            if rule == "ucb":
                values.append(x @ theta + scale * sigma * np.sqrt(x @ inverse @ x))
            else:
                values.append(x @ rng.multivariate_normal(theta, (scale * sigma) ** 2 * inverse))
        arm = int(np.argmax(values))
        means = beta @ x
        a[arm] += np.outer(x, x)
        b[arm] += x * (means[arm] + sigma * z)
        arms.append(arm)
        regrets.append(means.max() - means[arm])
    return np.array(arms), np.array(regrets)
