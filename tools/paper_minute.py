"""The page's first part: what a reader takes away in a minute, every figure from the stored tables."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from paper_warfarin import sides

from rcb_bayes.telling.wording import figure

Table = Any  # a DataFrame; pandas' own annotations do not follow its columns
STUCK = "no arm is saturated before the horizon"
"""What runs say in which nobody is ever explored."""
_SUBLINEAR = "regret is sublinear (last tenfold of rounds)"
_WORDS = ("held", "not held", "undecided", "depends on N", "depends on what the paper does not say", "not run")


def minute_lines(
    home: Path, runs: Table, claims: Table, tables: dict[str, Table], simulated: list[str], warfarin: list[str]
) -> list[str]:
    """The section; nothing of what was not run."""
    every = pd.concat([own.assign(setting=name) for name, own in tables.items() if len(own)])
    points = [
        f"**Verdicts.** {_counted('simulations', simulated)} {_counted('warfarin', warfarin)} Each has a row below.",
        _safe_by_waiting(every, claims),
        _small_n(every, claims),
        _sampled(every),
        "**Two trends are not as the paper has them.** In most runs of Settings 3 and 4 regret grows with "
        "the prior variance, and on warfarin the error does not move with epsilon. [Why](#reversed-and-why).",
        "**Much hangs on what the paper leaves open**: who the users are, the N that was run, what a gain is. "
        "[Below](#what-the-paper-does-not-say) is what was taken here.",
        *_warfarin(home),
    ]
    return ["## In a minute", "", *(f"- {point}" for point in points)]


def _counted(what: str, words: list[str]) -> str:
    told = [f"{words.count(word)} {word}" for word in _WORDS if word in words]
    return f"Of {len(words)} claims about {what}: {', '.join(told)}."


def _ended(rows: Table) -> str:
    return f"{int((rows['n_ended'] > 0).sum())} of {len(rows)}"


def _ran(every: Table, kind: str, *settings: str) -> Table:
    rows = every[(every["kind"] == kind) & every["regret"].notna()]
    return rows[rows["setting"].str.removesuffix("-orthant").isin(settings)] if settings else rows


def _exponent(claims: Table, setting: str, kind: str) -> str:
    own = claims[(claims["setting"] == setting) & (claims["claim"] == _SUBLINEAR) & (claims["kind"] == kind)]
    if own.empty:
        return "not run"
    error = float(own["error"].iloc[0])
    return figure(float(own["estimate"].iloc[0]), 0.0 if math.isnan(error) else error)


def _safe_by_waiting(every: Table, claims: Table) -> str:
    theorem, measured = (_ran(every, kind) for kind in ("theorem", "measured"))
    both: Table = pd.concat([theorem, measured])
    passed, failed = (
        int((both[f"verdict_{name}"] == word).sum()) for name, word in (("proof", "pass"), ("user", "fail"))
    )
    return (
        "**Theorem 1's plan keeps the constraint that its proof bounds, mostly by not exploring.** "
        f"{passed} of {len(both)} such runs pass `proof`; {failed} fail `user`, which asks it of each user. With the "
        f"paper's constants its cold start ends before T in {_ended(theorem)} runs, with the constants that the "
        f"beliefs have in {_ended(measured)}. "
        f"Until then regret grows like t (Setting 1: to the {_exponent(claims, 'setting-1', 'theorem')} at most)."
    )


def _small_n(every: Table, claims: Table) -> str:
    easy, hard = _ran(every, "fixed", "setting-1", "setting-3"), _ran(every, "fixed", "setting-4")
    passed = int((easy["verdict_proof"] == "pass").sum())
    failed = int((hard["verdict_user"] == "fail").sum())
    return (
        "**Sublinear regret comes with an N far below the theorem's.** With N = 100 regret levels off (Setting 1: t to "
        f"the {_exponent(claims, 'setting-1', 'fixed')} at most). Where arms are alike, Settings 1 and 3, {passed} of "
        f"{len(easy)} such runs pass `proof`, the sense that the paper's proof bounds. Where one arm is a favourite, "
        f"Setting 4, {failed} of {len(hard)} fail `user`: some user expects to lose {-hard['margin_user'].min():.3g} "
        "by following, not .05."
    )


def _sampled(every: Table) -> str:
    easy, hard = _ran(every, "personalised", "setting-1", "setting-3"), every[every["kind"] == "personalised"]
    hard = hard[hard["setting"].str.startswith("setting-4")]
    told = {
        setting: f"{int((own['verdict_user'] == 'pass').sum())} of {len(own)}" if own["regret"].notna().any() else "no"
        for setting, own in hard.groupby("setting")
    }
    n, theorem = easy["n_per_arm"], _ran(every, "theorem", "setting-1", "setting-3")["n_per_arm"]
    passed = int((easy["verdict_user"] == "pass").sum())
    return (
        f"**Plans found by sampling need N of {n.min():.0f} to {n.max():.0f}** where the theorem asks for "
        f"{theorem.min():,.0f} to {theorem.max():,.0f}, and {passed} of {len(easy)} pass `user`, the strictest sense, "
        "in Settings 1 and 3. In Setting 4 with users on the whole sphere a rate for each user passes in "
        f"{told.get('setting-4', 'no')} cells, one rate for all does not. Without negative features no plan is "
        f"feasible there, and {told.get('setting-4-orthant', 'no')} cell passes: nobody has a reason to try another "
        "arm."
    )


def _warfarin(home: Path) -> list[str]:
    letter, picked = sides(home)
    path = home / "splits.csv"
    if not letter or not path.exists():
        return []
    low, high = min(row["error"] for row in letter), max(row["error"] for row in letter)
    wide: Table = pd.read_csv(path).pivot_table(index="split", columns="policy", values="error")
    told = {
        name: figure(float(wide[name].mean()), float(wide[name].std(ddof=1) / math.sqrt(len(wide)))) for name in wide
    }
    return [
        f"**Warfarin.** The paper has {0.3545:.4f} of doses wrong, always medium is wrong for .397. To the letter of "
        f"the paper it is {low:.3f} to {high:.3f}. With sigma, inflation and spread picked with these patients in view "
        f"it is {min(row['error'] for row in picked):.3f} to {max(row['error'] for row in picked):.3f}. Chosen on one "
        f"half of the patients and scored on the other it is {told['chosen on the other half']}, where always medium "
        f"has {told['physician']}: that is the figure to expect."
    ]
