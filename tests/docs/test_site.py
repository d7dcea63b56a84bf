"""The site in a real browser, at the width of a desk and of a phone; `make docs` builds it."""

from __future__ import annotations

import re
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "build" / "html"
pytest.importorskip("selenium", reason="the browser tests need selenium")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="make browser installs chromium"),
]
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)
DESK, PHONE = (1280, 900), (390, 844)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    profile = tmp_path_factory.mktemp("site")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
    driver.site = f"http://127.0.0.1:{server.server_port}"
    yield driver
    errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    driver.quit()
    server.shutdown()
    server.server_close()
    assert errors == []  # nothing was asked of the network, no script failed


def opened(browser, page, size=DESK):
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(f"{browser.site}/{page}")
    return browser


def wait(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 30).until(condition)


def find(browser, selector):
    return browser.find_element("css selector", selector)


PAGES = sorted(
    page
    for page in (file.relative_to(SITE).as_posix() for file in SITE.rglob("*.html"))
    if not page.startswith("_")
)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_no_page_scrolls_sideways(browser, size):
    wide = {}
    for page in PAGES:
        opened(browser, page, size)
        found = browser.execute_script("return document.documentElement.scrollWidth")
        if found > size[0]:
            wide[page] = found
    assert wide == {}


def test_navigation_leads_from_the_front_page_to_every_section(browser):
    opened(browser, "index.html")
    links = browser.find_elements("css selector", ".bd-header .navbar-nav a.nav-link")
    titles = [link.text for link in links]
    assert titles[:3] == ["Learn", "Gallery", "How-to"]
    assert {"Reference", "Explanation"} <= set(titles)
    links[titles.index("Learn")].click()
    wait(browser, lambda b: b.current_url.endswith("learn.html"))
    find(browser, ".bd-sidebar-primary a[href='first-answer.html']").click()
    wait(browser, lambda b: find(b, "h1").text.startswith("First answer"))
    assert "first-answer.html" in browser.current_url


def test_a_phone_has_a_menu(browser):
    opened(browser, "index.html", PHONE)
    button = find(browser, "button.primary-toggle")
    assert button.is_displayed()
    button.click()
    link = wait(browser, lambda b: find(b, "#pst-primary-sidebar-modal a[href='learn.html']"))
    wait(browser, lambda _: link.is_displayed())
    link.click()
    wait(browser, lambda b: b.current_url.endswith("learn.html"))


def test_search_finds_front(browser):
    opened(browser, "search.html?q=front")
    wait(browser, lambda b: b.find_elements("css selector", "#search-results li a"))
    wait(browser, lambda b: "front" in find(b, "#search-results").text.lower())


def test_code_is_copied_without_its_prompt(browser):
    from selenium.webdriver.common.action_chains import ActionChains

    opened(browser, "first-answer.html")
    browser.execute_script(
        "document.addEventListener('copy', () => {"
        "  window.copied = document.activeElement.value || String(getSelection()); });"
    )
    block = find(browser, ".highlight-console")
    ActionChains(browser).move_to_element(block).perform()  # the button shows itself
    ActionChains(browser).click(block.find_element("css selector", "button.copybtn")).perform()
    wait(browser, lambda b: b.execute_script("return window.copied"))
    assert browser.execute_script("return window.copied").strip() == "pip install ."


@pytest.mark.parametrize(("mode", "dark"), [("dark", True), ("light", False)])
def test_dark_mode_is_dark(browser, mode, dark):
    opened(browser, "index.html")
    find(browser, ".bd-header button.theme-switch-button").click()
    items = browser.find_elements("css selector", f".dropdown-menu [data-mode={mode}]")
    item = wait(browser, lambda _: next((i for i in items if i.is_displayed()), None))
    item.click()
    wait(
        browser, lambda b: b.execute_script("return document.documentElement.dataset.theme") == mode
    )
    text = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in re.findall(r"\d+", text)[:3]) < 200) is dark


def test_gallery_pages_have_their_pictures(browser):
    for page in (p for p in PAGES if p.startswith("gallery/") and "index" not in p):
        opened(browser, page)
        widths = browser.execute_script(
            "return Array.from(document.querySelectorAll('.sphx-glr-single-img'))"
            ".map(i => i.naturalWidth)"
        )
        if "sg_execution" not in page:
            assert widths, page
            assert min(widths) > 300, page


def test_formulas_are_drawn_by_the_browser(browser):
    opened(browser, "learning.html")
    assert browser.execute_script("return document.querySelectorAll('math').length") > 20
