"""``rcb elicit``: what people say about arms, asked or read from a table, as a belief file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.cli.options import JsonOption, check_target, is_stdout, write_file, write_json
from rcb_bayes.errors import BeliefError, RcbError

if TYPE_CHECKING:
    from rcb_bayes.belief import Prior
    from rcb_bayes.belief.answers import Answers

Ask = Callable[[str], float]


def command(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="Answers as CSV: covariates, arm, q10, q50, q90 (or level and value), perhaps rival and expert. "
            "Without it they are asked for.",
        ),
    ] = None,
    arms: Annotated[
        str | None, typer.Option("--arms", metavar="OLD,NEW", help="Arms to ask about, the best known one first.")
    ] = None,
    users: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="age=30,sex=1", help="A kind of user to ask about; give it several times."),
    ] = None,
    expert: Annotated[
        str | None, typer.Option("--expert", help="Whose answers these are; of a table, whose to take.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="ann=2,bob=1", help="Weights of the experts of a table.")
    ] = None,
    intercept: Annotated[
        bool,
        typer.Option("--intercept/--no-intercept", help="A coefficient of 1 for everybody, beside the covariates'."),
    ] = True,
    link: Annotated[str, typer.Option("--link", help="identity, or logit where rewards are 0/1.")] = "identity",
    json_file: JsonOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.py", callback=check_target, help="Where the belief goes, to read and edit."
        ),
    ] = None,
) -> None:
    """Make a belief of what people say: of 100 people like this one, for how many is the new one better, by how much?

    Answers come from a table, or are asked for: --arms and --user (at least one more than there are covariates) say
    about what and whom. Told is what the belief makes of them, to be compared with what was meant. With --out the
    answers become a file with build_model() that every other command takes for PRIOR.
    """
    if out is not None and out.suffix != ".py":
        raise RcbError(f"A belief file ends in .py, got {out.name}.")
    from rcb_bayes.belief import Prior
    from rcb_bayes.belief.answers import read_answers

    shares = None if weights is None else {name: _number(text, "--weights") for name, text in _pairs(weights)}
    rows: Any = table if table is not None else _asked(arms, users, expert=expert, link=link)
    answers = read_answers(rows)
    answers = answers if expert is None or table is None else answers.of(expert)
    name = "elicited" if out is None else out.stem
    prior = Prior.from_quantiles(
        rows, intercept=intercept, link=link, weights=shares, name=name, expert=expert if table is not None else None
    )
    told = feedback(prior, answers, link=link)
    write_json({"belief": prior.describe(), "users": told}, json_file)
    if out is not None:
        from rcb_bayes.belief.elicited_file import belief_text

        write_file(belief_text(answers, name=out.name, intercept=intercept, link=link, weights=shares), out)
    if not is_stdout(json_file):
        typer.echo("\n".join(_lines(prior, told)))
        if out is not None:
            typer.echo(f"Belief: {out}")


# --- what the belief says ---------------------------------------------------------------------------------------------


def feedback(prior: "Prior", answers: "Answers", *, link: str) -> list[dict[str, Any]]:
    """Of every kind of user that answers are about: what the belief expects of each arm, and how often it is better."""
    import numpy as np
    from scipy.special import expit

    from rcb_bayes.belief.comparing import chance_better, quantiles_of

    found = []
    for x in dict.fromkeys(one.x for one in answers.answers):
        row = np.array([x])
        features = (row if prior.feature_map is None else prior.feature_map(row))[0]
        spread = quantiles_of(prior, features, levels=(0.1, 0.5, 0.9))  # (K, 3)
        shown = expit(spread) if link == "logit" else spread
        better = chance_better(prior, features)
        found.append(
            {
                "user": dict(zip(answers.covariates, map(float, x), strict=True)),
                "arms": {
                    arm: {
                        "q10": float(low),
                        "q50": float(mid),
                        "q90": float(high),
                        "better_of_100": float(100 * chance),
                    }
                    for arm, (low, mid, high), chance in zip(prior.arms, shown, better, strict=True)
                },
            }
        )
    return found


def _lines(prior: "Prior", told: Sequence[dict[str, Any]]) -> list[str]:
    lines = [prior.describe(), f"What it says (10 %, half, 90 %; better than '{prior.arms[0]}' for so many of 100):"]
    for one in told:
        lines.append(f"  {', '.join(f'{name}={value:g}' for name, value in one['user'].items())}")
        for arm, part in one["arms"].items():
            versus = "" if arm == prior.arms[0] else f"   better for {part['better_of_100']:.0f}"
            lines.append(f"    {arm:<12} {part['q10']:8.3g} {part['q50']:8.3g} {part['q90']:8.3g}{versus}")
    return lines


# --- asking -----------------------------------------------------------------------------------------------------------


def _asked(arms: str | None, users: list[str] | None, *, expert: str | None, link: str) -> list[dict[str, Any]]:
    if arms is None or not users:
        raise RcbError("Give a table of answers, or --arms OLD,NEW and --user age=30 (several times) to be asked.")
    names = [name.strip() for name in arms.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise RcbError(f"--arms takes at least two different names with commas between them, got {arms!r}.")
    kinds = [{name: _number(text, "--user") for name, text in _pairs(one)} for one in users]
    if any(list(kind) != list(kinds[0]) for kind in kinds):
        raise RcbError("Every --user must have the same covariates in the same order, such as age=30,sex=1.")
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        for arm in names:
            rival = None if arm == names[0] or link == "logit" else names[0]
            rows += _until_right(kind, arm, rival, expert=expert or "expert", link=link)
    return rows


def _until_right(
    kind: dict[str, float], arm: str, rival: str | None, *, expert: str, link: str
) -> list[dict[str, Any]]:
    """Rows of one arm and kind of user, asked again while they cannot be."""
    from rcb_bayes.belief.answers import read_answers

    like = ", ".join(f"{name}={value:g}" for name, value in kind.items())
    while True:
        points = questions(arm, rival, like=like, link=link, ask=_prompt)
        rows = [
            {"expert": expert, "arm": arm, "rival": rival or ""} | kind | {"level": p, "value": q} for p, q in points
        ]
        try:
            read_answers(rows)
        except BeliefError as error:
            typer.echo(f"{error} Once more:", err=True)
        else:
            return rows


def questions(arm: str, rival: str | None, *, like: str, link: str, ask: Ask) -> list[tuple[float, float]]:
    """Ask about one arm and kind of user; levels and values of what is answered."""
    people = f"Of 100 people like this one ({like})"
    if link == "logit":
        typer.echo(f"{people}, how many would do well with '{arm}'?")
        parts = [(0.5, "  your best guess"), (0.1, "  hardly fewer than"), (0.9, "  hardly more than")]
        return [(level, ask(text) / 100.0) for level, text in parts]
    if rival is None:
        typer.echo(f"What does '{arm}' give to people like this one ({like})?")
        parts = [(0.5, "  your best guess"), (0.1, "  with 10 in 100 it gives less than"), (0.9, "  with 10 more than")]
        return [(level, ask(text)) for level, text in parts]
    better = ask(f"{people}, for how many is '{arm}' better than '{rival}'?")
    typical = ask("  by how much, for the one in the middle (below 0 where it is worse)?")
    most = ask("  by how much at least, for the 10 who gain most?")
    points = [(0.5, typical), (0.9, most)]
    if 0.0 < better < 100.0 and better not in (50.0, 10.0):
        points.append((1.0 - better / 100.0, 0.0))
    return sorted(points)


def _prompt(text: str) -> float:
    return float(typer.prompt(text, type=float))


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    if not parts or any(not equals or not name.strip() for name, equals, _ in parts):
        raise RcbError(f"Expected name=number with commas between them, got {text!r}.")
    return [(name.strip(), value.strip()) for name, _, value in parts]


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RcbError(f"{option} takes numbers, got {text!r}.") from None
