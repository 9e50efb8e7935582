"""Execute the notebooks: ``python tools/notebooks.py [NAME ...]``, all of them unless some are named (01, 02, ...).

Sizes are those of ``notebooks/small.toml``, put in after each notebook's parameters cell; the executed copies go to
``rcb_out/notebooks``. With ``--keep`` notebooks are executed at their own sizes and their outputs are kept.
"""

import argparse
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import papermill
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def main() -> int:
    """Execute what was asked for, on after a failure too; 1 where a notebook has failed, and which ones have."""
    parser = argparse.ArgumentParser(description="Execute the notebooks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name; all of them unless given")
    parser.add_argument("--keep", action="store_true", help="at full size, and keep the outputs in the notebook")
    parser.add_argument("--out", type=Path, default=Path("rcb_out/notebooks"), help="folder of the executed copies")
    asked = parser.parse_args()
    os.environ["RCB_PROGRESS"] = "off"  # of the kernels: a bar leaves an empty output behind
    small = tomllib.loads((FOLDER / "small.toml").read_text(encoding="utf-8"))
    failed: list[tuple[str, str]] = []
    for path in chosen(asked.names):
        began = time.perf_counter()
        target = path if asked.keep else asked.out / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            execute(path, target, {} if asked.keep else small.get(path.stem, {}))
        except Exception as error:  # of a cell, or a kernel that died: the others are still to be run
            print(f"{path.name}: {error}", file=sys.stderr, flush=True)
            failed.append((path.name, str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)))
            continue
        took, size = time.perf_counter() - began, target.stat().st_size / 1024
        print(f"{target}: {took:.0f} s, {size:.0f} KiB", flush=True)
    if failed:
        width = max(len(name) for name, _ in failed)
        print("\n".join(["failed:", *(f"  {name:<{width}}  {why}" for name, why in failed)]), file=sys.stderr)
    return 1 if failed else 0


def chosen(names: list[str]) -> list[Path]:
    """The notebooks whose names begin so, in their order."""
    found = sorted(FOLDER.glob("*.ipynb"))
    unknown = [name for name in names if not any(path.name.startswith(name) for path in found)]
    if unknown:
        sys.exit(f"No notebook begins with {', '.join(unknown)}; there are {', '.join(path.stem for path in found)}.")
    return [path for path in found if not names or any(path.name.startswith(name) for name in names)]


def execute(path: Path, target: Path, parameters: dict[str, Any]) -> None:
    """Run a notebook with these parameters and write it without what differs from run to run."""
    # Over a socket file rather than a port where there are such: kernels warn of ports, which others could listen to.
    config = Config({"KernelManager": {"transport": "ipc"}} if os.name == "posix" else {})
    papermill.execute_notebook(
        path, target, parameters, kernel_name="python3", cwd=target.parent, progress_bar=False, config=config
    )
    notebook: Any = nbformat.read(target, as_version=4)
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info")}
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags" and value}
    nbformat.write(notebook, target)


if __name__ == "__main__":
    sys.exit(main())
