"""A result of the study that was not computed, for tests."""

from rcb_bayes.studies.actg import ActgResult


def made_up_result() -> ActgResult:
    """Every table with a row or two; one policy that learns and one that does not."""
    value = {"belief": "", "epsilon": None, "n_rounds": 40, "reached": 1.0, "mcse": 1 / 30, "lower": 0.1, "upper": 0.4}
    plan = {"belief": "sceptical", "epsilon": 0.1, "n_per_arm": 3, "feasible": True, "rate": 1 / 3, "rate_mcse": 0.01}
    part = {
        "checks": [
            {"belief": "sceptical", "check": "1", "verdict": "pass", "estimate": 0.1, "mcse": 0.01, "threshold": 0.01}
        ],
        "constants": [
            {
                "belief": "sceptical",
                "epsilon": 0.1,
                "tau": 0.1,
                "rho": 0.2,
                "tau_star": 0.1,
                "rho_star": 0.3,
                "phi0": 1.0,
            }
            | {"prior_gap": 0.2, "inverse_rate": 1.5, "n_per_arm": 1000}
        ],
        "plans": [
            plan
            | {"cold_start": 40.0, "cold_start_mcse": 1.0, "reason": "", "replayed_cold_start": 38.0, "ended": 0.5},
            plan
            | {"feasible": False, "cold_start": None, "cold_start_mcse": None, "reason": "Too long."}
            | {"replayed_cold_start": None, "ended": None},
        ],
        "values": [
            value
            | {
                "policy": "RCB",
                "belief": "sceptical",
                "epsilon": 0.1,
                "method": "replay",
                "value": 0.3,
                "share_zdv": 0.2,
            },
            value | {"policy": "always zdv", "method": "dr", "value": 0.2},
        ],
        "audits": [
            {
                "belief": "sceptical",
                "epsilon": 0.1,
                "notion": "user",
                "verdict": "pass",
                "margin": -0.05,
                "margin_mcse": 0.01,
            }
        ],
        "logs": [
            {"belief": "sceptical", "epsilon": 0.1, "arm": "zdv", "estimator": "adaptive", "trial": -0.2, "n_logs": 2}
            | {"value": -0.1, "covered": 1.0, "width": 0.5}
        ],
        "coverage": [
            {"policy": "always zdv", "method": "dr", "n": 10, "held": 9, "held_uncorrected": 10},
            {"policy": "always zdv", "method": "dr", "n": 10, "held": 10, "held_uncorrected": 10},
        ],
    }
    asked = {
        "beliefs": ["sceptical"],
        "epsilons": [0.1],
        "n_per_arm": 3,
        "audit_worlds": 50,
        "n_rounds": 40,
        "n_orders": 2,
    }
    return ActgResult.of_parts([part], trial="made up, of no trial", asked=asked)
