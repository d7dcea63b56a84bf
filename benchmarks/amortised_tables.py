"""Tables of what `benchmarks.amortised` has kept, as docs/learning.md shows them.

python -m benchmarks.amortised_tables
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).parent / "results" / "amortised.jsonl"
UNSEEN = (0.3, 0.7)
Record = dict[str, Any]


def kept() -> list[Record]:
    """Every record."""
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]


def _name(start: str) -> str:
    """A start without the seed of its network."""
    kind, _, seed = start.rpartition(" ")
    return f"`{kind}`" if kind and seed.isdigit() else start


def _mean(records: Iterable[Record], keep: Callable[[float, float], bool]) -> str:
    """Mean regret over cells, over seeds where there are several."""
    found = [
        value for r in records for place, value in r["regret"].items()
        if keep(r["rate"], float(place))
    ]  # fmt: skip
    return f"{np.mean(found):.2f}" if found else ""


def _seen(position: bool, rate: bool) -> Callable[[float, float], bool]:
    """Cells whose position, and whose rate, are unseen or not."""
    return lambda r, q: (r in UNSEEN, q in UNSEEN) == (rate, position)


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def repaired(records: list[Record]) -> Iterable[str]:
    """Mean regret after repair by what was seen in training."""
    cells = [r for r in records if r["part"] == "cells" and r["ms"] is None]
    yield _line("model, start", "both seen", "q unseen", "rate unseen", "both unseen", "pass, µs",
                "violated before repair")  # fmt: skip
    yield "|---" * 7 + "|"
    for call, model in dict.fromkeys((r["call"], r["model"]) for r in cells):
        for start in dict.fromkeys(_name(r["start"]) for r in cells if r["call"] == call):
            mine = [r for r in cells if (r["call"], r["model"], _name(r["start"]))
                    == (call, model, start)]  # fmt: skip
            if not mine:
                continue
            groups = [_mean(mine, _seen(a, b)) for b in (False, True) for a in (False, True)]
            broken = [r["violated_before"] for r in mine if r["violated_before"] is not None]
            share = f"{min(broken):.0%} to {max(broken):.0%}" if broken else ""
            passed = f"{np.mean([r['pass_us'] for r in mine]):,.0f}"
            yield _line(f"{model} ({call}), {start}", *groups, passed, share)


def searched(records: list[Record]) -> Iterable[str]:
    """Mean regret over all cells after so many ms of `search`, and what a row took in all."""
    cells = [r for r in records if r["part"] == "cells" and r["ms"] is not None]
    budgets = sorted({r["ms"] for r in cells})
    yield _line("model, start", *(f"{ms:g} ms" for ms in budgets))
    yield "|---" * (1 + len(budgets)) + "|"
    for call, model in dict.fromkeys((r["call"], r["model"]) for r in cells):
        for start in dict.fromkeys(_name(r["start"]) for r in cells if r["call"] == call):
            row = []
            for ms in budgets:
                mine = [r for r in cells if (r["call"], r["model"], _name(r["start"]), r["ms"])
                        == (call, model, start, ms)]  # fmt: skip
                used = np.mean([r["used_us"] for r in mine]) / 1000 if mine else 0.0
                row.append(f"{_mean(mine, lambda rate, q: True)} ({used:.1f})" if mine else "")
            if any(row):
                yield _line(f"{model} ({call}), {start}", *row)


def transferred(records: list[Record]) -> Iterable[str]:
    """Unseen models: mean regret after repair and after 1 ms of `search`."""
    mine = [r for r in records if r["part"] == "transfer"]
    starts = ("constant", "shared", "own")  # ICM stays in the file: at most seven columns
    yield _line("model", *(f"{start}, {what}" for what in ("repaired", "1 ms") for start in starts))
    yield "|---" * (1 + 2 * len(starts)) + "|"
    for model in dict.fromkeys(r["model"] for r in mine):
        by = {(r["start"], r["ms"]): f"{r['mean']:.2f}" for r in mine if r["model"] == model}
        yield _line(model, *(by.get((start, ms), "") for ms in (None, 1.0) for start in starts))


def main() -> None:
    """Print all three."""
    records = kept()
    for table in (repaired, searched, transferred):
        print("\n".join(table(records)), end="\n\n")


if __name__ == "__main__":
    main()
