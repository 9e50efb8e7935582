"""Measure what the documents quote: ``python tools/measure.py [NAME ...]`` writes docs/measured/NAME.md.

All are measured unless some are named. Each file is what its command printed, below a line that says which command,
when, and on what. ``warfarin`` needs the consortium's table: ``--data warfarin.csv``; it is left as it is without one.
``actg`` takes the trial's table from the package ``lifelines``, or from ``--trial actg175.csv``.
"""

import argparse
import datetime
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from rcb_bayes import __version__
from rcb_bayes.studies.actg.table import packaged_file

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "measured"
COMMANDS = {
    "plans": ["tools/plan_figures.py"],
    "knowledge": ["tools/knowledge_figures.py"],
    "runs": ["tests/benchmarks/bench_runs.py"],
    "audits": ["tests/benchmarks/bench_audit.py"],
    "gallery": ["tests/benchmarks/bench_gallery.py"],
    "engines": ["tests/benchmarks/bench_engines.py"],
    "effects": ["tests/benchmarks/bench_effects.py", "--shapes", "5x5", "20x10", "--sets", "20", "5"],
    "curves": ["tests/benchmarks/bench_curves.py"],
    "sizes": ["tests/benchmarks/bench_sizes.py", "--fast"],
    "catalogue": ["tests/benchmarks/bench_sizes.py", "--many", "1000", "20"],
    "scale": ["tools/scale_figures.py"],
    "workers": ["tests/benchmarks/bench_workers.py"],
    "trial": ["tests/benchmarks/bench_trial.py"],
    "comparison": ["-m", "rcb_bayes", "reproduce", "comparison", "--fast"],
    "warfarin": ["-m", "rcb_bayes", "reproduce", "warfarin", "--data"],
    "actg": ["-m", "rcb_bayes", "reproduce", "actg", "--workers", "2"],
}
PLAIN = ("comparison", "warfarin", "actg")  # print text; the others Markdown
STUDIES = ("warfarin", "actg")  # say how long they took
PAGES = {"scale": ROOT / "docs" / "scale.md"}  # pages of their own


def main() -> int:
    """Measure what was asked for; 1 at the first command that fails."""
    parser = argparse.ArgumentParser(description="Measure what the documents quote.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(COMMANDS)}; all unless given")
    parser.add_argument("--data", type=Path, help="the warfarin table")
    parser.add_argument("--trial", type=Path, help="the ACTG 175 table, where lifelines is not installed")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(COMMANDS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}: choose from {', '.join(COMMANDS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in asked.names or COMMANDS:
        if name == "warfarin" and asked.data is None:
            print("warfarin: left as it is; --data gives the table", flush=True)
            continue
        if name == "actg" and asked.trial is None and packaged_file() is None:
            print("actg: left as it is; --trial gives the table, or pip install --no-deps lifelines", flush=True)
            continue
        code = measure(name, asked.data if name == "warfarin" else asked.trial if name == "actg" else None)
        if code not in allowed(name):
            return code
    return 0


def measure(name: str, data: Path | None) -> int:
    """Run one command and keep what it prints; ``data`` is the table of a study, whose name alone is told."""
    option = ["--data"] if name == "actg" else []
    command = COMMANDS[name] if data is None else [*COMMANDS[name], *option, str(data)]
    began, used = time.monotonic(), processor_time()
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode in allowed(name):
        shown = " ".join(command if data is None else [*command[:-1], data.name])
        took = f"{(time.monotonic() - began) / 60:.0f} min, {(processor_time() - used) / 60:.0f} of processors"
        text = done.stdout.strip()
        body = f"```text\n{text}\n```" if name in PLAIN else text
        head = (
            f"`python {shown}`, {datetime.date.today()}, version {__version__}, {os.cpu_count()} cores, one BLAS thread"
            + (f"; {took}" if name in STUDIES else "")
        )
        target = PAGES.get(name, FOLDER / f"{name}.md")
        target.write_text(f"# {name.capitalize()}\n\n{head}\n\n{body}\n", encoding="utf-8")
        print(target.relative_to(ROOT), flush=True)
    return done.returncode


def processor_time() -> float:
    """Seconds that commands have taken of processors, in all."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def allowed(name: str) -> tuple[int, ...]:
    """Exit codes with which a command has done its work: verdicts are results."""
    return (0, 1, 3) if COMMANDS[name][0] == "-m" else (0,)


def environment() -> dict[str, str]:
    """One BLAS thread, wide lines, no colours."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | threads | {"COLUMNS": "180", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    sys.exit(main())
