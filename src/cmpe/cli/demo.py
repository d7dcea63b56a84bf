"""`cmpe demo`: the main job on an embedded problem, in under a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.compiling import timing

if TYPE_CHECKING:
    from cmpe.evaluation import Reference
    from cmpe.solution import Solutions

Answer = Callable[[], "Solutions"]

NEXT = """
Try next:
  cmpe generate MODEL.uai --out problem     make a problem like this from your model
  cmpe solve problem --format table         solve its test rows
  cmpe train problem --out run              train a solver on its training rows
  cmpe evaluate run problem                 measure it against proved optima
  cmpe info problem                         see how hard it is
  cmpe solve --help                         methods, limits, formats"""


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    rows: Annotated[int, typer.Option(min=1, max=1000, help="Evidence rows to show.")] = 8,
    out: Annotated[Path, typer.Option(help="Where the figure of the training run goes.")] = Path(
        "demo.png"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 60,
) -> int:
    """Make a grid problem, solve it exactly, train a network on it, and compare them."""
    from cmpe.cli.table import table_text
    from cmpe.cli.train import draw, live
    from cmpe.evaluation import reference
    from cmpe.generation import Recipe, generate, grid
    from cmpe.learning.runs import Record
    from cmpe.learning.training.config import tuned
    from cmpe.learning.training.fitting import Session, fit

    recipe = Recipe(evidence_fraction=0.4, percentile=10, samples=4000, seed=seed)
    made = generate(grid(10, 10, coupling=1.5, seed=seed), recipe, name="a random 10x10 grid")
    problem, test = made.problem, made.test
    free = problem.variables - len(problem.evidence_variables)
    typer.echo(
        f"A grid of {problem.variables} binary variables, {free} of them to be decided.\n"
        f"Maximise h(x, y) subject to t(x, y) <= q for {len(test)} rows of evidence x.\n"
    )
    against = reference(problem, test)
    typer.echo(table_text(problem, against.solutions.take(range(min(rows, len(test)))), rows))
    typer.echo(
        "Each bound is proved: no feasible assignment scores higher. Where the status is optimal,\n"
        "bound and objective agree to 1e-6 of the objective.\n\n"
        f"Training a network on {len(made.train)} other rows, without labels ..."
    )
    records: list[Record] = []
    with live() as show:

        def keep(record: Record) -> None:
            records.append(record)
            show(record)

        config = tuned("ss_cmpe", seed=seed, epochs=epochs)
        solver = fit(problem, made.train, config, Session(progress=keep))
    typer.echo(f"{solver.trained.epochs} epochs in {records[-1]['seconds']:.1f} s\n")
    alone = solver.with_stages(repair=False, certificate="none")
    whole = solver.with_stages(certificate="optimal")
    methods: dict[str, Answer] = {
        "network alone": lambda: alone.solve(problem, test),
        "network + repair": lambda: whole.solve(problem, test),
        "exact": lambda: _exact(against),
    }
    typer.echo(_comparison(methods, against))
    if draw(records, out):
        typer.echo(f"The training run is drawn in {out}.")
    typer.echo(NEXT)
    return int(not against.solutions.feasible.any())


def _exact(against: Reference) -> Solutions:
    from cmpe.solvers.dispatch import solve

    return solve(against.problem, against.evidence, method="exact")


def _comparison(methods: dict[str, Answer], against: Reference) -> str:
    """One line per method: gap, violations, certificate and time."""
    from cmpe.evaluation import evaluate

    lines = [
        f"{'on ' + str(len(against.evidence)) + ' unseen rows':20}{'regret':>9}{'gap %':>8}"
        f"{'violated':>10}{'certified gap':>15}{'us/row':>9}"
    ]
    for name, answer in methods.items():
        answer()  # the first call loads compiled code
        begin = timing.now()
        answers = answer()
        spent = (timing.now() - begin) / max(1, len(answers))
        found = evaluate(answers, against).every
        gap = f"{found.certified_gap.mean:.3f}" if found.certified_gap.mean < 1e9 else "none"
        lines.append(
            f"{name:20}{found.regret.mean:>9.3f}{100 * found.gap.mean:>8.3f}"
            f"{found.violation.mean:>10.2%}{gap:>15}{1e6 * spent:>9.1f}"
        )
    return "\n".join(lines) + "\n"
