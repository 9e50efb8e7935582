"""``rcb check``: verdicts as exit codes, options, what is printed and written, and bad input in a line or two."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import gallery, load_prior
from rcb_bayes.cli.market import TableWords, build_market, parse_settings
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.estimation import estimate_gaps
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.mechanism.length import saturated_sets
from rcb_bayes.running import need
from rcb_bayes.users import Ball, Empirical, Gaussian, Sphere
from tests.cli.command_line import Run, runner

SMALL = ("--worlds", "200", "--n-per-arm", "10")


rcb = runner("check", columns=300)


@pytest.fixture
def users_csv(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(40), rng.standard_normal(40)])
    path = tmp_path / "users.csv"
    path.write_text("intercept,age\n" + "\n".join(f"{a},{b}" for a, b in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on any sampling."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done before the input was checked")

    monkeypatch.setattr("rcb_bayes.gaps.stages.draw_worlds", work)
    monkeypatch.setattr("rcb_bayes.mechanism.length.make_panel", work)


# --- verdicts --------------------------------------------------------------------------------------------------------


OWN_FEATURES = """
import pymc as pm

def build_model(features=("base", "price")):
    with pm.Model(coords={"arm": ["old", "new"], "feature": list(features)}) as model:
        pm.Normal("beta", [[0.4, -0.5], [0.0, 0.5]], 0.3, dims=("arm", "feature"))
    return model
