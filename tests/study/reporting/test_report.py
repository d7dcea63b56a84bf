"""One page: complete, the same every time, without a network, and deaf to hostile names."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cmpe.errors import InputError, MissingExtra
from study.reporting.report import make_report, to_html, write_report
from tests.study.reporting import synthetic
from tests.study.reporting.synthetic import write_rows

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


class Page(html.parser.HTMLParser):
    """Tags, attributes and texts of a page, and whether its tags are closed."""

    VOID = frozenset(("meta", "img", "input", "link", "br"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def report(written):
    return written[0]


@pytest.fixture(scope="module")
def text(written):
    return written[1].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_every_table_and_figure_is_on_the_page(page, report):
    assert len(page.all("table")) == len(report.tables)
    assert len(page.all("figure")) == len(report.pictures)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for a in page.all("a")]
    assert set(targets) <= set(ids)
    for image in page.all("img"):
        assert image["alt"]
        assert image["src"].startswith(("data:image/svg+xml,%3C?xml", "data:image/png;base64,"))


def test_the_verdict_comes_first_with_a_figure(text, report):
    first = text.index('class="verdict"')
    assert text.index("<h2>Verdict</h2>") < first < text.index('id="f-times"')
    assert text.index('id="f-times"') < text.index("<h2>At a glance</h2>")
    assert 1 <= text.count('class="verdict"') <= 3


def test_tables_show_seven_columns_and_the_rest_on_request(page, report):
    for table in report.tables:
        assert len(table.at_once()) <= 7
        assert table.at_once()[0] == 0
    buttons = [a for a in page.all("button") if a.get("class") == "all"]
    assert len(buttons) == sum(len(t.columns) > 7 for t in report.tables) > 0


def test_nothing_is_fetched(page, text):
    addresses = [a[k] for _, a in page.tags for k in ("src", "href") if k in a]
    assert all(a.startswith(("data:", "#")) for a in addresses)
    assert "url(" not in text.split("</style>")[0]
    assert "@import" not in text


def test_the_policy_names_the_pages_own_script_and_style(page, text):
    [policy] = [m["content"] for m in page.all("meta") if "http-equiv" in m]
    for tag in ("script", "style"):
        [body] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [a for _, a in page.tags if "style" in a or any(k.startswith("on") for k in a)]


def test_reasons_and_provenance_are_shown(page):
    words = " ".join(page.texts)
    assert synthetic.REASON in words
    for word in ("make paper SCALE=smoke OUT=results", "9f86d081884c7d65", "3.12.1"):
        assert word in words


def test_saved_texts_are_those_of_the_files(text, written):
    made, _, assets = written
    saved = json.loads(re.search(r'id="texts">(.*?)</script>', text, re.DOTALL)[1])
    assert set(saved) == {t.name for t in made.tables}
    for name, forms in saved.items():
        for form, content in forms.items():
            file = assets / "tables" / f"{name}.{form}"
            assert file.read_text(encoding="utf-8") == content
    files = {f"{p.name}{s}" for p in made.pictures for s in (".svg", ".png")} - {"digits.svg"}
    assert {f.name for f in (assets / "figures").iterdir()} == files


def test_another_process_writes_the_same_bytes(tmp_path, small):
    write_report(small, tmp_path / "here.html")
    code = "import sys; from study.reporting.report import write_report as w; w(*sys.argv[1:])"
    there = tmp_path / "there.html"
    subprocess.run([sys.executable, "-c", code, small, there], check=True)
    assert there.read_bytes() == (tmp_path / "here.html").read_bytes()


@pytest.fixture
def small(tmp_path):
    """One data set, one point in time."""
    folder = tmp_path / "small"
    folder.mkdir()
    methods = ("exact", "pdl", "tuned+repair")
    cells = [synthetic.cell("dna", "tractable", 80, m, s) for m in methods for s in (0, 1)]
    write_rows(folder / "cells.jsonl", cells)
    write_rows(folder / "times.jsonl", [synthetic.time("dna", 80, "exact", 1e-5, 0.0, False)])
    return folder


def test_hostile_names_stay_text(tmp_path):
    synthetic.write_hostile(tmp_path)
    write_report(tmp_path, tmp_path / "r.html", tmp_path / "assets")
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert len(page.all("script")) == 2
    assert all(i["src"].startswith("data:") for i in page.all("img"))
    assert not [a for _, a in page.tags if "onerror" in a]
    written = {f for f in tmp_path.rglob("*") if f.is_file()}
    assert all(re.fullmatch(r"[\w.-]+", f.name) for f in written)
    names = [f.name for f in (tmp_path / "assets" / "tables").glob("q-*.csv")]
    assert len(names) == 3
    assert any(synthetic.HOSTILE in words for words in page.texts)


def test_what_cannot_be_written_is_said_first(folder, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_report(folder, tmp_path / "nowhere" / "r.html")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="expected a directory, found a file"):
        write_report(folder, tmp_path / "r.html", tmp_path / "file")
    assert {f.name for f in tmp_path.iterdir()} == {"file"}


@pytest.mark.parametrize("module", ["jinja2", "matplotlib", "matplotlib.figure"])
def test_without_the_extra_it_is_named(monkeypatch, results, module):
    monkeypatch.setitem(sys.modules, module, None)
    small = replace(results, curves=(), times=(), cells=results.cells[:3])
    with pytest.raises(MissingExtra, match=r"cmpe\[(report|study)\]"):
        to_html(make_report(small))


def test_templates_are_part_of_the_package():
    import study.reporting

    folder = Path(study.reporting.__file__).parent / "templates"
    assert {f.name for f in folder.iterdir()} == {"report.html", "report.css", "report.js"}
