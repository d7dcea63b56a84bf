"""Table: a stranger's first minutes, from an empty environment to a front of their own BIF file.

    python -m hatchling build && python -m benchmarks.first_minutes [--wheel dist/*.whl]
    python -m benchmarks.first_minutes --roles

Twenty steps, in a folder of its own, with an empty cache of compiled code and no extra installed.
Each is a process: `wall` and `cpu` are its seconds, `cpu` those of its children too. `megabytes` is
what the environment and the cache of compiled code take after the step.

With --roles the second five minutes, of seven people (`benchmarks.second_minutes`), in the
environment that runs this, which needs the extras.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.frame import HERE, Recorder, parser, print_table
from benchmarks.second_minutes import ROLES

COLUMNS = ("step", "what", "wall", "cpu", "megabytes")
BIF = """network garden {{ }}
variable season {{ type discrete [ 2 ] {{ dry, wet }}; }}
variable rain {{ type discrete [ 2 ] {{ no, yes }}; }}
variable sprinkler {{ type discrete [ 2 ] {{ off, on }}; }}
variable grass {{ type discrete [ 2 ] {{ dry, wet }}; }}
variable path {{ type discrete [ 3 ] {{ safe, damp, slippery }}; }}
probability ( season ) {{ table {0}, {1}; }}
probability ( rain | season ) {{ (dry) {2}, {3}; (wet) 0.4, 0.6; }}
probability ( sprinkler | season ) {{ (dry) 0.3, 0.7; (wet) 0.9, 0.1; }}
probability ( grass | rain, sprinkler ) {{
  (no, off) 0.95, 0.05; (no, on) 0.1, 0.9; (yes, off) {4}, {5}; (yes, on) 0.02, 0.98; }}
probability ( path | rain ) {{ (no) 0.8, 0.15, 0.05; (yes) 0.1, 0.4, 0.5; }}
"""
NUMBERS = {
    "garden.bif": (0.6, 0.4, 0.9, 0.1, 0.2, 0.8),
    "neighbour.bif": (0.3, 0.7, 0.6, 0.4, 0.05, 0.95),
}
README = """
import cmpe
net = cmpe.read_model(cmpe.example("alarm"))
causes = ["HYPOVOLEMIA", "DISCONNECT", "LVFAILURE", "KINKEDTUBE"]
one = cmpe.count(dict.fromkeys(causes, "TRUE")) <= 1
answers = cmpe.solve(cmpe.Problem(net, [one]), {"BP": "LOW", "CVP": "HIGH", "SAO2": "HIGH"})
assert (answers[0]["HYPOVOLEMIA"], answers[0]["DISCONNECT"]) == ("TRUE", "FALSE"), answers
"""
MINE = """
import cmpe
net, other = cmpe.read_model("garden.bif"), cmpe.read_model("neighbour.bif")
seen = {"grass": "wet"}
"""
SOLVE = MINE + "print(cmpe.solve(cmpe.Problem(net), seen)[0].proof)"
COUNT = (
    MINE
    + """
wet = cmpe.count({"rain": "yes", "sprinkler": "on"})
print(cmpe.solve(cmpe.Problem(net, [wet >= 2]), seen)[0].objective)
"""
)
COST = (
    MINE
    + """
cost = cmpe.linear({"rain": {"yes": 2.0}, "sprinkler": {"on": 1.5}})
print(cmpe.solve(cmpe.Problem(net, [cost <= 1.0]), seen)[0].status)
"""
)
FRONT = (
    MINE
    + """
