"""The paper's pseudo-code, step by step: a loop over t with lists and conjugate formulas, sharing nothing but numbers.

For Gaussian beliefs with independent arms, one exploration rate for all, and the posterior spread.
"""

import numpy as np


def posterior(mean: np.ndarray, cov: np.ndarray, rows: list, *, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of one arm's coefficients given rows (x, y)."""
    precision = np.linalg.inv(cov)
    vector = precision @ mean
    for x, y in rows:
        precision = precision + np.outer(x, x) / sigma**2
        vector = vector + x * y / sigma**2
    return np.linalg.solve(precision, vector), np.linalg.inv(precision)


def choose(shares: list[float], uniform: float) -> int:
    """The arm that a uniform number falls on."""
    total, below = sum(shares), 0.0
    for arm, share in enumerate(shares):
        below += share
        if uniform * total < below:
            return arm
    return len(shares) - 1


def best_of(values: list[float]) -> list[float]:
    """Equal shares for the best."""
    top = max(values)
    tied = [value >= top - 1e-12 * max(abs(top), 1.0) for value in values]
    return [float(is_best) / sum(tied) for is_best in tied]


def ipgs(values: list[float], gamma: float) -> list[float]:
    """The paper's kernel."""
    k, b = len(values), int(np.argmax(values))
    out = [1 / (k + gamma * (values[b] - value)) for value in values]
    out[b] = 0.0
    out[b] = 1 - sum(out)
    return out


def run(
    mean: np.ndarray,
    cov: np.ndarray,
    *,
    beta: np.ndarray,
    sigma: float,
    n_per_arm: int,
    rate: float,
    users: np.ndarray,
    uniforms: np.ndarray,
    noise: np.ndarray,
    panel: np.ndarray,
    feed: str = "all",
    clock: str = "relative",
) -> tuple[list[int], list[str], list[float]]:
    """Recommended arms, stages, and the spread of each epoch."""
    k = len(mean)
    data: list[list] = [[] for _ in range(k)]
    arms, stages, gammas = [], [], []
    t = 0
    while min(len(rows) for rows in data) < n_per_arm:
        x, (coin, choice) = users[t], uniforms[t]
        full = [len(rows) >= n_per_arm for rows in data]
        prior = [float(x @ mean[a]) for a in range(k)]
        open_arms = [a for a in range(k) if not full[a]]
        promoted = [0.0] * k
        for a, share in zip(open_arms, best_of([prior[a] for a in open_arms]), strict=True):
            promoted[a] = share
        if not any(full):
            arm, stage, counts = choose(promoted, choice), "most popular", True
        elif coin < rate:
            arm, stage, counts = choose(promoted, choice), "promoted", True
        else:
            expected = [
                float(x @ posterior(mean[a], cov[a], data[a], sigma=sigma)[0]) if full[a] else prior[a]
                for a in range(k)
            ]
            arm, stage, counts = choose(best_of(expected), choice), "organic", False
        y = x @ beta[arm] + sigma * noise[t]
        if counts:
            data[arm].append((x, y))
        arms.append(arm)
        stages.append(stage)
        t += 1
    kernel = [[1 / k] * k for _ in panel]
    length = k * n_per_arm
    gamma = 0.0
    while t < len(users):
        fitted = [posterior(mean[a], cov[a], data[a], sigma=sigma) for a in range(k)]
        error = np.mean(
            [sum(p[a] * x @ fitted[a][1] @ x for a in range(k)) for x, p in zip(panel, kernel, strict=True)]
        )
        gamma = max(gamma, 4 * np.sqrt(k / error))
        gammas.append(gamma)
        kernel = [ipgs([float(x @ fitted[a][0]) for a in range(k)], gamma) for x in panel]
        fresh: list[list] = [[] for _ in range(k)]
        if clock == "relative":
            end = t + length
        else:  # the end of the first epoch (2^(m-1), 2^m] that begins at t or after it
            end = 2 ** (int(np.ceil(np.log2(t))) + 1)
        for step in range(t, min(end, len(users))):
            x = users[step]
            arm = choose(ipgs([float(x @ fitted[a][0]) for a in range(k)], gamma), uniforms[step, 1])
            fresh[arm].append((x, x @ beta[arm] + sigma * noise[step]))
            arms.append(arm)
            stages.append("exploit")
        data = fresh if feed == "last" else [old + new for old, new in zip(data, fresh, strict=True)]
        t, length = min(end, len(users)), 2 * length
    return arms, stages, gammas
