"""The problems of the golden record, each made from a seed of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

import cmpe

Rng = np.random.Generator
Ints = NDArray[np.int32]
Functions = Sequence[Any]  # an objective, then the functions of the constraints


@dataclass(frozen=True)
class Case:
    """A problem and the evidence that is asked about."""

    name: str
    problem: cmpe.Problem
    rows: Any = None  # evidence as `cmpe.solve` takes it


@dataclass(frozen=True)
class Kind:
    """What a random log-linear problem is like."""

    name: str
    variables: int = 9
    largest: int = 4  # cardinality
    factors: int = 10
    arity: int = 4
    constraints: int = 1
    zeros: float = 0.0  # the share of zero potentials
    whole: bool = False  # whole numbers in tables: many ties, also at q
    percentile: float = 40.0  # of t at random assignments: q
    observed: int = 3
    rows: int = 5


KINDS = (
    Kind("binary-0", largest=2, arity=2, constraints=0),
    Kind("mixed-0", constraints=0, zeros=0.1),
    Kind("mixed-1"),
    Kind("mixed-2", constraints=2, percentile=60),
    Kind("mixed-3", constraints=3, percentile=70),
    Kind("zeros-1", zeros=0.2),
    Kind("zeros-3", zeros=0.15, constraints=3, percentile=70),
    Kind("ties-1", whole=True, percentile=20),
    Kind("ties-2", whole=True, constraints=2, percentile=50),
    Kind("tight-1", percentile=1, zeros=0.05),
    Kind("infeasible-2", constraints=2, percentile=0, whole=True),
    Kind("no-evidence-1", observed=0, variables=8),
    Kind("chain-1", variables=40, largest=3, factors=0, observed=10),
)


def model(rng: Rng, cards: Sequence[int], kind: Kind) -> cmpe.LogLinearModel:
    """Random unary tables, then tables of random scopes (a chain where none are asked for)."""
    count = len(cards)
    scopes: list[tuple[int, ...]] = [(v,) for v in range(count)]
    for _ in range(kind.factors):
        size = min(count, int(rng.integers(2, kind.arity + 1)))
        scopes.append(tuple(int(v) for v in rng.choice(count, size=size, replace=False)))
    if not kind.factors:
        scopes += [(v, v + 1) for v in range(count - 1)]
    tables = [_table(rng, tuple(cards[v] for v in scope), kind) for scope in scopes]
    return cmpe.LogLinearModel.from_tables(cards, zip(scopes, tables, strict=True))


def _table(rng: Rng, shape: tuple[int, ...], kind: Kind) -> NDArray[np.float64]:
    whole = rng.integers(-2, 3, size=shape).astype(np.float64)
    table = whole if kind.whole else rng.normal(size=shape)
    if len(shape) > 1:
        table[rng.random(shape) < kind.zeros] = -np.inf
    return np.asarray(table)


def limited(
    rng: Rng, functions: Functions, percentile: float, observed: Sequence[int]
) -> cmpe.Problem:
    """Each constraint's q is a value that its function takes at a random assignment."""
    objective, *others = functions
    points = uniform(rng, objective.cardinalities, 300)
    constraints = []
    for function in others:
        values = function.value(points)
        known = np.sort(values[np.isfinite(values)])
        place = min(len(known) - 1, int(percentile / 100 * len(known)))
        constraints.append(cmpe.Constraint(function, float(known[place])))
    return cmpe.Problem(objective, tuple(constraints), tuple(observed))


def uniform(rng: Rng, cards: Sequence[int], count: int) -> Ints:
    """Uniform assignments (count, n)."""
    return rng.integers(0, np.asarray(cards), size=(count, len(cards))).astype(np.int32)


