"""Beliefs from files: the gallery by name, or a user's own model by path."""

import ast
import importlib.util
import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rcb_bayes.errors import ModelFileError
from rcb_bayes.prior.belief import Prior
from rcb_bayes.schema import suggestion

_BUILD = "build_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryEntry:
    """A belief of the gallery: its name, the file it is in, and the first line of its docstring."""

    name: str
    path: Path
    summary: str


def gallery() -> dict[str, GalleryEntry]:
    """The beliefs that ship with the package, by name."""
    return {
        path.stem: GalleryEntry(name=path.stem, path=path, summary=_summary(path))
        for path in sorted(_gallery_folder().glob("[!_]*.py"))
    }


def load_prior(path_or_name: str | Path, **params: Any) -> Prior:
    """Build a belief from a gallery name or from a Python file that defines ``build_model(...) -> pm.Model``.

    Parameters
    ----------
    path_or_name : a name that ``rcb models`` lists, such as "student_t", or the path of a file
    **params : passed to ``build_model``; names it does not take are refused

    Raises
    ------
    ModelFileError
        No such file or name; the file fails, lacks ``build_model`` or takes other parameters.
    BeliefError
        The model is not a usable belief.

    Examples
    --------
    >>> load_prior("gaussian", n_arms=2, n_features=3).is_gaussian
    True
    """
    path = find_model(path_or_name)
    build = getattr(_import_file(path), _BUILD, None)
    if not callable(build):
        raise ModelFileError(f"{path.name} defines no function build_model(...). Add one that returns a pm.Model.")
    _check_params(build, params, path=path)
    try:
        model = build(**params)
    except Exception as error:
        raise ModelFileError(f"build_model of {path.name} failed{_line_of(error, path)}: {_one_line(error)}") from error
    import pymc as pm

    if not isinstance(model, pm.Model):
        raise ModelFileError(
            f"build_model of {path.name} must return a pm.Model, got {type(model).__name__}. End it with `return model`."
        )
    return Prior.from_pymc(model, name=path.stem)


def find_model(path_or_name: str | Path) -> Path:
    """The file of a gallery name or path."""
    text = str(path_or_name)
    path = Path(text).expanduser()
    if path.suffix == ".py":
        if path.is_file():
            return path
        # "models/student_t.py" names a gallery belief from any folder, not only inside a checkout.
        known = gallery()
        if path.parts == ("models", path.name) and path.stem in known:
            return known[path.stem].path
        raise ModelFileError(f"There is no file {text}.{suggestion(path.stem, list(known))} `rcb models` lists the gallery.")
    known = gallery()
    name = text.replace("-", "_").lower()
    if name in known:
        return known[name].path
    raise ModelFileError(
        f"There is no belief '{text}' in the gallery.{suggestion(name, list(known))} "
        "`rcb models` lists them; a file of your own must end in .py."
    )


def parameters_of(path: Path) -> Mapping[str, inspect.Parameter]:
    """The parameters that a model file's ``build_model`` takes."""
    return inspect.signature(getattr(_import_file(path), _BUILD)).parameters


def _gallery_folder() -> Path:
    """Inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def _summary(path: Path) -> str:
    try:
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except SyntaxError:
        return "(does not parse)"
    return doc.strip().splitlines()[0] if doc else "(no description)"


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rcb_belief_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ModelFileError(f"{path.name} cannot be read as a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ModelFileError(f"{path.name} failed{_line_of(error, path)}: {_one_line(error)}") from error
    return module


def _check_params(build: Callable[..., Any], params: Mapping[str, Any], *, path: Path) -> None:
    signature = inspect.signature(build)
    taken = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    unknown = [] if open_ended else [name for name in params if name not in taken]
    if unknown:
        raise ModelFileError(
            f"build_model of {path.name} takes no parameter '{unknown[0]}'.{suggestion(unknown[0], taken)} "
            f"It takes: {', '.join(taken) or 'none'}."
        )
    missing = [
        name
        for name in taken
        if name not in params and signature.parameters[name].default is inspect.Parameter.empty
    ]
    if missing:
        raise ModelFileError(f"build_model of {path.name} needs {', '.join(missing)}: give it, or give it a default.")


def _line_of(error: BaseException, path: Path) -> str:
    """`` at line n`` of the user's file, where the error came through it."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f" at line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" at line {lines[-1]}" if lines else ""


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
