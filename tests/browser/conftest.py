"""A real browser: Debian's Chromium with its driver; without one these tests are skipped."""

import shutil

import pytest

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def start_chromium(profile, phone=None):
    """Start Chromium with a profile of its own, on the screen of a phone if its size is given."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no chromium and chromedriver on this machine; see make test-browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in [*ARGUMENTS, f"--user-data-dir={profile}"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if phone is not None:
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": phone})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    started = start_chromium(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture
def browser(driver):
    """A browser without cookies and logs, at the size of a desk."""
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.set_window_size(1200, 1000)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    return driver
