"""More cores, more machines: one argument, ``workers=``, and the same answer to the last bit."""

from rcb_bayes.workers.asking import Workers, check_workers, engage
from rcb_bayes.workers.blocks import TreeSum, run_blocks, sum_blocks
from rcb_bayes.workers.cells import run_cells, run_kept
from rcb_bayes.workers.tasks import Tally, run_tasks

__all__ = [
    "Tally",
    "TreeSum",
    "Workers",
    "check_workers",
    "engage",
    "run_blocks",
    "run_cells",
    "run_kept",
    "run_tasks",
    "sum_blocks",
]
