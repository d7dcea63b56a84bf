# ruff: noqa: E501 - a mistake and its answer stand side by side
"""Forty mistakes as a stranger types them: each is answered by one sentence that helps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cmpe
from cmpe import queries
from cmpe.errors import CmpeError

NAMES = ("HISTORY", "CVP", "PCWP", "HRBP")
STATES = (("TRUE", "FALSE"), *(("LOW", "NORMAL", "HIGH"),) * 3)
CARDS = (2, 3, 3, 3)


def model(names=NAMES, states=STATES):
    tables = [((u, v), np.arange(CARDS[u] * CARDS[v], dtype=float).reshape(CARDS[u], CARDS[v]))
              for u, v in ((0, 1), (1, 2), (2, 3))]  # fmt: skip
    return cmpe.LogLinearModel.from_tables(CARDS, tables, names, states)


NET = model()
PROBLEM = cmpe.Problem(NET)
PLAIN = model((), ())
BIF = "variable A { type discrete [ 2 ] { yes, no }; }\nprobability ( A ) { table 0.3, 0.7; }\n"


def written(name, text):
    Path(name).write_text(text)
    return name


MISTAKES = {
    # evidence
    "a name in lower case": (lambda: cmpe.solve(PROBLEM, {"cvp": "LOW"}), "did you mean 'CVP'?"),
    "a slip in a name": (lambda: cmpe.solve(PROBLEM, {"HISTROY": "TRUE"}), "did you mean 'HISTORY'?"),
    "a slip in a state": (lambda: cmpe.solve(PROBLEM, {"CVP": "NROMAL"}), "did you mean 'NORMAL'?"),
    "a state in lower case": (lambda: cmpe.solve(PROBLEM, {"CVP": "low"}), "'CVP' has no state 'low'; did you mean 'LOW'?"),
    "a state of another variable": (lambda: cmpe.solve(PROBLEM, {"HISTORY": "LOW"}), "variable 'HISTORY' has no state 'LOW'; there is 'TRUE', 'FALSE'"),
    "a number beyond the states": (lambda: cmpe.solve(PROBLEM, {"CVP": 3}), "variable 'CVP' has 3 states, numbers 0 to 2, found 3"),
    "a fraction": (lambda: cmpe.solve(PROBLEM, {"CVP": 0.5}), "variable 'CVP' has no state 0.5"),
    "a variable twice": (lambda: cmpe.solve(PROBLEM, {"CVP": "LOW", 1: "LOW"}), "variable 'CVP' must be given once"),
    "an unknown column": (lambda: cmpe.solve(PROBLEM, pd.DataFrame({"patient": [7], "CVP": ["LOW"]})), "there is no variable 'patient'"),
    "two columns of one name": (lambda: cmpe.solve(PROBLEM, pd.DataFrame([["LOW", "LOW"]], columns=["CVP", "CVP"])), "columns of a frame must be distinct"),
    "lists of different lengths": (lambda: cmpe.solve(PROBLEM, {"CVP": ["LOW", "HIGH"], "PCWP": ["LOW"]}), "every list must have a value per row"),
    "a file name": (lambda: cmpe.solve(PROBLEM, "rows.csv"), "read a file with cmpe.read_evidence(path, problem)"),
    "names for a model without": (lambda: cmpe.solve(cmpe.Problem(PLAIN), {"CVP": "LOW"}), "these variables have no names: give a number from 0 to 3, found 'CVP'"),
    "states for a model without": (lambda: cmpe.solve(cmpe.Problem(PLAIN), {1: "LOW"}), "a model needs names for its states to be given by name"),
    "an array of states": (lambda: cmpe.solve(PROBLEM, np.array([["TRUE", "LOW", "LOW", "LOW"]])), "evidence must be whole numbers"),
    "an array too narrow": (lambda: cmpe.solve(PROBLEM, [[0, 1]]), "columns"),
    "an array out of range": (lambda: cmpe.solve(PROBLEM, [[0, 5, 0, 0]]), "row 0, variable 'CVP': evidence must be from 0 to 2, found 5"),
    "a state beyond all numbers": (lambda: cmpe.solve(cmpe.Problem(PLAIN), {1: [0, 10**400]}), "evidence must be values of variables, found 0.0 to 1e+300"),
    "a likelihood beyond all numbers": (lambda: cmpe.solve(cmpe.Problem(PLAIN), [{0: [0.5, 10**400]}]), "row 0, variable 0: likelihoods must be numbers"),
    "a limit beyond all numbers": (lambda: cmpe.solve(PROBLEM.under([cmpe.count({"CVP": 0}, name="c") <= 1]), limits={"c": 10**400}), "limits must be an array of numbers"),
    # models
    "a cardinality that is a word": (lambda: cmpe.LogLinearModel.from_tables(["two"], []), "cardinalities must be whole numbers"),
    "tables of ragged rows": (lambda: cmpe.LogLinearModel.from_tables([2], [((0,), [1.0, []])]), "tables must be pairs (scope, array of numbers)"),
    "words in a table": (lambda: cmpe.Factor((0,), ["x"]), "a log-table must hold numbers, found ['x']"),
    "words in a table of a model": (lambda: cmpe.LogLinearModel.from_tables([2], [((0,), ["x", "y"])]), "a log-table must hold numbers"),
    "a scope that is no list": (lambda: cmpe.Factor(0, [1.0]), "a scope must be a list of whole numbers, found 0"),
    "a name in the scope of a factor": (lambda: cmpe.Factor(("CVP",), [1.0]), "a scope must list whole numbers, found 'CVP'"),
    "tables for factors": (lambda: cmpe.LogLinearModel((2,), [[0.0, 1.0]]), "factors must be a list of Factor objects, found [0.0, 1.0]"),
    "one factor for a list": (lambda: cmpe.LogLinearModel((2,), cmpe.Factor((0,), [0.0, 1.0])), "factors must be a list of Factor objects"),
    "a number for a file": (lambda: cmpe.read_model(3), "read_model takes the path of a file, found 3"),
    "nothing for a UAI file": (lambda: cmpe.read_uai(None), "read_uai takes the path of a file, found None"),
    "a number for a directory": (lambda: cmpe.read_directory(3), "read_directory takes the path of a directory, found 3"),
    "a number to write": (lambda: cmpe.write_model(3, "m.uai"), "write_model(model, path) takes a model made of tables, found int"),
    "numbers to evaluate": (lambda: cmpe.evaluate(3, 4), "cmpe.reference(problem, rows)); found int and int"),
    # problems
    "a model for a problem": (lambda: cmpe.solve(NET, {"CVP": "LOW"}), "solve needs a Problem, found LogLinearModel; write"),
    "a constraint without a list": (lambda: cmpe.Problem(NET, NET <= 3), "write Problem(h, [t <= q])"),
    "a constraint without a limit": (lambda: cmpe.Problem(NET, [NET]), "write t <= q or t >= q"),
    "a chained comparison": (lambda: cmpe.Problem(NET, [1 <= NET <= 3]), "written cmpe.between(t, 1, 3)"),
    "a limit in quotes": (lambda: NET <= "3", "at_most must be a number, as in at_most=12.5; found '3'"),
    "a limit of infinity": (lambda: np.inf >= NET, "at_most must be a finite number, found inf"),
    "limits in the wrong order": (lambda: cmpe.between(NET, 3, 1), "least <= most, found 3 and 1"),
    "a model with other states": (lambda: cmpe.Problem(NET, [model(NAMES, (("T", "F"), *STATES[1:])) <= 3]), "variable 'HISTORY' must have the same states everywhere: found 'TRUE', 'FALSE'"),
    "one model without names": (lambda: cmpe.Problem(NET, [PLAIN <= 3]), "the objective names its variables and constraint 0 does not: give both names"),
    "a model of other variables": (lambda: cmpe.Problem(NET, [model(("a", "b", "c", "d")) <= 3]), "constraint 0 shares no variable with the objective"),
    "evidence variables as a word": (lambda: cmpe.Problem(NET, [], "CVP"), "evidence_variables must be a list of variables, found 'CVP'"),
    "an unknown evidence variable": (lambda: cmpe.Problem(NET, [], ["CPV"]), "there is no variable 'CPV'; did you mean 'CVP'?"),
    "minus a model with zeros": (lambda: -cmpe.LogLinearModel.from_tables([2], [((0,), [0.0, -np.inf])]), "t >= q is right also with zero potentials"),
    # counts and costs
    "a count of a list": (lambda: cmpe.count(["CVP"]), "expected a dictionary, as in count("),
    "a chained comparison of a count": (lambda: cmpe.Problem(NET, [1 <= cmpe.count({"CVP": "LOW"}) <= 2]), "written cmpe.between(t, 1, 3)"),
    "a count of an unknown": (lambda: cmpe.Problem(NET, [cmpe.count({"CVPP": "LOW"}) <= 1]), "there is no variable 'CVPP'; did you mean 'CVP'?"),
    "a count of a wrong state": (lambda: cmpe.Problem(NET, [cmpe.count({"CVP": "L0W"}) <= 1]), "variable 'CVP' has no state 'L0W'; did you mean 'LOW'?"),
    "a cost without a state": (lambda: cmpe.linear({"CVP": 3.0}), "expected a dictionary, as in linear({'CVP': {'yes': 2.5}}); found float"),
    # answers
    "a slip in an answer": (lambda: cmpe.solve(PROBLEM)[0]["PWCP"], "did you mean 'PCWP'?"),
    # methods and options
    "a slip in a method": (lambda: cmpe.solve(PROBLEM, method="exat"), "exact"),
    "seconds as text": (lambda: cmpe.solve(PROBLEM, time_limit="10s"), "as in time_limit=10 (seconds); found '10s'"),
    "workers as a word": (lambda: cmpe.solve(PROBLEM, workers="two"), "workers must be a whole number, found 'two'"),
    "a start too short": (lambda: cmpe.solve(PROBLEM, {"CVP": ["LOW", "HIGH"]}, start=[[0, 0, 0, 0]]), "a start must have 2 rows, found 1"),
    # files
    "an unknown suffix": (lambda: cmpe.read_model(written("net.bin", BIF)), "expected a model file ending in .uai"),
    "a file that is not there": (lambda: cmpe.read_model("nowhere.bif"), "nowhere.bif: cannot be read: No such file"),
    "a BIF with a wrong row": (lambda: cmpe.read_model(written("a.bif", BIF.replace("0.3, 0.7", "0.3"))), "line 2: expected a table of 2 numbers, found 1"),
    "a BIF of a Markov network": (lambda: cmpe.write_model(NET, "m.bif"), "write .uai instead"),
    # queries
    "a target that is immutable": (lambda: queries.counterfactual(NET, {"CVP": "LOW"}, {"CVP": "HIGH"}, 0.0, None, ["CVP"]), "a target names variables and their new states, none of them immutable"),
}  # fmt: skip


def test_there_are_forty():
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, message = MISTAKES[name]
    with pytest.raises(CmpeError) as caught:
        call()
    said = str(caught.value)
    assert message in said
    assert "\n" not in said
    assert len(said) < 400
