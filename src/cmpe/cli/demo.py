"""`cmpe demo`: the main job on an embedded problem, in seconds."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    rows: Annotated[int, typer.Option(min=1, max=1000, help="Evidence rows to solve.")] = 12,
) -> int:
    """Generate a small grid problem, solve a batch exactly, and show each answer's certificate."""
    from cmpe.cli.options import progress_bar
    from cmpe.cli.table import table_text
    from cmpe.generation import Recipe, generate, grid
    from cmpe.solvers import solve
    from cmpe.solvers.rows import Running

    recipe = Recipe(evidence_fraction=0.4, percentile=10, samples=10 * rows, seed=seed)
    made = generate(grid(10, 10, coupling=1.5, seed=seed), recipe, name="a random 10x10 grid")
    free = made.problem.variables - len(made.problem.evidence_variables)
    typer.echo(
        f"A grid of {made.problem.variables} binary variables, {free} of them to be decided.\n"
        f"Maximise h(x, y) subject to t(x, y) <= q for {len(made.test)} rows of evidence x.\n"
    )
    with progress_bar("solving") as progress:
        solutions = solve(made.problem, made.test, seed=seed, running=Running(progress=progress))
    typer.echo(table_text(made.problem, solutions))
    typer.echo(
        "Each bound is proved: no feasible assignment scores higher. Where the status is optimal,\n"
        "bound and objective agree to 1e-6 of the objective.\n\n"
        "Try next:\n"
        "  cmpe generate MODEL.uai --out problem     make a problem like this from your model\n"
        "  cmpe solve problem --format table         solve its test rows\n"
        "  cmpe solve --objective H.uai --constraint T.uai --at-most Q --evidence E.evid\n"
        "  cmpe info problem                         see how hard it is\n"
        "  cmpe solve --help                         methods, limits, formats"
    )
    return int(not solutions.feasible.any())
