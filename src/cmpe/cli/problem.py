"""`cmpe problem`: a problem directory from a pair of models, to train and to evaluate on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cmpe.cli import options
from cmpe.errors import InputError

ROWS_HELP = (
    "Evidence: a file .evid, .npy, .csv or .parquet, or a folder of .parquet "
    "files; default: samples of the objective."
)
OBJECTIVE_HELP = (
    "The model h to maximise, of any format, or package.module:name of a function that makes it."
)


def problem(
    context: typer.Context,
    objective: Annotated[Path, typer.Option(help=OBJECTIVE_HELP)],
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    constraint: options.Constraints = None,
    count: options.Counts = None,
    require: options.Rules = None,
    at_most: options.AtMost = None,
    at_least: options.AtLeast = None,
    rows: Annotated[Path | None, typer.Option(help=ROWS_HELP)] = None,
    evidence_fraction: Annotated[
        float | None,
        typer.Option(
            help="Share of observed variables; default: 0.6, or the "
            "variables that the rows observe."
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Rows to sample, 90 % to train, 10 % to test; default 10000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every generator.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the problem in OUT.")] = False,
) -> int:
    """Write a problem directory from models, counts and rules, with rows to train and test on."""
    from dataclasses import replace

    from cmpe.formats.directory import ProblemDirectory, as_stored, holds_problem, write_directory
    from cmpe.generation import Recipe, from_pair

    if rows is not None and samples is not None:
        raise InputError("give --rows ROWS or --samples N, not both")
    if holds_problem(out) and not force:
        raise InputError(f"{out}: holds a problem already; add --force, or choose another --out")
    told = {"evidence_fraction": evidence_fraction, "samples": samples}
    recipe = Recipe(seed=seed, **{k: v for k, v in told.items() if v is not None})  # type: ignore[arg-type]
    if not (constraint or count or require):
        raise InputError("a problem needs a --constraint with its limit, a --count or a --require")
    models = options.ProblemOptions(None, objective, constraint, at_most, at_least, count, require)
    posed, _ = models.read_models(context)
    stored = tuple(replace(c, function=as_stored(c.function)) for c in posed.constraints)
    posed = replace(posed, objective=as_stored(posed.objective), constraints=stored)
    posed = models.with_rules(posed)
    files = options.RowOptions(evidence=rows)
    given = None if rows is None else files.read(posed, None).states
    made = from_pair(posed, recipe, given)
    if given is not None and evidence_fraction is not None and (given < 0).any():
        raise InputError(
            f"{rows}: its rows say which variables are observed; leave out --evidence-fraction, or "
            "give rows that observe all variables"
        )
    write_directory(ProblemDirectory(made.problem, made.train, made.test, made.provenance), out)
    about = "" if given is not None else f", {made.provenance['sampler']['evidence']} sampling"
    shown = ", ".join(c.stated() for c in made.problem.constraints)
    typer.echo(
        f"{out}: {posed.variables} variables, {len(made.problem.evidence_variables)} observed, "
        f"{shown}, {len(made.train)} train and {len(made.test)} test rows{about}"
    )
    return 0
