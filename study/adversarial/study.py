"""The study: train a classifier, attack it by every method, and keep what each one did.

Everything lies in one directory: study.json (the settings), classifier.npz, problems/PART (what is
asked, for `cmpe solve`), runs/NETWORK/PART (the trained networks), results/METHOD.npz (one number a
row), adversarial.jsonl (the table). A method that is done is not done again; the settings of a
directory cannot change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.images import ImageSet
from cmpe.formats.network import load_arrays, save_arrays
from cmpe.formats.text import parse_object, read_bytes, write_text, writing
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.attack import round_outward
from cmpe.tensor.device import device_named
from study.adversarial.attacked_sets import Part, parts_of
from study.adversarial.classifier import ClassifierConfig, accuracy, classify, train_classifier
from study.adversarial.methods import METHODS, StudyEffort, answer, check, run_of

SETTINGS, CLASSIFIER, TABLE = "study.json", "classifier.npz", "adversarial.jsonl"
PICTURED = (1, 2, 6, 7, 8)  # the paper's digits: the first test image of each
Progress = Callable[[str, dict[str, Any] | None], None]


@dataclass(frozen=True)
class StudyConfig:
    """What is compared on which classifier."""

    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    methods: tuple[str, ...] = METHODS
    effort: StudyEffort = field(default_factory=StudyEffort)
    rows: int | None = None  # test images at most

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(dict.fromkeys(self.methods)))  # each once
        check(self.methods)


@dataclass(frozen=True)
class AttackOutcome:
    """What a method did to each image it was given; NaN where it has no answer."""

    method: str
    rows: NDArray[np.int64]  # (B,): places among the test images
    distance: Floats  # (B,)
    margin: Floats  # (B,): how far the class to be left leads; flipped where <= 0
    margin_8bit: Floats  # (B,): the same once the image is in 8-bit levels
    bound: Floats  # no flip by the problem's margin is nearer
    pictured: Floats  # (P, n): what became of the pictured images
    train_seconds: float
    seconds: float  # per image

    @property
    def flipped(self) -> NDArray[np.bool_]:
        """Which images have left their class."""
        return self.margin <= 0.0


@dataclass(frozen=True)
class AttackStudy:
    """A data set, the settings, and the directory where everything is kept."""

    data: ImageSet
    config: StudyConfig
    out: Path

    def run(self, progress: Progress = lambda method, record: None) -> list[AttackOutcome]:
        """Do what is not done yet; one outcome per method."""
        device_named(self.config.effort.device)  # refused now, before settings are kept
        with writing(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
        self.check_settings()
        known = {method: self._kept(method) for method in self.config.methods}
        if not all(known.values()):
            progress("classifier", {})
            for part in self.parts:
                part.keep(self.out / "problems" / part.name)
            progress("classifier", None)
        for method, kept in known.items():
            known[method] = kept or self._attack(method, progress)
            rows = self.table([outcome for outcome in known.values() if outcome])
            write_text(self.out / TABLE, "".join(json.dumps(row) + "\n" for row in rows))
        return [outcome for outcome in known.values() if outcome]

    def check_settings(self) -> None:
        """A directory is of one set of images and one set of settings; more methods may join."""
        asked = {"data": self.data.name, "sha256": _digest(self.data), **asdict(self.config)}
        settings = json.loads(json.dumps(asked))
        place = self.out / SETTINGS
        if place.exists():
            before = dict(_leaves(parse_object(place, read_bytes(place))))
            for name, value in _leaves(settings):
                if name != "methods" and before.get(name, value) != value:
                    raise InputError(
                        f"{place}: {name} was {before[name]!r} here and is now {value!r}; "
                        "take another directory"
                    )
        write_text(place, json.dumps(settings, indent=1) + "\n")

    @cached_property
    def networks(self) -> tuple[ReluNetwork, ...]:
        """The classifier, trained or read."""
        place = self.out / CLASSIFIER
        if place.exists():
            return read_networks(place)
        found = train_classifier(
            self.data.train, self.data.train_labels, self.config.classifier,
            device=self.config.effort.device,
        )  # fmt: skip
        arrays = {
            f"{kind}_{k}_{layer}": value
            for k, network in enumerate(found)
            for kind in ("weights", "biases")
            for layer, value in enumerate(getattr(network, kind))
        }
        _write_arrays(place, arrays)
        return found

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Networks with the images they are attacked on, the pictured ones first."""
        found = parts_of(self.data, self.networks, self.config.rows)
        if not any(len(part.rows) for part in found):
            raise InputError("the classifier decides none of the test images rightly; take more")
        firsts = set(self._pictured(found).tolist())
        return tuple(part.with_first(firsts) for part in found)

    @property
    def accuracy(self) -> float:
        """Of the classifier, on all test images."""
        return accuracy(self.networks, self.data.test, self.data.test_labels)

    def classify(self, images: Floats) -> NDArray[np.int64]:
        """The class that the classifier gives each image."""
        return classify(self.networks, images)

    @cached_property
    def pictured(self) -> NDArray[np.int64]:
        """The first attacked test image of each pictured digit: its place."""
        return self._pictured(self.parts)

    def _pictured(self, parts: Sequence[Part]) -> NDArray[np.int64]:
        known = np.sort(np.concatenate([part.rows for part in parts]))
        labels = self.data.test_labels[known]
        firsts = [known[labels == digit][0] for digit in PICTURED if (labels == digit).any()]
        return np.array(firsts, dtype=np.int64)

    def _attack(self, method: str, progress: Progress) -> AttackOutcome:
        pieces, seconds, train = [], 0.0, 0.0
        effort = self.config.effort
        effort = replace(effort, few=-(-effort.few // len(self.parts)))
        pictures = np.full((len(self.pictured), self.data.test.shape[1]), np.nan)
        for part in self.parts:
            run = self.out / "runs" / str(run_of(method)) / part.name
            found = answer(method, part, effort, run, lambda r: progress(method, r))
            progress(method, None)
            images, rows = part.test[: len(found.changed)], part.rows[: len(found.changed)]
            pieces.append(_measured(part, images, rows, found.changed, found.bound))
            train += found.train_seconds
            seconds += found.seconds * len(rows)
            for place, row in enumerate(self.pictured):
                if row in rows:
                    pictures[place] = found.changed[int(np.flatnonzero(rows == row)[0])]
        rows, distance, margin, margin_8bit, bound = (
            np.concatenate(column) for column in zip(*pieces, strict=True)
        )
        each = seconds / max(1, len(rows))
        outcome = AttackOutcome(
            method, rows, distance, margin, margin_8bit, bound, pictures, train, each
        )
        _write_arrays(
            self._file(method), {f.name: getattr(outcome, f.name) for f in fields(outcome)}
        )
        return outcome

    def _file(self, method: str) -> Path:
        return self.out / "results" / f"{method.replace(':', '_')}.npz"

    def _kept(self, method: str) -> AttackOutcome | None:
        place = self._file(method)
        if not place.exists():
            return None
        kept: dict[str, Any] = {**load_arrays(place)}
        try:
            kept |= {name: float(kept[name]) for name in ("train_seconds", "seconds")}
            return AttackOutcome(**(kept | {"method": str(kept["method"])}))
        except (KeyError, TypeError, ValueError):
            raise FormatError.at(place, "the file", "results of a method", "other") from None

    def table(self, outcomes: Sequence[AttackOutcome]) -> list[dict[str, Any]]:
        """One row per method: distance and failures on the same images, and the gap to the best.

        `gap` compares with the nearest flip that any method found of each image; `ratio_proved`
        with the proved optimum, on the images where there is one.
        """
        best, proved = _best(outcomes)
        return [self._row(outcome, best, proved) for outcome in outcomes]

    def _row(
        self, o: AttackOutcome, best: dict[int, float], proved: dict[int, float]
    ) -> dict[str, Any]:
        nearest = np.array([best.get(int(r), np.nan) for r in o.rows])
        optimum = np.array([proved.get(int(r), np.nan) for r in o.rows])
        answered = np.isfinite(o.distance)
        both = answered & np.isfinite(nearest)
        certain = answered & np.isfinite(optimum)
        classifier = self.config.classifier
        outputs = 1 if classifier.one_vs_all else classifier.classes
        sizes = (self.data.test.shape[1], *classifier.hidden, outputs)
        return {
            "method": o.method,
            "label": o.method,
            "objective": _mean(o.distance[answered]),
            "objective_std": _plain(np.std(o.distance[answered])) if answered.any() else None,
            "objective_flipped": _mean(o.distance[answered & o.flipped]),
            "gap": _ratio(o.distance[both], nearest[both], 1.0),
            "ratio_proved": _ratio(o.distance[certain], optimum[certain]),
            "proved_rows": int(certain.sum()),
            "violation": _mean((~o.flipped).astype(float)),
            "violation_8bit": _mean((~(o.margin_8bit <= 0.0)).astype(float)),
            "train_seconds": o.train_seconds,
            "seconds": o.seconds,
            "rows": len(o.rows),
            "device": self.config.effort.device,
            "classifier": "-".join(map(str, sizes)),
            "note": "",
        }


def _digest(data: ImageSet) -> str:
    digest = hashlib.sha256()
    for array in (data.train, data.train_labels, data.test, data.test_labels):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _leaves(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its full name, as in effort.epochs."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield before + name, value


def _measured(
    part: Part, images: Floats, rows: NDArray[np.intp], changed: Floats, bound: Floats
) -> tuple[NDArray[Any], ...]:
    """Rows, distances, margins, margins in 8 bits, bounds: decided by the network in float64."""
    known = np.asarray(np.isfinite(changed).all(axis=1))
    filled = np.where(known[:, np.newaxis], changed, images)
    classes = part.network.decide(images)
    levels = round_outward(images, filled) / 255.0
    margins = part.network.margins(filled, classes), part.network.margins(levels, classes)
    distance = np.abs(filled - images).sum(axis=1)
    numbers = [np.where(known, values, np.nan) for values in (distance, *margins)]
    return rows.astype(np.int64), *numbers, bound


def _best(outcomes: Sequence[AttackOutcome]) -> tuple[dict[int, float], dict[int, float]]:
    """The nearest flip known of each image, and the proved optima."""
    best: dict[int, float] = {}
    proved: dict[int, float] = {}
    for o in outcomes:
        for row, distance, flipped, bound in zip(
            o.rows.tolist(), o.distance, o.flipped, o.bound, strict=True
        ):
            if flipped:
                best[row] = min(best.get(row, np.inf), float(distance))
                if distance - bound <= 1e-6 * max(1.0, distance):
                    proved[row] = float(distance)
    return best, proved


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(values: Floats, reference: Floats, less: float = 0.0) -> float | None:
    return _plain(values.mean() / reference.mean() - less) if len(values) else None


def _write_arrays(place: Path, arrays: dict[str, Any]) -> None:
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    save_arrays(place, arrays)


def read_networks(place: Path) -> tuple[ReluNetwork, ...]:
    """The networks that a study kept in its `classifier.npz`."""
    arrays = load_arrays(place)
    depth = sum(name.startswith("weights_0_") for name in arrays)
    try:
        return tuple(
            ReluNetwork(
                tuple(arrays[f"weights_{k}_{layer}"] for layer in range(depth)),
                tuple(arrays[f"biases_{k}_{layer}"] for layer in range(depth)),
            )
            for k in range(len(arrays) // max(1, 2 * depth))
        )
    except (KeyError, ValueError, TypeError, ModelError):
        raise FormatError.at(place, "the file", "a classifier", "other") from None
