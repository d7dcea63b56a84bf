"""Functions by keyword: each against its definition in plain Python, in both formats."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError, InputError, TooLarge
from cmpe.formats.costs.functions import KINDS
from tests.problems import all_assignments
from tests.refusals import refused

INF = math.inf
CARDS = (2, 3, 3, 3)
SCOPE = (2, 0, 3, 1)
TOP = 1000


def beyond(count, low, high):
    return max(0, low - count, count - high)


def paid(metric, base, gap):
    return {"hard": base * (gap > 0), "lin": base * gap, "var": base * gap, "quad": base * gap**2}[
        metric
    ]


def compared(total, how, limit):
    return {
        "==": abs(total - limit),
        "!=": int(total == limit),
        "<=": max(0, total - limit),
        "<": max(0, total - limit + 1),
        ">=": max(0, limit - total),
        ">": max(0, limit + 1 - total),
    }[how]


def off(values, bounds):
    counts = Counter(values)
    return [(low - counts[v], counts[v] - high) for v, low, high in bounds]


def words_of(automaton, length):
    """Every path: (word, cost), of an automaton (starts, ends, steps)."""
    starts, ends, steps = automaton
    paths = [((), q, cost) for q, cost in starts.items()]
    for _ in range(length):
        paths = [
            ((*word, v), r, cost + c)
            for word, q, cost in paths
            for (p, v, r), c in steps.items()
            if p == q
        ]
    return [(word, cost + ends[q]) for word, q, cost in paths if q in ends]


WEIGHTED = ({0: 1, 1: 0}, {1: 2, 2: 0}, {(0, 0, 1): 3, (0, 1, 0): 0, (1, 2, 2): 1, (1, 1, 1): 4,
            (2, 0, 2): 0, (2, 1, 1): 2, (0, 2, 2): 5, (1, 0, 0): 1})  # fmt: skip
PLAIN = ({0: 0}, {0: 0, 1: 0}, {(0, 0, 0): 0, (0, 1, 1): 0, (1, 1, 1): 0, (1, 2, 0): 0})
STEPS = " ".join(f"{q} {v} {r} {c}" for (q, v, r), c in WEIGHTED[2].items())
MOVES = " ".join(f"{q} {v} {r}" for q, v, r in PLAIN[2])


def weighted(x):
    return min((cost for word, cost in words_of(WEIGHTED, 4) if word == x), default=INF)


def changed(x):
    return min(sum(a != b for a, b in zip(x, word, strict=True)) for word, _ in words_of(PLAIN, 4))


def same(x, metric, base):
    gaps = [abs(x[:2].count(v) - x[2:].count(v)) for v in range(3)]
    return sum(paid(metric, base, gap) for gap in gaps)


def knapsack(total, capacity):
    return 0 if total >= capacity else INF


BOUNDS = [(0, 1, 1), (2, 2, 3)]
ROWS = "2 0 1 1 2 2 3"
CFN_ROWS = "[[0 1 1] [2 2 3]]"
# keyword, parameters in .wcsp, parameters in .cfn, the cost of the values of the scope
CASES = [
    ("salldiff", "var 7", "metric: var cost: 7", lambda x: 7 * (4 - len(set(x)))),
    ("salldiff", "dec 7", "metric: dec cost: 7",
     lambda x: 7 * sum(a == b for a, b in itertools.combinations(x, 2))),
    ("salldiffdp", "var 7", "metric: var cost: 7", lambda x: 7 * (4 - len(set(x)))),
    ("salldiff", "var 1000", "metric: var cost: 1000", lambda x: INF),
    ("salldiffkp", "hard 1000", "metric: hard cost: 1000", lambda x: INF),
    *(("walldiff", f"{metric} 7", f"metric: {metric} cost: 7",
       lambda x, m=metric: sum(paid(m, 7, beyond(c, 0, 1)) for c in Counter(x).values()))
      for metric in ("hard", "lin", "quad")),
    ("alldifferent", "1 2 0", "exceptedvalues: [2] deltacosts: []",
     lambda x: 0 if Counter(x)[0] <= 1 and Counter(x)[1] <= 1 else INF),
    ("gcc", f"{ROWS} 0", f"bounds: {CFN_ROWS} deltacosts: []",
     lambda x: INF if any(max(o) > 0 for o in off(x, BOUNDS)) else 0),
    ("sgcc", f"var 7 {ROWS}", f"metric: var cost: 7 bounds: {CFN_ROWS}",
     lambda x: 7 * max(sum(max(0, s[k]) for s in off(x, BOUNDS)) for k in (0, 1))),
    ("sgcc", "var 7 1 3 0 0", "metric: var cost: 7 bounds: [[3 0 0]]", lambda x: 0),
    ("sgcc", f"dec 7 {ROWS}", f"metric: dec cost: 7 bounds: {CFN_ROWS}",
     lambda x: 7 * sum(max(0, *o) for o in off(x, BOUNDS))),
    ("sgcc", "wdec 7 1 2 2 3 4 5", "metric: wdec cost: 7 bounds: [[2 2 3 4 5]]",
     lambda x: 4 * max(0, 2 - x.count(2)) + 5 * max(0, x.count(2) - 3)),
    ("sgccdp", f"var 7 {ROWS}", f"metric: var cost: 7 bounds: {CFN_ROWS}",
     lambda x: 7 * sum(max(0, *o) for o in off(x, BOUNDS))),
    ("wgcc", f"quad 7 {ROWS}", f"metric: quad cost: 7 bounds: {CFN_ROWS}",
     lambda x: 7 * sum(max(0, *o) ** 2 for o in off(x, BOUNDS))),
    ("samong", "var 7 2 3 2 0 2", "metric: var cost: 7 min: 2 max: 3 values: [0 2]",
     lambda x: 7 * beyond(x.count(0) + x.count(2), 2, 3)),
    *(("wamong", f"{metric} 7 1 1 2 2", f"metric: {metric} cost: 7 values: [1] min: 2 max: 2",
       lambda x, m=metric: paid(m, 7, beyond(x.count(1), 2, 2)))
      for metric in ("hard", "lin", "quad", "var")),
    ("wvaramong", "hard 7 2 1 2", "metric: hard cost: 7 values: [1 2]",
     lambda x: 7 * (sum(v > 0 for v in x[:3]) != x[3])),
    *(("wsum", f"quad 7 {how} 4", f'metric: quad cost: 7 comparator: "{how}" to: 4',
       lambda x, h=how: paid("quad", 7, compared(sum(x), h, 4)))
      for how in ("==", "!=", "<=", "<", ">=", ">")),
    *(("wvarsum", f"lin 7 {how}", f"metric: lin cost: 7 comparator: {how}",
       lambda x, h=how: 7 * compared(sum(x[:3]), h, x[3]))
      for how in ("==", "!=", "<=", "<", ">=", ">")),
    *(("woverlap", f"lin 7 {how} 1", f"metric: lin cost: 7 comparator: {how} to: 1",
       lambda x, h=how: 7 * compared((x[0] == x[2] > 0) + (x[1] == x[3] > 0), h, 1))
      for how in ("==", "!=", "<=", "<", ">=", ">")),
    *(("wsame", f"{metric} 7", f"metric: {metric} cost: 7",
       lambda x, m=metric: same(x, m, 7)) for metric in ("hard", "lin", "quad")),
    ("wsamegcc", "lin 7 1 2 0 1", "metric: lin cost: 7 bounds: [[2 0 1]]",
     lambda x: same(x, "lin", 7) + 7 * sum(beyond(part.count(2), 0, 1) for part in (x[:2], x[2:]))),
    ("ssame", "7 2 2 3 1 0 2", "cost: 7 vars1: [v3 v1] vars2: [v0 v2]",
     lambda x: 7 * (2 - sum((Counter((x[2], x[3])) & Counter((x[1], x[0]))).values()))),
    ("sregular", f"var 7 2 1 0 2 0 1 4 {MOVES}",
     "metric: var cost: 7 nb_states: 2 starts: [0] ends: [0 1] "
     "transitions: [[0 0 0] [0 1 1] [1 1 1] [1 2 0]]", lambda x: 7 * changed(x)),
    ("wregular", f"3 2 0 1 1 0 2 1 2 2 0 8 {STEPS}",
     "nb_states: 3 starts: [[0 1] [1 0]] ends: [[1 2] [2 0]] transitions: [" + " ".join(
         f"[{q} {v} {r} {c}]" for (q, v, r), c in WEIGHTED[2].items()) + "]", weighted),
    ("max", "3 2 2 1 9 1 0 1", "defaultcost: 3 tuples: [[v2 1 9] [v1 0 1]]",
     lambda x: max(9 if x[0] == 1 else 3, 3, 3, 1 if x[3] == 0 else 3)),
    ("wdiverse", "3 1 0 2 1", "distance: 3 values: [1 0 2 1]",
     lambda x: knapsack(sum(a != b for a, b in zip(x, (1, 0, 2, 1), strict=True)), 3)),
    ("clique", "1 1 1 2 0 1 0 1 2", "rhs: 1 values: [[1] [0 1] [] [2]]",
     lambda x: 0 if (x[0] == 1) + 1 + (x[3] == 2) <= 1 else INF),
    ("knapsack", "3 2 -1 3 4", "capacity: 3 weights: [2 -1 3 4]",
     lambda x: knapsack(sum(w * (v == 1) for w, v in zip((2, -1, 3, 4), x, strict=True)), 3)),
    ("knapsackc", "3 2 1 3 4 1 2 3 1 1 1", "capacity: 3 weights: [2 1 3 4] amo: [[v3 1 v1 1]]",
     lambda x: INF if x[2] == x[3] == 1 else knapsack(
         sum(w * (v == 1) for w, v in zip((2, 1, 3, 4), x, strict=True)), 3)),
    ("knapsackp", "2 2 0 2 1 -3 0 1 2 5 1 1 1",
     "capacity: 2 weightedvalues: [[[0 2] [1 -3]] [] [[2 5]] [[1 1]]]",
     lambda x: knapsack({0: 2, 1: -3}.get(x[0], 0) + 5 * (x[2] == 2) + (x[3] == 1), 2)),
    ("knapsackv", "2 4 2 0 2 2 1 -3 3 2 5 1 1 1",
     "capacity: 2 weightedvalues: [[v2 0 2] [v2 1 -3] [v3 2 5] [v1 1 1]]",
     lambda x: knapsack({0: 2, 1: -3}.get(x[0], 0) + 5 * (x[2] == 2) + (x[3] == 1), 2)),
]  # fmt: skip
PAIRS = [
    *((how, "1 1", lambda x, h=how: {
        ">=": x[1] + 1 - x[0], ">": x[1] + 2 - x[0], "<=": x[0] - 1 - x[1], "<": x[0] - x[1],
        "=": abs(x[1] + 1 - x[0])}[h]) for how in (">=", ">", "<=", "<", "=")),
    ("disj", "1 2 7", lambda x: 0 if x[0] >= x[1] + 2 or x[1] >= x[0] + 1 else 7),
    ("sdisj", "1 2 2 1 4 5", lambda x: INF if x[1] > 1 or not (
        x[0] == 2 or x[1] == 1 or x[0] >= x[1] + 2 or x[1] >= x[0] + 1
    ) else 4 * (x[0] == 2) + 5 * (x[1] == 1)),
]  # fmt: skip


def wcsp(keyword, parameters, scope=SCOPE, cards=CARDS):
    words = (len(cards), max(cards), 1, TOP, *cards, len(scope), *scope, -1, keyword, parameters)
    return "p " + " ".join(map(str, words)) + "\n"


def cfn(keyword, parameters, scope=SCOPE, mustbe=f"<{TOP}"):
    names = " ".join(f"v{v}" for v in scope)
    sizes = ", ".join(f'"v{v}": {k}' for v, k in enumerate(CARDS))
    return (
        f"{{ problem: {{name: p mustbe: {mustbe}}}\n# a comment\nvariables: {{{sizes}}}\n"
        f"functions: {{ f: {{scope: [{names}] type: {keyword} params: {{{parameters}}} }} }} }}"
    )


def costs_of(problem):
    """The cost of every assignment, inf where it is no solution."""
    rows = all_assignments(problem.domain.cardinalities)
    return rows, np.where(problem.is_feasible(rows), -problem.objective.value(rows), INF)


def expected(rows, scope, cost):
    wanted = [float(cost(tuple(row))) for row in rows[:, list(scope)].tolist()]
    return [INF if cost >= TOP else cost for cost in wanted]


def named(cases):
    return [f"{k}-{case[0]} {case[1][:12]}" for k, case in enumerate(cases)]


def by_definition(cost):
    """All-different functions that are forbidden: the definition says inf for all assignments."""
    return lambda x: INF if cost(x) == INF and len(set(x)) < len(x) else 0


@pytest.mark.parametrize(("keyword", "words", "fields", "cost"), CASES, ids=named(CASES))
def test_functions_in_both_formats(tmp_path, keyword, words, fields, cost):
    if "1000" in words:
        cost = by_definition(cost)
    for name, text in (("m.wcsp", wcsp(keyword, words)), ("m.cfn", cfn(keyword, fields))):
        (tmp_path / name).write_text(text)
        rows, found = costs_of(cmpe.read_problem(tmp_path / name))
        assert found.tolist() == expected(rows, SCOPE, cost), name


@pytest.mark.parametrize(("keyword", "words", "cost"), PAIRS, ids=named(PAIRS))
def test_functions_of_two_variables(tmp_path, keyword, words, cost):
    scope = (2, 1)
    (tmp_path / "m.wcsp").write_text(wcsp(keyword, words, scope))
    text = cfn(keyword, "PARAMS", scope).replace("{PARAMS}", f"[{words}]")
    (tmp_path / "m.cfn").write_text(text)
    if len(words.split()) == 2:  # `delta` is 1: more is forbidden
        gap = cost
        cost = lambda x: INF if gap(x) > 1 else max(0, gap(x))  # noqa: E731
    for name in ("m.wcsp", "m.cfn"):
        rows, found = costs_of(cmpe.read_problem(tmp_path / name))
        assert found.tolist() == expected(rows, scope, cost), name


def test_every_keyword_is_tested():
    tried = {case[0] for case in (*CASES, *PAIRS)}
    aliases = {"alldiff", "walldifferent", "samongdp", "sgcckp", "sregulardp", "smaxdp",
               "whdiverse", "wtdiverse"}  # fmt: skip
    assert tried | aliases == set(KINDS)
    for alias, name in (("alldiff", "alldifferent"), ("walldifferent", "walldiff"),
                        ("samongdp", "samong"), ("sregulardp", "sregular"), ("smaxdp", "max"),
                        ("whdiverse", "wdiverse"), ("wtdiverse", "wdiverse")):  # fmt: skip
        assert KINDS[alias] is KINDS[name]


WIDE = (2,) * 14
HARD = [
    ("wamong", "hard 1000 1 1 3 6", lambda x: 3 <= sum(x) <= 6),
    ("samong", "var 1000 3 6 1 1", lambda x: 3 <= sum(x) <= 6),
    ("wsum", "lin 1000 == 5", lambda x: sum(x) == 5),
    ("wgcc", "lin 1000 1 0 9 11", lambda x: 9 <= x.count(0) <= 11),
    ("gcc", "1 0 9 11 0", lambda x: 9 <= x.count(0) <= 11),
    ("wsame", "lin 1000", lambda x: sum(x[:7]) == sum(x[7:])),
    ("ssame", f"1000 7 7 {' '.join(map(str, range(14)))}", lambda x: sum(x[:7]) == sum(x[7:])),
    ("wdiverse", "13" + " 1" * 14, lambda x: sum(x) <= 1),
    ("clique", "1" + " 1 1" * 14, lambda x: sum(x) <= 1),
]


@pytest.mark.parametrize(("keyword", "words", "holds"), HARD, ids=[h[0] for h in HARD])
def test_wide_functions_that_must_hold(tmp_path, keyword, words, holds):
    """Counts become linear constraints, cliques pairs; no table has all variables."""
    (tmp_path / "m.wcsp").write_text(wcsp(keyword, words, tuple(range(14)), WIDE))
    problem = cmpe.read_problem(tmp_path / "m.wcsp")
    assert max((len(f.scope) for t in problem.functions for f in t.factors), default=0) <= 2
    rows = all_assignments(WIDE)
    assert problem.is_feasible(rows).tolist() == [holds(tuple(row)) for row in rows.tolist()]


def test_all_different_of_many_variables_is_one_table_a_pair(tmp_path):
    (tmp_path / "m.wcsp").write_text(wcsp("salldiff", "var 1000", tuple(range(9)), (9,) * 9))
    model = cmpe.read_model(tmp_path / "m.wcsp")
    assert [len(f.scope) for f in model.factors] == [2] * 36
    assert np.isneginf(model.value([[0, 1, 2, 3, 4, 5, 6, 7, 0]]))


def test_large_weights_are_exact(tmp_path):
    """Beside 1e9 the tolerance of a limit is 1000."""
    for least, holds in ((3_000_000_000, True), (3_000_000_001, False)):
        words = f"{least} 1000000000 2000000000 7 0"
        (tmp_path / "m.wcsp").write_text(wcsp("knapsack", words, (0, 1, 2, 3), (2,) * 4))
        problem = cmpe.read_problem(tmp_path / "m.wcsp")
        assert problem.is_feasible([[1, 1, 0, 0]]).tolist() == [holds]


def test_what_has_no_exact_form_is_refused(tmp_path):
    (tmp_path / "m.wcsp").write_text(wcsp("sregular", f"var 7 2 1 0 2 0 1 4 {MOVES}",
                                          tuple(range(14)), (3,) * 14))  # fmt: skip
    message = refused(lambda: cmpe.read_problem(tmp_path / "m.wcsp"), kind=TooLarge)
    assert "function 'sregular': expected a table of at most" in message
    (tmp_path / "m.cfn").write_text(cfn("sgrammardp", "metric: var"))
    message = refused(lambda: cmpe.read_problem(tmp_path / "m.cfn"), kind=FormatError)
    assert "function 'f'" in message
    assert message.endswith("found 'sgrammardp'")
    (tmp_path / "m.wcsp").write_text(wcsp("MST", ""))
    message = refused(lambda: cmpe.read_problem(tmp_path / "m.wcsp"), kind=FormatError)
    assert message.endswith("found 'MST'")


def test_a_model_cannot_hold_constraints(tmp_path):
    (tmp_path / "m.wcsp").write_text(wcsp("knapsack", "3 2 1 3 4"))
    message = refused(lambda: cmpe.read_model(tmp_path / "m.wcsp"), kind=InputError)
    assert "read it with cmpe.read_problem" in message
    (tmp_path / "m.wcsp").write_text(wcsp("wsum", "lin 7 == 4"))
    assert cmpe.read_model(tmp_path / "m.wcsp").value([[0, 0, 0, 0]]) == -28.0


INNER = "in 3 3 3 TOP 2 3 3 2 0 1 0 1 1 1 2 2 1 2 0 1 1 2 3 1 0 0 1 0 1"


def inside(x):
    return 2 * (x[0] == 1 == x[1]) + 3 * (x[1] == 1 and x[2] == 2) + (x[0] == 0)


@pytest.mark.parametrize(("low", "high", "top"), [(1, 3, 50), (0, 9, 3), (2, 6, 6), (0, 9, 2)])
def test_a_second_network_limits_its_cost(tmp_path, low, high, top):
    words = f"{low} {high} 0 0 {INNER.replace('TOP', str(top))}"
    scope = (0, 1, 2)
    (tmp_path / "m.wcsp").write_text(wcsp("wcsp", words, scope))
    inner = (
        f'{{problem: {{name: "in", mustbe: "<{top}.0"}} variables: {{a: 2 b: 3 c: 3}} functions: {{'
        "f: {scope: [a b] defaultcost: 0.0 costs: [1 1 2.0]}"
        "g: {scope: [b c] defaultcost: 0.0 costs: [1 2 3.0]} {scope: [a] costs: [1.0 0]}}}"
    )
    fields = f"cfn: {inner} lb: {low}.0 ub: {high}.0 duplicatehard: 0 strongduality: 0"
    (tmp_path / "m.cfn").write_text(cfn("cfnconstraint", fields, scope))
    for name in ("m.wcsp", "m.cfn"):
        rows, found = costs_of(cmpe.read_problem(tmp_path / name))
        wanted = [0.0 if low <= inside(row) < min(high, top) else INF for row in rows.tolist()]
        assert found.tolist() == wanted, name


def test_a_second_network_that_is_maximised_has_bounds_in_its_own_sense(tmp_path):
    inner = "{{in >-9.0} {a 3} {{[a] [-1 -2 -3]}}}"
    text = f"{{{{p >-99.0}} {{a 3}} {{{{[a] cfnconstraint {{{inner} LIMITS 0 0}}}}}}}}"
    for limits, allowed in (("-2 0", [0, 1]), ("-3 -1", [1, 2]), ("-5 9", [0, 1, 2])):
        (tmp_path / "m.cfn").write_text(text.replace("LIMITS", limits))
        problem = cmpe.read_problem(tmp_path / "m.cfn")
        assert np.flatnonzero(problem.is_feasible([[0], [1], [2]])).tolist() == allowed


def test_problems_that_were_written_for_toulbar2_come_back(tmp_path):
    """Constraints of such a file: a second network, or knapsacks over entries."""
    from cmpe.formats.cfn import write_cfn
    from tests.problems import random_problem

    for seed in range(40):
        problem, evidence = random_problem(seed)
        write_cfn(problem, tmp_path / "m.cfn", evidence[0])
        first = cmpe.solve(problem, evidence[:1], method="exhaustive")
        again = cmpe.read_problem(tmp_path / "m.cfn")
        second = cmpe.solve(again, method="exhaustive")
        if first.labels[0] == "optimal":
            assert second.objective[0] >= first.objective[0] - 1e-6, seed


WORKER = """
import json, sys, pytoulbar2
for path in sys.argv[1:]:
    network = pytoulbar2.CFN()
    try:
        network.Read(path)
        answer = network.Solve()
    except network.Contradiction:
        answer = None
    print("RESULT", json.dumps(None if answer is None else float(answer[1])))
