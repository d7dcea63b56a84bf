"""What a unit of work leaves: counts and findings, and the campaign's summary of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass
class Journal:
    """Counts of one unit, and what it found."""

    counts: Counter[str] = field(default_factory=Counter)
    most: dict[str, float] = field(default_factory=dict)  # the largest of something measured
    findings: list[Json] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        """So many more of something."""
        self.counts[name] += number

    def measure(self, name: str, value: float) -> None:
        """Remember the largest."""
        self.most[name] = max(value, self.most.get(name, value))

    def find(self, kind: str, about: str, files: dict[str, bytes] | None = None) -> None:
        """Something is wrong; `files` reproduce it."""
        texts = {name: data.hex() for name, data in (files or {}).items()}
        self.findings.append({"kind": kind, "about": about[:2000], "files": texts})

    def to_json(self) -> Json:
        """For a line of the worker's output."""
        return {"counts": dict(self.counts), "most": self.most, "findings": self.findings}


@dataclass
class Progress:
    """What all units of a campaign have done so far."""

    seed: int
    seconds: float = 0.0
    next: dict[str, int] = field(default_factory=dict)  # the next unit of each part
    counts: Counter[str] = field(default_factory=Counter)
    most: dict[str, float] = field(default_factory=dict)
    findings: list[Json] = field(default_factory=list)
    mended: list[Json] = field(default_factory=list)  # findings of units that find nothing now

    @classmethod
    def read(cls, folder: Path, seed: int) -> Progress:
        """What the folder's summary says, or a fresh start."""
        file = folder / "summary.json"
        if not file.is_file():
            return cls(seed)
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["seed"] != seed:
            raise SystemExit(f"{folder}: holds a campaign of seed {kept['seed']}; choose another")
        return cls(
            seed, kept["seconds"], kept["next"], Counter(kept["counts"]), kept["most"],
            kept["findings"], kept["mended"],
        )  # fmt: skip

    def try_again(self, again: Callable[[str, int], Json | None]) -> None:
        """Set aside findings of units that find nothing when they are done again."""
        units = {(f["part"], f["unit"]) for f in self.findings}
        for part, unit in sorted(units):
            done = again(part, unit)
            if done is not None and not done["findings"]:
                same = [f for f in self.findings if (f["part"], f["unit"]) == (part, unit)]
                self.findings = [f for f in self.findings if f not in same]
                self.mended += same

    def add(self, part: str, unit: int, done: Json, folder: Path) -> None:
        """Take what a unit left, and write the files that reproduce its findings."""
        self.next[part] = max(unit + 1, self.next.get(part, 0))
        self.counts.update(done["counts"])
        for name, value in done["most"].items():
            self.most[name] = max(value, self.most.get(name, value))
        for finding in done["findings"]:
            self._keep(part, unit, finding, folder)

    def _keep(self, part: str, unit: int, finding: Json, folder: Path) -> None:
        number = len(self.findings) + len(self.mended)
        name = f"{number:04d}-{part}-{unit}-{finding['kind']}".replace("/", "_")
        place = folder / "reproductions" / name
        place.mkdir(parents=True, exist_ok=True)
        for file, data in finding["files"].items():
            (place / file).write_bytes(bytes.fromhex(data))
        (place / "about.txt").write_text(finding["about"] + "\n", encoding="utf-8")
        told = {"part": part, "unit": unit, "kind": finding["kind"], "about": finding["about"]}
        self.findings.append({**told, "reproduction": place.relative_to(folder).as_posix()})

    def write(self, folder: Path, about: Json) -> None:
        """Write summary.json, all of it or nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        values = {
            **about, "seed": self.seed, "seconds": round(self.seconds, 1),
            "counts": dict(sorted(self.counts.items())),
            "most": {k: round(v, 3) for k, v in sorted(self.most.items())},
            "findings": self.findings, "mended": self.mended, "next": self.next,
        }  # fmt: skip
        part = folder / "summary.json.part"
        part.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        part.replace(folder / "summary.json")


def table(summary: Json) -> str:
    """The figures of a campaign as Markdown: docs/reliability.md shows those of the last one."""
    counts, most = summary["counts"], summary["most"]
    read, refused = counts["inputs that were read"], counts["inputs that were refused"]
    scenarios = {k.split(": ")[1]: n for k, n in counts.items() if k.startswith("scenarios: ")}
    rows = {
        "time": f"{summary['seconds'] / 60:.0f} minutes, {summary['jobs']} processes, "
        f"{summary['machine']['cores_used']} cores, seed {summary['seed']}",
        "random problems": f"{counts['problems']:,}, {counts['rows']:,} rows",
        "row-by-method checks": f"{counts['row-by-method checks']:,}",
        "mutated files": f"{counts['inputs']:,}: {refused:,} refused, {read:,} read",
        "scenarios of processes": f"{counts['scenarios']}: "
        + ", ".join(f"{n} {name}" for name, n in scenarios.items()),
        "memory of a process that reads": f"{most['gigabytes of a process that reads']:.2f} GB",
        "slowest file": f"{most['seconds of an input']:.1f} s of one core",
        "findings": f"{len(summary['findings'])}",
        "findings that were mended on the way": f"{len(summary['mended'])}",
    }
    lines = [f"| {name} | {figure} |" for name, figure in rows.items()]
    return "\n".join(["| what | how much |", "|---|---|", *lines])
