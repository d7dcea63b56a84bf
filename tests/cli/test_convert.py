"""`cmpe convert`: every bit is kept; rows of problems become networks of toulbar2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmpe.formats.directory import ProblemDirectory, write_directory
from cmpe.formats.uai import read_uai
from cmpe.generation import Recipe, generate, grid
from tests.cli.commands import output


def test_convert_keeps_every_bit(model, tmp_path):
    for source, target in ((model, "a.LG.xz"), ("a.LG.xz", "b.uai"), ("b.uai", "c.LG")):
        assert output("convert", tmp_path / source, tmp_path / target) == ""
    assert read_uai(tmp_path / "c.LG") == read_uai(tmp_path / "b.uai") == read_uai(model)


def test_convert_exports_a_row_of_a_problem(problem, model, tmp_path):
    for source, target, options, variables in (
        (problem, "row.cfn", ["--row", 5], 6),
        (problem, "all.cfn", [], 12),
        (model, "model.cfn", [], 12),
    ):
        output("convert", source, tmp_path / target, *options)
        network = json.loads((tmp_path / target).read_bytes())
        assert len([v for v in network["variables"] if v.startswith("z")]) == variables
        assert network["problem"]["name"] == "small.grid"
        assert ("limit0" in network["functions"]) == (source is problem)


USAGE = [
    (["convert", "m.uai", "m.txt"], "m.txt: expected a suffix of .uai, .LG or .cfn, found '.txt'"),
    (["convert", "m.uai", "m"], "m: expected a suffix of .uai, .LG or .cfn, found 'none'"),
    (["convert", "m.uai", "o.cfn", "--row", "0"], "--row goes with a problem directory"),
    (["convert", ".", "o.uai"], "o.uai: a problem directory holds several models"),
    (["convert", "big.LG", "o.uai"], "factor 0: the logarithm 800.0 has no float64 potential"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    Path("big.LG").write_text("MARKOV 1 1 1 1 0 1 800")
    assert message in refused(*arguments)


def test_a_row_beyond_the_test_rows(refused):
    made = generate(grid(2, 2), Recipe(samples=20))
    write_directory(ProblemDirectory(made.problem, made.train, made.test), "p")
    line = refused("convert", "p", "o.cfn", "--row", "2")
    assert line == "--row must be below 2 (the test rows), found 2"
