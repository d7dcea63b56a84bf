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
JUDGED = 320  # rows of a rate
WITHOUT = ("random", "icm", "messages", "constant", "untrained messages")  # nothing is trained
OFTEN = ("thrice", "mixed", "followed")  # at three leans; by several schedules, mixed; and followed
PRODUCT = ("followed", "mixed")  # how one for all, and a network of one mask, are asked by default
ARCHITECTURES = (1, 2, 3, 4)  # calls that compare networks of several kinds
Record = dict[str, Any]


def kept() -> list[Record]:
    """Every record."""
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]


def _name(start: str) -> str:
    """A start without the seed of its network."""
    kind, _, seed = start.rpartition(" ")
    often, _, rest = kind.partition(" ")
    if often in OFTEN and seed.isdigit():
        return f"`{rest}`, {often}"
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


def _stage(record: Record) -> str:
    """repair, moves or passes; runs before the sixth had one stage without a time limit."""
    return str(record.get("stage") or ("repair" if record["call"] < 5 else "passes"))


def repaired(records: list[Record]) -> Iterable[str]:
    """Regret after repair by moves: every network beside what nobody has trained."""
    cells = [r for r in _untimed(records) if _stage(r) == "repair"]
    last = max(r["call"] for r in cells)
    cells = [r for r in cells if r["call"] in (*ARCHITECTURES, last)]
    yield from _by_what_was_seen(cells, "violated before repair")


def answered(records: list[Record]) -> Iterable[str]:
    """Regret after the stages that answers go through by default: of the last call."""
    cells = [r for r in _untimed(records) if _stage(r) == "passes"]
    last = max(r["call"] for r in cells)
    yield from _by_what_was_seen([r for r in cells if r["call"] == last], "violated before")


def compared(records: list[Record]) -> Iterable[str]:
    """One network for all cells beside a network for each, by stage, over all cells, each asked
    once, by several schedules, with questions that follow, and as the product asks it: of the last
    call."""
    cells = _untimed(records)
    cells = [r for r in cells if r["call"] == max(r["call"] for r in cells)]
    yield _line("model, after", "asked", "one for all", "each alone", "ratio", "ratio by seed")
    yield "|---" * 6 + "|"
    for model, stage in dict.fromkeys((r["model"], _stage(r)) for r in cells):
        here = [r for r in cells if (r["model"], _stage(r)) == (model, stage)]
        for one, each, asked in (("", "", "once, both"), ("mixed", "mixed", "mixed, both"),
                                 ("followed", "followed", "followed, both"),
                                 (*PRODUCT, "as by default")):  # fmt: skip
            ours = [r for r in here if r["start"].startswith(f"{one} tuned messages".strip())]
            theirs = [r for r in here if r["start"] == f"{each} each alone".strip()]
            if ours and theirs:
                yield _line(f"{model}, {stage}", asked, *_ratios(ours, theirs))


def _ratios(ours: list[Record], theirs: list[Record]) -> list[str]:
    """Two mean regrets, the ratio, and those of each seed."""
    other = _regret(theirs)
    seeds = [_regret([r for r in ours if r["start"] == s]) / other
             for s in dict.fromkeys(r["start"] for r in ours)]  # fmt: skip
    shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(seeds))
    return [f"{_regret(ours):.3f}", f"{other:.3f}", f"{_regret(ours) / other:.2f}", shown]


def _untimed(records: list[Record]) -> list[Record]:
    return [r for r in records if r["part"] == "cells" and r["ms"] is None]


def _regret(records: list[Record]) -> float:
    """Mean over cells; NaN of none."""
    every = [value for r in records for value in r["regret"].values()]
    return float(np.mean(every)) if every else float("nan")


def _by_what_was_seen(cells: list[Record], broken: str) -> Iterable[str]:
    """Mean regret by what was seen in training; of what is not trained the latest call only."""
    latest = max(r["call"] for r in cells)
    yield _line("model, start", "both seen", "q unseen", "rate unseen", "both unseen", "ms a row",
                broken)  # fmt: skip
    yield "|---" * 7 + "|"
    for call, model in dict.fromkeys((r["call"], r["model"]) for r in cells):
        for start in dict.fromkeys(_name(r["start"]) for r in cells if r["call"] == call):
            mine = [r for r in cells if (r["call"], r["model"], _name(r["start"]))
                    == (call, model, start)]  # fmt: skip
            if mine and (call == latest or start not in WITHOUT):
                yield _line(f"{model} ({call}), {start}", *_summary(mine))


def _summary(mine: list[Record]) -> list[str]:
    """Mean regrets by what was seen, ms a row, and the share of violated answers before."""
    groups = [_mean(mine, _seen(a, b)) for b in (False, True) for a in (False, True)]
    broken = [r["violated_before"] for r in mine if r["violated_before"] is not None]
    share = f"{min(broken):.0%} to {max(broken):.0%}" if broken else ""
    return [*groups, f"{np.mean([r['used_us'] for r in mine]) / 1000:,.1f}", share]


def searched(records: list[Record]) -> Iterable[str]:
    """Mean regret over all cells after so many ms of `search`, and what a row took in all: of the
    last call."""
    last = max(r["call"] for r in records if r["part"] == "cells")
    cells = [r for r in records if r["part"] == "cells" and r["ms"] and r["call"] == last]
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


Curve = list[tuple[float, float]]  # (ms a row in all, mean regret), by budget


