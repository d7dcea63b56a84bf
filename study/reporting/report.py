"""One HTML page with all tables and figures of a study; it needs no network.

The page holds every table once as HTML. The texts that its buttons offer for saving (CSV, Markdown,
LaTeX) are the ones that `--assets` writes, kept as JSON. Figures are pictures inside the page.
Everything that comes from the results is escaped, and a content security policy lets only the
page's own script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cmpe.errors import InputError, MissingExtra
from cmpe.formats.text import atomic_writer, check_writable, write_text, writing
from cmpe.pictures.figures import FONT
from study.reporting.figures import rendered
from study.reporting.headline import cell_table, headline_tables
from study.reporting.markup import spans, to_csv, to_latex, to_markdown
from study.reporting.names import label_of, q_text
from study.reporting.paper_tables import alone, paper_tables, q_tables
from study.reporting.results import StudyResults, read_results
from study.reporting.study import Study
from study.reporting.study_figures import Drawing, study_figures
from study.reporting.summary_tables import coverage_table, summary_tables
from study.reporting.tables import Table
from study.reporting.verdict import NEGATIVE, has_negative_regret, verdict

SECTIONS = (
    "Verdict",
    "At a glance",
    "The paper's tables",
    "The paper's figures",
    "Adversarial examples",
    "Time and training",
    "Every cell",
)
UNFOLDED = SECTIONS[:2]  # of the others, the first table and the first figure are shown at once
TEXTS = {".csv": to_csv, ".md": to_markdown, ".tex": to_latex}
PICTURES = (".svg", ".png")
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
LETTERS = " !$'()*+,-./:;=?@_~"  # of an address, as they are; digits and the alphabet besides
LONG = 200  # rows of a table that the page keeps as CSV only
NAMES = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
DEEPEST = 4  # level of provenance that is laid out
TITLE = "Constrained most probable explanation: results"


@dataclass(frozen=True)
class Picture:
    """A figure as files, by suffix."""

    name: str
    title: str
    caption: str
    section: str
    files: Mapping[str, bytes]
    dataset: str | None = None
    q: str | None = None

    @property
    def address(self) -> str:
        """The picture itself, as the page shows it: letters where it is text, to be short."""
        suffix = next(s for s in PICTURES if s in self.files)
        content = self.files[suffix]
        if suffix == ".svg":
            text = " ".join(content.decode("utf-8").replace(f"'{FONT}', ", "").split())
            text = text if "'" in text else text.replace('"', "'")
            return f"data:{TYPES[suffix]},{quote(text, safe=LETTERS)}"
        return f"data:{TYPES[suffix]};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class Report:
    """Tables, figures and where they come from."""

    study: Study
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]

    @property
    def missing(self) -> int:
        """Cells that have no figures."""
        return sum(not cell.measured for cell in self.study.results.cells)

    @property
    def extent(self) -> str:
        """How much there is, in words."""
        cells = _counted(len(self.study.results.cells), "cell")
        missing = f", {self.missing:,} without figures" if self.missing else ""
        drawn = _counted(len(self.tables), "table"), _counted(len(self.pictures), "figure")
        return f"{drawn[0]} and {drawn[1]} of {cells}{missing}"


def write_report(
    directory: Path | str, out: Path | str, assets: Path | str | None = None
) -> Report:
    """Write the report of a results directory; with `assets`, tables and figures as files too."""
    check_writable(out)
    if assets is not None and Path(assets).exists() and not Path(assets).is_dir():
        raise InputError(f"{assets}: expected a directory, found a file")
    report = make_report(read_results(directory), png=assets is not None)
    page = to_html(report)
    if assets is not None:
        _write_assets(report, Path(assets))
    write_text(out, page)
    return report


def make_report(results: StudyResults, *, png: bool = False) -> Report:
    """All tables and figures that the results allow."""
    study = Study(results)
    tables = [
        *headline_tables(study),
        *paper_tables(study),
        *summary_tables(study),
        *q_tables(study),
        coverage_table(study),
        cell_table(study),
    ]
    suffixes = PICTURES if png else PICTURES[:1]
    pictures = [_picture(drawing, suffixes) for drawing in study_figures(study)]
    shown = [table if results.paper else alone(table) for table in tables if table.rows]
    return Report(study, _distinct(shown), _distinct([*pictures, *_digits(results)]))


def _picture(drawing: Drawing, suffixes: Iterable[str]) -> Picture:
    return Picture(
        drawing.name,
        drawing.title,
        drawing.caption,
        drawing.section,
        {suffix: rendered(drawing.figure, suffix) for suffix in suffixes},
        drawing.dataset,
        drawing.q,
    )


def _digits(results: StudyResults) -> list[Picture]:
    """The grid of adversarial digits, as the study left it."""
    if not results.pictures:
        return []
    caption = "Digits and their adversarial examples: a row for each image, a column for each way."
    title = "Adversarial digits"
    return [Picture("digits", title, caption, "Adversarial examples", results.pictures)]


def _distinct(items: list[Any]) -> tuple[Any, ...]:
    """The same items; of equal names (two data sets may differ in signs only) one gets a number."""
    from dataclasses import replace

    seen: set[str] = set()
    found = []
    for item in items:
        name, number = item.name, 2
        while name in seen:
            name, number = f"{item.name}-{number}", number + 1
        seen.add(name)
        found.append(replace(item, name=name))
    return tuple(found)


def to_html(report: Report) -> str:
    """The page."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtra.named("jinja2", "study") from None
    environment = Environment(
        loader=PackageLoader("study.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "sort_keys": True}
    style, script = _asset("report.css"), _asset("report.js")
    return environment.get_template("report.html").render(
        title=TITLE,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        sections=_sections(report),
        facets=_facets(report.study),
        texts=_texts(report.tables),
        names=NAMES,
        spans=spans,
        facts=_facts(report),
        verdict=verdict(report.study),
        negative=NEGATIVE,
        below_zero={table.name for table in report.tables if has_negative_regret(table)},
        provenance=_laid_out(report.study.results.provenance),
    )


def _asset(name: str) -> str:
    return Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sections(report: Report) -> list[dict[str, Any]]:
    found = []
    for number, name in enumerate(SECTIONS):
        tables = [t for t in report.tables if t.section == name]
        pictures = [p for p in report.pictures if p.section == name]
        if tables or pictures:
            place = f"part-{number + 1}"
            shown = len(tables) + len(pictures) if name in UNFOLDED else 1
            found.append(
                {"id": place, "name": name, "tables": tables, "pictures": pictures, "open": shown}
            )
    return found


def _facets(study: Study) -> list[dict[str, Any]]:
    """What a reader may choose from: (value, label) pairs."""
    datasets = study.datasets()
    qs = [q_text(q) for q in study.qs(*datasets)]
    return [
        {"key": "dataset", "name": "Data set", "choices": [(d, d) for d in datasets]},
        {"key": "q", "name": "q", "choices": [(q, q) for q in qs]},
        {
            "key": "method",
            "name": "Method",
            "choices": [(m, label_of(m)) for m in study.methods()],
        },
    ]


def _texts(tables: Iterable[Table]) -> dict[str, dict[str, str]]:
    """What the buttons save; of a long table CSV only (`--assets` writes the other forms too)."""
    return {
        t.name: {s[1:]: make(t) for s, make in TEXTS.items() if s == ".csv" or len(t.rows) <= LONG}
        for t in tables
    }


def _facts(report: Report) -> str:
    datasets = _counted(len(report.study.datasets()), "data set")
    methods = _counted(len(report.study.methods()), "method")
    return f"{datasets}, {methods}; {report.extent}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def _laid_out(value: Any, level: int = 0) -> Any:
    """Provenance as nested lists of (key, value); text where it is deep enough."""
    if isinstance(value, Mapping) and level < DEEPEST:
        return [(str(k), _laid_out(v, level + 1)) for k, v in value.items()]
    if isinstance(value, list) and level < DEEPEST:
        return [("", _laid_out(v, level + 1)) for v in value]
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _write_assets(report: Report, folder: Path) -> None:
    """DIR/tables/NAME.csv|md|tex and DIR/figures/NAME.svg|png, each whole or not at all."""
    for name in ("tables", "figures"):
        with writing(folder):
            (folder / name).mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        for suffix, make in TEXTS.items():
            write_text(folder / "tables" / f"{table.name}{suffix}", make(table))
    for picture in report.pictures:
        for suffix, content in picture.files.items():
            with atomic_writer(folder / "figures" / f"{picture.name}{suffix}") as stream:
                stream.write(content)
