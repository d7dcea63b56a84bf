"""The fast compiler, numba alone and plain Python give equal results."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

COMPILERS = {
    "fast": {},
    "plain": {"CMPE_PLAIN_NUMBA": "1"},
    "uncompiled": {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"},
}
SCRIPT = """
import json, logging
import numpy as np
import cmpe
from cmpe.core.compiler import fence
from cmpe.generation import grid

logging.getLogger("cmpe").setLevel(logging.ERROR)
answers = []
for seed in range(4):
    h, t = grid(4, 4, seed=seed), grid(4, 4, seed=seed + 10)
    problem = cmpe.Problem(h, [cmpe.Constraint(t, [-4.0, 0.0, 1.0, 30.0][seed])], [0, 5])
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    for method in ("exact", "local"):
        found = cmpe.solve(problem, rows, method=method)
        numbers = np.column_stack([found.objective, found.bound, found.assignments])
        answers.append(np.nan_to_num(numbers).tolist())
print(json.dumps([fence.IS_COMPILED, fence.IS_FAST, answers]))
"""


def answers(compiler):
    switches = ("CMPE_PLAIN_NUMBA", "NUMBA_DISABLE_JIT")
    kept = {name: value for name, value in os.environ.items() if name not in switches}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=kept | COMPILERS[compiler],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    compiled, fast, found = json.loads(done.stdout)
    return compiled, fast, np.array(found)


@pytest.fixture(scope="module")
def reference():
    compiled, fast, found = answers("plain")
    assert (compiled, fast) == (True, False)
    return found


@pytest.mark.parametrize("compiler", ["fast", "uncompiled"])
def test_compilers_give_equal_results(compiler, reference):
    compiled, _, found = answers(compiler)
    assert compiled == (compiler != "uncompiled")
    np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-9)
