"""`.cfn` files as toulbar2 reads them: hardly any of JSON's punctuation is needed."""

from __future__ import annotations

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError
from cmpe.formats.costs.relaxed import parse_relaxed
from tests.formats.tables.networks import refused_file
from tests.problems import all_assignments
from tests.refusals import refused

STRICT = """{"problem": {"name": "p", "mustbe": "<100.0"},
"variables": {"a": ["no", "yes"], "b": 3},
"functions": {
"f": {"scope": ["a", "b"], "costs": [0, 1.5, 2, 3, "inf", 4]},
"g": {"scope": ["b"], "defaultcost": 0.5, "costs": [1, 2.5]}}}"""
RELAXED = [
    """{ problem {name p mustbe <100.0}
# a comment with "quotes" and ] brackets
variables {a [no yes] b 3}
functions { // another {comment}
f { scope [a b] costs [0 1.5 2 3 inf 4] }
g : { scope: [1], defaultcost: 0.5, costs: [1 2.5] } } }
# the end""",
    "{ problem [name: p mustbe: <100.0] variables: [a {no, yes} b: 3] functions: ["
    "f {scope [0 1] costs {0 1.5 2 3 inf 4}} {scope {b} defaultcost 0.5 costs {1 2.5}}]}",
    "[{p <100.0} {a [no yes] b 3} {f {[a b] [0 1.5 2 3 inf 4]} {[b] 0.5 [1 2.5]}}]",
    STRICT.replace("2.5", '"2.5"').replace("3, ", '"3", ').replace(", ", ",\n//\n"),
]


def values(path):
    model = cmpe.read_model(path)
    return model, model.value(all_assignments(model.cardinalities))


@pytest.mark.parametrize("text", RELAXED)
def test_the_same_file_with_less_punctuation(tmp_path, text):
    (tmp_path / "m.cfn").write_text(STRICT)
    strict, wanted = values(tmp_path / "m.cfn")
    (tmp_path / "m.cfn").write_text(text)
    model, found = values(tmp_path / "m.cfn")
    assert model.domain == strict.domain
    assert found.tolist() == wanted.tolist()
    assert (-wanted).tolist() == [0.5, 4.0, 2.5, 3.5, np.inf, 4.5]


def test_variables_without_names_are_numbered(tmp_path):
    (tmp_path / "m.cfn").write_text("{{p <9} [[a b] 2 3] {{[x1 2] [0 1 2 3 4 5]}}}")
    model, found = values(tmp_path / "m.cfn")
    assert model.names == ("x0", "x1", "x2")
    assert (-found).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] * 2


def test_names_that_look_like_numbers_are_quoted(tmp_path):
    """Bare numbers are places; so are quoted ones that are no names, as toulbar2 writes them."""
    text = (
        '{"problem": {"name": "p", "mustbe": "<99"}, "variables": {"1": 2, "0": ["1", "0"]}, '
        '"functions": {"f": {"scope": [SCOPE], "defaultcost": 0, "costs": [VALUE, 7]}}}'
    )
    for scope, value, row in (('"1"', "1", [1, 0]), ("1", "1", [0, 1]), ('"0"', '"1"', [0, 0])):
        (tmp_path / "m.cfn").write_text(text.replace("SCOPE", scope).replace("VALUE", value))
        model = cmpe.read_model(tmp_path / "m.cfn")
        assert model.value([row]) == -7.0, scope


def test_functions_share_costs_by_name(tmp_path):
    text = (
        "{{p <99} {a 2 b 2 c 2} {one {scope [a b] costs two} two {scope [b c] costs [1 2 3 4]}"
        "three {[c a] two}}}"
    )
    (tmp_path / "m.cfn").write_text(text)
    _, found = values(tmp_path / "m.cfn")
    table = np.array([[1, 2], [3, 4]])
    rows = all_assignments((2, 2, 2))
    wanted = [table[a, b] + table[b, c] + table[c, a] for a, b, c in rows]
    assert (-found).tolist() == wanted
    refused_file(tmp_path / "m.cfn", text.replace("costs two", "costs four"), "name 'four'")
    refused_file(tmp_path / "m.cfn", text.replace("[a b] costs two", "[a] costs two"), "'two'")


def test_functions_share_costs_by_number(tmp_path):
    text = "p 3 2 3 99 2 2 2 -2 0 1 0 3 0 1 2 1 0 3 1 1 4 2 1 2 0 -1 2 2 0 0 -1"
    (tmp_path / "m.wcsp").write_text(text)
    _, found = values(tmp_path / "m.wcsp")
    table = np.array([[0, 2], [3, 4]])
    rows = all_assignments((2, 2, 2))
    assert (-found).tolist() == [table[a, b] + table[b, c] + table[c, a] for a, b, c in rows]
    message = "the number of a function with shared costs, found -2"
    refused_file(tmp_path / "m.wcsp", text.removesuffix("-1") + "-2", message)


