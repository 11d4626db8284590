"""Two people with a phone each rank thirty pictures together."""

import re
import struct
import subprocess
import sys
import time
import zlib

import pytest

from browser.conftest import start_chromium

pytest.importorskip("starlette", reason="the extra 'ask' is not installed")

pytestmark = pytest.mark.browser

N_PICTURES, N_EACH = 30, 30


def png(shade, size=48):
    """Return a grey square as a PNG file."""
    rows = (b"\0" + bytes([shade]) * size) * size

    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(N_PICTURES):
        (folder / f"shade{k:02d}.png").write_bytes(png(8 * k))
    command = [sys.executable, "-m", "rankwise", "ask", "photos", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    link = next(
        (found[1] for line in process.stdout if (found := re.search(r"Open (http\S+)", line))), None
    )
    assert link, "the server did not start"
    yield link
    process.terminate()
    process.communicate(timeout=60)


@pytest.fixture
def phones(tmp_path):
    screen = {"width": 390, "height": 844, "pixelRatio": 2.0, "touch": True}
    started = [start_chromium(tmp_path / f"phone{k}", screen) for k in range(2)]
    yield started
    for one in started:
        one.quit()


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("the page did not come to the expected state")


def numbers(phone, selector):
    """Return the numbers in the names that the page shows, read at one moment."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    return [int(re.sub(r"\D", "", name)) for name in phone.execute_script(script, selector) if name]


def shown(phone):
    """Return the numbers of the two pictures."""
    return numbers(phone, "#left .name, #right .name")


def answer(phone):
    """Tap the lighter picture, and wait for the next question."""
    left, right = shown(phone)
    phone.find_element("css selector", "#left" if left > right else "#right").click()
    wait_for(lambda: shown(phone) != [left, right])


def test_two_phones_rank_thirty_pictures(phones, page):
    for phone, name in zip(phones, ["Ann", "Bob"], strict=True):
        phone.get(page)
        wait_for(lambda phone=phone: phone.find_element("css selector", "#name").is_displayed())
        phone.find_element("css selector", "#name").send_keys(name)
        phone.find_element("css selector", "#join button").click()
        wait_for(lambda phone=phone: phone.find_element("css selector", "#left").is_displayed())
        picture = phone.find_element("css selector", "#left img")
        wait_for(lambda p=phone, e=picture: p.execute_script("return arguments[0].naturalWidth", e))
    for _ in range(N_EACH):
        for phone in phones:
            answer(phone)
    first = phones[0]
    wait_for(lambda: f"{2 * N_EACH} answers" in first.find_element("css selector", "#goal").text)

    ranking = "#ranking td:nth-child(2)"
    wait_for(lambda: len(numbers(first, ranking)) >= 5)
    best = numbers(first, ranking)[:5]
    assert sum(best) / len(best) > 22  # the lightest of thirty are 25 to 29
