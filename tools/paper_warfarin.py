"""The page's part on warfarin: to the letter beside what was picked in view, and the honest figure."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
from paper_budgets import CLAIMS, LOOSE_CLAIM, Grid, grid_lines, letter_grid, over_grids, picked_grid, together

Table = Any  # a DataFrame; pandas' own annotations do not follow its columns
_STORED = "../warfarin.md"
_LINE = re.compile(
    r"^ *(?P<name>\S.*?)\s{2,}(?P<error>0\.\d{4})(?: ± (?P<mcse>0\.\d{4}))?\s+(?:(?P<reach>0\.\d+ to 0\.\d+)\s+)?"
    r"(?P<score>-?0\.\d{3})\s+(?P<recall>[\d./]+)\s+(?P<extreme>[\d.]+) %",
    re.M,
)
_COLUMNS = ("choices", "plan", "error", "best to worst plan", "score", "recall low / medium / high", "extreme")
_COLUMNS += ("plans x orders",)
_KEPT = ("physician", "Lasso bandit", "LinUCB", "RCB, theorem plan", "RCB, N = 20", "RCB, N = 20, dose oracle")
_KEPT += ("RCB, N = 20, plain spread", "RCB, N = 20, linear inflation", "RCB, N = 20, sigma 0.054")
_KEPT += ("RCB, N = 20, the paper's choices", "RCB, N = 20, the paper's choices, bound, phi0 = 1")
_NOTIONS = ("proof", "definition", "user")
_ROUNDING = 1e-12
_GAIN = "gains stay above -epsilon (the appendix)"
_SAME_GAIN = "prior variances have a similar effect on the gain (the appendix)"
_ARMS = ("low", "medium", "high")
_OWN, _SECOND = (0.025, 0.8), 0.035
_TABLE_2 = ("50 / 48 / 2", "14 / 84 / 2", "2 / 93 / 5")
_WANTED = (
    ("error about .35 at epsilon .025", ".3545 by its Table 2", "error", 0.3545, False),
    ("weighted score, above the physician's", ".291, .20", "score", 0.291, True),
    ("recall of low doses", "50 %", "low", 50.0, True),
    ("recall of medium doses", "84 %", "medium", 84.0, True),
    ("recall of high doses", "5 %", "high", 5.0, True),
    ("a high dose for a low one, or a low for a high, is rare", "2 % of those who need it", "ends", 2.0, False),
)
"""What its Table 2 says: the claim, its number, our figure, the value to reach, whether more is better."""
SHOWN_BY = {
    "table 2": tuple(text for text, *_ in _WANTED),
    "figure 2": (LOOSE_CLAIM, *(text for text, *_ in CLAIMS[:2]), "as good as the Lasso bandit"),
    "figure 8": (*(text for text, *_ in CLAIMS if "regret" in text or "appendix" in text), _GAIN, _SAME_GAIN),
}
"""Which claims a table or figure of the paper is about."""


def warfarin_lines(home: Path) -> list[str]:
    """The section."""
    rows, splits = _table(home / "warfarin.csv"), _table(home / "splits.csv")
    lines = ["## Warfarin", "", *_stored_lines(home)]
    if rows.empty:
        lines += ["Scaled doses as rewards, the paper's ground truth: not run.", ""]
    else:
        lines += [
            f"`python tools/warfarin_figures.py --data warfarin.csv`, {rows['date'].max()}, to the letter: sigma .054, "
            "linear inflation, the plain spread, epsilon .025, variance .8 unless told; rewards 0 or 1, or the scaled "
            "dose by a regression in each group and 0 in other buckets. Errors are over plans and orders of patients "
            f"together.{_earlier(home, rows)}",
            "",
            f"| {' | '.join(_COLUMNS)} |",
            "|---|---|---|---|---|---|---|---|",
            *(f"| {' | '.join(_row(row))} |" for row in rows.to_dict(orient="records")),
            "",
            *_audits(rows),
        ]
    lines += [*_table_2(rows), *grid_lines(_grids(home)), "### The honest figure", ""]
    return [*lines, *(_splits(splits) if len(splits) else ["Not run."])]


def warfarin_verdict(home: Path) -> list[tuple[str, str, str, str]]:
    """Rows of the summary: the claim, the paper's number, the verdict, on what it goes."""
    stored, rows = _stored(home), _table(home / "warfarin.csv").to_dict(orient="records")
    own = [row for row in rows if row["plan"] not in ("physician", "theorem")]
    letter, picked = sides(home)
    seen = [_as_found(row) for row in _at_first(own) if row["inflation"] != "linear"]
    found = [
        _against(text, number, letter, seen if name == "ends" else picked, name, wanted, least=least)
        for text, number, name, wanted, least in _WANTED
    ]
    second = [_as_found(row) for row in own if row["epsilon"] == _SECOND and row["inflation"] == "linear"]
    if second:
        others = [stored[name] for name in stored if name.startswith(f"RCB, user, epsilon {_SECOND}")]
        found.append(_against("weighted score at epsilon .035", ".265", second, others, "score", 0.265, least=True))
    if "Lasso bandit" in stored:
        lasso = stored["Lasso bandit"]["error"]
        told = _against("as good as the Lasso bandit", "about .35", letter, picked, "error", lasso, least=False)
        found.append((*told[:3], f"{told[3]}; the Lasso bandit has {lasso:.4f}"))
    found += over_grids(_grids(home))
    gain = _audited_gain(rows)
    if gain:
        found.append(gain)
    found.append((_SAME_GAIN, "", "not run", "exploitation is audited at variance .8 alone"))
    found += patient_rows(home / "patients.csv")
    if "RCB, theorem plan" in stored:
        alike = stored["RCB, theorem plan"]["error"] == stored["physician"]["error"]
        text = "the cold start does not end: everybody gets the medium dose" if alike else "another dose for some"
        found.append(("N by Theorem 1", "the paper's plan", "not held" if alike else "held", text))
    return found


