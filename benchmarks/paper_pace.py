"""What training costs on one core: an epoch of each method is timed, a run is that many of them.

    python -m benchmarks.paper_pace --out DIR [--scale full] [--datasets dna bbc]

Reads what training reads from DIR/store, where a run of the study has left it. Seconds are those
of the processor, so that other work on the machine counts little; `lessons` are the seconds for
labels and bounds as the run that made them measured them. One pass is timed in batches of 1,000
test rows, with as many passes as the network of the study asks for.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from benchmarks.frame import Recorder, print_table
from benchmarks.paper_kicks import study_parser
from cmpe.formats.labels import problem_digest
from cmpe.learning.prediction import Predictor
from cmpe.learning.runs import Trained
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import torch_threads
from cmpe.learning.training.trainer import Trainer
from cmpe.problem import Instances
from study.paper.artifacts import rows_of
from study.paper.description import read_study
from study.paper.plan import Cell, Plan, plan_of
from study.paper.store import Json, Store
from study.paper.training import RESULT, train_parts, training_data

Q = 80
METHODS = ("ss_cmpe", "ss_cmpe_pen", "tuned")
WARM_UP = 10  # steps before the clock starts
PASSES = 3  # timed


def measure(plan: Plan, store: Store, cell: Cell) -> Json:
    """What one network of a cell costs on this core."""
    assert cell.network is not None
    inputs = {name: store.read(plan.tasks[key]) for name, key in cell.network.inputs.items()}
    rows = rows_of(inputs["problem"], Q)
    config = TrainingConfig.from_json(cell.network.settings["config"])
    data = training_data(rows, inputs, config)
    parts = train_parts(rows, data, config)
    trainer = Trainer(data, [replace(config, epochs=1, evaluate_every=1)], [parts])
    begin = 0.0
    for _ in trainer.steps_on():
        if trainer.position == WARM_UP:
            begin = time.process_time()
        if trainer.position == trainer.steps:  # all but the look at validation rows
            break
    epoch = (time.process_time() - begin) * trainer.steps / (trainer.steps - WARM_UP)
    weights = {k: v.detach() for k, v in trainer.program.adam.member(0).items()}
    trained = Trained(config, problem_digest(rows.problem), weights)
    network = Predictor(rows.problem, trained, "cpu", trainer.program.relaxation)
    asked = store.read(cell.network).json(RESULT)["passes"] or [0.0]
    instances, seconds = Instances(rows.problem, rows.test), []
    for _ in range(PASSES):
        begin = time.process_time()
        for margin in asked:
            network.predict(instances, margin)
        seconds.append(time.process_time() - begin)
    taught = [inputs[n].aside.get("stage_seconds", 0.0) for n in inputs if n not in UNTIMED]
    return {
        "dataset": cell.dataset, "method": cell.method, "rows": len(parts[0]),
        "epochs": config.epochs, "parameters": sum(w.numel() for w in weights.values()),
        "lessons": sum(taught), "epoch": epoch, "training": epoch * config.epochs,
        "passes": len(asked), "us_a_row": 1e6 * min(seconds) / len(rows.test),
    }  # fmt: skip


UNTIMED = ("problem", "choice")  # inputs that are no lessons


def main() -> int:
    chosen = study_parser(__doc__, "full").parse_args()
    study = read_study(scale=chosen.scale)
    plan, store = plan_of(study, chosen.data), Store(chosen.out / "store")
    named = chosen.datasets or list(study.scale.datasets)
    cells = [c for c in plan.cells if (c.q, c.seed) == (Q, chosen.seed) and c.method in METHODS]
    source = f"scale {chosen.scale}, q = {Q}, seed {chosen.seed}, one core, processor seconds"
    with Recorder("paper_pace", chosen, source) as recorder, torch_threads(1):
        for cell in cells:
            if cell.dataset in named:
                recorder.add(**measure(plan, store, cell))
                print_table(recorder.records[-1:], tuple(recorder.records[-1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
