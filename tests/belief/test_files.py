"""Beliefs from files: found by name or path, and each way a file can fail told apart with its line."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rcb_bayes.belief.files import description_of, find_model, gallery, load_prior, parameters_of
from rcb_bayes.errors import BeliefError, ModelFileError

GOOD = '''"""My own belief.

The second paragraph.
"""

import pymc as pm


def build_model(n_arms=2, *, scale=1.0):
    with pm.Model(coords={"arm": range(n_arms), "feature": ["age"]}) as model:
        pm.Normal("beta", 0.0, scale, dims=("arm", "feature"))
    return model
'''

# A byte that UTF-8 never has, and one that no text has.
NOT_UTF8, NOT_TEXT = b"x = '\xff'\n", b"\x7fELF\x00\x01"


def write(folder: Path, source: str | bytes, name: str = "mine.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return path


def message_of(path: Any, **params: Any) -> str:
    with pytest.raises(ModelFileError) as caught:
        load_prior(path, **params)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- the gallery -----------------------------------------------------------------------------------------------------


def test_every_gallery_belief_has_a_summary_and_is_found_by_its_name() -> None:
    entries = gallery()
    assert {"gaussian", "student_t", "setting_1", "setting_4", "warfarin_physician"} <= set(entries)
    assert list(entries) == sorted(entries)
    for name, entry in entries.items():
        assert entry.name == name
        assert entry.summary.endswith(".")
        assert "\n" not in entry.summary
        assert find_model(name) == entry.path


@pytest.mark.parametrize("name", ["student_t", "student-t", "Student-T", "STUDENT_T", "models/student_t.py"])
def test_a_gallery_belief_is_found_from_any_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model(name) == gallery()["student_t"].path
    assert find_model(name).is_absolute()


def test_a_gallery_belief_is_built_with_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prior = load_prior("models/student_t.py", n_arms=2, n_features=1, arms=["a", "b"])
    assert prior.name == "student_t"
    assert prior.arms == ("a", "b")
    assert prior.n_features == 1


def test_a_gallery_name_means_the_gallery_even_beside_a_folder_or_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gaussian").mkdir()
    write(tmp_path, GOOD, "gaussian.py")
    assert find_model("gaussian") == gallery()["gaussian"].path
    assert find_model("gaussian.py") == tmp_path / "gaussian.py"


def test_models_of_the_own_folder_come_before_the_gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = write(tmp_path, GOOD, "models/gaussian.py")
    assert find_model("models/gaussian.py") == own


# --- a file of one's own ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.py", "näher & weiter/ein Glaube.py", "信念.py", "a.b.py", "student_t.py"])
def test_an_own_file_is_loaded_by_path(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, name)
    for given in (path, str(path)):
        prior = load_prior(given, n_arms=3)
        assert prior.name == path.stem
        assert prior.features == ("age",)
        assert prior.n_arms == 3


def test_relative_paths_start_at_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert load_prior("../mine.py").n_arms == 2


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    path = write(tmp_path, GOOD)
    assert find_model("~/mine.py") == path


def test_an_edit_counts_at_once_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load_prior(path).n_arms == 2
    stamp = path.stat()
    write(tmp_path, GOOD.replace("n_arms=2", "n_arms=4"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # byte code, if any, would look fresh
    assert load_prior(path).n_arms == 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.py"]
    assert not [name for name in sys.modules if name.startswith("rcb_belief")]


def test_a_file_may_define_data_classes_and_read_data_beside_it(tmp_path: Path) -> None:
    (tmp_path / "arms.txt").write_text("a b c", encoding="utf-8")
    head = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from pathlib import Path\n"
        "import pymc as pm\n"
        "@dataclass\n"
        "class Options:\n"
        "    scale: float = 1.0\n"
    )
    body = (
        "def build_model():\n"
        "    arms = Path(__file__).with_name('arms.txt').read_text().split()\n"
        "    with pm.Model(coords={'arm': arms, 'feature': ['age']}) as model:\n"
        "        pm.Normal('beta', 0.0, Options().scale, dims=('arm', 'feature'))\n"
        "    return model\n"
    )
    assert load_prior(write(tmp_path, head + body)).arms == ("a", "b", "c")


def test_open_ended_parameters_are_passed_on(tmp_path: Path) -> None:
    source = GOOD.replace("scale=1.0):", "scale=1.0, **others):\n    assert others == {'extra': 1}")
    assert load_prior(write(tmp_path, source), extra=1).n_arms == 2


# --- files that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n\nraise RuntimeError('no data')\n", "mine.py failed at line 3: RuntimeError: no data"),
        ("raise RuntimeError('two\\n  lines')\n", "mine.py failed at line 1: RuntimeError: two lines"),
        ("raise RuntimeError\n", "mine.py failed at line 1: RuntimeError"),
        ("import no_such_package\n", "line 1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = 1\ny = {}['key']\n", "mine.py failed at line 2: KeyError: 'key'"),
        ("def f():\n    return 1 / 0\n\nf()\n", "mine.py failed at line 2: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", "mine.py failed at line 2: SyntaxError: invalid syntax"),
        ("x = 1\n  y = 2\n", "mine.py failed at line 2: IndentationError: unexpected indent"),
        ("x = 1\nreturn x\n", "mine.py failed at line 2: SyntaxError: 'return' outside function"),
        ("\n\nexec('(')\n", "mine.py failed at line 3: SyntaxError: '(' was never closed (<string>, line 1)"),
        ("import sys\nsys.exit(3)\n", "mine.py failed at line 2: SystemExit: 3"),
        ("raise SystemExit\n", "mine.py failed at line 1: SystemExit"),
        ("raise GeneratorExit\n", "mine.py failed at line 1: GeneratorExit"),
        (NOT_UTF8, "mine.py failed at line 1: SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (NOT_TEXT, "mine.py failed: SyntaxError: source code string cannot contain null bytes"),
        ("", "mine.py defines no function build_model(...). Add one that returns a pm.Model."),
        ("def make_model(): ...\n", "mine.py defines no function build_model(...)."),
        ("build_model = {}\n", "build_model in mine.py must be a function, got dict. Define build_model(...)"),
        ("build_model = None\n", "build_model in mine.py must be a function, got NoneType."),
        (
            "def build_model(): ...\n",
            "build_model of mine.py must return a pm.Model, got NoneType. End it with `return model`.",
        ),
        ("def build_model():\n    return 3\n", "must return a pm.Model, got int."),
        (
            "def build_model():\n    x = 1\n    raise ValueError('bad scale')\n",
            "build_model of mine.py failed at line 3: ValueError: bad scale",
        ),
        ("def build_model():\n    raise SystemExit('enough')\n", "failed at line 2: SystemExit: enough"),
        ("def build_model():\n    raise GeneratorExit\n", "failed at line 2: GeneratorExit"),
        (
            "class Own(BaseException): ...\n\ndef build_model():\n    raise Own('odd')\n",
            "build_model of mine.py failed at line 4: Own: odd",
        ),
        (
            "import json\n\n\ndef build_model():\n    return json.loads('{')\n",  # raised elsewhere, through line 5
            "build_model of mine.py failed at line 5: JSONDecodeError:",
        ),
    ],
)
def test_a_file_that_fails_is_refused_with_its_line(source: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in message_of(write(tmp_path, source))


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    assert len(message_of(write(tmp_path, "raise ValueError('word ' * 10_000)\n"))) < 400


def test_the_original_error_is_kept_as_the_cause(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        load_prior(write(tmp_path, "def build_model():\n    return 1 / 0\n"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("source", ["raise KeyboardInterrupt\n", "def build_model():\n    raise KeyboardInterrupt\n"])
def test_stopping_by_hand_is_not_an_error_of_the_file(source: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_prior(write(tmp_path, source))


@pytest.mark.parametrize("source", ["1 / 0\n", "def build_model():\n    1 / 0\n", "def f(:\n"])
@pytest.mark.parametrize("given", ["../mine.py", "./../sub/../mine.py", "link.py", "../../{top}/mine.py"])
def test_lines_are_found_for_every_way_to_write_a_path(
    source: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, f"\n\n{source}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.py").symlink_to(path)
    monkeypatch.chdir(tmp_path / "sub")
    line = 4 if "build_model" in source else 3
    assert f"failed at line {line}: " in message_of(given.format(top=tmp_path.name))


def test_lines_are_found_when_the_file_changes_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import os\nos.chdir('..')\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert "mine.py failed at line 3: " in message_of("mine.py")


def test_a_failing_file_leaves_no_module_behind(tmp_path: Path) -> None:
    message_of(write(tmp_path, "1 / 0\n"))
    assert not [name for name in sys.modules if name.startswith("rcb_belief")]


def test_a_model_that_is_no_belief_is_refused_as_such(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace('"beta"', '"gamma"'))
    with pytest.raises(BeliefError, match="beta"):
        load_prior(path)


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "params", "message"),
    [
        (
            "n_arms=2, scale=1.0",
            {"n_arm": 3},
            "build_model of mine.py takes no parameter 'n_arm'. Did you mean 'n_arms'? It takes: n_arms, scale.",
        ),
        ("n_arms=2, *, scale=1.0", {"colour": 3}, "takes no parameter 'colour'. It takes: n_arms, scale."),
        ("", {"n_arms": 3}, "takes no parameter 'n_arms'. It takes: none."),
        ("n_arms", {}, "build_model of mine.py needs n_arms. Pass n_arms=..., or write defaults into the file."),
        ("n_arms, *, scale, nu=4", {}, "needs n_arms, scale. Pass n_arms=..., scale=..., or"),
        ("n_arms, *, scale", {"n_arms": 2}, "needs scale. Pass scale=..."),
        ("*, scale, **others", {"n_arms": 2}, "needs scale."),
        ("n_arms, /", {}, "failed: TypeError: build_model() missing 1 required positional argument"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    signature: str, params: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in message_of(write(tmp_path, f"def build_model({signature}): ...\n"), **params)


def test_a_gallery_belief_names_the_line_of_its_own_check() -> None:
    assert message_of("gaussian", scale=-1.0).startswith("build_model of gaussian.py failed at line ")
    assert "Did you mean 'n_arms'?" in message_of("gaussian", n_arm=3)


# --- nothing there ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("stdent_t", "There is no belief 'stdent_t' in the gallery. Did you mean 'student_t'? `rcb models` lists them"),
        ("nonsense", "There is no belief 'nonsense' in the gallery. `rcb models` lists them; a file of your own must"),
        ("", "There is no belief '' in the gallery."),
        ("student_t.py", "There is no file student_t.py. Did you mean 'student_t'? `rcb models` lists the gallery."),
        ("models/studnt_t.py", "There is no file models/studnt_t.py. Did you mean 'student_t'?"),
        ("nowhere/qqq.py", "There is no file nowhere/qqq.py. `rcb models` lists the gallery."),
        ("my_belif.py", "There is no file my_belif.py. Did you mean 'my_belief.py'?"),
        ("sub/../my_belif.py", "Did you mean 'sub/../my_belief.py'?"),
        ("my_belief", "There is no belief 'my_belief' in the gallery. Did you mean 'my_belief.py'?"),
        ("notes.txt", "notes.txt does not end in .py: rename it if it is a Python file with build_model(...)."),
        ("sub", "sub is a folder, expected a file: give one of its .py files."),
        ("folder.py", "folder.py is a folder, expected a file"),
        (".", ". is a folder, expected a file"),
        ("x" * 5000, "There is no belief 'xxx"),
        ("x" * 5000 + ".py", "There is no file xxx"),
        ("a\0b.py", "There is no file a\0b.py."),
        ("~nobody-of-that-name/x.py", "There is no file ~nobody-of-that-name/x.py."),
        (None, "Expected the name of a belief or the path of a file, got NoneType."),
        (7, "got int. For a pm.Model use Prior.from_pymc(model)."),
        (b"gaussian", "got bytes."),
    ],
)
def test_what_is_not_there_is_named_and_a_likely_one_suggested(
    given: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GOOD, "my_belief.py")
    write(tmp_path, "notes", "notes.txt")
    (tmp_path / "sub").mkdir()
    (tmp_path / "folder.py").mkdir()
    monkeypatch.chdir(tmp_path)
    assert message in message_of(given)


def test_a_link_to_nowhere_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "target.py")
    assert "There is no file" in message_of(tmp_path / "gone.py")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, GOOD)

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(ModelFileError, match=r"mine\.py cannot be read: Permission denied\. Check the file"):
        parameters_of(path)


# --- reading without building ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "description"),
    [
        (GOOD, "My own belief.\n\nThe second paragraph."),
        ("'''Single quotes.'''\n", "Single quotes."),
        ("'One line.'\nx = 1 / 0\n", "One line."),
        ('# a comment\nr"""Raw \\sigma."""\n', "Raw \\sigma."),
        ("x = 1\n", "(no description)"),
        ('"""   """\n', "(no description)"),
        ("def f(:\n", "(does not parse)"),
        (NOT_UTF8, "(does not parse)"),
        (NOT_TEXT, "(does not parse)"),
    ],
)
def test_descriptions_are_read_without_running_the_file(source: str | bytes, description: str, tmp_path: Path) -> None:
    assert description_of(write(tmp_path, source)) == description


def test_parameters_are_those_of_build_model(tmp_path: Path) -> None:
    parameters = parameters_of(write(tmp_path, GOOD))
    assert {name: parameter.default for name, parameter in parameters.items()} == {"n_arms": 2, "scale": 1.0}
    with pytest.raises(ModelFileError, match="defines no function build_model"):
        parameters_of(write(tmp_path, "x = 1\n"))
