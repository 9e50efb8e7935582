"""More cores, more machines: one argument, ``workers=``, and the same answer to the last bit on the same processors.

Another type of processor has other last bits: products of matrices, exponentials and compiled loops are made for each.
Workers whose packages or processors are of another type are refused by name, so that none are mixed; whether two
machines agree is ``OPENBLAS_CORETYPE`` and ``NUMBA_CPU_NAME`` to say.

``workers`` is None or 1 (this process), a number (processes on this machine), the address of a Dask scheduler, a
``dask.distributed.Client``, or any ``concurrent.futures.Executor``. All of them serve as executors; one loop hands out
tasks, which are batches of about a second or more.

Processes on this machine are loky's, an executor of one process for each worker, and not joblib's ``Parallel``, a pool
or a Dask ``LocalCluster``; measured on two cores that others used at the same time, 1,000 empty tasks, two workers:

- this way .4 s once the processes are there, about 2 s with starting them;
- ``joblib.Parallel`` with loky 1.1 to 1.2 s, 2.1 s with starting;
- ``LocalCluster`` 2.3 to 3.1 s for ``map`` and ``gather``, after 2 to 2.7 s to start, and another dependency.

A process that is killed breaks its executor. A pool of several, loky's or the standard library's, then gives up on the
tasks of all; one executor for each process loses one task. loky does not run the caller's main module again, as the
standard library's pool does. Ctrl-C is the parent's alone, and processes leave when their parent is gone.

A cluster is spoken to by ``Client.get_executor``: its scheduler runs tasks of workers that die again by itself.

What tasks share (a market with its engines, a plan) is made once in each worker and kept by its fingerprint. What some
of them are about (the worlds of a scene) goes to one worker where it can, on this machine by memory that both look at:
an audit of 20,000 worlds took two workers 15 % longer by pipes. Compiled functions are not for several threads at a
time, so that a process works on one task at a time whatever its executor: an executor of threads gives the right
answer, and no sooner. Libraries have one thread, here as in workers: products of matrices by two threads differ in
their last bits.
"""

from rcb_bayes.workers.asking import Workers, at_work, check_workers, engage
from rcb_bayes.workers.blocks import TreeSum, run_blocks, sum_blocks
from rcb_bayes.workers.cells import run_cells, run_kept
from rcb_bayes.workers.tasks import Tally, one_thread, run_tasks, tallied

__all__ = [
    "Tally",
    "TreeSum",
    "Workers",
    "at_work",
    "check_workers",
    "engage",
    "one_thread",
    "run_blocks",
    "run_cells",
    "run_kept",
    "run_tasks",
    "sum_blocks",
    "tallied",
]
