"""The page of the service in a browser: findings, limits, reasons; on a phone, by keyboard."""

import shutil

import pytest

import cmpe
from cmpe import Problem

pytest.importorskip("selenium", reason="the browser tests need selenium")
pytest.importorskip("starlette", reason="the service needs the extra serve")
pytest.importorskip("uvicorn")
from tests.service.serving import serving

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="make browser installs chromium")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)
DESK, PHONE = (1280, 900), (390, 844)
FAULTS = ["HYPOVOLEMIA", "LVFAILURE", "ANAPHYLAXIS", "INSUFFANESTH", "PULMEMBOLUS", "DISCONNECT"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    net = cmpe.read_model(cmpe.example("alarm"))
    few = cmpe.count(dict.fromkeys(FAULTS, "TRUE"), name="faults") <= 2
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('page')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with serving(Problem(net, [few], name="alarm")) as port:
        driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))
        driver.site = f"http://127.0.0.1:{port}/"
        yield driver
        errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
        driver.quit()
    assert [e for e in errors if "favicon" not in e] == []


def find(browser, selector):
    return browser.find_element("css selector", selector)


def settled(browser):
    """Wait until the last question is answered."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.execute_async_script("setTimeout(arguments[0], 300)")
    WebDriverWait(browser, 60).until(
        lambda b: find(b, "#results").get_attribute("aria-busy") == "false"
    )


def opened(browser, size=DESK):
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(browser.site)
    settled(browser)


def choose(browser, variable, option):
    from selenium.webdriver.support.ui import Select

    row = find(browser, f'.variable[data-name="{variable}"]')
    Select(row.find_element("css selector", "select")).select_by_visible_text(option)
    settled(browser)
    return row


def limit(browser, value):
    box = find(browser, "#limits input")
    browser.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        box, value,
    )  # fmt: skip
    settled(browser)


def text(browser, selector):
    return find(browser, selector).text


def state(browser, variable):
    rows = browser.find_elements("css selector", "#answer tbody tr")
    cells = [[c.text for c in row.find_elements("css selector", "td")] for row in rows]
    return next(row[1] for row in cells if row[0] == variable)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_findings_limits_costs_and_reasons(browser, size, tmp_path):
    opened(browser, size)
    assert text(browser, "#proof").startswith("proved")
    for variable, option in (("BP", "LOW"), ("CVP", "HIGH"), ("HRBP", "HIGH")):
        choose(browser, variable, option)
    assert state(browser, "HYPOVOLEMIA") == "TRUE"
    assert "As a whole it has probability" in text(browser, "#sure")
    assert "Nothing: no other limit" in text(browser, "#cost")
    assert "times as probable" in text(browser, "#others")
    limit(browser, 0)
    assert state(browser, "HYPOVOLEMIA") == "FALSE"
    assert "times as probable" in text(browser, "#cost")
    assert browser.find_elements("css selector", "#cost svg path")
    choose(browser, "LVFAILURE", "TRUE")
    assert text(browser, "#proof").startswith("There is none: cannot hold together: ")
    assert "faults" in text(browser, "#proof")
    assert not browser.find_elements("css selector", "#answer table")
    limit(browser, "")
    assert state(browser, "LVFAILURE") == "TRUE"
    wide = browser.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert wide  # nothing is cut off at the side
    browser.save_screenshot(str(tmp_path / "page.png"))
    find(browser, "#clear").click()
    settled(browser)
    assert "seen" not in [c.text for c in browser.find_elements("css selector", "td.number")]


def test_soft_findings(browser):
    opened(browser)
    row = choose(browser, "BP", "likely, not sure ...")
    sliders = row.find_elements("css selector", "input[type=range]")
    assert [float(s.get_attribute("value")) for s in sliders] == [0.8, 0.1, 0.1]
    assert state(browser, "BP") == "LOW"
    browser.execute_script(
        "arguments[0].value = 0; arguments[0].dispatchEvent(new Event('input'))", sliders[0]
    )
    settled(browser)
    assert state(browser, "BP") != "LOW"


def test_keys_reach_everything_and_labels_name_it(browser):
    from selenium.webdriver.common.keys import Keys

    opened(browser)
    box = find(browser, "#find")
    box.send_keys("hrb")
    shown = [r for r in browser.find_elements("css selector", ".variable") if r.is_displayed()]
    assert [r.get_attribute("data-name") for r in shown] == ["HRBP"]
    box.send_keys(Keys.TAB, Keys.TAB)
    for _ in range(3):
        active = browser.switch_to.active_element
        if active.tag_name == "select":
            break
        active.send_keys(Keys.TAB)
    active = browser.switch_to.active_element
    assert active.get_attribute("id") == shown[0].find_element(
        "css selector", "select"
    ).get_attribute("id")
    active.send_keys("HIGH")
    settled(browser)
    assert state(browser, "HRBP") == "HIGH"
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select')]"
        ".filter((e) => !e.labels.length && !e.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
