"""`cmpe convert`: every bit is kept; rows of problems become networks of toulbar2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
from cmpe.formats.evidence import read_evidence
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
        assert network["problem"]["name"] == ("model" if source is model else "small.grid")
        assert ("limit0" in network["functions"]) == (source is problem)


USAGE = [
    (
        ["convert", "m.uai", "m.txt"],
        "m.txt: expected a suffix of .uai, .LG, .json, .npz, .bif, .x",
    ),
    (
        ["convert", "m.uai", "m"],
        "m: expected a suffix of .uai, .LG, .json, .npz, .bif, .x",
    ),
    (["convert", "m.uai", "o.json"], "a learned model is a Chow-Liu tree or a cutset network"),
    (["convert", "m.uai", "o.evid"], "o.evid: evidence is in a problem directory, found m.uai"),
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


def test_convert_exports_evidence(problem, tmp_path):
    content = read_directory(problem)
    output("convert", problem, tmp_path / "all.evid.gz")
    rows = read_evidence(tmp_path / "all.evid.gz", content.problem)
    observed = list(content.problem.evidence_variables)
    np.testing.assert_array_equal(rows[:, observed], content.test)
    output("convert", problem, tmp_path / "one.evid", "--row", 2)
    rows = read_evidence(tmp_path / "one.evid", content.problem)
    np.testing.assert_array_equal(rows[:, observed], content.test[2:3])


def test_a_model_of_no_known_format_is_refused(refused):
    Path("m.txt").write_text("MARKOV 2 2 2 0")
    line = refused("info", "m.txt")
    assert line.startswith("m.txt: expected a model file ending in .uai, .LG, .json, .npz, .bif")


@pytest.mark.parametrize("words", [["o.evid"], ["o.evid", "--row", "0"], ["o.cfn", "--row", "0"]])
def test_fractions_are_no_values_of_discrete_variables(refused, flips, words):
    line = refused("convert", flips, *words)
    assert line == "this problem's evidence is in [0, 1]; .cfn and .evid hold whole numbers"
