"""Which settings to train with: every candidate on validation rows, never on test rows.

    python -m study paper pack --scale full --out DIR --to PACKS           here
    PYTHONPATH=src:. python study/paper/recipes.py contrast PACKS/*.zip --out OUT.jsonl  there
    python -m study.paper.recipes figure --out docs/figures/contrast.png                 here

`contrast`: the preset `paper` with alpha "fixed" and every contrast, temperature, beta and rho, all
in one stack a cell. `tuned`: the candidates of CANDIDATES, on packs of drawn rows. A line of OUT is
one candidate: regret of feasible answers, share of violated ones, distinct answers; for `tuned` at
every margin, and with several passes that keep the best feasible answer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root is two folders up
    sys.path[0] = str(Path(__file__).parents[2])

from study.paper.gpu import Pack, without_compiler

Record = dict[str, Any]
CONTRASTS = (1.0, 3.0, 5.0, 25.0, 100.0)


def contrasts(pack: Pack, q: int, options: argparse.Namespace) -> Iterator[Record]:
    """Every contrast and beta for one cell."""
    from cmpe.learning.training.config import preset
    from cmpe.learning.training.data import split
    from cmpe.learning.training.stacking import PAPER_GRID
    from cmpe.learning.training.trainer import Trainer
    from study.paper import training
    from study.paper.artifacts import rows_of

    inputs = next(pack.inputs(t) for t in pack.tasks if t.settings["q"] == q)
    base = preset("paper", options.loss, epochs=options.epochs, alpha="fixed")
    data = training.training_data(rows_of(inputs["problem"], q), inputs, base)
    axes = {
        "contrast": options.contrasts, "temperature": options.temperatures,
        "beta": options.betas or PAPER_GRID["beta"], "rho": options.rhos,
    }  # fmt: skip
    grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    configs: list[Any] = [replace(base, **setting) for setting in grid]
    begin = time.perf_counter()
    trainer = Trainer(data, configs, [split(len(data), base)] * len(grid), device=options.device)
    for _ in trainer.epochs():
        pass
    look = trainer.look(0.0)
    seconds = time.perf_counter() - begin
    for k, setting in enumerate(grid):
        yield {
            "dataset": pack.path.stem, "q": q, "loss": base.loss, **setting,
            "regret": float(look.regret[k]), "violation": float(look.violation[k]),
            "score": float(look.choice_score[k]), "distinct": int(look.distinct[k]),
            "stack_seconds": round(seconds, 2),
        }  # fmt: skip


# Settings that differ from the preset `tuned`.
BASE: Record = {
    "loss": "distill", "hidden": (2048, 1024), "epochs": 60, "batch_size": 512,
    "learning_rate": 1e-3, "cooldown": 0.7, "temperature": 0.0, "keep_best": False,
    "evaluate_every": 20,
}  # fmt: skip
CANDIDATES: dict[str, Record] = {
    "distill": BASE,
    "longer": {**BASE, "epochs": 150},
    "few rows": {**BASE, "only": 8000, "epochs": 150},
    "narrow": {**BASE, "hidden": (512,)},
    "mixed": {**BASE, "mix": 0.1, "mix_after": 0.5, "contrast": 3.0, "beta": 1.0},
    "ss_cmpe": {**BASE, "loss": "ss_cmpe", "contrast": 3.0, "beta": 1.0, "temperature": 1.0},
}
PASSES = ((0.0, 4.0, 8.0, 16.0, 32.0), (0.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0))


def tuned(pack: Pack, options: argparse.Namespace) -> Iterator[Record]:
    """Every candidate for one cell: what each margin, and several together, would do."""
    import numpy as np

    from cmpe.learning.training.config import preset
    from cmpe.learning.training.data import split
    from cmpe.learning.training.trainer import Trainer
    from study.paper import training
    from study.paper.artifacts import rows_of

    task = pack.tasks[0]
    inputs, q = pack.inputs(task), task.settings["q"]
    rows = rows_of(inputs["problem"], q)
    given = len(rows.train)
    for name in options.candidates or CANDIDATES:
        told = {**CANDIDATES[name]}
        count = told.pop("only", 0)
        margins = tuple(json.loads(options.margins))
        config = preset("tuned", told.pop("loss"), margins=margins, rows=1, **told)
        begin = time.perf_counter()
        data = training.training_data(rows, inputs, config)
        train, held = split(given, config)
        train = np.concatenate([train, np.arange(given, len(data))])
        train = train[: count or len(train)]
        trainer = Trainer(data, [config], [(train, held)], device=options.device)
        for _ in trainer.epochs():
            pass
        trainer.finish()
        seconds = time.perf_counter() - begin
        asked = sorted({*margins, *range(33)} if options.fine else margins)
        found = [trainer.judge(m, [held]) for m in asked]
        regret = np.stack([np.where(j.violated, np.inf, j.regret)[0] for j in found])
        regret = regret[:, found[0].counts[0]]
        record = {"dataset": pack.path.stem, "q": q, "candidate": name, "seconds": seconds,
                  "rows": len(train), "margins": [], "passes": []}  # fmt: skip
        for m, r in zip(asked, regret, strict=True):
            good = np.isfinite(r)
            record["margins"].append([m, float(r[good].mean()) if good.any() else None,
                                      float(1 - good.mean())])  # fmt: skip
        for passes in PASSES:
            best = regret[[asked.index(m) for m in passes]].min(axis=0)
            good = np.isfinite(best)
            record["passes"].append([len(passes), float(best[good].mean()), float(1 - good.mean())])
        yield record


def figure(path: Path) -> None:
    """The loss of an answer that gains in h what it gains in t, for several contrasts."""
    import matplotlib.pyplot as plt
    import torch

    from cmpe.learning.losses.losses import Evaluated, ss_cmpe

    best, g = 100.0, torch.linspace(-6.0, 6.0, 601).view(1, -1)
    shown, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for contrast, colour in zip(
        CONTRASTS[:4], ("#7a7a7a", "#3b6fb6", "#2a9d6f", "#c8553d"), strict=True
    ):
        batch = Evaluated(best - g, g.unsqueeze(-1), alpha=torch.tensor([[1.01 * contrast]]),
                          beta=torch.ones((1, 1)))  # fmt: skip
        values = ss_cmpe(batch)[0] / best
        axes.plot(g[0], values, color=colour, linewidth=2)
        axes.annotate(f"contrast {contrast:g}", (6.1, float(values[-1])), color=colour, va="center",
                      annotation_clip=False)  # fmt: skip
    axes.axvline(0.0, color="#bbbbbb", linewidth=1, zorder=0)
    axes.set(xlabel="g = t - q in nats (feasible up to 0), gained in h as well", xlim=(-6, 6),
             ylabel="loss / p*", yscale="log")  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    shown.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("contrast", "tuned", "figure"))
    parser.add_argument("files", nargs="*", type=Path, help="of `pack`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--percentiles", nargs="+", type=int, default=(10, 80))
    parser.add_argument("--contrasts", nargs="+", type=float, default=CONTRASTS)
    parser.add_argument("--temperatures", nargs="+", type=float, default=(0.0,))
    parser.add_argument("--betas", nargs="+", type=float)
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES))
    parser.add_argument("--margins", default="[0, 1, 2, 4, 6, 8, 12, 16, 20, 24, 32]")
    parser.add_argument("--fine", action="store_true")
    parser.add_argument("--rhos", nargs="+", type=float, default=(1.0,))
    parser.add_argument("--loss", default="ss_cmpe")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    if options.what == "figure":
        figure(options.out)
        return 0
    without_compiler()
    with options.out.open("a") as stream:
        for path in options.files:
            pack = Pack.read(path)
            if options.what == "tuned":
                found = tuned(pack, options)
            else:
                found = itertools.chain(*(contrasts(pack, q, options) for q in options.percentiles))
            for record in found:
                stream.write(json.dumps(record) + "\n")
                stream.flush()
            print(path.stem, time.strftime("%X"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
