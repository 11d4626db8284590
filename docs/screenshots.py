"""Photograph the pages that rankwise makes, in light and dark: ``python docs/screenshots.py``.

It needs chromium, chromedriver and the packages of ``make test``, and writes ``_static/shots``.
Run it when a page looks different.
"""

import base64
import io
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from selenium import webdriver
from sklearn.datasets import load_digits
from terminals import folder_of_data, printed

FOLDER = Path(__file__).parent / "_static" / "shots"
CHROMIUM = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-sync",
]
CHROMIUM += ["--disable-background-networking", "--disable-component-update"]


@contextmanager
def chromium():
    """Start a browser without a past."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        for argument in [*CHROMIUM, f"--user-data-dir={profile}"]:
            options.add_argument(argument)
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        browser = webdriver.Chrome(options=options, service=service)
        yield browser
        browser.quit()


def show(browser, theme, width, height):
    """Set the size of the screen and whether the reader likes it dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wish = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
    time.sleep(0.5)


def photograph(browser, name, width=860, height=640):
    """Write what the browser shows, once in light and once in dark."""
    FOLDER.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        show(browser, theme, width, height)
        data = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        picture.save(FOLDER / f"{name}-{theme}.webp", quality=82, method=6)


@contextmanager
def serving(folder, *command):
    """Run a command that serves a page, and return the address that it prints."""
    line = [sys.executable, "-u", "-m", "rankwise", *command]
    with subprocess.Popen(
        line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for said in process.stdout:
            if found := re.search(r"(http://\S+)", said):
                break
        yield found[1].rstrip(".:;,")
        process.terminate()


def write_sevens(folder):
    """Write ten handwritten sevens as images."""
    digits = load_digits()
    for i, image in enumerate(digits.images[digits.target == 7][:10]):
        grey = (255 - image * 255 / 16).astype(np.uint8)
        Image.fromarray(grey).resize((320, 320), Image.Resampling.BICUBIC).save(
            folder / f"writer {i + 1}.png"
        )


def answer(browser, address):
    """Take part, and answer a few questions."""
    browser.get(address)
    time.sleep(1)
    browser.find_element("css selector", "#name").send_keys("Ann")
    browser.find_element("css selector", "#join button").click()
    for key in "121121221121":
        time.sleep(0.6)
        browser.find_element("css selector", "body").send_keys(key)
    time.sleep(1)


def main():
    """Make all pages and photograph them."""
    folder = Path(folder_of_data().name)
    printed(folder, "rankwise fit queries.csv -o model --time-budget 20")
    printed(folder, "rankwise report model test.csv -o report.html")
    printed(folder, "rankwise leaderboard battles.csv --judges --audit -o board.html")
    sevens = folder / "sevens"
    sevens.mkdir()
    write_sevens(sevens)
    with chromium() as browser:
        browser.get((folder / "report.html").as_uri())
        photograph(browser, "report")
        browser.get((folder / "board.html").as_uri())
        photograph(browser, "leaderboard", height=760)
        printed(folder, "rankwise fit rls queries.csv -o served --features pixel_2,pixel_3,pixel_4")
        with serving(folder, "serve", "served", "--port", "8765") as address:
            browser.get(address + "/docs")
            photograph(browser, "serve", height=620)
        question = [
            "--question",
            "Which seven is easier to read?",
            "--goal",
            "top 3",
            "--no-browser",
        ]
        with serving(folder, "ask", "sevens", *question) as address:
            show(browser, "light", 860, 640)
            answer(browser, address)
            photograph(browser, "ask")
            photograph(browser, "ask_phone", 390, 800)


if __name__ == "__main__":
    main()