"""


def test_columns_are_found_by_name_where_the_belief_names_its_own(rcb: Run, tmp_path: Path) -> None:
    """By position a table in another order would give another answer without a word."""
    (tmp_path / "own.py").write_text(OWN_FEATURES, encoding="utf-8")
    prices = np.random.default_rng(1).uniform(0, 1, 40).round(3)
    tables = {
        "same": ("base,price", [f"1,{p}" for p in prices]),
        "turned": ("price,base", [f"{p},1" for p in prices]),
        "more": ("id,price,base", [f"{k},{p},1" for k, p in enumerate(prices)]),
        "misspelt": ("base,prize", [f"1,{p}" for p in prices]),
    }
    found = {}
    for name, (head, rows) in tables.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
        found[name] = rcb("own.py", "--covariates", f"{name}.csv", "--noise", "0.05", "--worlds", "100")
    assert found["same"].code in (0, 1, 3)
    assert found["turned"].out == found["more"].out == found["same"].out
    assert "columns left out, no features of the belief: id" in found["more"].err
    assert found["misspelt"].code == 2
    assert "prize" in found["misspelt"].err


@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [
        ((), 0, "pass"),
        (("--rho", "0.95"), 1, "fail"),
        (("--rho", "0.06"), 3, "inconclusive"),
        (("--inflation", "none"), 0, "pass"),  # the fourth is declared, and not part of the verdict
    ],
)
def test_the_verdict_is_the_exit_code(rcb: Run, options: tuple[str, ...], code: int, verdict: str) -> None:
    outcome = rcb("setting_1", *SMALL, *options)
    assert (outcome.code, outcome.err) == (code, "")
    assert outcome.out.endswith(f"Verdict of assumptions 1 to 3: {verdict}\n")


def test_what_is_printed(rcb: Run) -> None:
    outcome = rcb("setting_4", "--set", "n_arms=3", "--set", "n_features=2", *SMALL, "--noise", "0.3", "--seed", "4")
    prior = load_prior("setting_4", n_arms=3, n_features=2)
    market = Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.3))
    share = saturated_sets(market, n_per_arm=10, seed=4)[0,]
    assert 0 < share < 1
    for words in (
        "users believe   setting_4: 3 arms, 2 features, Gaussian, independent arms",
        "rewards         Gaussian rewards, sigma = 0.3",
        "0 greedy suffices: ",
        "1 fighting chance: ",
        "2 posterior separation: ",
        "3 covariates (phi0): pass  0.5\n",
        "4 evolution of trust: inconclusive",
        ", needed 0.01\n",
        "Gaps over arm_0 with 10 samples (± one Monte Carlo error), the arm that is most\noften saturated first, in ",
        f" {100 * share:.1f} % of simulated cold starts:\n",
        "rho+ = Pr(G > 0)",
        "A = E[max(G, 0)]",
    ):
        assert words in outcome.out, words
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith(("arm_1 ", "arm_2 "))]
    assert len(rows) == 2
    assert all(row.count("±") == 4 for row in rows)


def test_the_gaps_are_those_of_the_python_interface(rcb: Run) -> None:
    outcome = rcb("setting_4", "--set", "n_arms=3", "--set", "n_features=2", *SMALL, "--json", "-")
    result = json.loads(outcome.out)
    assert outcome.code == {"pass": 0, "fail": 1, "inconclusive": 3}[result["verdict"]]
    assert [check["name"][0] for check in result["checks"]] == ["1", "2", "3", "4"]
    assert result["need"]["name"] == "0 greedy suffices"
    assert result["seed"] == 1
    prior = load_prior("setting_4", n_arms=3, n_features=2)
    market = Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.05))
    gaps = estimate_gaps(market, saturated=["arm_0"], n_per_arm=10, n_worlds=200, seed=1)
    assert list(result["gaps"]) == ["arm_1", "arm_2"]
    for arm, figures in result["gaps"].items():
        assert len(figures) == 8
        for name, value in figures.items():
            assert value == pytest.approx(gaps[name].sel(arm=arm).item(), rel=1e-9), name
    assert result["attrs"]["saturated"] == "arm_0"
    assert result["attrs"]["n_not_vouched"] == 0


def test_the_same_seed_gives_the_same_output(rcb: Run) -> None:
    first, again, other = (rcb("setting_1", *SMALL, "--seed", seed).out for seed in ("3", "3", "4"))
    assert first == again != other


def test_figure_and_json_are_written(rcb: Run, tmp_path: Path) -> None:
    outcome = rcb("setting_1", *SMALL, "--out", "new/figures", "--json", "result.json")
    assert (outcome.code, outcome.err) == (0, "")
    figure = tmp_path / "new" / "figures" / "frontier.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert outcome.out.endswith(f"Figure: {Path('new/figures/frontier.png')}\n")
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["verdict"] == "pass"


def test_json_on_standard_output_is_all_there_is(rcb: Run, tmp_path: Path) -> None:
    outcome = rcb("setting_1", *SMALL, "--out", "figures", "--json", "-")
    assert json.loads(outcome.out)["verdict"] == "pass"
    assert (tmp_path / "figures" / "frontier.png").exists()


def test_a_belief_without_variance_can_be_written_as_json(rcb: Run) -> None:
    belief = ("student_t", "--set", "nu=1.8", "--set", "n_arms=2", "--set", "n_features=1")
    outcome = rcb(*belief, "--worlds", "50", "--json", "-")
    assert json.loads(outcome.out)["checks"][3]["estimate"] == 0.0


def test_doubtful_posteriors_are_told(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rcb_bayes.posterior.engines import ExactEngine

    fit = ExactEngine.fit

    def doubtful(self: ExactEngine, data: Any, **more: Any) -> Any:
        batch = fit(self, data, **more)
        batch.vouched[:2] = False
        return batch

    monkeypatch.setattr(ExactEngine, "fit", doubtful)
    assert "2 posteriors are not vouched for: take these figures with care." in rcb("setting_1", *SMALL).out


# --- the market ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "params"),
    [
        ([], {}),
        (["n_arms=3", "family=gamma"], {"n_arms": 3, "family": "gamma"}),
        (
            ["mean=[0.1, 0.2]", "scale=1e-3", "flag=True", "tau=None"],
            {"mean": [0.1, 0.2], "scale": 1e-3, "flag": True, "tau": None},
        ),
        (["a=b=c", "empty=", "quoted='x'"], {"a": "b=c", "empty": "", "quoted": "x"}),
        (["odd={[]}", "name=nan", "n= 4"], {"odd": "{[]}", "name": "nan", "n": 4}),
        (["n=3", "n=4"], {"n": 4}),
    ],
)
def test_settings_are_python_literals_or_text(settings: list[str], params: dict[str, Any]) -> None:
    assert parse_settings(settings) == params


@pytest.mark.parametrize("setting", ["n_arms", "=3", "2x=3", "n arms=3", ""])
def test_settings_have_a_name_and_a_value(setting: str) -> None:
    with pytest.raises(RcbError, match="--set takes NAME=VALUE, got") as caught:
        parse_settings([setting])
    assert f"got '{setting}'" in str(caught.value)


@pytest.mark.parametrize(("name", "kind"), [("sphere", Sphere), ("ball", Ball), ("gaussian", Gaussian)])
def test_populations_take_the_belief_s_features(name: str, kind: type) -> None:
    market = build_market("setting_1", ["n_features=3"], covariates=name, noise=None)
    assert isinstance(market.covariates, kind)
    assert market.n_features == market.covariates.n_features == 3
    assert market.noise == GaussianNoise(0.05)


@pytest.mark.parametrize("suffix", [".csv", ".CSV"])
def test_a_table_gives_the_belief_its_columns(users_csv: Path, suffix: str) -> None:
    path = users_csv.rename(users_csv.with_suffix(suffix))
    market = build_market("setting_1", ["n_arms=3"], covariates=str(path), noise="0.2")
    assert isinstance(market.covariates, Empirical)
    assert market.features == market.covariates.features == ("intercept", "age")
    assert market.n_arms == 3


def test_a_table_leaves_features_that_were_set(users_csv: Path) -> None:
    market = build_market("setting_1", ["n_features=2"], covariates=str(users_csv), noise=None)
    assert market.features == ("feature_0", "feature_1")
    with pytest.raises(RcbError, match="The belief has 3 features, the covariates have 2"):
        build_market("setting_1", ["n_features=3"], covariates=str(users_csv), noise=None)


@pytest.mark.parametrize(
    ("belief", "noise", "expected"),
    [
        ("setting_1", None, GaussianNoise(0.05)),
        ("setting_1", "0.3", GaussianNoise(0.3)),
        ("setting_1", "logit", BernoulliLogit()),
        ("unknown_noise", None, GaussianNoise()),
    ],
)
def test_rewards(belief: str, noise: str | None, expected: object) -> None:
    assert build_market(belief, ["n_arms=2", "n_features=1"], covariates="sphere", noise=noise).noise == expected


def test_a_table_of_users_is_checked(rcb: Run, users_csv: Path) -> None:
    outcome = rcb("setting_1", "--set", "n_arms=2", "--covariates", users_csv.name, *SMALL)
    assert outcome.code == 0
    assert "users           40 observed rows, 2 features" in outcome.out
    assert "Where the 40 rows are a sample" in outcome.out


def test_dummies_fail_and_are_named(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("one,female,male\n1,1,0\n1,0,1\n1,0,1\n", encoding="utf-8")
    outcome = rcb("setting_1", "--set", "n_arms=2", "--covariates", "users.csv", *SMALL)
    assert outcome.code == 1
    assert "0.58 one - 0.58 female - 0.58 male (eigenvalue 0)" in outcome.out


def test_bernoulli_rewards_are_checked(rcb: Run) -> None:
    belief = ("gaussian", "--set", "n_arms=2", "--set", "n_features=1", "--set", "scale=1.0")
    outcome = rcb(*belief, "--noise", "logit", "--worlds", "60", "--n-per-arm", "8")
    assert outcome.code in (0, 3)
    assert "Bernoulli rewards, logit link" in outcome.out


def test_an_own_file_is_checked(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pymc as pm\n\n\ndef build_model(spread=1.0):\n"
        "    with pm.Model(coords={'arm': ['old', 'new'], 'feature': ['x']}) as model:\n"
        "        pm.Normal('beta', [[1.0], [0.0]], spread, dims=('arm', 'feature'))\n"
        "    return model\n",
        encoding="utf-8",
    )
    outcome = rcb("mine.py", "--set", "spread=0.5", "--covariates", "sphere", "--noise", "0.05", *SMALL)
    assert outcome.code == 0
    assert "new beats the saturated old by 0.01" in outcome.out
    assert "uniform on the unit sphere" in outcome.out
    for given, lacking, not_lacking in (
        ((), "--covariates users.csv, or sphere, ball or gaussian; and what rewards are like: --noise 0.3", "sigma"),
        (("--noise", "logit"), "--covariates users.csv", "--noise"),
        (("--covariates", "sphere"), "--noise 0.3 (their standard deviation), or --noise logit", "--covariates"),
    ):
        refused = rcb("mine.py", *given, *SMALL)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert lacking in refused.err
        assert not_lacking not in refused.err


def test_gallery_names_keep_their_defaults_and_say_so(rcb: Run, tmp_path: Path) -> None:
    outcome = rcb("setting_4", "--set", "n_arms=2", *SMALL)
    assert "uniform on the unit sphere" in outcome.out
    assert "sigma = 0.05" in outcome.out
    (tmp_path / "copy.py").write_bytes(next(iter(gallery().values())).path.read_bytes())
    assert rcb("copy.py", *SMALL).code == 2


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PRIOR'"),
        (["stdent_t"], "There is no belief 'stdent_t' in the gallery. Did you mean 'student_t'?"),
        (["setting_1", "--tau", "-1"], "tau must be a finite number of at least 0, got -1.0."),
        (["setting_1", "--tau", "nan"], "tau must be a finite number of at least 0, got nan."),
        (["setting_1", "--tau", "x"], "Invalid value for '--tau'"),
        (["setting_1", "--rho", "0"], "rho is a probability above 0 and at most 1, got 0.0."),
        (["setting_1", "--rho", "95"], "rho is a probability above 0 and at most 1, got 95.0."),
        (["setting_1", "--n-per-arm", "0"], "Invalid value for '--n-per-arm'"),
        (["setting_1", "--worlds", "1"], "Invalid value for '--check-worlds' / '--worlds'"),
        (["setting_1", "--inflation", "liner"], "There is no schedule 'liner'. Did you mean 'linear'?"),
        (["setting_1", "--set", "n_arms"], "--set takes NAME=VALUE, got 'n_arms'. For instance: --set n_arms=3"),
        (["setting_1", "--set", "n_amrs=3"], "n_amrs"),
        (["setting_1", "--set", "n_arms=1"], "n_arms must be an integer of at least 2, got 1."),
        (["setting_1", "--set", "variance=-1"], "variance must be positive and finite, got -1."),
        (["setting_1", "--covariates", "spere"], "There is no population 'spere'. Did you mean 'sphere'?"),
        (["setting_1", "--covariates", "users.xlsx"], "The users must be in a .csv file, got users.xlsx."),
        (["setting_1", "--covariates", "none.csv"], "none.csv"),
        (["setting_1", "--noise", "-1"], "--noise takes a positive standard deviation or 'logit', got '-1'."),
        (["setting_1", "--noise", "nan"], "--noise takes a positive standard deviation or 'logit', got 'nan'."),
        (["setting_1", "--noise", "logti"], "got 'logti'. Did you mean 'logit'?"),
        (["unknown_noise", "--noise", "0.1"], "The belief has its own variable 'sigma'"),
        (["setting_1", "--out", "note.txt"], "Cannot write note.txt: note.txt is a file, not a folder."),
        (["setting_1", "--out", "note.txt/sub"], "Cannot write note.txt/sub: note.txt is a file, not a folder."),
        (["setting_1", "--json", "folder"], "Cannot write folder: it is a folder."),
        (["setting_1", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_bad_input_is_a_line_or_two_and_exit_code_2(
    rcb: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "note.txt").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    outcome = rcb(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("rcb: ")
    assert message in outcome.err
    assert 1 <= len(outcome.err.splitlines()) <= 2
    assert "Traceback" not in outcome.err


def test_a_table_with_a_hole_is_refused(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("a,b\n1,2\n3,\n", encoding="utf-8")
    outcome = rcb("setting_1", "--covariates", "users.csv")
    assert outcome.code == 2
    assert "users.csv" in outcome.err
    assert len(outcome.err.splitlines()) <= 2


def test_a_folder_that_cannot_be_written_to_is_refused(
    rcb: Run, no_work: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rcb_bayes.cli.options.os.access", lambda *_: False)
    outcome = rcb("setting_1", "--out", "figures")
    assert (outcome.code, outcome.err) == (2, "rcb: Cannot write figures: permission denied. Choose another place.\n")


# --- tables of real users --------------------------------------------------------------------------------------------


REAL = "intercept,age,dose,sex\n" + "\n".join(f"1,{30 + k},{k % 5},{'mf'[k % 2]}" for k in range(40)) + "\n"


def test_text_is_left_out_and_named_and_a_large_column_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "users.csv"
    path.write_text(REAL, encoding="utf-8")
    market = build_market("setting_1", ["n_arms=2"], covariates=str(path), noise="0.3")
    assert market.features == ("intercept", "age", "dose")
    told = capsys.readouterr().err
    assert "columns left out, text and not numbers: sex (f, m: --dummies" in told
    assert "note: 'age' (values around 50.8) outweighs" in told
    assert "Add --standardise" in told
    words = TableWords(standardise=True)
    build_market("setting_1", ["n_arms=2"], covariates=str(path), noise="0.3", table=words)
    told = capsys.readouterr().err
    assert "standardised: age (x - 49.5) / 11.54, dose" in told
    assert "note:" not in told


def test_an_intercept_is_offered_and_put_where_the_belief_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "users.csv"
    path.write_text("age,dose\n0.1,1\n0.5,2\n0.2,1\n", encoding="utf-8")
    given: dict[str, Any] = {"covariates": str(path), "noise": "0.3"}
    with pytest.raises(RcbError, match=r"The belief has 3 features, the covariates have 2.*add --intercept"):
        build_market("setting_1", ["n_arms=2", "n_features=3"], **given)
    added = build_market("setting_1", ["n_arms=2", "n_features=3"], **given, table=TableWords(intercept=True))
    assert added.covariates.mean[0] == 1.0
    named = build_market("setting_1", ["n_arms=2", 'features=["age", "intercept", "dose"]'], **given)
    assert named.covariates.features == ("age", "intercept", "dose")
    np.testing.assert_allclose(named.covariates.mean, [0.8 / 3, 1.0, 4 / 3])
    assert "column added: intercept" in capsys.readouterr().err


def test_a_belief_chooses_among_0_1_columns_of_text(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "users.csv"
    path.write_text("age,sex,ward\n0.1,f,a\n0.5,m,b\n0.2,f,c\n0.4,m,a\n0.3,f,b\n0.6,m,c\n", encoding="utf-8")
    given: dict[str, Any] = {"covariates": str(path), "noise": "0.3", "table": TableWords(dummies=True)}
    every = build_market("setting_1", ["n_arms=2"], **given)
    assert every.features == ("age", "sex_m", "ward_b", "ward_c")
    named = build_market("setting_1", ["n_arms=2", 'features=["sex_f", "age"]'], **given)
    np.testing.assert_allclose(named.covariates.mean, [0.5, 2.1 / 6])
    assert "sex: text as 0/1 column sex_f; 0 is m" in capsys.readouterr().err
    with pytest.raises(RcbError, match=r"sphere|about a table"):
        build_market("setting_1", ["n_arms=2"], covariates=None, noise="0.3", table=TableWords(dummies=True))


def test_many_arms_with_the_same_figures_share_a_line(rcb: Run) -> None:
    outcome = rcb("setting_1", "--set", "n_arms=7", "--set", "n_features=2", "--no-need", "--worlds", "50")
    assert outcome.line("arm_0, 5 alike" if "arm_0, 5 alike" in outcome.out else "arm_1, 5 alike")


def test_missing_values_are_a_choice(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("a,b\n1,2\n3,\n2,x\n,1\n", encoding="utf-8")
    outcome = rcb("setting_1", "--covariates", "users.csv", "--missing", "mean")
    assert outcome.code == 2
    assert "Column 'b', line 4" in outcome.err
    outcome = rcb("setting_1", "--covariates", "users.csv", "--missing", "means")
    assert "--missing takes refuse, drop, mean, indicator, got 'means'. Did you mean 'mean'?" in outcome.err
    outcome = rcb("setting_1", "--missing", "mean")
    assert "add --covariates users.csv" in outcome.err


def test_more_worlds_for_the_first_line_are_an_option(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the message offers is what the option does; unsaid, check_need chooses."""
    asked: list[int | None] = []
    usual = need.check_need

    def watched(market: Any, **given: Any) -> Any:
        asked.append(given["n_worlds"])
        given["n_worlds"] = 10
        return replace(usual(market, **given), remedy="More: check_need(market, n_worlds=1280).")

    monkeypatch.setattr(need, "check_need", watched)
    outcome = rcb("setting_1", "--set", "n_arms=2", "--horizon", "50", "--check-worlds", "70")
    assert "More: --check-worlds 1280." in outcome.out
    rcb("setting_1", "--set", "n_arms=2", "--horizon", "50")
    assert asked == [70, None]
