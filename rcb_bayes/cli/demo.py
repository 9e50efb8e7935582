"""``rcb demo``: a belief checked, and the paper's plan for it, in a few seconds."""

import typer
from rich.console import Console
from rich.table import Table

from rcb_bayes.cli.options import JsonOption, SeedOption, is_stdout, write_json

_EPSILON, _TAU, _RHO, _SIGMA, _HORIZON = 0.05, 0.01, 0.95, 0.05, 50_000
_N_USERS = 20_000


def command(seed: SeedOption = 1, json_file: JsonOption = None) -> None:
    """Check a strong belief against its users, and see what the paper's theorem would ask for."""
    import numpy as np

    from rcb_bayes.covariates import Sphere
    from rcb_bayes.market import Market
    from rcb_bayes.noise import GaussianNoise
    from rcb_bayes.prior import load_prior
    from rcb_bayes.theorem import theorem_constants

    market = Market(prior=load_prior("setting_4"), covariates=Sphere(5), noise=GaussianNoise(_SIGMA))
    users = market.covariates.sample(_N_USERS, seed=seed)
    expected = users @ market.prior.mean.values.T  # (users, arms)
    loss = expected.max(axis=1, keepdims=True) - expected
    willing = (loss <= _EPSILON).mean(axis=0)
    error = np.sqrt(willing * (1 - willing) / _N_USERS)
    phi0 = market.covariates.phi0
    plan = theorem_constants(
        n_arms=market.n_arms,
        n_features=market.n_features,
        sigma=_SIGMA,
        phi0=phi0,
        epsilon=_EPSILON,
        tau=_TAU,
        rho=_RHO,
    )
    if json_file is not None:
        write_json(
            {
                "willing": {
                    arm: {"share": float(s), "mcse": float(e)}
                    for arm, s, e in zip(market.arms, willing, error, strict=True)
                },
                "phi0": phi0,
                "n_per_arm": plan.n_per_arm,
                "inverse_rate": plan.inverse_rate,
                "expected_cold_start": plan.expected_cold_start,
                "seed": seed,
            },
            json_file,
        )
    if is_stdout(json_file):
        return
    console = Console()
    console.print("[bold]A market in which everybody expects the first arm to be good[/bold] (the paper's Setting 4)\n")
    typer.echo(market.describe())
    typer.echo(f"phi0            {phi0:.3g}, the smallest eigenvalue of E[xx']: every direction of the users varies\n")
    console.print(f"Who would follow a recommendation unasked? A user loses at most epsilon = {_EPSILON} by her own belief:")
    table = Table(box=None, pad_edge=False)
    for title in ("arm", "prior mean of beta", "share of users", "+/-"):
        table.add_column(title, justify="left" if title == "arm" else "right")
    for k, arm in enumerate(market.arms):
        mean = float(market.prior.mean.values[k].mean())
        table.add_row(arm, f"{mean:.2f}", f"{willing[k]:.3f}", f"{error[k]:.3f}")
    console.print(table)
    console.print("\nThe paper's plan (Theorem 1), to the letter:")
    typer.echo(f"  N = {plan.n_per_arm:,} samples per arm, one exploration in L = {plan.inverse_rate:.1f} rounds")
    typer.echo(
        f"  expected cold start {plan.expected_cold_start:,.0f} rounds, where the paper's horizon is {_HORIZON:,}: "
        + ("it never ends." if plan.expected_cold_start > _HORIZON else "it fits.")
    )
    typer.echo("\nNext: `rcb models` lists the beliefs you can start from; the README shows the same in Python.")