"""
NO_ORACLE = ("knapsackc", "alldifferent")  # 1.4 reads the one wrongly, and has another word


def test_toulbar2_has_the_same_optima(tmp_path):
    """With costs of single values that make optima pay for some functions."""
    pytest.importorskip("pytoulbar2")
    singles = "".join(f"1 {v} 0 {k} " + " ".join(f"{a} {(5 * a + 3 * v) % 7} " for a in range(k))
                      for v, k in enumerate(CARDS))  # fmt: skip
    paths, ours = [], []
    for number, (keyword, words, _, _) in enumerate(CASES):
        if keyword in NO_ORACLE:
            continue
        text = wcsp(keyword, words).replace(f" 1 {TOP} ", f" 5 {TOP} ", 1) + singles
        path = tmp_path / f"{number}.wcsp"
        path.write_text(text)
        least = float(costs_of(cmpe.read_problem(path))[1].min())
        paths.append(str(path))
        ours.append(None if least == INF else least)
    command = [sys.executable, "-c", WORKER, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert [json.loads(line.removeprefix("RESULT ")) for line in lines] == ours


@pytest.mark.parametrize(
    ("words", "scope", "cards", "message"),
    [
        (("salldiff", "var 7"), (0, 1), (500_000,) * 2, "counts more values"),
        (("walldiff", "hard 7"), (0, 1), (900,) * 2, "take too long to make"),
        (("wsame", "hard 7"), (0, 1), (500_000,) * 2, "counts more values"),
        (("salldiff", "dec 7"), tuple(range(600)), (2,) * 600, "pairs of variables, found more"),
        (("wregular", "1000000000 0 0 0"), (0, 1), (2, 2), "take too long to make"),
    ],
)
def test_functions_that_would_take_too_much_are_refused(tmp_path, words, scope, cards, message):
    (tmp_path / "m.wcsp").write_text(wcsp(*words, scope, cards))
    found = refused(lambda: cmpe.read_problem(tmp_path / "m.wcsp"), kind=TooLarge)
    assert message in found
