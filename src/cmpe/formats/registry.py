"""Model files: the one table of suffixes that reading, writing, `cmpe convert` and errors share.

To add a format, write a module with a reader and a writer and give it a row in `FORMATS`. A
module is loaded when a file of its format is met, so that asking for the suffixes costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cmpe.arguments import file_path
from cmpe.errors import FormatError, InputError
from cmpe.formats.text import suffix_of

if TYPE_CHECKING:
    from cmpe.formats.costs.network import CostFunctions
    from cmpe.models.loglinear import LogLinearModel
    from cmpe.models.tractable.chow_liu import ChowLiuTree
    from cmpe.models.tractable.cutset import CutsetNetwork

    Model = LogLinearModel | ChowLiuTree | CutsetNetwork


@dataclass(frozen=True)
class ModelFormat:
    """One row of the table: `reader(path)` and `writer(model, path)` are names in `module`."""

    suffixes: tuple[str, ...]
    module: str
    reader: str
    writer: str
    about: str
    only_tables: bool = True  # other models are written as their tables
    has_bound: bool = False  # The reader returns `CostFunctions`.

    def read(self, path: Path) -> Model:
        """The model in a file."""
        if self.has_bound:
            return self.read_costs(path).model()
        model: Model = getattr(import_module(self.module), self.reader)(path)
        return model

    def read_costs(self, path: Path) -> CostFunctions:
        """The cost function network in a file."""
        costs: CostFunctions = getattr(import_module(self.module), self.reader)(path)
        return costs

    def write(self, model: Model, path: Path) -> None:
        """Write a model."""
        held = model.to_model() if self.only_tables else model
        getattr(import_module(self.module), self.writer)(held, path)


FORMATS = (
    ModelFormat(
        (".uai", ".LG"),
        "cmpe.formats.uai",
        "read_uai",
        "write_uai",
        "UAI tables: potentials, or (.LG) their logarithms",
    ),
    ModelFormat(
        (".json", ".npz"),
        "cmpe.formats.network",
        "read_network",
        "write_network",
        "a learned Chow-Liu tree or cutset network: MODEL.json beside MODEL.npz",
        only_tables=False,
    ),
    ModelFormat(
        (".bif",),
        "cmpe.formats.tables.bif",
        "read_bif",
        "write_bif",
        "a Bayesian network: BIF of bnlearn, pgmpy, pyAgrum, SMILE and JavaBayes",
    ),
    ModelFormat(
        (".xmlbif", ".bifxml"),
        "cmpe.formats.tables.xmlbif",
        "read_xmlbif",
        "write_xmlbif",
        "a Bayesian network: XMLBIF 0.3",
    ),
    ModelFormat(
        (".net",),
        "cmpe.formats.tables.hugin",
        "read_net",
        "write_net",
        "a Bayesian network: Hugin's nodes and potentials",
    ),
    ModelFormat(
        (".erg",),
        "cmpe.formats.tables.ergo",
        "read_erg",
        "write_erg",
        "a Bayesian network: Ergo, as in the UAI evaluations of 2006 and 2008",
    ),
    ModelFormat(
        (".wcsp",),
        "cmpe.formats.costs.wcsp",
        "read_wcsp",
        "write_wcsp",
        "a cost function network with whole costs",
        has_bound=True,
    ),
    ModelFormat(
        (".cfn",),
        "cmpe.formats.costs.cfn",
        "read_cfn",
        "write_cfn",
        "a cost function network with decimal costs, in JSON",
        has_bound=True,
    ),
)
SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)
_BY_SUFFIX = {suffix: known for known in FORMATS for suffix in known.suffixes}
_LEARNED = ".json"  # `cmpe learn --out MODEL` adds this to the name.


def listed(suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """Suffixes for a sentence."""
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]} (also packed: .gz, .xz, .bz2)"


def format_of(path: Path | str) -> ModelFormat:
    """The format that a file's suffix names; an unknown one is refused."""
    suffix = suffix_of(path)
    if suffix not in _BY_SUFFIX:
        raise FormatError(
            f"{path}: expected a model file ending in {listed()}, found {suffix or 'no suffix'!r}"
        )
    return _BY_SUFFIX[suffix]


def read_model(path: Path | str) -> Model:
    """Read a model file; its suffix names the format, .gz, .xz and .bz2 are unpacked.

    MODEL is read as MODEL.json if only that file exists. A pipe, without a suffix, holds `.uai`.

    Of a cost function network (`.wcsp`, `.cfn`) this is h = -cost, or the cost where it is
    maximised. Entries that its bound excludes are -inf; `read_problem` respects the bound
    completely.
    """
    file = file_path(path, "read_model")
    described = file.with_name(file.name + _LEARNED)
    if not file.exists() and described.exists():
        file = described
    if not file.is_file() and suffix_of(file) not in _BY_SUFFIX:
        return FORMATS[0].read(file)
    return format_of(file).read(file)


def write_model(model: Model, path: Path | str) -> None:
    """Write a model in the format named by the suffix of `path`, compressed if it says so.

    `.uai` and `.LG` hold tables: a tree or a cutset network is expanded. `.json` and `.npz` hold
    learned models only, in two files.
    """
    file = file_path(path, "write_model")
    if not hasattr(model, "to_model"):
        found = type(model).__name__
        raise InputError(f"write_model(model, path) takes a model made of tables, found {found}")
    format_of(file).write(model, file)