def curves(records: list[Record], key: tuple[int, str]) -> dict[str, Curve]:
    """What each start comes to with more and more `search`, in one call about one model."""
    here = [r for r in records if (r["call"], r["model"]) == key]
    cells = [r for r in here if r["part"] == "cells" and r["ms"]]
    out: dict[str, Curve] = {}
    for start in dict.fromkeys(_name(r["start"]) for r in cells):
        mine = [r for r in cells if _name(r["start"]) == start]
        for ms in sorted({r["ms"] for r in mine}):
            here = [r for r in mine if r["ms"] == ms]
            point = (float(np.mean([r["used_us"] for r in here])) / 1000,
                     float(np.mean([v for r in here for v in r["regret"].values()])))  # fmt: skip
            out.setdefault(start, []).append(point)
    return out


def reached(curve: Curve, regret: float) -> float:
    """ms at which a start comes down to a regret, on lines between logarithms; inf where never."""
    for k, (ms, lost) in enumerate(curve):
        if lost <= regret:
            if k == 0 or lost <= 0.0 or ms <= curve[k - 1][0]:
                return ms
            before, had = curve[k - 1]
            share = np.log(had / regret) / np.log(had / lost)
            return float(np.exp(np.log(before) + share * np.log(ms / before)))
    return float("inf")


def paid(records: list[Record]) -> Iterable[str]:
    """After how many rows training has paid, by the core's time that a network's start saves: of
    the last call."""
    last = max(r["call"] for r in records if r["part"] == "cells")
    yield _line("model, network", "core s of tuning", "regret", "its ms a row",
                "ms of the best other start", "rows until it has paid")  # fmt: skip
    yield "|---" * 6 + "|"
    runs = [r for r in records if r["part"] == "train" and r["call"] == last]
    for model, network in dict.fromkeys((r["model"], _name(r["network"])) for r in runs):
        mine = [r for r in runs if (r["model"], _name(r["network"])) == (model, network)]
        spent = float(np.mean([r["seconds"] for r in mine]))
        every = curves(records, (mine[0]["call"], model))
        others = [c for name, c in every.items() if name in WITHOUT]
        for ms, regret in every.get(network, []):
            best = min(reached(curve, regret) for curve in others)
            longest = max(point[0] for curve in others for point in curve)
            known = np.isfinite(best)
            saved = (best if known else longest) - ms
            rows = f"{1000 * spent / saved:,.0f}" if saved > 0 else "never"
            yield _line(
                f"{model}, {network}", f"{spent:.0f}", f"{regret:.2f}",
                f"{ms:.1f}", f"{best:.1f}" if known else f"more than {longest:.1f}",
                rows if known or saved <= 0 else f"less than {rows}",
            )  # fmt: skip


def on_device(records: list[Record]) -> Iterable[str]:
    """Rows a second on a GPU, and how far behind 10 ms of `search` on a core."""
    mine = [r for r in records if r["part"] == "rate"]
    rates = sorted({r["rate"] for r in mine})
    yield _line("model, answers", "rows a second", "in larger batches",
                *(f"nats behind, {rate:.0%} observed" for rate in rates), "violated")  # fmt: skip
    yield "|---" * (4 + len(rates)) + "|"
    for model, start, stage in dict.fromkeys((r["model"], r["start"], r["stage"]) for r in mine):
        here = [r for r in mine if (r["model"], r["start"], r["stage"]) == (model, start, stage)]
        small = [r for r in here if r["rows"] == min(r["rows"] for r in here)]
        large = [r for r in here if r["rows"] > small[0]["rows"]]
        at = {r["rate"]: f"{r['behind_search_10ms']:.2f}" for r in small}
        behind = [at.get(rate, "") for rate in rates]
        yield _line(
            f"{model}, {_name(start)}, {stage}", f"{small[0]['rows_per_s']:,.0f}",
            f"{large[0]['rows_per_s']:,.0f}" if large else "", *behind,
            f"{np.mean([r['violated'] for r in small]) / JUDGED:.0%}",
        )  # fmt: skip


def proved(records: list[Record]) -> Iterable[str]:
    """What `exact` takes for the same questions."""
    mine = [r for r in records if r["part"] == "proved"]
    rates = sorted({r["rate"] for r in mine})
    yield _line("model", *(f"{rate:.0%} observed" for rate in rates))
    yield "|---" * (1 + len(rates)) + "|"
    for model in dict.fromkeys(r["model"] for r in mine):
        row = []
        for rate in rates:
            found = [r for r in mine if (r["model"], r["rate"]) == (model, rate)]
            share = "" if found[-1]["proved"] == 1.0 else f", {found[-1]['proved']:.0%} proved"
            row.append(f"{found[-1]['used_us'] / 1000:,.1f} ms{share}")
        yield _line(model, *row)


def transferred(records: list[Record]) -> Iterable[str]:
    """Unseen models: mean regret after each stage: of the last call."""
    every = [r for r in records if r["part"] == "transfer"]
    mine = [r for r in every if r["call"] == max(r["call"] for r in every)]
    starts = ("icm", "constant", "messages", "untrained messages", "shared", "own", "mixed shared",
              "mixed own", "followed shared", "followed own")  # fmt: skip
    models = list(dict.fromkeys(r["model"] for r in mine))
    yield _line("start", *models)
    yield "|---" * (1 + len(models)) + "|"
    for what, ms, stage in (("after repair", None, "repair"), ("by default", None, "passes"),
                            ("after 1 ms of search", 1.0, None)):  # fmt: skip
        for start in starts:
            by = {r["model"]: f"{r['mean']:.2f}" for r in mine
                  if (r["start"], r["ms"], r.get("stage")) == (start, ms, stage)}  # fmt: skip
            if by:
                yield _line(f"{start}, {what}", *(by.get(model, "") for model in models))


def main() -> None:
    """Print all of them."""
    records = kept()
    for table in (compared, repaired, answered, searched, proved, paid, on_device, transferred):
        print("\n".join(table(records)), end="\n\n")


if __name__ == "__main__":
    main()
