"""The page in a real browser: sorting, filters, saving, a phone, no errors, no network."""

from __future__ import annotations

import csv
import io
import re
import shutil
import struct
import time

import pytest

from study.reporting.report import write_report
from tests.study.reporting import synthetic

selenium = pytest.importorskip("selenium", reason="the browser tests need selenium")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="no chromium and chromedriver here (make browser installs them)",
)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
)
PHONE, NARROW, DESKTOP = (390, 844), (360, 640), (1280, 900)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    driver.downloads = folder
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, written):
    """The page, freshly opened at the size of a desk."""
    from selenium.webdriver.support.ui import WebDriverWait

    resize(browser, DESKTOP)
    browser.get(written[1].as_uri())
    WebDriverWait(browser, 30).until(lambda b: shown(b, "cells"))  # laid out, on a busy machine
    yield browser
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []


def resize(browser, size):
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def find(browser, selector):
    return browser.find_element("css selector", selector)


def unfold(browser):
    browser.execute_script("document.querySelectorAll('.fold').forEach(d => (d.open = true))")


def shown(browser, table):
    """(data set, q, method) of the rows of a table that can be seen, in order."""
    return browser.execute_script(
        "return Array.from(document.querySelectorAll('#' + arguments[0] + ' tbody tr'))"
        ".filter(r => r.offsetParent !== null)"
        ".map(r => [r.dataset.dataset || null, r.dataset.q || null, r.dataset.method || null])",
        table,
    )


def choose(browser, facet, *values):
    details = find(browser, f".facet[data-key={facet}]")
    details.find_element("css selector", "summary").click()
    for value in values:
        details.find_element("css selector", f"input[value='{value}']").click()
    details.find_element("css selector", "summary").click()


