"""The report in a real browser: it renders, asks for nothing, and fits a phone."""

import json

import numpy as np
import pytest

from rankwise import PreferenceGP, RankRLSCV, make_report

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(100, 3)), np.repeat(np.arange(20), 5)
    y = np.clip(np.round(1 + X[:, 0] + 0.5 * rng.normal(size=100)), 0, 3)
    models = {"chosen": RankRLSCV(alphas=[0.1, 1.0]), HOSTILE: PreferenceGP()}
    for model in models.values():
        model.fit(X[:25], y[:25], qid=qid[:25])
    names = [HOSTILE, "clicks", "x" * 200]
    report = make_report(
        models,
        X,
        y,
        qid,
        measures=["NDCG @ 3", "AP"],
        feature_names=names,
        item_names=[HOSTILE] * 100,
        title="Report",
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.save(path)
    return path.as_uri()


def show(browser, page, width, scheme="light"):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(page)


def test_it_renders_without_errors_or_requests(browser, page):
    show(browser, page, 1200)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if url != page and not url.startswith("data:")] == []
    assert len(browser.find_elements("tag name", "svg")) == 5
    assert all(figure.size["height"] > 100 for figure in browser.find_elements("tag name", "svg"))


def test_hostile_names_are_text(browser, page):
    show(browser, page, 1200)
    assert browser.title == "Report"
    assert browser.find_elements("tag name", "script") == []
    assert browser.find_elements("tag name", "img") == []
    assert HOSTILE in browser.find_element("tag name", "main").text


@pytest.mark.parametrize("width", [360, 390, 768, 1200])
def test_it_fits_the_screen(browser, page, width):
    show(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(browser, page, scheme):
    show(browser, page, 1200, scheme)
    script = "return getComputedStyle(document.body)[arguments[0]]"
    text, ground = (browser.execute_script(script, name) for name in ("color", "backgroundColor"))
    assert contrast(text, ground) > 10
    soft = browser.find_element("css selector", ".lead").value_of_css_property("color")
    assert contrast(soft, ground) > 4.5


def test_it_prints_with_all_its_tables(browser, page):
    show(browser, page, 1200)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not browser.find_element("tag name", "nav").is_displayed()
    assert len(browser.print_page()) > 10_000


def contrast(one, other):
    """Return the contrast of two colours by the rule of WCAG."""
    lights = sorted(luminance(colour) for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour):
    parts = np.array([float(v) for v in colour.partition("(")[2].rstrip(")").split(",")[:3]]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
