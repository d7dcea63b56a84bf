"""`cmpe demo`: a named problem and its proof, its front, and a wide problem, in under a minute."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.core.compiler import timing
from cmpe.errors import how_to_install

if TYPE_CHECKING:
    from collections.abc import Callable

    from cmpe.arrays import Assignments
    from cmpe.problem import Problem
    from cmpe.solution import Answer, Solutions

FINDINGS = {
    "HISTORY": "TRUE", "HRBP": "HIGH", "HREKG": "HIGH", "HRSAT": "HIGH", "BP": "LOW", "CVP": "LOW",
    "PCWP": "LOW", "PAP": "NORMAL", "SAO2": "LOW", "EXPCO2": "LOW", "MINVOL": "LOW",
    "PRESS": "ZERO",
}  # fmt: skip
FAULTS = {
    **dict.fromkeys(("ANAPHYLAXIS", "DISCONNECT", "HYPOVOLEMIA", "INSUFFANESTH"), ("TRUE",)),
    **dict.fromkeys(("KINKEDTUBE", "LVFAILURE", "PULMEMBOLUS"), ("TRUE",)),
    "INTUBATION": ("ESOPHAGEAL", "ONESIDED"),
}
LABELLED, SHOWN = 300, 2  # rows that the network learns from, and rows that are solved
NEXT = """
Try next:
  cmpe solve --objective YOUR.bif --evidence YOUR.csv --format table
  cmpe solve --help      methods, limits, formats
  cmpe front --help      every trade-off, also as a picture
  cmpe info YOUR.bif     how hard a model is
  and the gallery of the repository: scripts with pictures"""


@dataclass
class Shown:
    """What the demo has found, for its figure; and what it left out."""

    front: list[tuple[int, float, str]] = field(default_factory=list)  # faults, log-probability
    below: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # (seconds, nats)
    skipped: list[str] = field(default_factory=list)


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of every generator.")] = 0,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="The time limit of a wide row, for every method.")
    ] = 2.0,
    side: Annotated[int, typer.Option(min=4, max=100, help="Side of the wide grid.")] = 24,
    out: Annotated[Path, typer.Option(help="The file to write the figure to.")] = Path("demo.png"),
) -> int:
    """Diagnose a patient, draw what a budget costs, and race HiGHS on a wide problem."""
    shown = Shown()
    _diagnosis(shown)
    _race(shown, seed, side, seconds)
    if _draw(shown, out):
        typer.echo(f"Both pictures are in {out}.")
    for sentence in shown.skipped:
        typer.echo(f"Skipped: {sentence}")
    typer.echo(NEXT)
    return 0


def _diagnosis(shown: Shown) -> None:
    """The ALARM network: the likeliest explanation with at most so many faults, and its front."""
    from cmpe.examples import example
    from cmpe.formats.registry import read_model
    from cmpe.models.linear import count
    from cmpe.problem import Problem
    from cmpe.solving import solve
    from cmpe.tradeoffs.front import front

    net = read_model(example("alarm"))
    faults = count(FAULTS)
    typer.echo(
        f"1. A patient under anaesthesia: {len(FINDINGS)} readings, {net.variables} variables "
        "(the ALARM network).\n   What is the likeliest explanation that blames at most k faults?\n"
    )
    problem = Problem(net, [faults <= 2])
    answer = solve(problem, FINDINGS)[0]
    found = front(problem, FINDINGS)[0]
    for point in found:
        budget = int(point.constraints[0].value)
        blamed = ", ".join(name.lower() for name in FAULTS if _is_faulty(point, name)) or "nothing"
        typer.echo(f"   k = {budget}   log-probability {point.objective:7.2f}   {blamed}")
        shown.front.append((budget, point.objective, blamed))
    typer.echo(
        f"\n   The answer to k = 2, {answer.objective:.2f}, is {answer.proof}."
        f"\n   The front has {found.summary}.\n"
    )


def _is_faulty(answer: Answer, name: str) -> bool:
    return answer[name] in FAULTS[name]


def _race(shown: Shown, seed: int, side: int, seconds: float) -> None:
    """HiGHS and search, also from a learned and a constant start, on rows of a spin glass."""
    from cmpe.evaluation import chosen, constants
    from cmpe.solving import solve

    problem, rows = spin_glass(side, seed)
    typer.echo(
        f"2. A {side} x {side} spin glass under a constraint, {problem.variables} variables, 5 % "
        "of them seen:\n   too wide to eliminate. Nats below the best answer known, mean of "
        f"{SHOWN} rows:\n"
    )
    test, train = rows[:SHOWN], rows[SHOWN:]
    start = _learned_start(shown, problem, train, test, seed)
    best = solve(problem, test, time_limit=2 * seconds)
    limits = [seconds / 200, seconds / 20, seconds]
    methods: dict[str, Callable[[float], Solutions]] = {
        "HiGHS": lambda limit: solve(problem, test, method="milp:highs", time_limit=limit),
        "search": lambda limit: solve(problem, test, method="search", time_limit=limit),
    }
    if start is not None:
        methods["learned start + search"] = lambda limit: _from(problem, test, start, limit)
        constant = chosen(constants(problem, train)).answers(problem, test)
        methods["constant start + search"] = lambda limit: _from(problem, test, constant, limit)
    found = {name: [(limit, answer(limit)) for limit in limits] for name, answer in methods.items()}
    _compare(shown, best, found, limits)


def _compare(
    shown: Shown,
    best: Solutions,
    found: dict[str, list[tuple[float, Solutions]]],
    limits: list[float],
) -> None:
    """A line for each method: how far its answers are from the best of all."""
    import numpy as np

    every = [best, *(answers for line in found.values() for _, answers in line)]
    top = np.max([np.where(a.feasible, a.objective, -np.inf) for a in every], axis=0)
    typer.echo("   " + f"{'':24}" + "".join(f"{f'{limit:g} s':>12}" for limit in limits))
    for name, line in found.items():
        texts = []
        for limit, answers in line:
            off = float((top - np.where(answers.feasible, answers.objective, -np.inf)).mean())
            texts.append(f"{off:12.2f}" if np.isfinite(off) else f"{'none':>12}")
            if np.isfinite(off):
                shown.below.setdefault(name, []).append((limit, off))
        typer.echo(f"   {name:24}" + "".join(texts))
    gap = best.bound.mean() - top.mean()
    typer.echo(f"\n   proved by `auto`: no answer is more than {max(gap, 0.0):.3g} nats better\n")


def _learned_start(
    shown: Shown, problem: Problem, train: Assignments, test: Assignments, seed: int
) -> Solutions | None:
    """The answers of a network that was trained here; None without torch."""
    from cmpe.learning.training.config import TrainingConfig

    try:
        from cmpe.learning.training.fitting import fit
    except ImportError:
        shown.skipped.append(f"the learned start, for want of torch; {how_to_install('learn')}")
        return None
    config = TrainingConfig(
        loss="distill", hidden=(256,), skip=True, epochs=40, batch_size=64, seed=seed,
        label_method="search",
    )  # fmt: skip
    begin = timing.now()
    solver = fit(problem, train, config)
    spent = timing.now() - begin
    typer.echo(f"   a network learned from {len(train)} other rows in {spent:.0f} s")
    return solver.with_stages(repair=False, certificate="none").solve(problem, test)


def _from(problem: Problem, rows: Assignments, start: Solutions, limit: float) -> Solutions:
    from cmpe.solvers.base import Running
    from cmpe.solving import solve

    running = Running(start=start.assignments)
    return solve(problem, rows, method="search", time_limit=limit, running=running)


def spin_glass(side: int, seed: int) -> tuple[Problem, Assignments]:
    """A square grid with random couplings of both signs, limited by a noisy copy; rows to solve."""
    import numpy as np

    from cmpe.models.loglinear import LogLinearModel
    from cmpe.problem import Problem
    from cmpe.solving import solve

    rng = np.random.default_rng(seed)
    number = np.arange(side * side).reshape(side, side)
    tables: list[Any] = [((v,), [0.0, f]) for v, f in enumerate(rng.normal(0, 0.2, side * side))]
    for here, there in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:])):
        for a, b in zip(here.ravel().tolist(), there.ravel().tolist(), strict=True):
            coupling = rng.normal()
            tables.append(((a, b), [[coupling, -coupling], [-coupling, coupling]]))
    h = LogLinearModel.from_tables([2] * side * side, tables)
    t = h.perturb(0.1, seed=seed + 1)
    seen = sorted(rng.choice(side * side, max(1, side * side // 20), replace=False).tolist())
    rows = rng.integers(0, 2, (LABELLED + SHOWN, len(seen))).astype(np.int32)
    free = solve(Problem(h, (), seen), rows[:SHOWN], method="search", time_limit=0.2)
    limit = float(t.value(free.assignments).mean()) - 3.0
    return Problem(h, [t <= limit], seen, name="spin glass"), rows


def _draw(shown: Shown, out: Path) -> bool:
    """The front and the race side by side; False without matplotlib."""
    from cmpe.errors import MissingExtra
    from cmpe.pictures.figures import drawing, new_panels, save

    try:
        with drawing():
            figure, (left, right) = new_panels(2, width=9.6, height=3.8)
            _draw_front(left, shown)
            _draw_race(right, shown)
            save(figure, out)
    except MissingExtra:
        shown.skipped.append(f"the figure, for want of matplotlib; {how_to_install('report')}")
        return False
    return True


def _draw_front(axes: Any, shown: Shown) -> None:
    """Steps, and beside each point what it blames."""
    from cmpe.pictures.figures import BLUE

    budgets, values, blamed = zip(*shown.front, strict=True)
    axes.step(budgets, values, where="post", color=BLUE, alpha=0.4)
    axes.plot(budgets, values, "o", color=BLUE)
    for number, (budget, value, text) in enumerate(shown.front):
        last = number == len(blamed) - 1
        axes.annotate(
            text, (budget, value), (-8, 1) if last else (7, -13), textcoords="offset points",
            ha="right" if last else "left", fontsize="small",
        )  # fmt: skip
    axes.margins(y=0.1)
    axes.set_xticks(budgets)
    axes.set_xlabel("faults that an explanation may blame")
    axes.set_ylabel("log-probability (nats)")
    axes.set_title("What a budget costs, every point proved", loc="left", fontsize=11)


def _draw_race(axes: Any, shown: Shown) -> None:
    """A line for each method: how far it is off after so many seconds."""
    from cmpe.pictures.figures import BLUE, GREY, RED

    styles = {"HiGHS": (GREY, "s"), "search": (BLUE, "o"), "constant start + search": (GREY, "x")}
    for name, points in shown.below.items():
        colour, marker = styles.get(name, (RED, "^"))
        axes.plot(*zip(*points, strict=True), marker=marker, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(-0.02, 2 * max(off for line in shown.below.values() for _, off in line))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.minorticks_off()
    axes.set_xlabel("seconds a row")
    axes.set_ylabel("nats below the best answer")
    axes.set_title("A wide problem: lower is better", loc="left", fontsize=11)
    axes.legend(frameon=False)
