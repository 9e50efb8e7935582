"""Run every check there is, go on after a failure, and end with a table of what failed: ``make everything``.

Each target's output goes to a file of its own below the folder that is given.
"""

import subprocess
import sys
import time
from pathlib import Path

TARGETS = ("lint", "types", "test", "test-slow", "notebooks", "gallery", "docs", "demo")


def main(folder: Path, targets: tuple[str, ...]) -> int:
    """Run the targets in their order; 1 where one failed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    rows = []
    for target in targets:
        log = folder / f"{target}.log"
        print(f"{target} ... ", end="", flush=True)
        begun = time.monotonic()
        with log.open("w", encoding="utf-8") as file:
            code = subprocess.run(["make", target], stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode
        minutes = (time.monotonic() - begun) / 60.0
        verdict = "ok" if code == 0 else "FAILED"
        print(f"{verdict} in {minutes:.1f} min", flush=True)
        failed += code != 0
        rows.append((target, verdict, minutes, "" if code == 0 else str(log)))
    print()
    for target, verdict, minutes, where in rows:
        print(f"{target:<12} {verdict:<7} {minutes:6.1f} min  {where}".rstrip())
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:]) or TARGETS))