def test_a_heading_sorts_and_sorts_back(page):
    def values():
        return page.execute_script(
            "return Array.from(document.querySelectorAll('#headline tbody tr'))"
            ".map(r => Number(r.cells[arguments[0]].dataset.v))", column,
        )  # fmt: skip

    heading = page.find_elements("css selector", "#headline .titles th")[8]
    column = 8
    before = values()
    assert heading.get_attribute("aria-sort") is None
    heading.find_element("css selector", "button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(before) != before
    heading.find_element("css selector", "button").send_keys("\ue007")  # the enter key
    assert heading.get_attribute("aria-sort") == "descending"
    assert values() == sorted(before, reverse=True)


def test_gaps_are_sorted_apart_from_violations_and_gaps_without_a_figure_come_last(page):
    unfold(page)
    page.find_elements("css selector", "#q-dna .titles th button")[2].click()
    lines = page.execute_script(
        "return Array.from(document.querySelectorAll('#q-dna tbody tr'))"
        ".map(r => [r.cells[1].textContent, r.dataset.method, r.cells[2].dataset.v || null])"
    )
    metrics = [metric for metric, _, _ in lines]
    assert metrics == ["objective"] + ["gap"] * 13 + ["violations"] * 13
    gaps = [float(v) for metric, _, v in lines if metric == "gap" and v]
    assert gaps == sorted(gaps)
    assert lines[13][1:] == ["pdl", None]


def test_filters_leave_what_was_chosen(page):
    unfold(page)
    methods = len(synthetic.METHODS)
    assert len(shown(page, "cells")) == 7 * methods
    choose(page, "dataset", "dna")
    assert len(shown(page, "cells")) == 2 * methods
    assert not find(page, "#q-grids-17").is_displayed()
    assert not find(page, "#f-time-grids-17").is_displayed()
    assert not find(page, "#table-1").is_displayed()  # none of its columns is left
    choose(page, "q", "80")
    assert len(shown(page, "cells")) == methods
    titles = page.find_elements("css selector", "#q-dna .titles th")
    assert [t.is_displayed() for t in titles] == [True, True, False, False, True, True]
    choose(page, "method", "exact", "tuned+repair")
    assert shown(page, "cells") == [["dna", "80", m] for m in ("tuned+repair", "exact")]
    assert "2" in find(page, ".facet[data-key=method] .chosen").text
    assert find(page, "#status").text.endswith("figures shown")
    find(page, "#reset").click()
    assert len(shown(page, "cells")) == 7 * methods
    assert find(page, ".facet[data-key=dataset] .chosen").text == "all"


def test_what_is_saved_is_the_table(page, written):
    unfold(page)
    find(page, "#coverage button[data-format=csv]").click()
    file = page.downloads / "coverage.csv"
    for _ in range(100):
        if file.exists():
            break
        time.sleep(0.1)
    text = file.read_text(encoding="utf-8")
    assert text == (written[2] / "tables" / "coverage.csv").read_text(encoding="utf-8")
    assert len(list(csv.reader(io.StringIO(text)))) == 1 + 6


def test_a_link_unfolds_what_it_leads_to_and_a_filter_hides_folded_blocks(page):
    assert not find(page, "#q-dna").is_displayed()
    page.execute_script("location.hash = 'q-dna'")
    for _ in range(100):
        if find(page, "#q-dna").is_displayed():
            break
        time.sleep(0.05)
    assert find(page, "#q-dna").is_displayed()
    choose(page, "dataset", "dna")
    folded = "document.getElementById('q-grids-17').closest('.fold').hidden"
    assert page.execute_script(f"return {folded}") is True


@pytest.mark.parametrize("size", [DESKTOP, PHONE, NARROW])
def test_nothing_overflows(page, size):
    unfold(page)
    resize(page, size)
    root = "document.documentElement"
    width, room = page.execute_script(f"return [{root}.scrollWidth, {root}.clientWidth]")
    assert (width, room) == (size[0], size[0])
    inside = page.execute_script(
        "const b = document.querySelector('#table-1 .box'); return [b.scrollWidth, b.clientWidth]"
    )
    assert inside[0] >= inside[1] > 0
    picture = page.get_screenshot_as_png()
    assert struct.unpack(">II", picture[16:24]) == size
    assert len(picture) > 5000


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_letters_in_figures_are_large_enough(page, size):
    """At least 11 pixels on the screen, whatever a picture is scaled to."""
    unfold(page)
    resize(page, size)
    found = page.execute_async_script(
        "const done = arguments[0], images = Array.from(document.images);"
        "Promise.all(images.map(i => i.decode())).then(() => done(images.map("
        "i => [i.src.startsWith('data:image/svg') ? decodeURIComponent(i.src) : '',"
        " i.getBoundingClientRect().width - 2 * parseFloat(getComputedStyle(i).paddingLeft)])))"
    )
    drawn = [(text, width) for text, width in found if text]
    assert drawn
    for text, width in drawn:
        units = float(re.search(r"viewBox=.0 0 ([\d.]+) ", text)[1])
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", text)]
        assert min(sizes) * width / units >= 11


def test_all_columns_come_on_request(page):
    def columns():
        titles = page.find_elements("css selector", "#cells .titles th")
        return sum(title.is_displayed() for title in titles)

    assert columns() == 7
    find(page, "#cells button.all").click()
    assert columns() == 22
    find(page, "#cells button.all").click()
    assert columns() == 7


def test_filters_stack_on_a_phone(page):
    facets = page.find_elements("css selector", ".facet")
    assert len({f.location["y"] for f in facets}) == 1
    resize(page, PHONE)
    assert len({f.location["y"] for f in facets}) == 3
    assert len({f.location["x"] for f in facets}) == 1


def test_pictures_are_drawn(page, written):
    widths = page.execute_async_script(
        "const done = arguments[0], images = Array.from(document.images);"
        "Promise.all(images.map(i => i.decode())).then(() => done(images.map(i => i.naturalWidth)))"
    )
    assert len(widths) == len(written[0].pictures)
    assert min(widths) > 100


def test_hostile_names_do_nothing(browser, tmp_path):
    out = tmp_path / "hostile.html"
    write_report(synthetic.write_hostile(tmp_path), out)
    resize(browser, PHONE)
    browser.get(out.as_uri())
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width == PHONE[0]
    assert len(shown(browser, "cells")) == 15
    box = browser.find_elements("css selector", ".facet[data-key=method] input")[-1]
    browser.execute_script("arguments[0].click()", box)
    assert len(shown(browser, "cells")) == 3
    refused = [e for e in browser.get_log("browser") if "Content Security Policy" in e["message"]]
    assert refused == []  # nothing even tried
