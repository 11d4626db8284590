import json
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the extra 'ask' is not installed")

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.hacked = true</script>"
NAMES = ["apple", "banana", "cherry", HOSTILE]


@pytest.fixture
def page(tmp_path):
    """The address of a running `rankwise ask`."""
    rows = "".join(f'"{name}","<b>about</b> {name}"\n' for name in NAMES)
    (tmp_path / "items.csv").write_text("name,text\n" + rows)
    command = [sys.executable, "-m", "rankwise", "ask", "items.csv", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    link = None
    for line in process.stdout:
        found = re.search(r"Open (http\S+)", line)
        if found:
            link = found[1]
            break
    assert link, "the server did not start"
    yield link
    process.terminate()
    process.communicate(timeout=60)


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the page did not come to the expected state")


def element(browser, selector):
    return browser.find_element("css selector", selector)


def text(browser, selector):
    return element(browser, selector).text


def join(browser, page, name="Ann"):
    browser.get(page)
    wait_for(lambda: element(browser, "#name").is_displayed())
    element(browser, "#name").send_keys(name)
    element(browser, "#join button").click()
    wait_for(lambda: element(browser, "#left").is_displayed())


def press(browser, key):
    element(browser, "body").send_keys(key)


def answers(browser):
    return int(re.search(r"(\d+) answers", text(browser, "#goal"))[1])


def hosts_asked(browser):
    """Return the hosts of all requests since the last look."""
    found = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.add(urlsplit(message["params"]["request"]["url"]).netloc)
    return found - {""}


def test_a_whole_session_by_keyboard(browser, page):
    join(browser, page)
    for n in range(1, 7):
        left, right = text(browser, "#left .name"), text(browser, "#right .name")
        press(browser, "1" if left < right else "2")
        wait_for(lambda n=n: answers(browser) == n)
    wait_for(lambda: element(browser, "#finished").is_displayed())

    def ranking():
        return [
            cell.text for cell in browser.find_elements("css selector", "#ranking td:nth-child(2)")
        ]

    wait_for(lambda: ranking() == sorted(NAMES))
    assert browser.execute_script("return window.hacked") is None
    assert browser.get_log("browser") == []
    assert hosts_asked(browser) == {urlsplit(page).netloc}


def test_ties_skips_and_undo(browser, page):
    join(browser, page)
    press(browser, "=")
    wait_for(lambda: answers(browser) == 1)
    press(browser, "s")
    wait_for(lambda: answers(browser) == 2)
    shown = {text(browser, "#left .name"), text(browser, "#right .name")}
    press(browser, "u")
    wait_for(lambda: answers(browser) == 1)
    assert {text(browser, "#left .name"), text(browser, "#right .name")} != shown


def test_reloading_in_the_middle_goes_on(browser, page):
    join(browser, page)
    press(browser, "1")
    wait_for(lambda: answers(browser) == 1)
    shown = (text(browser, "#left .name"), text(browser, "#right .name"))
    browser.refresh()
    wait_for(lambda: element(browser, "#left").is_displayed())
    assert (text(browser, "#left .name"), text(browser, "#right .name")) == shown
    assert not element(browser, "#join").is_displayed()


def test_texts_with_markup_stay_text(browser, page):
    join(browser, page)
    assert text(browser, "#left .text").startswith("<b>about</b>")


def test_a_phone_shows_both_items_without_scrolling_sideways(browser, page):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
    )
    join(browser, page)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= 390
    for selector in ["#left", "#right", "[data-answer=tie]", "[data-answer=skip]", "#undo"]:
        box = element(browser, selector).rect
        assert box["y"] + box["height"] <= 844
        assert box["height"] >= 44  # large enough for a thumb


def test_every_control_has_a_name_and_focus_is_visible(browser, page):
    join(browser, page)
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, input, a, progress, img:not([hidden])')]"
        ".filter(e => e.offsetParent !== null)"
        ".filter(e => !(e.textContent.trim() || e.labels?.length"
        " || e.getAttribute('aria-label') || e.getAttribute('aria-describedby')"
        " || e.hasAttribute('alt'))).map(e => e.outerHTML)"
    )
    assert unnamed == []


def test_the_report_opens_and_asks_nobody(browser, page):
    join(browser, page)
    press(browser, "1")
    wait_for(lambda: answers(browser) == 1)
    browser.get(page + "report.html")
    assert "Ranking of 4 items" in text(browser, "h1")
    assert HOSTILE in text(browser, "table")
    assert browser.get_log("browser") == []
    assert hosts_asked(browser) == {urlsplit(page).netloc}


CONTRASTS = """
const channel = v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
const rgba = s => s.match(/[\\d.]+/g).map(Number);
const ground = e => {
  for (; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll('body *')]
  .filter(e => e.offsetParent !== null && !e.disabled)
  .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
  .map(e => {
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 80)];
  });
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(browser, page, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    join(browser, page)
    press(browser, "1")
    wait_for(lambda: answers(browser) == 1)
    found = browser.execute_script(CONTRASTS)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert len(found) > 10
    assert [text for ratio, text in found if ratio < 4.5] == []  # WCAG AA
