"""Draws docs/figures/cost.png: the fronts of a count in hepar2 and of a segmentation.

Run: python docs/figures/cost.py [FOLDER OF UAI FILES]; needs pgmpy, whose networks it reads.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from matplotlib.figure import Figure

import cmpe

HERE = Path(__file__).parent
UAI = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2] / "shared" / "data" / "uai"
found = find_spec("pgmpy")
assert found is not None
assert found.origin is not None
network = cmpe.read_model(Path(found.origin).parent / "utils" / "example_models" / "hepar2.bif.gz")
DISORDERS = ("ChHepatitis", "THepatitis", "RHepatitis", "fibrosis", "Steatosis", "Cirrhosis",
             "Hyperbilirubinemia", "PBC", "gallstones", "hepatalgia")  # fmt: skip
states = {name: network.domain.states_of(network.domain.variable(name)) for name in DISORDERS}
present = {name: [s for s in all_states if s != "absent"] for name, all_states in states.items()}
problem = cmpe.Problem(network, [cmpe.count(present) >= 2])
evidence = {"jaundice": "present", "itching": "present", "ESR": "a200_50"}
evidence = {
    name: next((s for s in network.domain.states_of(network.domain.variable(name)) if s == state),
               network.domain.states_of(network.domain.variable(name))[0])
    for name, state in evidence.items()
}  # fmt: skip
front = cmpe.front(problem, evidence)[0]
print(front, list(zip(front.values.tolist(), front.objective.round(3).tolist(), strict=True)))
made = cmpe.generate(
    cmpe.read_model(UAI / "Segmentation_14.uai"), cmpe.Recipe(samples=200, percentile=30)
)
whole = cmpe.front(made.problem, made.test[:1])[0]
print(whole, int(whole.supported.sum()), "supported")
limit = made.problem.constraints[0].limit
other = cmpe.front(made.problem, made.test[:1], between=(limit - 12.0, limit + 6.0))[0]
print(other, int(other.supported.sum()), "supported")

figure = Figure(figsize=(10, 3.8), layout="constrained")
left, right = figure.subplots(1, 2)
front.plot(left)
left.set_title("hepar2: at least q of ten disorders", loc="left")
left.set(xlabel="at least q disorders")
other.plot(right)
right.set_title("Segmentation_14, limits near q", loc="left")
figure.savefig(HERE / "cost.png", dpi=130)