def test_costs_of_functions_are_maximised_too(tmp_path):
    """A violation makes the answer worse: its cost is at most 0 there."""
    text = (
        "{problem {name p mustbe >-50.0} variables {a 2 b 2 c 2} functions {"
        "u {scope [a] costs [0 3.0]} v {scope [b] costs [0 2.0]} w {scope [c] costs [0 1.0]}"
        "f {scope [a b c] type wamong params {metric lin cost COST values [1] min 0 max 1}}}}"
    )
    (tmp_path / "m.cfn").write_text(text.replace("COST", "-1.5"))
    answer = cmpe.solve(cmpe.read_problem(tmp_path / "m.cfn"))[0]
    assert (answer.objective, dict(answer)) == (3.5, {"a": 1, "b": 1, "c": 0})
    refused_file(tmp_path / "m.cfn", text.replace("COST", "1.5"), "makes an answer no better")


def test_positions_in_place_of_parameter_names(tmp_path):
    text = "{{p <99.0} {a 2 b 2} {f {[a b] wamong {lin 7.5 [1] 1 1}}}}"
    (tmp_path / "m.cfn").write_text(text)
    assert (-values(tmp_path / "m.cfn")[1]).tolist() == [7.5, 0.0, 0.0, 7.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected one object, found 0 entries"),
        ("{} {}", "expected one object, found 2 entries"),
        ("{\n{ ]", "in the group of line 1: expected a closing bracket, found none"),
        ("{}\n]", "line 2: expected no closing bracket, found ']'"),
        ('{ "a }', "line 1: expected a quote that is closed on its line"),
        ('{ "\\x" }', "line 1: expected a JSON string"),
    ],
)
def test_broken_brackets_and_quotes(text, message):
    assert message in refused(lambda: parse_relaxed("m.cfn", text), kind=FormatError)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[0 1]", "[a a]", "expected distinct variables"),
        ("[0 1]", "[a [b]]", "a name or a number, found a list"),
        ("[0 1]", "[a 2]", "a number below 2, found 2"),
        ("[0 1]", "a", "expected a list of variables, found 'a'"),
        ("inf 4", "nan 4", "a finite number or inf, found 'nan'"),
        ("inf 4", "-inf 4", "a finite number or inf, found '-inf'"),
        ("inf 4", "1_0 4", "a finite number or inf"),
        ("inf 4", "4", "one cost per entry"),
        ("<100.0", "<1e-99", "a number of at most 30 decimals"),
        ("a {no", "b {no", "expected distinct names, found it twice"),
        ("b: 3", "b: 0", "variable 'b': expected a number of states from 1"),
        ("b: 3", "b: []", "variable 'b': expected a number of states from 1"),
        ("name: p mustbe", "mustbe: <3 mustbe", "each field once, found one of them twice"),
        ("costs {1 2.5}", "costs {3 2.5}", "a number below 3, found 3"),
        ("costs {1 2.5}", "costs {1 2.5 3}", "tuples of 2 items, 3 in all"),
        ("costs {1 2.5}", "type wsum params {metric soft}", "metric hard or lin or quad or var"),
        ("costs {1 2.5}", "type wsum params {metric lin cost x}", "a number as cost"),
        ("costs {1 2.5}", "type wsum params {metric lin cost 1 comparator < to 1.5}", "whole"),
        ("costs {1 2.5}", "type wsum params {metric lin}", "a parameter 'cost', found none"),
        ("costs {1 2.5}", "type wsame params {metric lin cost 1}", "an even number of variables"),
        ("costs {1 2.5}", "type < params {1 1}", "whole costs to be minimised"),
        ("costs {1 2.5}", "type wregular params {2 [[0 0]] [[2 0]] []}", "states from 0 to 1"),
        ("costs {1 2.5}", "type max params {1 [[a 0 1]]}", "a variable of its scope, found 'a'"),
        ("costs {1 2.5}", "type max params {1 [[b 3 1]]}", "a value below 3, found 3"),
        ("costs {1 2.5}", "type knapsack params {1 [1 2]}", "expected 1 weights, found 2"),
        ("costs {1 2.5}", "type clique params {2 [[1]]}", "a clique of at most 1, found 2"),
        ("costs {1 2.5}", "type clique params {1 [1]}", "lists of values"),
        ("costs {1 2.5}", "type gcc params {[[0 1]] []}", "rows of 3 bounds"),
        ("costs {1 2.5}", "type gcc params {[] [[0 1]]}", "no deltacosts, found 1"),
        ("costs {1 2.5}", "type cfnconstraint params {cfn 3}", "a list 'cfn', found '3'"),
    ],
)
def test_hostile_relaxed_files(tmp_path, old, new, message):
    text = RELAXED[1]
    if new.startswith("type"):
        text = text.replace("defaultcost 0.5 ", "")
    assert old in text
    refused_file(tmp_path / "m.cfn", text.replace(old, new, 1), message)
