"""What people say, with any names and numbers: refused, or a belief file that says the same again."""

import ast
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief.answers import Answers, read_answers
from rcb_bayes.belief.elicited_file import belief_text
from rcb_bayes.errors import RcbError

NAMES = (
    *("old", "new", "age", "sex", "ann", "1", "0", "true", "None", "nan", "", " ", "a b", "a,b", "it's", 'a"b', '"""'),
    *("'''", "\\", "a\\", "\\N", "\\x41", "{answers}", "{", "}}", "%s", "#", "\n", "a\nb", "\r", "\t", "\0", "\x0c"),
    *(
        "\x1b[31mred",
        "\x7f",
        "\x85",
        "é",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ud800",
        "\udc80",
        "😀",
        "\U0001d49c",
        "\u200d",
        "q10",
    ),
    *("level", "value", "q5 ", "x" * 300, '"""\nimport os\nos._exit(0)\n"""', '" + __import__("os").getcwd() + "'),
)
NUMBERS = (0.0, -0.0, 1.0, 0.1, 0.1 + 0.2, 1 / 3, 1e-9, 1e-320, 1e15 + 0.3, 123456789.123456789, -2.5, 1e300, 7)
LEVELS = (0.1, 0.5, 0.9, 0.25, 1 / 3, 0.1 + 1e-13, 1e-6, 1e-12, 1 - 1e-12, 0.123456789012345, 0.005)


def a_name(rng: random.Random) -> Any:
    if rng.random() < 0.25:
        return "".join(chr(rng.choice((rng.randrange(0x250), rng.randrange(0x110000)))) for _ in range(3))
    return rng.choice(NAMES) if rng.random() < 0.8 else rng.choice((0, 1, 2.5, True, None, float("nan")))


def a_number(rng: random.Random) -> float:
    return rng.choice(NUMBERS) if rng.random() < 0.4 else rng.choice((1, -1)) * 10 ** rng.uniform(-14, 14)


def a_table(rng: random.Random) -> list[dict[Any, Any]]:
    """Answers of a few experts about a few arms, most of them as they should be but for one or two names."""
    arms, experts, covariates = ["old", "new"], ["ann", "bob"][: rng.randint(1, 2)], ["age", "sex"][: rng.randint(1, 2)]
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice((arms, experts, covariates))
        kind[rng.randrange(len(kind))] = a_name(rng)
    users = [[a_number(rng) for _ in covariates] for _ in range(2)]
    rows: list[dict[Any, Any]] = []
    for expert in experts:
        for x in users:
            for arm in arms:
                rival = arms[0] if arm is not arms[0] and rng.random() < 0.5 else None
                head = {"expert": expert, "arm": arm, "rival": rival, **dict(zip(covariates, x, strict=True))}
                start = a_number(rng)
                for level in sorted(rng.sample(LEVELS, 2)):
                    rows.append({**head, "level": level, "value": start})
                    start = np.nextafter(start, np.inf) if rng.random() < 0.1 else start + abs(start) + 0.5
    return rows


def are_the_same(one: Answers, other: Answers) -> bool:
    """Whether two say the same; values to twelve digits, which is what a file has."""
    if (one.covariates, one.arms, len(one.answers)) != (other.covariates, other.arms, len(other.answers)):
        return False
    return all(
        (a.expert, a.arm, a.rival, a.x) == (b.expert, b.arm, b.rival, b.x)
        and len(a.levels) == len(b.levels)
        and np.allclose(a.levels, b.levels, rtol=0, atol=1e-14)
        and np.allclose(a.values, b.values, rtol=1e-11, atol=0)
        for a, b in zip(one.answers, other.answers, strict=True)
    )


def own_names(text: str) -> dict[str, Any]:
    """The constants of a belief file, and nothing but those, the import and the function stand there."""
    body = ast.parse(text).body
    assert [type(part).__name__ for part in body] == ["Expr", "Import", *["Assign"] * 4, "FunctionDef"]
    return {part.targets[0].id: ast.literal_eval(part.value) for part in body if isinstance(part, ast.Assign)}  # type: ignore[attr-defined]


def fault_of(rng: random.Random, folder: Path) -> str:
    """What is wrong with the file of a table of answers; "refused" where there is none."""
    try:
        answers = read_answers(a_table(rng))
    except RcbError:
        return "refused"
    name = f"{str(a_name(rng))[:60]}.py"
    weights = {expert: 2.0 for expert in answers.experts} if rng.random() < 0.5 else None
    path = folder / "belief.py"
    try:
        path.write_text(
            belief_text(answers, name=name, intercept=True, link="identity", weights=weights), encoding="utf-8"
        )
        found = own_names(path.read_bytes().decode("utf-8"))
        again = read_answers(found["ANSWERS"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:120]
    same = are_the_same(answers, again) and found["WEIGHTS"] == weights
    return "" if same else f"another: {answers.answers!r} for {again.answers!r}"[:300]


def faults(n: int, seed: int, folder: Path) -> list[str]:
    rng = random.Random(seed)
    return [fault_of(rng, folder) for _ in range(n)]


@pytest.mark.parametrize(("n", "seed"), [(300, 1), pytest.param(4000, 2, marks=pytest.mark.slow)])
def test_what_is_elicited_stands_in_its_file(n: int, seed: int, tmp_path: Path):
    found = faults(n, seed, tmp_path)
    assert [fault for fault in found if fault not in ("", "refused")] == []
    assert found.count("") > 0.2 * n
