"""The study of the paper, from its description to a report.

    python -m study paper --scale smoke --out DIR [--workers N]
    python -m study paper --scale fair --out DIR [--workers N]
    python -m study paper --scale small --out DIR --executor ray --address auto
    python -m study paper --scale small --out DIR --dry-run
    python -m study paper pack --scale brief --out DIR --to PACKS [--datasets ...]
    python -m study paper import --out DIR FILE...
    python -m study paper report --scale small --out DIR

Without another word it is `run`, which does what is missing and leaves results and report.html in
DIR; stopped anywhere, it goes on from there. Scale `fair` is the comparison of losses on equal
terms, whose tables are DIR/tables.md (`python -m study fair --help`). `pack` makes the inputs of
training one file per data set for a machine with a GPU, where gpu.py trains; `import` takes its
results back. Data: ../shared/data, or --data.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from cmpe.errors import CmpeError, MethodError
from cmpe.execution import executor
from cmpe.execution.base import Executor
from study.frame import print_table
from study.paper.description import DATA, STUDY, read_study
from study.paper.packing import import_results, pack
from study.paper.plan import Plan, plan_of
from study.paper.results import PAPER, UNTRAINED, Origin, shown, write_results
from study.paper.runner import run, selected
from study.paper.stages import STAGES
from study.paper.store import Store, Task
from study.reporting.report import write_report

FAIR = "fair"  # the scale that study.fair runs


def main(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0].startswith("--") and arguments[0] != "--help":
        arguments = ["run", *arguments]
    options = _options().parse_args(arguments)
    try:
        return int(options.work(options))
    except (CmpeError, KeyboardInterrupt) as error:
        print(f"error: {' '.join(str(error).split()) or 'interrupted'}", file=sys.stderr)
        return 2


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study paper", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--study", type=Path, default=STUDY, help="the description")
    shared.add_argument("--scale", default="smoke", help=f"of the description, or {FAIR}")
    shared.add_argument("--out", type=Path, required=True, help="results, report and store")
    shared.add_argument("--data", type=Path, default=DATA, help="folder with uai/ and density/")
    shared.add_argument("--paper", type=Path, default=PAPER, help="the paper's tables as csv")
    shared.add_argument("--adversarial", type=Path, help="a run of `study adversarial` to include")
    shared.add_argument("--wide", type=Path, help="kept results of the wide benchmarks")
    shared.add_argument("--untrained", default=UNTRAINED, help="why networks are missing")
    parts = parser.add_subparsers(required=True)
    runs = parts.add_parser("run", parents=[shared], help="do what is missing, then report")
    runs.add_argument("--executor", choices=("local", "ray"), default="local")
    runs.add_argument("--address", help="of a Ray cluster; without it one is started here")
    runs.add_argument("--workers", type=int, default=1, help="processes on this machine")
    runs.add_argument("--device", default="cpu", help="that trains: cpu, or a GPU as cuda")
    runs.add_argument("--stages", nargs="+", choices=list(STAGES), help="no further than these")
    runs.add_argument("--without", nargs="+", choices=list(STAGES), default=(), help="leave out")
    runs.add_argument("--dry-run", action="store_true", help="list what would be run")
    runs.add_argument("--verbose", action="store_true", help="one line for every task")
    runs.set_defaults(work=_run)
    packs = parts.add_parser("pack", parents=[shared], help="inputs of training, for a GPU")
    packs.add_argument("--to", type=Path, required=True, help="folder of the packed files")
    packs.add_argument("--datasets", nargs="+", help="only these")
    packs.add_argument("--percentiles", nargs="+", type=int, help="only these")
    packs.set_defaults(work=_pack)
    imports = parts.add_parser("import", parents=[shared], help="results of gpu.py")
    imports.add_argument("files", nargs="+", type=Path)
    imports.set_defaults(work=_import)
    reports = parts.add_parser("report", parents=[shared], help="of what there is")
    reports.set_defaults(work=lambda options: _finish(options, _plan(options), {}))
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    return plan_of(read_study(options.study, options.scale), options.data)


def _store(options: argparse.Namespace) -> Store:
    return Store(options.out / "store")


def _run(options: argparse.Namespace) -> int:
    if options.scale == FAIR:
        return _run_fairly(options)
    plan, store = _plan(options), _store(options)
    store.clean()
    if options.dry_run:
        return _list(options, plan, store)
    if options.device != "cpu" and not options.stages:
        _train_on(options, plan, store)

    def progress(task: Task, done: int, total: int) -> None:
        if options.verbose or done == total or not done % 50:
            print(f"{done}/{total} {task.stage} {task.key[:12]}", file=sys.stderr, flush=True)

    told = {"stages": options.stages, "without": options.without}
    report = run(plan, store, _executor(options), **told, progress=progress)
    print(f"{len(report.done)} tasks done in {report.seconds:.1f} s: {report.counts()}")
    for key, why in report.failed.items():
        if key in report.traces:
            print(f"failed: {plan.tasks[key].stage} {key[:12]}: {why}", file=sys.stderr)
    return _finish(options, plan, report.failed) or int(bool(report.failed))


def _run_fairly(options: argparse.Namespace) -> int:
    """The comparison of losses on equal terms: one scale, with a command of its own."""
    from study.fair.command import main as fair

    if options.dry_run or options.stages or options.without or options.executor != "local":
        raise MethodError(
            "scale fair takes --out, --data, --workers and --device; for steps, parts and cells "
            "write `python -m study fair`"
        )
    words = {"--out": options.out, "--data": options.data, "--device": options.device}
    given = [str(word) for pair in words.items() for word in pair]
    return fair([*given, "--workers", str(options.workers)])


def _executor(options: argparse.Namespace) -> Executor:
    return executor(options.executor, workers=options.workers, address=options.address)


def _train_on(options: argparse.Namespace, plan: Plan, store: Store) -> None:
    """Train on this machine's GPU, after all that training reads; a stopped run goes on."""
    from study.paper import gpu

    trained = options.out / "trained"
    for path in sorted(trained.glob("results-*.zip")):
        import_results(store, path)
    run(plan, store, _executor(options), stages=("labels", "bounds"))
    files = [str(path) for path in pack(plan, store, options.out / "packs")]
    if files:
        q = dict.fromkeys(str(cell.q) for cell in plan.cells)
        told = ["--device", options.device, "--budget", "inf", "--percentiles", *q]
        gpu.main([*files, "--out", str(trained), *told])
    for path in sorted(trained.glob("results-*.zip")):
        import_results(store, path)


