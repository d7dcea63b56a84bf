"""Draws docs/figures/growth.png from benchmarks/results/exact_growth.jsonl.

Run: python docs/figures/growth.py
"""

import json
from pathlib import Path

from matplotlib.figure import Figure

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "exact_growth.jsonl"
records = [json.loads(line) for line in RESULTS.read_text().splitlines()]
cells = [r for r in records if "ready_us" in r]
variables = [c["variables"] for c in cells]

figure = Figure(figsize=(6, 3.8), layout="constrained")
axes = figure.subplots()
axes.loglog(variables, [c["ready_us"] / 1e3 for c in cells], "ko-", label="a row, proved")
axes.loglog(variables, [c["plan_ms"] for c in cells], "k^--", label="the plan, once")
first = cells[0]
linear = [first["ready_us"] / 1e3 * n / variables[0] for n in variables]
axes.loglog(variables, linear, color="0.6", label="linear")
axes.set(xlabel="variables (grids 10x10 to 200x200, 60 % evidence)", ylabel="milliseconds")
axes.legend(frameon=False)
figure.savefig(HERE / "growth.png", dpi=130)
