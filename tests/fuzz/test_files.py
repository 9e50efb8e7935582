"""Files that went wrong, by the thousand: never a traceback, never a hang, never another meaning.

Without a new digest every change of meaning is refused. With a digest computed anew, by somebody who can, what is taken
must satisfy all invariants and behave. A few hundred files are tried each time, over twenty thousand in the slow suite,
which prints what became of them.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from rcb_bayes import Audit, Plan, Recommender, Rule
from rcb_bayes.auditing import audit_files
from rcb_bayes.files.encoding import Packed, packed, unpacked
from rcb_bayes.files.envelope import DIGEST, digest_of
from rcb_bayes.files.netcdf import sealed
from rcb_bayes.planning.plan_files import plan_wire
from rcb_bayes.running.agent_files import state_of
from rcb_bayes.running.agent_state import RECORDS
from tests.fuzz.mutations import (
    Arrays,
    changed_bytes,
    changed_document,
    changed_netcdf,
    changed_table,
    with_a_name_twice,
)
from tests.fuzz.subjects import (
    Outcomes,
    agent_behaves,
    agents,
    audit_behaves,
    audit_meaning,
    audits,
    plan_behaves,
    plans,
    read_table,
    rule_behaves,
    rules,
    table_behaves,
    tables,
    try_file,
)

pytestmark = pytest.mark.usefixtures("small_panels")

RIGHT = {"refused", "taken, the same", "taken, sound"}
ARRAYS = Arrays(
    read=lambda node: unpacked(msgspec.convert(node, Packed)),
    write=lambda values, node: packed(values, node["kind"]),
)


def resealed(document: dict[str, Any]) -> str:
    """The text of a document with the digest that it should have; any other where there is none."""
    content = {name: value for name, value in document.items() if name != DIGEST}
    try:
        return json.dumps({**content, DIGEST: digest_of(content)})
    except (ValueError, TypeError):
        return json.dumps({**content, DIGEST: "sha256:none"})


def changed_text(text: str, rng: np.random.Generator) -> tuple[str, bytes, bool]:
    """A file of JSON, changed: what was done, the bytes, and whether the digest is right again."""
    way = rng.random()
    if way < 0.25:
        kind, data = changed_bytes(text.encode("utf-8"), rng)
        return kind, data, False
    if way < 0.28:
        return "name twice", with_a_name_twice(text, rng).encode("utf-8"), False
    kind, document = changed_document(json.loads(text), rng, ARRAYS)
    if way < 0.5:
        return kind, json.dumps(document).encode("utf-8", "surrogatepass"), False
    return kind, resealed(document).encode("utf-8", "surrogatepass"), True


def fuzz_plans(n: int, seed: int, folder: Path) -> Outcomes:
    rng, noted = np.random.default_rng(seed), Outcomes()
    texts = {name: plan.to_json() for name, (_, plan) in plans().items()}
    texts |= {f"ruled {name}": plan.with_rule(rule).to_json() for name, (plan, rule) in rules().items()}
    names = list(texts)
    path = folder / "plan.json"
    for k in range(n):
        name = names[k % len(names)]
        kind, data, may_change = changed_text(texts[name], rng)
        path.write_bytes(data)
        try_file(
            noted,
            f"plan {name}, {kind}, number {k}",
            lambda: Plan.load(path),
            meaning=Plan.to_json,
            original=texts[name],
            behave=plan_behaves,
            may_change=may_change,
        )
    return noted


def fuzz_rules(n: int, seed: int, folder: Path) -> Outcomes:
    rng, noted = np.random.default_rng(seed), Outcomes()
    texts = {name: rule.to_json() for name, (_, rule) in rules().items()}
    names = list(texts)
    path = folder / "rule.json"
    for k in range(n):
        name = names[k % len(names)]
        kind, data, may_change = changed_text(texts[name], rng)
        path.write_bytes(data)
        try_file(
            noted,
            f"rule {name}, {kind}, number {k}",
            lambda: Rule.load(path),
            meaning=Rule.to_json,
            original=texts[name],
            behave=rule_behaves,
            may_change=may_change,
        )
    return noted


def agent_meaning(agent: Recommender) -> str:
    return json.dumps(RECORDS.to_wire(state_of(agent), {Plan: plan_wire}))


def fuzz_agents(n: int, seed: int, folder: Path) -> Outcomes:
    rng, noted = np.random.default_rng(seed), Outcomes()
    path = folder / "agent.json"
    texts, originals = {}, {}
    for name, (_, agent) in agents().items():
        agent.save(path)
        texts[name], originals[name] = path.read_text(encoding="utf-8"), agent_meaning(agent)
    names = list(texts)
    for k in range(n):
        name = names[k % len(names)]
        kind, data, may_change = changed_text(texts[name], rng)
        path.write_bytes(data)
        where = agents()[name][0]
        try_file(
            noted,
            f"agent {name}, {kind}, number {k}",
            lambda where=where: Recommender.load(path, where),
            meaning=agent_meaning,
            original=originals[name],
            behave=agent_behaves,
            may_change=may_change,
        )
    return noted


def fuzz_audits(n: int, seed: int, folder: Path) -> Outcomes:
    """Bytes mostly: what HDF5 has to look at takes a hundred times as long as a digest."""
    rng, noted = np.random.default_rng(seed), Outcomes()
    path = folder / "audit.nc"
    files, originals = {}, {}
    for name, audit in audits().items():
        audit.to_netcdf(path)
        files[name], originals[name] = path.read_bytes(), audit_meaning(audit)
    names = list(files)
    for k in range(n):
        name = names[k % len(names)]
        may_change = k % 7 == 0
        if may_change:
            kind, data = changed_netcdf(files[name][: files[name].rindex(b"\n#rcb_bayes")], rng)
            path.write_bytes(sealed(audit_files.FORM, data))
        else:
            kind, data = changed_bytes(files[name], rng)
            path.write_bytes(data)
        try_file(
            noted,
            f"audit {name}, {kind}, number {k}",
            lambda: Audit.load(path),
            meaning=audit_meaning,
            original=originals[name],
            behave=audit_behaves,
            may_change=may_change,
        )
    return noted


def fuzz_tables(n: int, seed: int, folder: Path) -> Outcomes:
    rng, noted = np.random.default_rng(seed), Outcomes()
    path = folder / "table.csv"
    texts = tables()
    names = list(texts)
    for k in range(n):
        name = names[k % len(names)]
        kind, data = changed_table(texts[name], rng)
        path.write_bytes(data)
        try_file(
            noted,
            f"table {name}, {kind}, number {k}",
            lambda name=name: read_table(name, path),
            meaning=lambda found: None,
            original=None,
            behave=table_behaves,
            may_change=True,
        )
    return noted


FUZZERS: dict[str, Callable[[int, int, Path], Outcomes]] = {
    "plans": fuzz_plans,
    "rules": fuzz_rules,
    "agents": fuzz_agents,
    "audits": fuzz_audits,
    "tables": fuzz_tables,
}
MANY = {"plans": 8_000, "rules": 2_000, "agents": 5_000, "audits": 2_400, "tables": 8_000}
FEW = {"plans": 200, "rules": 60, "agents": 120, "audits": 35, "tables": 120}


def check(name: str, n: int, seed: int, folder: Path) -> Outcomes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what overflows on the way is seen by what comes of it
        noted = FUZZERS[name](n, seed, folder)
    assert set(noted.counts) <= RIGHT, f"{noted}\n" + "\n".join(noted.wrong[:20])
    assert sum(noted.counts.values()) == n
    return noted


@pytest.mark.parametrize("name", FUZZERS)
def test_files_that_went_wrong_are_refused_or_behave(name: str, tmp_path: Path):
    assert check(name, FEW[name], 1, tmp_path).counts["refused"] > 0.3 * FEW[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_thousands_of_files_that_went_wrong_are_refused_or_behave(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    noted = check(name, MANY[name], 2, tmp_path)
    with capsys.disabled():
        print(f"\n{MANY[name]:,} {name}: {noted}")


def test_the_slow_suite_tries_more_than_twenty_thousand_files():
    assert sum(MANY.values()) > 20_000