def patient_rows(path: Path) -> list[tuple[str, str, str, str]]:
    """What the paper says of the patients themselves, from a table that counts them."""
    table = _table(path)
    if table.empty:
        return []
    by_rule = {row["rule"]: row for row in table.to_dict(orient="records")}
    own, other = by_rule["below_21"], by_rule["up_to_21"]
    table_2 = [100 * own[arm] for arm in _ARMS]
    section = [100 * other[arm] for arm in _ARMS]
    alike = [round(value) for value in table_2] == [27, 60, 13] and [round(value) for value in section] == [33, 54, 13]
    there = own["patients"] == 5528 and own["features"] == 70
    return [
        (
            "5,528 patients, 70 features",
            "5,528, 70",
            "held" if there else "not held",
            f"{own['patients']:,} with a dose, {own['features']} features",
        ),
        (
            "who needs a low, medium, high dose",
            "27 / 60 / 13 % in Table 2, 33 / 54 / 13 % in Section 5.1",
            "held" if alike else "not held",
            f"{_shares(table_2)} where low is below 21 mg a week; {_shares(section)} where 21 is low",
        ),
        (
            "noise of the scaled dose, sigma",
            ".054",
            "held" if round(own["sd_dose"], 3) == 0.054 else "not held",
            f"{own['sd_dose']:.4f} is the standard deviation of all scaled doses, features apart; what a regression "
            f"leaves is {own['sd_residual']:.4f}, one in each group {own['sd_residual_by_group']:.4f}",
        ),
    ]


def _shares(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values) + " %"


def sides(home: Path) -> tuple[list[dict], list[dict]]:
    """Rows to the letter, and rows with what was picked in view, both at epsilon .025 and variance .8."""
    stored, rows = _stored(home), _table(home / "warfarin.csv").to_dict(orient="records")
    letter = [stored[name] for name in stored if "the paper's choices" in name]
    letter += [_as_found(row) for row in _at_first(rows) if row["inflation"] == "linear" and row["plan"] != "theorem"]
    picked = [stored[name] for name in stored if name.startswith("RCB, proof") or name == "RCB, N = 20"]
    return letter, picked


