"""The command line of the study: `python -m study report|adversarial|paper|fair`.

Exit codes and one-line errors are those of `cmpe`.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from cmpe.cli.main import run
from study.adversarial.command import adversarial
from study.reporting.command import report

# Arguments that another parser reads, options and `--help` included.
UNREAD = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "ignore_unknown_options": True,
}


def paper(context: typer.Context) -> int:
    """Run the paper's study, from its description to a report; `paper --help` shows how."""
    from study.paper.command import main

    return main(context.args)


def fair(context: typer.Context) -> int:
    """Compare losses on equal terms, in pieces that resume; `fair --help` shows how."""
    from study.fair.command import main

    return main(context.args)


def make_app(_: Sequence[str] = ()) -> typer.Typer:
    """The four commands."""
    app = typer.Typer(
        name="study",
        help="The paper's study: its tables and figures, and adversarial examples.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(report)
    app.command()(adversarial)
    app.command(
        add_help_option=False, context_settings={**UNREAD, "allow_interspersed_args": False}
    )(paper)
    app.command(
        add_help_option=False, context_settings={**UNREAD, "allow_interspersed_args": False}
    )(fair)
    return app


def main() -> None:
    """Run one of them."""
    run("python -m study", make_app)


if __name__ == "__main__":
    main()
