"""`cmpe generate`: a problem directory from one model file, learned or given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def generate(
    model: Annotated[Path, typer.Argument(help="The model M1, a file of any format.")],
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    evidence_fraction: Annotated[float, typer.Option(help="Share of observed variables.")] = 0.6,
    noise_variance: Annotated[
        float, typer.Option(help="Variance of the noise that makes M2.")
    ] = 0.1,
    percentile: Annotated[
        int, typer.Option(help="q is this percentile of sampled values of M2.")
    ] = 80,
    samples: Annotated[int, typer.Option(help="Evidence rows; 90 % train, 10 % test.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of every generator.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the problem in OUT.")] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for sampling: shorter chains where it is slow.")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(help="GB of memory for exact sampling by elimination; default: 4.3."),
    ] = None,
) -> int:
    """Make a constrained problem from a model as the paper does, and write it to a directory."""
    from cmpe.cli.options import read_tables
    from cmpe.elimination.plan import MEMORY_LIMIT
    from cmpe.errors import InputError
    from cmpe.formats.directory import ProblemDirectory, as_stored, holds_problem, write_directory
    from cmpe.formats.text import stem_of
    from cmpe.generation import Recipe, perturbed
    from cmpe.generation import generate as make
    from cmpe.memory import allowed_bytes, gigabytes_of

    kept = MEMORY_LIMIT if memory is None else allowed_bytes(gigabytes_of(memory))
    recipe = Recipe(evidence_fraction, noise_variance, percentile, samples, seed, kept, time_limit)
    if holds_problem(out) and not force:
        raise InputError(f"{out}: holds a problem already; add --force, or choose another --out")
    first = as_stored(read_tables(model))
    noisy = as_stored(perturbed(first, recipe))
    made = make(first, recipe, name=stem_of(model), noisy=noisy)
    write_directory(ProblemDirectory(made.problem, made.train, made.test, made.provenance), out)
    sampler = made.provenance["sampler"]
    problem = made.problem
    typer.echo(
        f"{out}: {problem.variables} variables, {len(problem.evidence_variables)} observed, "
        f"t <= {problem.limits[0]:.6g}, {len(made.train)} train and {len(made.test)} test rows, "
        f"{sampler['evidence']} sampling (width {sampler['width']})"
    )
    return 0