# --- parts ------------------------------------------------------------------------------------------------------------


def _at_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["epsilon"], row["variance"]) == _OWN]


def _table(path: Path) -> Table:
    return pd.read_csv(path, keep_default_na=False, na_values=["", "nan"]) if path.exists() else pd.DataFrame()


def _row(row: dict[str, Any]) -> list[str]:
    if row["plan"] == "physician":
        choices, plan = "always medium", ""
    else:
        choices = (
            "to the letter" if row["inflation"] == "linear" else "picked in view: sigma .3, no inflation, spread 30"
        )
        choices += ", scaled doses" if row["rewards"] == "dose" else ""
        choices += ", dose oracle" if row["oracle"] == "dose" else ""
        own = (row["epsilon"], row["variance"]) != (0.025, 0.8)
        choices += f", epsilon {row['epsilon']:g}, variance {row['variance']:g}" if own else ""
        plan = {"theorem": "Theorem 1", "fixed": "N = 20, rate .4"}.get(row["plan"], f"sampled, `{row['plan']}`")
    error = f"{row['error']:.4f}" + (f" ± {row['error_mcse']:.4f}" if row["error_mcse"] > 1e-9 else "")
    several = row["n_plans"] > 1
    reach = f"{row['error_least']:.4f} to {row['error_most']:.4f}" if several else ""
    recall = " / ".join(f"{100 * row[f'recall_{arm}']:.0f}" for arm in _ARMS)
    size = f"{row['n_plans']:.0f} x {row['n_orders']:.0f}"
    if row["n_made"] > row["n_plans"]:
        size += f" ({row['n_made'] - row['n_plans']:.0f} of {row['n_made']:.0f} plans not feasible)"
    return [choices, plan, error, reach, f"{row['score']:.3f}", recall, f"{100 * row['extreme']:.1f} %", size]


def _table_2(rows: Table) -> list[str]:
    """The paper's Table 2, doses given by the right dose, beside ours."""
    if "given_low_high" not in rows:
        return []
    arms = _ARMS
    lines = [
        "### Table 2: doses given, by the right dose",
        "",
        "Per cent of the patients whose right dose it is: low / medium / high given.",
        "",
        "| right dose | the paper's RCB | "
        + " | ".join(_row(row)[0].split(":")[0] + ", " + _row(row)[1] for row in _of_table_2(rows))
        + " |",
    ]
    lines.append("|---|---|" + "---|" * len(_of_table_2(rows)))
    for right, papers in zip(arms, _TABLE_2, strict=True):
        cells = [" / ".join(f"{100 * row[f'given_{right}_{arm}']:.0f}" for arm in arms) for row in _of_table_2(rows)]
        lines.append(f"| {right} | {papers} | {' | '.join(cells)} |")
    return [*lines, ""]


def _of_table_2(rows: Table) -> list[dict[str, Any]]:
    """Rows with rewards 0 or 1 at the table's budget: plans that end their cold start."""
    return [
        row
        for row in rows.to_dict(orient="records")
        if row["rewards"] == "binary" and row["plan"] != "theorem" and (row["epsilon"], row["variance"]) == _OWN
    ]


def _audits(rows: Table) -> list[str]:
    own = [row for row in rows.to_dict(orient="records") if _is_audited(row)]
    if not own:
        return ["Audits: not run.", ""]
    heads = (f"{part}, {notion}" for part in ("cold", "exploitation") for notion in _NOTIONS)
    lines = [
        "Audits: plans that pass / are inconclusive / fail, and the margin that decides; exploitation by one plan of "
        "each kind. 500 worlds for cold starts, 50 for exploitation, 60 patients. They are of worlds that physicians "
        "believe in, and the same for either rule of rewards.",
        "",
        f"| choices | plan | {' | '.join(heads)} |",
        "|---|---|" + "---|" * 6,
    ]
    for row in own:
        cells = [_verdicts(row, part, notion) for part in ("cold", "exploitation") for notion in _NOTIONS]
        choices, plan = _row(row)[:2]
        lines.append(f"| {choices} | {plan} | {' | '.join(cells)} |")
    return [*lines, ""]


