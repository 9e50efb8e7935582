"""Agents as files: refused where no recommender could have got there, whoever computed the digest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Recommender
from rcb_bayes.errors import RcbError
from rcb_bayes.files.encoding import packed
from rcb_bayes.files.envelope import DIGEST, digest_of
from tests.fuzz.subjects import agents, plans


def load_changed(name: str, change: Callable[[dict[str, Any]], Any], path: Path) -> Recommender:
    where, agent = agents()[name]
    agent.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document[DIGEST]
    change(document)
    path.write_text(json.dumps({**document, DIGEST: digest_of(document)}), encoding="utf-8")
    return Recommender.load(path, where)


@pytest.mark.parametrize("name", ["new", "first", "cold", "exploiting", "last", "fixed", "logit"])
def test_every_stage_comes_back(name: str, tmp_path: Path):
    where, agent = agents()[name]
    again = load_changed(name, lambda document: None, tmp_path / "agent.json")
    assert (again.rounds, again.stage, again.n_samples, again.n_pending) == (
        agent.rounds,
        agent.stage,
        agent.n_samples,
        agent.n_pending,
    )
    x = where.covariates.sample(20, seed=3)
    np.testing.assert_array_equal(again.recommend_proba(x), agent.recommend_proba(x))


def add(*place: str, amount: float = 1) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for part in place[:-1]:
            document = document[part]
        document[place[-1]] += amount

    return change


def put(value: Any, *place: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for part in place[:-1]:
            document = document[part]
        document[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("exploiting", add("exploitation", "epoch"), "epoch 2 cannot end|epoch 1 cannot end|epoch 3 cannot end"),
        ("exploiting", put(-1, "exploitation", "epoch"), "epoch"),
        ("exploiting", put(10**9, "exploitation", "epoch"), "epoch"),
        ("exploiting", add("exploitation", "ends"), "cannot end"),
        ("exploiting", put(0.0, "exploitation", "gamma"), "gamma"),
        ("exploiting", put("nan", "exploitation", "gamma"), "gamma"),
        ("exploiting", put(0, "rounds"), "not within its epoch"),
        ("exploiting", put([0], "cold", "saturated"), "not saturated"),
        ("exploiting", put([5, 5, 5], "counts"), "not those of its history"),
        ("exploiting", put([5, 5], "counts"), "2 arms"),
        ("exploiting", put([-1, 5, 5], "counts"), "counts"),
        ("exploiting", put(packed(np.zeros((3, 2))), "exploitation", "fed", "xtx"), "other shapes"),
        ("exploiting", put(packed(np.full((3, 2), np.nan)), "exploitation", "predictor", "means"), "must be finite"),
        (
            "exploiting",
            put(packed(np.full(3, -1.0)), "exploitation", "fed", "yty"),
            "without samples|negative|not those",
        ),
        ("exploiting", put(None, "exploitation"), "no history"),
        ("cold", put([0, 1, 2], "cold", "saturated"), "saturated without its 5 samples"),
        ("cold", put([], "cold", "saturated"), "if and only if"),
        ("cold", put([9], "cold", "saturated"), "do not exist"),
        ("cold", put(None, "cold", "predictor"), "if and only if"),
        ("cold", put([0, 0, 0], "counts"), "not those of its history"),
        ("cold", put(2, "rounds"), "more than 2 rounds|never issued"),
        ("cold", put(packed(np.array([999]), "i8"), "pending", "ticket"), "never issued"),
        ("cold", put(packed(np.array([9]), "i8"), "pending", "arm"), "arm that does not exist"),
        ("cold", put(packed(np.array([3]), "i8"), "pending", "stage"), "another stage"),
        ("cold", put("never", "options", "feed"), "feed"),
        ("cold", put([], "entropy"), "no seed"),
        ("logit", put(packed(np.array([0.5] * 11)), "cold", "history", "reward"), "0 or 1|other shapes"),
        ("new", put(None, "cold", "history"), "no history"),
    ],
)
def test_what_no_recommender_could_be_is_refused_though_the_digest_is_right(
    name: str, change: Any, message: str, tmp_path: Path
):
    with pytest.raises(RcbError, match=message) as caught:
        load_changed(name, change, tmp_path / "agent.json")
    assert "\n" not in str(caught.value)


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "agent.json"
    where, plan = plans()["user"]
    agent = Recommender(where, plan, seed=1)
    agent.save(path)
    agent.recommend([0.6, 0.8])

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rcb_bayes.files.envelope.os.replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        agent.save(path)
    assert Recommender.load(path, where).rounds == 0
    assert [item.name for item in tmp_path.iterdir()] == ["agent.json"]


def test_seeds_of_any_length_come_back(tmp_path: Path):
    where, plan = plans()["user"]
    for seed in (0, 2**200, np.random.SeedSequence([1, 2**40, 3]), np.random.SeedSequence(5).spawn(2)[1]):
        agent = Recommender(where, plan, seed=seed)
        agent.save(tmp_path / "agent.json")
        again = Recommender.load(tmp_path / "agent.json", where)
        x = rcb.Sphere(2).sample(10, seed=1)
        assert again.recommend_many(x).arm.tolist() == agent.recommend_many(x).arm.tolist()


def test_loading_writes_to_no_file_that_the_state_names(tmp_path: Path):
    where, plan = plans()["fixed"]
    agent = Recommender(where, plan, keep_log=tmp_path / "log.csv", seed=1)
    agent.observe(0.1, ticket=agent.recommend([1.0, 0.0]).ticket)
    agent.save(tmp_path / "agent.json")
    (tmp_path / "log.csv").write_bytes(b"")
    with pytest.warns(UserWarning, match="is not there: it goes on without one"):
        again = Recommender.load(tmp_path / "agent.json", where)
    again.recommend([1.0, 0.0])
    assert (tmp_path / "log.csv").read_bytes() == b""
