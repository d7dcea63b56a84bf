"""Cost function networks with a function of every kind, for readers."""

from __future__ import annotations

FOUR = "4 2 0 3 1 -1"  # the scope of a `.wcsp` function by keyword
INNER = "in 2 3 1 9 2 3 2 0 1 0 1 1 1 2"
WCSP = [
    "-2 1 2 1 2 0 0 0 1 2 5",
    "2 2 3 1 -1",
    "2 1 3 -1 >= 1 1",
    "2 0 3 -1 disj 1 2 4",
    "2 0 3 -1 sdisj 1 2 1 2 3 3",
    "2 0 1 -1 wcsp 0 4 0 0 " + INNER,
    *(f"{FOUR} {words}" for words in (
        "salldiff var 2", "walldiff quad 2", "alldiff 1 0 0", "sgcc wdec 2 1 0 0 3 1 1",
        "sgcc var 2 2 0 0 2 1 1 3", "wgcc hard 2 1 1 0 3", "gcc 1 2 0 3 0",
        "samong var 2 0 2 1 1", "wamong lin 2 1 1 0 2", "wvaramong hard 2 1 1",
        "wsum lin 1 <= 4", "wvarsum hard 1 >=", "woverlap lin 1 < 1", "wsame lin 1",
        "wsamegcc lin 1 1 0 0 2", "ssame 1 2 2 2 0 3 1", "max 1 1 2 0 3", "wdiverse 1 0 0 0 0",
        "sregular var 1 2 1 0 2 0 1 3 0 0 0 0 1 1 1 2 0",
        "wregular 2 1 0 1 1 1 0 3 0 0 0 1 0 1 1 0 1 2 1 2", "clique 1 1 1 1 1 0 1 2",
        "knapsack 1 1 2 0 1", "knapsackc 1 1 2 1 1 1 2 2 1 0 1", "knapsackp 1 1 0 2 1 1 1 0 1 2 3",
        "knapsackv 1 2 2 0 2 3 1 1",
    )),
]  # fmt: skip
CFN = """{ problem: {name: every, mustbe: ">-90.00"}
# functions by keyword, costs that make the sum smaller
variables: {a: [x y] b: 3, "c": ["u", "v", "w"], d 3}
functions: {
 f: {scope: [a b], defaultcost: -1, costs: [x 0 -2.5, 1, 2, "inf"]}
 g: {scope: [b c] costs: h} h {scope [b d] costs [0 -1 -2 0 -3 0 0 0 -1]} // shared
 {scope: [a b c d] type: wamong params: {metric: lin cost: -1.5 values: [1] min: 0 max: 2}}
 {scope: [a b c d] type: sgcc params: {metric: dec cost: -1 bounds: [[0 0 2] [1 1 3]]}}
 {scope: [c d] type: wsum params: {metric: hard cost: -2 comparator: "<=" to: 3}}
 {scope: [b c] type: ssame params: {cost: -1 vars1: [b] vars2: [c]}}
 {scope: [b c d] type: wregular params: {nb_states: 2 starts: [[0 0.5]] ends: [[0 0] [1 -1]]
   transitions: [[0 0 0 -1][0 1 1 0][1 2 0 -0.5][1 0 1 0][0 2 0 0]]}}
 {scope: [b c] type: cfnconstraint params: {cfn:
   {problem: {name: in mustbe: ">-9.0"} variables: {b: 3 c: 3}
    functions: {{scope: [b c] costs: [0 -1 -2 -1 0 -1 -2 -1 0]}}}
   lb: -2 ub: 1 duplicatehard: 0 strongduality: 0}}
 k: {"scope": ["a", "b"], "type": "knapsackv",
   "params": {"capacity": 1, "weightedvalues": [["a", 1, 2], ["b", 0, 1]]}}
}}
"""


def wcsp_text() -> str:
    """A `.wcsp` file with every function."""
    return f"every 4 3 {len(WCSP)} 200\n2 3 3 3\n" + "\n".join(WCSP) + "\n"
