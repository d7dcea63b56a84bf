"""Tables of several parts with targets: what was found beside what was wanted."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import Record, Recorder, parser, print_table


@dataclass(frozen=True)
class Check:
    """One target: what was found beside what was wanted."""

    target: str
    found: float
    sign: str  # "<=" or ">="
    wanted: float
    decisive: bool = False  # a miss is a wrong answer, not a slow one

    @property
    def passed(self) -> bool:
        """Whether the target is met; NaN, nothing measured, misses it."""
        return self.found <= self.wanted if self.sign == "<=" else self.found >= self.wanted

    @property
    def shown(self) -> Record:
        """The line of the table."""
        verdict = "pass" if self.passed else ("WRONG" if self.decisive else "missed")
        wanted = f"{self.sign} {self.wanted:g}"
        return {
            "target": self.target,
            "found": float(self.found),
            "wanted": wanted,
            "verdict": verdict,
        }


def none_of(target: str, count: int) -> Check:
    """A count of wrong answers, which must be 0."""
    return Check(target, count, "<=", 0, decisive=True)


def run_parts(
    table: str,
    parts: Mapping[str, Callable[[Recorder], list[Check]]],
    options: argparse.Namespace,
    data: str | None = None,
    settings: Record | None = None,
) -> int:
    """Run each part into results/TABLE_PART.jsonl and show all verdicts: 1 if one is WRONG.

    With --quick results go to another folder. `settings` are kept with a part's seconds.
    """
    if options.quick and options.results == parser(None).get_default("results"):
        options.results = Path(tempfile.gettempdir(), f"cmpe_{table}_quick")
    verdicts: list[Record] = []
    wrong = False
    for name, part in parts.items():
        print("==", name, flush=True)
        begin = time.perf_counter()
        with Recorder(f"{table}_{name}", options, data) as recorder:
            checks = part(recorder)
            for check in checks:
                recorder.add(**check.shown)
            if settings is not None:
                recorder.add(settings=settings, seconds=time.perf_counter() - begin)
        print(f"{name} took {time.perf_counter() - begin:.0f} s", flush=True)
        verdicts += [{"part": name, **check.shown} for check in checks]
        wrong |= any(check.decisive and not check.passed for check in checks)
    print_table(verdicts, ("part", "target", "found", "wanted", "verdict"))
    return int(wrong)
