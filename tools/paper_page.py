"""Write ``docs/paper.md`` from the tables in docs/measured/paper: ``python tools/paper_page.py``."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
from paper_minute import STUCK, minute_lines
from paper_rows import FIGURES, KINDS, NAMES, OWN, REVERSED, SETTINGS, SILENT, Said
from paper_theory import theory_rows
from paper_warfarin import SHOWN_BY, warfarin_lines, warfarin_verdict

from rcb_bayes.telling.wording import figure

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "docs" / "measured" / "paper"
PAGE = ROOT / "docs" / "paper.md"
Table = Any  # a DataFrame; pandas' own annotations do not follow its columns
_FEW = 3  # cells that are named one by one
_LOGS = ("regret at the level of", "regret of ad hoc N")
_HEADS = (
    "setting",
    "the paper",
    "its number",
    "verdict",
    "judged",
    "what is measured",
    "ours, sphere",
    "ours, orthant",
)
_WARFARIN_HEADS = ("the paper", "its number", "verdict", "on what it goes")


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))


def page() -> str:
    """The page, from what is stored."""
    runs, claims = table("runs"), table("claims")
    tables = {name: table(name) for name in runs["setting"]}
    rows, warfarin = _summary(claims), warfarin_verdict(HOME)
    lines = [
        "# The paper's claims, tables and figures beside ours",
        "",
        "Written by `python tools/paper_page.py` from the tables in [measured/paper](measured/paper/runs.csv).",
        "",
        *minute_lines(HOME, runs, claims, tables, [row[3].strip("*") for row in rows], [row[2] for row in warfarin]),
        "",
        "## How it was run",
        "",
        *_how(runs, tables),
        "",
        "## Verdicts",
        "",
        "**Held**, **not held** and **undecided** go by 95 % intervals over worlds, for all cells of a "
        "setting at once. A row counts the plans that the paper may have run: Theorem 1 with its constants, Theorem 1 "
        "with the constants that the belief has, and a fixed N; on the whole sphere and on its positive orthant. It is "
        "undecided where most of these are. Where some hold and some do not, the claim **depends on N** if that tells "
        "them apart, else **on what the paper does not say**. A level of regret is met within half a power of ten. "
        "Regret is sublinear where the exponent of t stays below .99 over the last tenfold of rounds. "
        "Our figures are ± one standard error, for these three plans in turn, or for N = 10, 100 and 1,000.",
        "",
        *_table_of(_HEADS, rows),
        "",
        "Warfarin. A figure holds where every run to the letter is at least as good, an error within two of its own "
        "standard errors; a trend where it is rising or falling by two errors, over all cells together.",
        "",
        *_table_of(_WARFARIN_HEADS, [(text, number, f"**{word}**", told) for text, number, word, told in warfarin]),
        "",
        "## Tables and figures",
        "",
        *_figures(runs, claims),
        "",
        "## Theory",
        "",
        "| where | the paper | ours | verdict |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in theory_rows(tables, claims)),
    ]
    for name in SETTINGS:
        lines += ["", *_setting(name, runs, claims, tables)]
    lines += ["", *warfarin_lines(HOME), "", "## Reversed, and why", ""]
    for title, text in REVERSED:
        lines += [f"**{title}.** {text}", ""]
    lines += ["## What the paper does not say", "", "| what | here |", "|---|---|"]
    lines += [f"| {what} | {here} |" for what, here in SILENT]
    return "\n".join(lines) + "\n"


def table(name: str) -> Table:
    """A stored table; empty where there is none."""
    path = HOME / f"{name}.csv"
    return pd.read_csv(path, keep_default_na=False, na_values=["", "nan"]) if path.exists() else pd.DataFrame()


# --- parts ------------------------------------------------------------------------------------------------------------


def _how(runs: Table, tables: dict[str, Table]) -> list[str]:
    trivial = sum(int(own["note"].astype(str).str.contains(STUCK).sum()) for own in tables.values() if len(own))
    cells, wanted, plans, audited = (int(runs[name].sum()) for name in ("cells", "of", "plans", "audited"))
    dates = sorted(date for date in runs["date"].dropna().unique() if date)
    dates, versions = " to ".join(dict.fromkeys((dates[0], dates[-1]))), ", ".join(dict.fromkeys(runs["version"]))
    lines = [
        f"`{runs['command'].iloc[0]}`, {dates}, version {versions}: {cells} of {wanted} cells, {plans} runs of plans, "
        f"{audited} of them audited; {_hours(runs['cpu_seconds'].sum())} of processor time in plans and runs, "
        f"{_hours(runs['audit_seconds'].sum())} in audits. {trivial} of the audits pass by construction: before T no "
        "arm is saturated, and everybody gets what she expects most of. T = 100,000, in "
        "Settings 3 and 4 50,000; 20 worlds. An audit takes 500 worlds, 40 users and the worst that are found, over "
        "the cold start and 10,000 rounds of exploitation, under every notion, with the inflation a plan runs under. "
        "Settings 1 to 3 run without inflation, Setting 4 under linear, sqrt and log, its personalised plan, which is "
        "slow, under linear only. Fixed plans use the theorem's rate. `rcb reproduce all --workers 2 --out FOLDER` "
        "runs the same plans in the same worlds, cell by cell. Where an audit is inconclusive beside a margin far "
        "above -epsilon, too few of its worlds have that arm as the best one.",
        "",
        "| setting | users | cells run | runs of plans | audited | not run |",
        "|---|---|---|---|---|---|",
    ]
    for row in runs.to_dict(orient="records"):
        name, users = _users(row["setting"])
        gaps = [row["missing"]] if isinstance(row["missing"], str) else []
        gaps += row["without"].split("; ") if isinstance(row["without"], str) else []
        lines.append(
            f"| {name} | {users} | {row['cells']} of {row['of']} | {_whole(row['plans'])} | {_whole(row['audited'])} | "
            f"{'; '.join(_short(gap) for gap in gaps)} |"
        )
    return lines


def _whole(count: float) -> str:
    return "" if math.isnan(count) else f"{count:.0f}"


def _short(gap: str) -> str:
    """What is missing in a few words: kinds of plans by their names, cells by what tells them apart, many by number."""
    kind, _, cells = gap.rpartition(" in ")
    keys = [key.removesuffix("-variance0.2-epsilon0.05") for key in re.split("[;,] ", cells)]
    told = ", ".join(keys) if len(keys) <= _FEW else f"{len(keys)} cells"
    return f"{NAMES[kind]} in {told}" if kind else told


def _hours(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 60 else f"{seconds:.0f} s"


def _users(setting: str) -> tuple[str, str]:
    return setting.removesuffix("-orthant"), "orthant" if setting.endswith("-orthant") else "sphere"


def _summary(claims: Table) -> list[tuple[str, ...]]:
    """A row for each claim: the setting, what the paper says, its number, the verdict, on what it goes, our figures."""
    found: list[tuple[str, ...]] = []
    for name, said in SETTINGS.items():
        for one in said:
            verdict, counts = verdict_of(_rows_of(claims, name, one, kinds=OWN))
            ours = tuple(_ours(claims, name + users, one) for users in ("", "-orthant"))
            found.append((name, one.text, one.number, f"**{verdict}**", counts, one.measure, *ours))
    return found


def _table_of(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)]


def _ours(claims: Table, setting: str, said: Said) -> str:
    """Figures of a claim for the plans that the paper may have run, in turn; by N in Setting 2."""
    rows = claims[(claims["setting"] == setting) & (claims["claim"] == said.claims[0])]
    by_kind = [_of(rows, kind) for kind in OWN if (rows["kind"] == kind).any() or not setting.startswith("setting-2")]
    return " / ".join(_estimate(row) or "-" for own in by_kind for row in own or [{}])


def _rows_of(claims: Table, setting: str, said: Said, *, kinds: tuple[str, ...] = KINDS) -> Table:
    own = claims["setting"].isin([setting, f"{setting}-orthant"])
    return claims[own & claims["claim"].isin(said.claims) & claims["kind"].isin(kinds)]


def verdict_of(rows: Table) -> tuple[str, str]:
    """One word for the verdicts of several runs, and how many there were of each."""
    counts = rows["verdict"].value_counts()
    told = ", ".join(f"{counts[word]} {word}" for word in ("held", "not held", "undecided") if word in counts)
    decided = [word for word in ("held", "not held") if word in counts]
    if not len(rows):
        return "not run", ""
    stuck = int(rows["figure"].map(_is_stuck).sum()) if "figure" in rows else 0
    told += f" ({stuck} of {len(rows)} never leave the cold start)" if stuck else ""
    if 2 * counts.get("undecided", 0) > len(rows):
        return "undecided", told
    if len(decided) == 2:
        return ("depends on N" if _is_by_n(rows) else "depends on what the paper does not say"), told
    return decided[0], told


def _is_by_n(rows: Table) -> bool:
    """Whether verdicts differ between N, and are of one mind for each."""
    if "figure" not in rows or not rows["figure"].str.startswith("N = ").all():
        return False
    decided = rows[rows["verdict"] != "undecided"]
    return bool((decided.groupby(decided["figure"].str.split(":").str[0])["verdict"].nunique() == 1).all())


def _is_stuck(figure: str) -> bool:
    """Whether a judgement saw cold starts only."""
    found = re.search(r"(\d+) of (\d+) runs never leave the cold start", figure)
    return found is not None and found[1] == found[2]


def _figures(runs: Table, claims: Table) -> list[str]:
    lines = ["| the paper's | what it shows | ours | what of it holds |", "|---|---|---|---|"]
    done = dict(zip(runs["setting"], runs["cells"], strict=True))
    warfarin = warfarin_verdict(HOME)
    for name, what, source, answer in FIGURES:
        setting, _, size = source.partition(" ")
        if setting in SETTINGS:
            verdicts = _words(claims, setting, size)
            told = _counts(verdicts)
            ours = _pictures(setting, size.replace(" = ", "").replace(",", ""))
            lines.append(f"| {name} | {what} | {ours} | {told if done.get(setting) else 'not run'} |")
        elif source:
            words = [word for text, _, word, _ in warfarin if text in SHOWN_BY[source]]
            lines.append(f"| {name} | {what} | [below](#warfarin) | {_counts(words)} |")
        else:
            lines.append(f"| {name} | {what} | {answer} | no figure to hold |")
    return lines


def _counts(verdicts: list[str]) -> str:
    return "; ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))


def _words(claims: Table, setting: str, size: str) -> list[str]:
    """A verdict for each claim about a setting; with a size, "N = 10", of what is judged by N there."""
    rows = [_rows_of(claims, setting, one, kinds=OWN) for one in SETTINGS[setting]]
    if size:
        own = f"{size}:"
        rows = [one[one["figure"].str.startswith(own) | one["claim"].str.startswith(own)] for one in rows]
    return [verdict_of(one)[0] for one in rows if len(one) or not size]


def _pictures(setting: str, size: str) -> str:
    found = sorted(path for path in HOME.glob(f"{setting}-*.png") if path.stem.endswith(size))
    links = [f"[{path.stem.removeprefix(f'{setting}-')}](measured/paper/{path.name})" for path in found]
    csv = [f"[table](measured/paper/{setting}.csv)"] if (HOME / f"{setting}.csv").exists() else []
    return ", ".join([*links, *csv])


def _setting(name: str, runs: Table, claims: Table, tables: dict[str, Table]) -> list[str]:
    title = {"setting-1": "K and d", "setting-2": "ad hoc N", "setting-3": "epsilon and variance"}
    heading = f"## {name.replace('-', ' ').capitalize()}: {title.get(name, 'a favourite arm, schedules')}"
    lines = [heading, ""]
    for users in ("", "-orthant"):
        own = tables.get(name + users, pd.DataFrame())
        if own.empty:
            lines += [f"Users on the {'orthant' if users else 'sphere'}: not run.", ""]
            continue
        kinds = [kind for kind in KINDS if kind in set(own["kind"])]
        lines += [
            f"Users on the {'positive orthant' if users else 'whole sphere'}; estimate ± error and verdict:",
            "",
            f"| claim | {' | '.join(NAMES[kind] for kind in kinds)} |",
            f"|---|{'---|' * len(kinds)}",
        ]
        for claim in [claim for said in SETTINGS[name] for claim in said.claims]:
            rows = claims[(claims["setting"] == name + users) & (claims["claim"] == claim)]
            if len(rows):
                cells = ["; ".join(_judged(row) for row in _of(rows, kind)) for kind in kinds]
                lines.append(f"| {claim} | {' | '.join(cells)} |")
        lines += ["", *_overview(own, kinds), ""]
    return lines[:-1]


def _of(rows: Table, kind: str) -> list[dict[str, Any]]:
    return rows[rows["kind"] == kind].to_dict(orient="records")


def _judged(row: dict[str, Any]) -> str:
    """A verdict with its figure; of claims by N, with N in front."""
    told = _estimate(row)
    if not told:
        return str(row["verdict"])
    front = str(row["figure"]).split(":")[0] + ": " if str(row["figure"]).startswith("N = ") else ""
    end = " (cold start only)" if _is_stuck(str(row["figure"])) else ""
    return f"{front}{told}, {row['verdict']}{end}"


def _estimate(row: dict[str, Any]) -> str:
    """The figure that decides, with its error; nothing where there is none."""
    value, error = row.get("estimate"), row.get("error", math.nan)
    if not isinstance(value, float) or math.isnan(value):
        return ""
    if str(row["claim"]).startswith(_LOGS):
        value, error = math.exp(value), math.exp(value) * error
    return figure(value, 0.0 if math.isnan(error) else error)


def _overview(own: Table, kinds: list[str]) -> list[str]:
    """Each kind of plan over all cells: its N, whether its cold start ends, regret, verdicts under every notion."""
    lines = [
        "| plan | runs | N | cold start ends in | regret, least to most | user | proof | definition |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        rows = own[own["kind"] == kind]
        ran = rows[rows["regret"].notna()]
        n = _range(rows["n_per_arm"].dropna())
        if ran.empty:
            lines.append(f"| {NAMES[kind]} | 0 of {len(rows)} | {n} | no feasible plan | | | | |")
            continue
        ended = int((ran["n_ended"] > 0).sum())
        words = [_counted(ran[f"verdict_{notion}"]) for notion in ("user", "proof", "definition")]
        lines.append(
            f"| {NAMES[kind]} | {len(ran)} of {len(rows)} | {n} | {ended} of {len(ran)} | {_range(ran['regret'])} | "
            f"{' | '.join(words)} |"
        )
    return lines


def _counted(words: Table) -> str:
    counts = words.astype(object).where(words.notna(), "not run").value_counts()
    return ", ".join(f"{counts[word]} {word}" for word in ("pass", "inconclusive", "fail", "not run") if word in counts)


def _range(values: Table) -> str:
    if values.empty:
        return ""
    low, high = (f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    write()
