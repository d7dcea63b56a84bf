"""Adversarial examples on MNIST: every method on all test images that a classifier gets right.

    python -m benchmarks.adversarial [--data DIR] [--out build/adversarial] [--parts NAME...]

Parts: `multi-class` (784-64-10: every method), `one-vs-all` (ten 784-64-1 networks, as the paper),
`two-layers` (784-32-32-10). Each is a study of `study adversarial` in its own folder below --out,
which continues where it was stopped. A record is a row of its table: distance and failures always
on the same images, times the proved optimum where there is one, seconds of training and an image.
Without MNIST's files the embedded digits stand in, and the header says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.frame import HERE, Recorder, parser, print_table
from cmpe.formats.images import EMBEDDED, read_images
from study.adversarial.classifier import ClassifierConfig
from study.adversarial.methods import METHODS, StudyEffort
from study.adversarial.study import AttackStudy, StudyConfig

MNIST = HERE.parent.parent / "shared" / "data" / "mnist"
KNOWN = ("foolbox:ead", "foolbox:brendel_bethge", "foolbox:sparse_descent")
OURS = ("ilp", "attack", "attack+8bit")
PARTS = {
    "multi-class": (ClassifierConfig(hidden=(64,)), (*METHODS, *KNOWN), 110),
    "one-vs-all": (ClassifierConfig(hidden=(64,), one_vs_all=True), OURS, 110),
    "two-layers": (ClassifierConfig(hidden=(32, 32)), ("ilp", "attack", "attack+8bit"), 25),
}
SHOWN = (
    "part", "method", "objective", "violation", "violation_8bit", "ratio_proved", "proved_rows",
    "train_seconds", "seconds",
)  # fmt: skip


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, default=MNIST, help="MNIST's four idx files")
    options.add_argument("--out", type=Path, default=Path("build/adversarial"))
    options.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    options.add_argument("--epochs", type=int, default=20, help="of the autoencoders")
    told = options.parse_args()
    data = read_images(told.data if told.data.is_dir() else EMBEDDED)
    with Recorder("adversarial", told, data=f"{data.name}, {len(data.test)} test images") as record:
        for part in told.parts:
            classifier, methods, few = PARTS[part]
            effort = StudyEffort(epochs=told.epochs, few=few, seconds=60.0, seed=told.seed)
            study = AttackStudy(data, StudyConfig(classifier, methods, effort), told.out / part)
            for row in study.table(study.run(lambda method, _: print(method, file=sys.stderr))):
                record.add(part=part, accuracy=study.accuracy, **row)
    print_table(record.records, SHOWN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