front = cmpe.front(cmpe.Problem(net, [other >= -9.0]), seen)[0]
assert front.complete and len(front) >= 2
print(len(front), "points, complete")
"""
)
ASK = ("--objective", "garden.bif", "--evidence", "seen.csv")
BOTH = (*ASK, "--constraint", "neighbour.bif", "--at-least", "-9")
PYTHON, COMMAND = "venv/bin/python", "venv/bin/cmpe"
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("make an empty environment", (sys.executable, "-m", "venv", "venv")),
    ("pip install the wheel", (PYTHON, "-m", "pip", "install", "--quiet", "{wheel}")),
    ("cmpe --help", (COMMAND, "--help")),
    ("README's five lines, nothing compiled", (PYTHON, "-c", README)),
    ("the same again", (PYTHON, "-c", README)),
    ("write a BIF file, a second one and evidence", (PYTHON, "write.py")),
    ("cmpe info of the file", (COMMAND, "info", "garden.bif")),
    ("cmpe solve, no evidence", (COMMAND, "solve", "--objective", "garden.bif")),
    ("cmpe solve, evidence by name", (COMMAND, "solve", *ASK)),
    ("the answer as a table", (COMMAND, "solve", *ASK, "--format", "table")),
    ("the answer as CSV", (COMMAND, "solve", *ASK, "--output", "answers.csv")),
    ("cmpe convert to UAI", (COMMAND, "convert", "garden.bif", "garden.uai")),
    ("the same question in Python", (PYTHON, "-c", SOLVE)),
    ("a limit on a count", (PYTHON, "-c", COUNT)),
    ("a limit on a cost", (PYTHON, "-c", COST)),
    ("a second model as the constraint", (COMMAND, "solve", *BOTH)),
    ("the three best answers", (COMMAND, "best", *BOTH, "-k", "3")),
    ("the front", (COMMAND, "front", *BOTH)),
    ("the front as CSV", (COMMAND, "front", *BOTH, "--output", "front.csv")),
    ("the front in Python", (PYTHON, "-c", FRONT)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--wheel", type=Path, help="default: the one in dist/")
    options.add_argument("--roles", action="store_true", help="the second five minutes")
    chosen = options.parse_args(arguments)
    if chosen.roles:
        return _roles(chosen)
    wheel = (chosen.wheel or next((HERE.parent / "dist").glob("*.whl"))).resolve()
    with (
        tempfile.TemporaryDirectory() as folder,
        Recorder(
            "first_minutes", chosen, f"{wheel.name}, {wheel.stat().st_size / 1e3:.0f} kB"
        ) as r,
    ):
        room = Path(folder)
        (room / "write.py").write_text(_writer(), encoding="utf-8")
        for number, (what, command) in enumerate(STEPS, start=1):
            wall, cpu = _run(
                [part.format(wheel=wheel) if "{wheel}" in part else part for part in command], room
            )
            r.add(step=number, what=what, wall=wall, cpu=cpu, megabytes=_megabytes(room))
    total = {key: sum(record[key] for record in r.records) for key in ("wall", "cpu")}
    last = {"step": "", "what": "all", **total, "megabytes": r.records[-1]["megabytes"]}
    print_table([*r.records, last], COLUMNS)
    return 0


def _roles(chosen: argparse.Namespace) -> int:
    """The steps of the seven roles, each a process in one folder."""
    with tempfile.TemporaryDirectory() as folder, Recorder("second_minutes", chosen, "") as r:
        room = Path(folder)
        for number, (role, what, code) in enumerate(ROLES, start=1):
            wall, cpu = _run([sys.executable, "-c", code], room)
            r.add(step=number, role=role, what=what, wall=wall, cpu=cpu)
            print(f"{number} {role}: {what}, {wall} s", flush=True)
    print_table(r.records, ("step", "role", "what", "wall", "cpu"))
    return 0


def _writer() -> str:
    files = {name: BIF.format(*numbers) for name, numbers in NUMBERS.items()}
    files["seen.csv"] = "grass\nwet\n"
    return f"for name, text in {files!r}.items():\n    open(name, 'w').write(text)\n"


def _run(command: Sequence[str], room: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command that succeeds."""
    names = ("PATH", "HOME", "LANG", *(("PYTHONPATH",) if command[0] == sys.executable else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    before, began = _cpu(), time.perf_counter()
    done = subprocess.run(
        command, cwd=room, capture_output=True, text=True,
        env=kept | {"NUMBA_CACHE_DIR": str(room / "cache")},
    )  # fmt: skip
    wall = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return round(wall, 2), round(_cpu() - before, 2)


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _megabytes(room: Path) -> int:
    folders = (room / "venv", room / "cache")
    files = (f for folder in folders if folder.is_dir() for f in folder.rglob("*"))
    return round(sum(f.lstat().st_size for f in files if not f.is_dir()) / 1e6)


if __name__ == "__main__":
    sys.exit(main())
