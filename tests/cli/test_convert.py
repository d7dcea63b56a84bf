"""`cmpe convert`: models keep every bit; problems become .cfn and .evid files."""

from __future__ import annotations

import json

import numpy as np

from cmpe import read_directory, read_evidence, read_model, read_uai, write_network
from tests.cli.test_cli import output
from tests.problems import random_network


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


def test_convert_exports_evidence(problem, tmp_path):
    content = read_directory(problem)
    output("convert", problem, tmp_path / "all.evid.gz")
    rows = read_evidence(tmp_path / "all.evid.gz", content.problem)
    observed = list(content.problem.evidence_variables)
    np.testing.assert_array_equal(rows[:, observed], content.test)
    output("convert", problem, tmp_path / "one.evid", "--row", 2)
    rows = read_evidence(tmp_path / "one.evid", content.problem)
    np.testing.assert_array_equal(rows[:, observed], content.test[2:3])


def test_learned_models_are_copied_or_expanded(tmp_path):
    network = random_network(3)
    write_network(network, tmp_path / "a.json")
    output("convert", tmp_path / "a.json", tmp_path / "b.json")
    assert read_model(tmp_path / "b.json").leaves == network.leaves
    output("convert", tmp_path / "b.json", tmp_path / "c.LG")
    assert read_uai(tmp_path / "c.LG").cardinalities == network.cardinalities