def _verdicts(row: dict[str, Any], part: str, notion: str) -> str:
    counts = [row[f"{part}_{notion}_{word}"] for word in ("pass", "inconclusive", "fail")]
    if any(math.isnan(count) for count in counts):
        return "not run"
    if not sum(counts):
        return "not reached" if row["plan"] == "theorem" else "not run"
    margin = row[f"{part}_{notion}_margin"]
    return f"{' / '.join(f'{count:.0f}' for count in counts)} ({0.0 if abs(margin) < _ROUNDING else margin:.3g})"


def _against(
    what: str, number: str, letter: list[dict], picked: list[dict], name: str, wanted: float, *, least: bool
) -> tuple[str, str, str, str]:
    """Whether rows reach a figure, to the letter and picked in view; errors within two of theirs."""

    def reached(rows: list[dict]) -> list[bool]:
        sign = 1.0 if least else -1.0
        return [sign * (row[name] - wanted) >= (-2.0 * row["mcse"] if name == "error" else 0.0) for row in rows]

    letter = [row for row in letter if name in row]
    ours, others = reached(letter), reached(picked)
    verdict = (
        "held" if ours and all(ours) else "not held" if not any(ours) else "depends on what the paper does not say"
    )
    text = "; ".join(
        f"{kind} {min(row[name] for row in rows):.3g} to {max(row[name] for row in rows):.3g}, {sum(good)} of "
        f"{len(good)} reach it"
        for kind, rows, good in (("to the letter", letter, ours), ("picked in view", picked, others))
        if rows
    )
    return what, number, verdict, text


def _stored(home: Path) -> dict[str, dict]:
    """Rows of the study's own file, by name."""
    found = {}
    for line in _LINE.finditer((home / _STORED).read_text(encoding="utf-8")):
        low, medium, high = (float(value) for value in line["recall"].split("/"))
        row = {"error": float(line["error"]), "mcse": float(line["mcse"] or 0.0), "reach": line["reach"] or ""}
        row |= {"score": float(line["score"]), "low": low, "medium": medium, "high": high}
        found[line["name"]] = row | {"extreme": line["extreme"]}
    return found


def _as_found(row: dict[str, Any]) -> dict:
    recall = {arm: 100.0 * row[f"recall_{arm}"] for arm in _ARMS}
    own = {"error": row["error"], "mcse": row["error_mcse"], "score": row["score"]}
    return own | recall | {"ends": 100.0 * row["extreme_of_ends"]}


def _earlier(home: Path, rows: Table) -> str:
    """What to say where the study's file, of another day, has another figure for the same choices."""
    then = _stored(home)["RCB, N = 20, the paper's choices"]
    own = rows[(rows["plan"] == "fixed") & (rows["rewards"] == "binary") & (rows["inflation"] == "linear")]
    if own.empty or abs(own["error"].iloc[0] - then["error"]) < 0.0001:
        return ""
    return (
        f" The study's file above is of an earlier version of the program: it has {then['error']:.4f} ± "
        f"{then['mcse']:.4f} for the fixed plan with these choices, rewards 0 or 1."
    )


def _grids(home: Path) -> dict[str, Grid]:
    """Errors by budget and prior variance, under either choices, where there are such."""
    rows = _table(home / "warfarin.csv").to_dict(orient="records")
    text = (home / _STORED).read_text(encoding="utf-8")
    found = {"to the letter": letter_grid(rows), "picked in view": picked_grid(text)}
    return {name: grid for name, grid in found.items() if grid}


def _audited_gain(rows: list[dict[str, Any]]) -> tuple[str, str, str, str] | None:
    """The appendix has all gains above -epsilon: what audits of the plans to the letter say, by notion."""
    own = [row for row in rows if row["inflation"] == "linear" and row["plan"] != "theorem" and _is_audited(row)]
    if not own:
        return None
    told, seen = [], set()
    for notion in _NOTIONS:
        sums = {
            word: sum(row[f"{part}_{notion}_{word}"] for row in own for part in ("cold", "exploitation"))
            for word in ("pass", "inconclusive", "fail")
        }
        told.append(f"`{notion}` " + ", ".join(f"{count:.0f} {word}" for word, count in sums.items() if count))
        seen |= {word for word, count in sums.items() if count}
    word = together([{"pass": "held", "fail": "not held"}.get(word, "undecided") for word in seen])
    return _GAIN, "-.025", word, "audits to the letter: " + "; ".join(told)


