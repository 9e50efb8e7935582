"""Beliefs from files: the gallery by name, or a user's own model by path."""

import ast
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from rcb_bayes.belief.prior import Prior
from rcb_bayes.errors import ModelFileError, is_interrupt
from rcb_bayes.schema import suggestion

_BUILD = "build_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryEntry:
    """A belief of the gallery: its name, the file it is in, and the first line of its docstring."""

    name: str
    path: Path
    summary: str


def gallery() -> dict[str, GalleryEntry]:
    """The beliefs that ship with the package, by name.

    Returns
    -------
    dict of str to GalleryEntry
        One for each belief of the gallery.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> sorted(rcb.gallery())[:4]
    ['arm_features', 'correlated', 'empirical_bayes', 'gaussian']
    >>> rcb.gallery()["student_t"].summary
    'Student-t effects: mostly modest, rare large surprises.'
    """
    return {
        path.stem: GalleryEntry(name=path.stem, path=path, summary=description_of(path).partition("\n")[0])
        for path in sorted(_gallery_folder().glob("[!_]*.py"))
    }


def load_prior(path_or_name: str | Path, **params: Any) -> Prior:
    """Build a belief from a gallery name or from a Python file that defines ``build_model(...)``.

    It returns a ``pm.Model``, or a ``Prior`` that was made in another way (``Prior.from_quantiles(...)``).

    Parameters
    ----------
    path_or_name : str or path-like
        A name that ``rcb models`` lists, such as "student_t", or the path of a file.
    **params : object
        Passed to ``build_model``; names it does not take are refused.

    Returns
    -------
    Prior
        The belief.

    Raises
    ------
    ModelFileError
        No such file or name; the file fails, lacks ``build_model`` or takes other parameters.
    BeliefError
        The model is not a usable belief.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.load_prior("student_t", n_arms=2, n_features=3)
    >>> prior.describe()
    'student_t: 2 arms, 3 features, non-Gaussian, independent arms'
    >>> prior.mean.sel(arm="arm_0").values
    array([0., 0., 0.])
    """
    path = find_model(path_or_name)
    build = _build_function(path)
    _check_params(build, params, path=path)
    try:
        model = build(**params)
    except BaseException as error:  # also SystemExit and the like: none may pass for our own
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise ModelFileError(f"build_model of {path.name} failed{_fault(error, path)}") from error
    import pymc as pm

    if isinstance(model, Prior):
        return model.renamed(path.stem)
    if not isinstance(model, pm.Model):
        raise ModelFileError(
            f"build_model of {path.name} must return a pm.Model, got {type(model).__name__}. "
            "End it with `return model`."
        )
    is_regression = "beta" not in model.named_vars and {"mu", "x"} <= set(model.named_vars)
    return Prior.from_pymc(model, name=path.stem, **({"mean": "mu", "inputs": "x"} if is_regression else {}))


def find_model(path_or_name: str | Path) -> Path:
    """The file, as an absolute path, of a gallery name or of a path.

    Raises
    ------
    ModelFileError
        When there is no such name or file.
    """
    if not isinstance(path_or_name, str | os.PathLike):
        raise ModelFileError(
            f"Expected the name of a belief or the path of a file, got {type(path_or_name).__name__}. "
            "For a pm.Model use Prior.from_pymc(model)."
        )
    text = str(path_or_name)
    path = Path(os.path.expanduser(text))
    if path.suffix == ".py" and os.path.isfile(path):
        return path.absolute()
    known = gallery()
    # "models/student_t.py" names a gallery belief from any folder, not only inside a checkout.
    in_gallery = path.suffix == ".py" and path.parts == ("models", path.name)
    name = path.stem if in_gallery else text.replace("-", "_").lower()
    if name in known:
        return known[name].path
    raise ModelFileError(_no_model(text, path=path, names=list(known)))


def description_of(path: Path) -> str:
    """The docstring of a model file, without running it."""
    try:
        doc = ast.get_docstring(_parse(path))
    except SyntaxError:
        return "(does not parse)"
    return doc.strip() if doc else "(no description)"


def parameters_of(path: Path) -> Mapping[str, inspect.Parameter]:
    """The parameters that a model file's ``build_model`` takes.

    Raises
    ------
    ModelFileError
        When the file fails or has no such function.
    """
    return inspect.signature(_build_function(path)).parameters


def _gallery_folder() -> Path:
    """Inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def _no_model(text: str, *, path: Path, names: list[str]) -> str:
    """Why nothing was found, and what may have been meant."""
    if text and os.path.isdir(path):
        return f"{text} is a folder, expected a file: give one of its .py files."
    if path.suffix == ".py":
        meant = _file_beside(path) or suggestion(path.stem, names)
        return f"There is no file {text}.{meant} `rcb models` lists the gallery."
    if os.path.isfile(path):
        return f"{text} does not end in .py: rename it if it is a Python file with build_model(...)."
    meant = suggestion(text.replace("-", "_").lower(), names)
    meant = f" Did you mean '{text}.py'?" if os.path.isfile(f"{path}.py") else meant
    hint = "`rcb models` lists them; a file of your own must end in .py."
    return f"There is no belief '{text}' in the gallery.{meant} {hint}"


def _file_beside(path: Path) -> str:
    """As ``suggestion``, from the files of the same folder."""
    stems = [other.stem for other in path.parent.glob("*.py")] if os.path.isdir(path.parent) else []
    close = get_close_matches(path.stem, stems, n=1)  # without the suffix, which would make all of them alike
    return f" Did you mean '{path.with_name(close[0])}.py'?" if close else ""


def _parse(path: Path) -> ast.Module:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}. Check the file and its permissions.") from None
    return ast.parse(source, filename=str(path))


def _import_file(path: Path) -> ModuleType:
    """Run a model file as a module, without the byte code that an import would leave beside it."""
    module = ModuleType(f"rcb_belief_{path.stem}")
    module.__file__ = str(path)
    # Data classes look their module up while they are made. Afterwards it goes, so that its functions are sent to
    # other processes by value: they could not import it by name.
    sys.modules[module.__name__] = module
    try:
        exec(compile(_parse(path), str(path), "exec", dont_inherit=True), module.__dict__)
    except ModelFileError:
        raise
    except BaseException as error:  # also SystemExit and the like: none may pass for our own
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise ModelFileError(f"{path.name} failed{_fault(error, path)}") from error
    finally:
        sys.modules.pop(module.__name__, None)
    return module


def _build_function(path: Path) -> Callable[..., Any]:
    module = _import_file(path)
    if not hasattr(module, _BUILD):
        raise ModelFileError(f"{path.name} defines no function build_model(...). Add one that returns a pm.Model.")
    build = getattr(module, _BUILD)
    if not callable(build):
        raise ModelFileError(
            f"build_model in {path.name} must be a function, got {type(build).__name__}. "
            "Define build_model(...) so that it returns a pm.Model."
        )
    return build


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
        name for name in taken if name not in params and signature.parameters[name].default is inspect.Parameter.empty
    ]
    if missing:
        example = ", ".join(f"{name}=..." for name in missing)
        raise ModelFileError(
            f"build_model of {path.name} needs {', '.join(missing)}. Pass {example}, or write defaults into the file."
        )


def _fault(error: BaseException, path: Path) -> str:
    """`` at line n: Error: text``, n being the last line of the user's file that the error came through."""
    file = str(path)
    text = str(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
        text = error.msg  # its full text names file and line once more
    where = f" at line {lines[-1]}" if lines and lines[-1] else ""
    text = " ".join(text.split())[:300]
    return f"{where}: {type(error).__name__}: {text}" if text else f"{where}: {type(error).__name__}"
