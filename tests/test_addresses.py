"""Links of the README, as a package index shows them."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def addresses():
    given = importlib.util.spec_from_file_location("addresses", ROOT / "addresses.py")
    module = importlib.util.module_from_spec(given)
    given.loader.exec_module(module)
    return module


def test_no_link_and_no_picture_of_the_readme_stays_relative(addresses):
    text = addresses.absolute(README, "https://host/us/rankwise", "v0.1.0")
    found = re.findall(r'\]\(([^)#]+)\)|(?:src|srcset)="([^"]+)"', text)
    assert len(found) > 10
    assert [one for pair in found for one in pair if one and not one.startswith("https://")] == []
    assert "https://host/us/rankwise/blob/v0.1.0/docs/right.rst" in text
    assert "https://host/us/rankwise/raw/v0.1.0/docs/_static/readme-light.svg" in text


def test_what_is_absolute_stays_as_it_is(addresses):
    text = "[a](https://a.org/b) ![c](https://c.org) [d](#d) `e`"
    assert addresses.absolute(text, "https://host/us/rankwise", "main") == text


def test_the_address_is_that_of_the_workflow_where_none_is_filled_in(addresses, monkeypatch):
    monkeypatch.setattr(addresses.tomllib, "loads", lambda _: {"project": {}})
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://host")
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/rankwise")
    assert addresses.repository() == "https://host/us/rankwise"
    monkeypatch.setattr(
        addresses.tomllib, "loads", lambda _: {"project": {"urls": {"Source": "https://b/"}}}
    )
    assert addresses.repository() == "https://b"