def _is_audited(row: dict[str, Any]) -> bool:
    """Whether there are audits; they do not depend on the rule of rewards, and count once."""
    return row["rewards"] == "binary" and row.get("cold_user_pass", math.nan) >= 0


def _stored_lines(home: Path) -> list[str]:
    """The study's own rows, to the letter beside what was picked in view."""
    lines = [
        "From [the study](measured/warfarin.md), 5,528 patients, 8 plans of each sampled kind and 10 orders, ± over "
        "both; verdicts of its audits under every notion stand there. Rows with a notion and an epsilon, and those "
        "with N alone, rest on what was picked with these patients in view: sigma .3, no inflation, 30 times the "
        "spread.",
        "",
        "| policy | error | best to worst plan | score | recall low / medium / high | extreme |",
        "|---|---|---|---|---|---|",
        "| the paper, Table 2 (epsilon .025) | .3545 | | .291 | 50 / 84 / 5 | |",
        "| the paper, epsilon .035 | | | .265 | | |",
        "| the paper, physician | | | .20 | 0 / 100 / 0 | |",
    ]
    for name, row in _stored(home).items():
        if name in _KEPT or name.startswith(("RCB, proof", "RCB, user")):
            error = f"{row['error']:.4f}" + (f" ± {row['mcse']:.4f}" if row["mcse"] else "")
            recall = f"{row['low']:.0f} / {row['medium']:.0f} / {row['high']:.0f}"
            told = (name, error, row["reach"], f"{row['score']:.3f}", recall, f"{row['extreme']} %")
            lines.append(f"| {' | '.join(told)} |")
    return [*lines, ""]


def _splits(splits: Table) -> list[str]:
    wide = splits.pivot_table(index="split", columns="policy", values="error")
    n = len(wide)
    chosen = "chosen on the other half"
    lines = [
        f"{n} random halves of the patients. On the first half spread, inflation, sigma and N are chosen one after "
        "the other, each the value with the least error, from the paper's on; the second half, 2,764 patients, is "
        "replayed with what was chosen. A fixed plan, N as chosen, rate .4, the posterior mean. Errors "
        "are larger than over all patients: "
        "there are half as many to learn from. ± is the standard deviation over splits over the root of their number; "
        "halves overlap, so that it is too small.",
        "",
        "| policy, on the second half | error | score | recall low / medium / high | over what was chosen |",
        "|---|---|---|---|---|",
    ]
    for name in [chosen, *(name for name in wide.columns if name != chosen)]:
        own = splits[splits["policy"] == name]
        recall = " / ".join(f"{100 * own[f'recall_{arm}'].mean():.0f}" for arm in _ARMS)
        apart = wide[name] - wide[chosen]
        told = "" if name == chosen else f"{apart.mean():+.4f} ± {apart.std(ddof=1) / n**0.5:.4f}"
        spread = wide[name].std(ddof=1) / n**0.5
        lines.append(
            f"| {name} | {wide[name].mean():.4f} ± {spread:.4f} | {own['score'].mean():.3f} | {recall} | {told} |"
        )
    first = splits[splits["policy"] == chosen]
    optimism = first["error"] - first["error_first"]
    picks = "; ".join(
        f"{name} " + ", ".join(f"{value} ({count})" for value, count in first[f"chosen_{name}"].value_counts().items())
        for name in ("spread", "inflation", "sigma", "n_per_arm")
    )
    return [
        *lines,
        "",
        f"On the half it was chosen on the error is {first['error_first'].mean():.4f}: choosing in view flatters by "
        f"{optimism.mean():.4f} ± {optimism.std(ddof=1) / n**0.5:.4f}. Chosen, with how often: {picks}.",
    ]