def random_case(kind: Kind, seed: int) -> Case:
    """A problem of a kind; the last row of its evidence repeats the first."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    cards = [int(k) for k in rng.integers(2, kind.largest + 1, size=kind.variables)]
    functions = [model(rng, cards, kind) for _ in range(1 + kind.constraints)]
    observed = np.sort(rng.choice(kind.variables, size=kind.observed, replace=False))
    problem = limited(rng, functions, kind.percentile, observed.tolist())
    rows = uniform(rng, cards, kind.rows)[:, observed]
    both = np.concatenate([rows, rows[:1]]) if kind.observed else None
    return Case(f"loglinear-{kind.name}-{seed}", problem, both)


def random_cases() -> Iterator[Case]:
    """Two problems of every kind."""
    for kind in KINDS:
        for seed in (1, 2):
            yield random_case(kind, seed)


def odd_cases() -> Iterator[Case]:
    """Evidence in other forms, few variables, single values, queries."""
    rng = np.random.default_rng(11)
    base = random_case(Kind("forms", zeros=0.05), 1).problem
    cards = base.objective.cardinalities
    rows = uniform(rng, cards, 6)
    rows[rng.random(rows.shape) < 0.5] = -1
    rows[1], rows[4] = -1, rows[0]
    rows[2] = uniform(rng, cards, 1)[0]
    yield Case("full-width", base, rows)
    yield Case("mapping", base, {1: [0, 1, 1], 5: [1, 0, 1]})
    for size in (1, 2):
        one = [model(rng, [4] * size, Kind("few", factors=size - 1, arity=2)) for _ in range(2)]
        yield Case(f"variables-{size}", limited(rng, one, 50, ()))
    seen = [model(rng, [3], Kind("few", factors=0)) for _ in range(2)]
    yield Case("all-observed", limited(rng, seen, 50, (0,)), [[0], [1], [2], [1]])
    single = [1, 3, 2, 1, 4, 2]
    functions = [model(rng, single, Kind("few", factors=5, arity=3)) for _ in range(2)]
    yield Case("single-values", limited(rng, functions, 40, (2,)), [[0], [1]])
    yield from _query_cases(rng)


def _query_cases(rng: Rng) -> Iterator[Case]:
    cards = [2, 3, 2, 4, 2, 3, 2]
    h, d = (model(rng, cards, Kind("query", factors=8, arity=3, zeros=z)) for z in (0.1, 0.0))
    points = uniform(rng, cards, 40)
    values = h.value(points)
    reference = [int(v) for v in points[0]]
    reach = float(np.sort(values[np.isfinite(values)])[-3])
    rows = points[1:4, [0, 4]]
    queries = cmpe.queries
    yield Case("query-mpe", queries.mpe(h, (0, 4)), rows)
    yield Case("query-nearest", queries.nearest_assignment(h, reference, reach))
    for positive in (True, False):
        kept = queries.decision_preserving_mpe(h, d, positive, (0, 4))
        yield Case(f"query-decision-{positive}", kept, rows)
    yield Case("query-flip", queries.smallest_flip(d, reference))
    weights = {(): 0.5, (0,): -1.0, (1, 2): 2.0, (0, 3, 4): -1.5, (2, 4): 0.75, (3,): 1.25}
    polynomial = cmpe.MultilinearPolynomial(5, weights).to_model()
    ones = cmpe.MultilinearPolynomial(5, {(v,): 1.0 for v in range(5)}).to_model()
    problem = cmpe.Problem(polynomial, (cmpe.Constraint(ones, 2.0),), (0,))
    yield Case("polynomial", problem, [[0], [1]])


def data(seed: int, count: int, cards: Sequence[int]) -> Ints:
    """Rows whose columns depend on their neighbours."""
    rng = np.random.default_rng(seed)
    rows = uniform(rng, cards, count)
    for v in range(1, len(cards)):
        copied = rng.random(count) < 0.7
        rows[copied, v] = np.minimum(rows[copied, v - 1], cards[v] - 1)
    return rows


def learned_models() -> dict[str, Any]:
    """Models learned from data: cutset networks and trees."""
    cards = [2, 3, 2, 2, 4, 2, 3, 2, 2, 2]
    rows, other, valid = (data(seed, 250, cards) for seed in (21, 22, 23))
    settings = cmpe.CutsetSettings(depth=2, smoothing=1.0, inheritance=10.0)
    deeper = cmpe.CutsetSettings(depth=3, candidates=3)
    return {
        "cutset": cmpe.learn_cutset(rows, settings, cardinalities=cards),
        "cutset-valid": cmpe.learn_cutset(other, deeper, cardinalities=cards, valid=valid),
        "tree": cmpe.learn_chow_liu(rows, cardinalities=cards).to_model(),
        "tree-valid": cmpe.learn_chow_liu(other, cardinalities=cards, valid=valid).to_model(),
        "tables": model(np.random.default_rng(24), cards, Kind("tables", zeros=0.1, arity=3)),
    }


def learned_cases() -> Iterator[Case]:
    """Cutset networks and trees as objective and as constraint."""
    models = learned_models()
    rng = np.random.default_rng(25)
    for names in (
        ("cutset",),
        ("cutset", "cutset-valid"),
        ("cutset-valid", "tables"),
        ("tables", "cutset"),
        ("tree", "tree-valid"),
        ("tree", "cutset", "tables"),
    ):
        functions = [models[name] for name in names]
        problem = limited(rng, functions, 60, (0, 3, 8))
        rows = uniform(rng, problem.objective.cardinalities, 4)[:, [0, 3, 8]]
        yield Case("learned-" + "+".join(names), problem, rows)


def relu(seed: int, *sizes: int) -> cmpe.ReluNetwork:
    """A random network with layers of these sizes, inputs first."""
    rng = np.random.default_rng(seed)
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = tuple(rng.normal(size=pair) / np.sqrt(pair[1]) for pair in pairs)
    return cmpe.ReluNetwork(weights, tuple(0.3 * rng.normal(size=a) for a, _ in pairs))


def module(network: cmpe.ReluNetwork) -> nn.Module:
    """The same network for torch."""
    import torch

    parts: list[nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        layer.weight = nn.Parameter(torch.as_tensor(weight))
        layer.bias = nn.Parameter(torch.as_tensor(bias))
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def neural(seed: int, cards: Sequence[int], hidden: int = 6) -> cmpe.NeuralFunction:
    """A random ReLU network as a function of all variables."""
    inputs = sum(k - 1 for k in cards)
    return cmpe.NeuralFunction(module(relu(seed, inputs, hidden, 1)), tuple(cards), largest=50.0)


def neural_cases() -> Iterator[Case]:
    """Neural functions, margins, distances and continuous variables."""
    rng = np.random.default_rng(31)
    cards = [2, 3, 2, 2, 3, 2]
    tables = [model(rng, cards, Kind("tables", factors=5, arity=3)) for _ in range(2)]
    rows = uniform(rng, cards, 3)[:, [1, 3]]
    yield Case("neural-constraint", limited(rng, [tables[0], neural(32, cards)], 40, (1, 3)), rows)
    yield Case("neural-objective", limited(rng, [neural(33, cards), tables[1]], 40, (1, 3)), rows)
    both = [neural(34, cards), neural(35, cards), tables[1]]
    yield Case("neural-both", limited(rng, both, 60, (1, 3)), rows)
    count = 5
    original, changed = tuple(range(count)), tuple(range(count, 2 * count))
    margin = cmpe.ClassMargin(relu(36, count, 6, 3), original, changed, (2,) * (2 * count))
    distance = cmpe.Distance((2,) * (2 * count), tuple(zip(original, changed, strict=True)))
    images = uniform(rng, [2] * count, 4)
    discrete = cmpe.Problem(distance, (cmpe.Constraint(margin, 0.0),), original)
    yield Case("margin-discrete", discrete, images)
    yield from _continuous_cases(rng)


def _continuous_cases(rng: Rng) -> Iterator[Case]:
    cards = [2] * 6
    tables = [model(rng, cards, Kind("tables", factors=4, arity=2)) for _ in range(2)]
    base = limited(rng, tables, 40, (0,))
    some = cmpe.Problem(base.objective, base.constraints, (0,), continuous=(2, 4))
    yield Case("continuous-tables", some, [[0.0], [1.0]])
    near = limited(rng, [tables[0], neural(37, cards)], 40, (0, 3))
    parts = cmpe.Problem(near.objective, near.constraints, (0, 3), continuous=(1, 3, 5))
    yield Case("continuous-neural", parts, [[0.0, 0.25], [1.0, 0.75]])
    for sizes in ((6, 8, 3), (6, 8, 1), (5, 6, 5, 4)):
        name = "-".join(map(str, sizes))
        yield Case(f"adversarial-{name}", *adversarial(40, sizes, 4))


def adversarial(
    seed: int, sizes: tuple[int, ...], count: int
) -> tuple[cmpe.Problem, NDArray[np.float64]]:
    """The least change that flips a random network, and images to change."""
    rng = np.random.default_rng(seed)
    return cmpe.queries.adversarial(relu(seed, *sizes)), rng.random((count, sizes[0]))


def ising(side: int, seed: int, observed: int = 0, rows: int = 1) -> Case:
    """A square grid of spins under a linear constraint with a few products."""
    rng = np.random.default_rng(seed)
    count = side * side
    pairs = [(v, v + 1) for v in range(count) if (v + 1) % side]
    pairs += [(v, v + side) for v in range(count - side)]
    same = np.array([[1.0, -1.0], [-1.0, 1.0]])
    h: list[tuple[tuple[int, ...], Any]] = [((v,), 0.5 * rng.normal(size=2)) for v in range(count)]
    h += [(pair, rng.normal() * same) for pair in pairs]
    t: list[tuple[tuple[int, ...], Any]] = [((v,), rng.normal(size=2)) for v in range(count)]
    t += [(pair, 0.3 * rng.normal() * same) for pair in pairs[::7]]
    functions = [cmpe.LogLinearModel.from_tables([2] * count, part) for part in (h, t)]
    seen = np.sort(rng.choice(count, size=observed, replace=False))
    problem = limited(rng, functions, 30, seen.tolist())
    evidence = uniform(rng, [2] * count, rows)[:, seen] if observed else None
    return Case(f"ising-{side}-{observed}", problem, evidence)
