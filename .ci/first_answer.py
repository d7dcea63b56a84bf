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
net = cmpe.read_model(cmpe.example("alarm"))
causes = ["HYPOVOLEMIA", "DISCONNECT", "LVFAILURE", "KINKEDTUBE"]
one = cmpe.count(dict.fromkeys(causes, "TRUE")) <= 1
answers = cmpe.solve(cmpe.Problem(net, [one]), {"BP": "LOW", "CVP": "HIGH", "SAO2": "HIGH"})
assert (answers[0]["HYPOVOLEMIA"], answers[0]["DISCONNECT"]) == ("TRUE", "FALSE"), answers
assert answers[0].proof == "proved: no feasible assignment has a higher objective"
print(
    f"first answer after {time.perf_counter() - began:.1f} s, "
    f"{time.process_time() - spent:.1f} CPU seconds"
)
cmpe.write_model(net, "alarm.uai")
command = Path(sysconfig.get_path("scripts")) / "cmpe"
done = subprocess.run(
    [command, "solve", "--objective", "alarm.uai"], capture_output=True, text=True
)
assert done.returncode == 0, done.stderr
assert '"status": "optimal"' in done.stdout, done.stdout
print(f"cmpe {cmpe.__version__} on Python {sys.version.split()[0]}: `cmpe solve` answers")
