"""study.toml as values: what the study consists of at one scale."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cmpe.errors import FormatError, MethodError

STUDY = Path(__file__).with_name("study.toml")
DATA = Path(__file__).parents[3] / "shared" / "data"
KINDS = ("network", "repair", "solver")


@dataclass(frozen=True)
class Dataset:
    """Where a model comes from."""

    name: str
    group: str
    uai: str = ""  # a file below the data folder
    density: str = ""  # NAME of NAME.train.data.gz and NAME.valid.data.gz
    stand_in: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """How a method answers: a trained network, a repaired one, or a solver."""

    name: str
    network: str = ""  # a preset
    loss: str = ""  # by default the method's name
    changes: dict[str, Any] = field(default_factory=dict)  # of its preset, before the scale's
    grid: tuple[str, ...] = ()  # what is chosen for it
    repair: str = ""  # the network whose answers are improved
    kicks: int = 0  # random changes that a repair tries once it is stuck
    solver: str = ""
    few: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", tuple(self.grid))
        object.__setattr__(self, "loss", self.loss or self.name)
        if sum(bool(getattr(self, kind)) for kind in KINDS) != 1:
            raise MethodError(f"method {self.name}: needs exactly one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class Selection:
    """How beta and rho are chosen."""

    folds: int = 1
    epochs: int = 0  # of cross-validation; 0: those of the preset
    shorter: dict[str, int] = field(default_factory=dict)  # the same for some methods
    finalists: int = 0  # settings of a larger grid that are compared again with all epochs
    beta: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()

    def grid(self, names: tuple[str, ...]) -> dict[str, list[float]]:
        """The values of the numbers called `names`."""
        return {name: list(getattr(self, name)) for name in names}

    def changes(self, method: str) -> dict[str, int]:
        """What cross-validation of a method changes in its preset."""
        epochs = self.shorter.get(method, self.epochs)
        return {"epochs": epochs} if epochs else {}


@dataclass(frozen=True)
class Scale:
    """How much of the study to run."""

    datasets: tuple[str, ...]
    percentiles: tuple[int, ...]
    seeds: tuple[int, ...]
    samples: int
    few_rows: int
    few_percentiles: tuple[int, ...]
    budgets: tuple[float, ...]
    selection: Selection
    changes: dict[str, dict[str, Any]]
    methods: tuple[str, ...] = ()  # by default all


@dataclass(frozen=True)
class Study:
    """Everything that decides the study."""

    scale_name: str
    scale: Scale
    recipe: dict[str, Any]
    datasets: tuple[Dataset, ...]
    methods: tuple[Method, ...]


def read_study(path: Path | str = STUDY, scale: str = "smoke") -> Study:
    """The study at one scale; a name or field that is not known is refused."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"{path}: {error}") from None
    if scale not in content.get("scales", {}):
        known = ", ".join(content.get("scales", {}))
        raise MethodError(f"{path}: a scale is one of {known}; found {scale!r}")
    return study_of(content, scale, str(path))


def study_of(content: dict[str, Any], scale: str, where: str = "study") -> Study:
    """The study that a parsed description holds."""
    chosen = dict(content["scales"][scale])
    chosen["selection"] = _built(Selection, chosen.get("selection", {}), where)
    level = _built(Scale, chosen, where)
    datasets = {
        name: _built(Dataset, {"name": name, **told}, where)
        for name, told in content["datasets"].items()
    }
    methods = {
        name: _built(Method, {"name": name, **told}, where)
        for name, told in content["methods"].items()
    }
    return Study(
        scale,
        level,
        dict(content["recipe"]),
        tuple(_named(datasets, name, where) for name in level.datasets),
        tuple(_named(methods, name, where) for name in level.methods or tuple(methods)),
    )


def _built(kind: type[Any], told: dict[str, Any], where: str) -> Any:
    odd = sorted(set(told) - {f.name for f in fields(kind)})
    if odd:
        raise FormatError(f"{where}: a {kind.__name__.lower()} has no field {odd[0]!r}")
    try:
        whole = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
        return kind(**whole)
    except TypeError as error:
        raise FormatError(f"{where}: a {kind.__name__.lower()}: {error}") from None


def _named(known: dict[str, Any], name: str, where: str) -> Any:
    if name not in known:
        raise FormatError(f"{where}: expected one of {', '.join(known)}, found {name!r}")
    return known[name]
