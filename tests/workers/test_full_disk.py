"""A disk that is full and a folder that cannot be written to, for real: one line, and gone on from afterwards."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

RCB = f"{sys.executable} -m rcb_bayes"
AUDIT = (
    "audit gaussian --set n_arms=2 --set n_features=2 --n-per-arm 4 --epsilon .2 --worlds 1100 --users 9 --horizon 30"
)
SCRIPT = f"""
mkdir small && mount -t tmpfs -o size=256k none small || exit 77
{RCB} {AUDIT} --workers 2 --folder small/run --json full.json > full.out 2> full.err
echo $? > full.code
find small -type f > kept.txt
mount -o remount,ro small
{RCB} {AUDIT} --folder small/run --json locked.json > locked.out 2> locked.err
echo $? > locked.code
mount -o remount,rw,size=64m small
{RCB} {AUDIT} --folder small/run --json after.json > after.out 2> after.err
echo $? > after.code
"""


def test_a_small_disk_that_is_full_then_locked_then_larger(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["unshare", "-rm", "sh", "-c", SCRIPT], cwd=tmp_path, env=environment, check=False)
    if not (tmp_path / "full.code").exists():
        pytest.skip(f"no disk of one's own here ({done.returncode})")
    said = {name: (tmp_path / f"{name}.err").read_text().strip() for name in ("full", "locked", "after")}
    codes = {name: int((tmp_path / f"{name}.code").read_text()) for name in said}
    assert codes["full"] == codes["locked"] == 2, said
    assert "No space left on device" in said["full"]
    assert "What was finished before is kept in small/run" in said["full"]
    assert "make room" in said["full"]
    assert "Cannot write small/run: permission denied. Choose another place." in said["locked"]
    for name in ("full", "locked"):
        assert len(said[name].splitlines()) == 1, said[name]
    assert "run.json" in (tmp_path / "kept.txt").read_text()
    assert codes["after"] in (0, 1, 3), said["after"]
    whole = subprocess.run(
        [*RCB.split(), *AUDIT.split(), "--json", "whole.json"], cwd=tmp_path, env=environment, check=False
    )
    assert whole.returncode == codes["after"]
    one, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("whole", "after"))
    assert one == other
