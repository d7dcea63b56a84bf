"""The first five minutes in an empty environment: README's example, then the command line."""

import subprocess
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path

began, spent = time.perf_counter(), time.process_time()
import cmpe  # noqa: E402

assert not any(find_spec(name) for name in ("torch", "safetensors", "pandas", "matplotlib"))
names = ["sun", "rain", "umbrella"]
h = cmpe.LogLinearModel.from_tables([2, 2, 2], [((0, 1), [[0, 2], [3, 1]]), ((2,), [0, 3])], names)
t = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 5], [1, 2]])], ["sun", "umbrella"])
problem = cmpe.Problem(h, [t <= 2.0, cmpe.count({"rain": 1, "umbrella": 1}) <= 1])
answers = cmpe.solve(problem, [{"sun": 0}, {"sun": 1}])
assert answers.objective.tolist() == [2.0, 6.0], answers
assert answers[1].proof == "proved: no feasible assignment has a higher objective"
print(
    f"first answer after {time.perf_counter() - began:.1f} s, "
    f"{time.process_time() - spent:.1f} CPU seconds"
)
cmpe.write_uai(h, "weather.uai")
command = Path(sysconfig.get_path("scripts")) / "cmpe"
done = subprocess.run(
    [command, "solve", "--objective", "weather.uai"], capture_output=True, text=True
)
assert done.returncode == 0, done.stderr
assert '"status": "optimal"' in done.stdout, done.stdout
print(f"cmpe {cmpe.__version__} on Python {sys.version.split()[0]}: {done.stdout.strip()}")