def _list(options: argparse.Namespace, plan: Plan, store: Store) -> int:
    """What a run would do."""
    left = selected(plan, store, options.stages, options.without)
    if options.verbose:
        for task in left:
            print(f"run {task.stage} {task.key}")
    to_run, known = Counter(t.stage for t in left), Counter(t.stage for t in plan.tasks.values())
    done = Counter(t.stage for t in plan.tasks.values() if store.has(t))
    table = [
        {"stage": stage, "to run": to_run[stage], "cached": done[stage], "all": known[stage]}
        for stage in STAGES
        if known[stage]
    ]
    print_table(table, ("stage", "to run", "cached", "all"))
    return 0


def _finish(options: argparse.Namespace, plan: Plan, failed: dict[str, str]) -> int:
    study = read_study(options.study, options.scale)
    origin = Origin(
        study, options.paper, options.adversarial, untrained=options.untrained, wide=options.wide
    )
    cells = write_results(plan, _store(options), options.out, origin, failed)
    columns = ("method", "cells", "measured", "regret", "gap", "violation", "seconds")
    print_table(shown(cells), columns)
    if plan.stand_ins and options.scale != "smoke":
        print(f"note: random models stand in for {', '.join(plan.stand_ins)}: no such data there")
    made = write_report(options.out, options.out / "report.html")
    print(f"{options.out / 'report.html'}: {made.extent}")
    return 0


def _pack(options: argparse.Namespace) -> int:
    for path in pack(_plan(options), _store(options), options.to, options.datasets,
                     options.percentiles):  # fmt: skip
        print(f"{path} {path.stat().st_size / 2**20:.2f} MiB")
    return 0


def _import(options: argparse.Namespace) -> int:
    count = sum(import_results(_store(options), path) for path in options.files)
    print(f"{count} results taken into {options.out / 'store'}")
    return 0
