"""The fair study from the command line, in pieces that resume.

    python -m study fair --out DIR --data DATA            all of it
    python -m study fair --out DIR --steps prepare        problems, rows, labels and bounds
    python study/fair/command.py --out DIR --steps train --device cuda --part 0/4
    python -m study fair --out DIR --steps figures
    python study/fair/command.py --out DIR --steps time   on an idle machine

Each finished piece is a file of DIR, written as a whole: a run that was killed goes on where it
stopped. The step `train` needs torch, numpy and scipy only, and `time` also numba, so DIR may
travel to another machine and back. `--part K/N` trains every N-th piece; `--workers N` starts N
processes for them. The tables are DIR/tables.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from study.fair.cells import Cell

if __package__ in (None, ""):  # run as a file: the repository's root is two folders up
    sys.path[0] = str(Path(__file__).parents[2])

STEPS = ("prepare", "train", "figures", "time")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the steps that are asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m study fair",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="where the cells are kept")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="data files")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--cells", nargs="+", help="only these")
    parser.add_argument("--long", action="store_true", help="the best arms at the paper's length")
    parser.add_argument("--arms", nargs="+", help="only these, by the names of their files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th piece of training from K")
    parser.add_argument("--workers", type=int, default=1, help="processes that train")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds; no piece begins later")
    options = parser.parse_args(arguments)
    if {"train", "time"} & set(options.steps):
        from study.paper.gpu import without_compiler

        without_compiler()
    from study.fair import cells

    known = cells.LONG_CELLS if options.long else cells.CELLS
    names = [cell.name for cell in known]
    if unknown := set(options.cells or ()) - set(names):
        parser.error(f"--cells takes {', '.join(names)}; found {', '.join(sorted(unknown))}")
    chosen = tuple(c for c in known if not options.cells or c.name in options.cells)
    folders = [options.out / cell.name for cell in chosen]
    if "prepare" in options.steps:
        for cell in chosen:
            cells.prepare_cell(cell, options.data, options.out)
            print(f"prepared {cell.name}", flush=True)
    if "train" in options.steps:
        if options.workers > 1:
            in_processes(options)
        else:
            train(options, chosen)
    if "figures" in options.steps:
        from study.fair.figures import write_figures

        write_figures(folders)
    if "time" in options.steps:
        from study.fair.timing import write_times

        write_times(folders)
    if {"figures", "time"} & set(options.steps):
        from study.fair.page import write_tables

        print(write_tables(options.out))
    return 0


def in_processes(options: argparse.Namespace) -> None:
    """Train in several processes, each with its part of the pieces."""
    words = ["--out", options.out, "--steps", "train", "--device", options.device]
    words += ["--budget", options.budget, *(["--long"] if options.long else [])]
    for name in ("cells", "arms"):
        if getattr(options, name):
            words += [f"--{name}", *getattr(options, name)]
    command = [sys.executable, __file__, *map(str, words), "--part"]
    count = options.workers
    running = [subprocess.Popen([*command, f"{k}/{count}"]) for k in range(count)]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a process that trained has failed; call again for the rest")


def train(options: argparse.Namespace, cells: Sequence[Cell]) -> None:
    """Train what is missing of this part, until the time is over."""
    import torch

    from study.fair import arms
    from study.fair.cells import KeptCell

    torch.set_num_threads(1)
    begin = time.perf_counter()
    part, parts = map(int, options.part.split("/"))
    epochs = arms.LONG_EPOCHS if options.long else arms.EPOCHS
    pieces = [
        (options.out / cell.name, arm)
        for cell in cells
        for arm in arms.ARMS
        if arm.data in cell.kinds and (not options.arms or arms.file_name(arm) in options.arms)
    ]
    for folder, arm in pieces[part::parts]:
        if arms.is_done(folder, arm) or not (folder / f"{arm.data}.npz").exists():
            continue
        spent = time.perf_counter() - begin
        if spent > options.budget:
            print("the time is over; call again for the rest", flush=True)
            return
        arms.train_arm(KeptCell(folder), arm, epochs, options.device)
        seconds = time.perf_counter() - begin - spent
        print(f"{folder.name}, {arm.name}: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
