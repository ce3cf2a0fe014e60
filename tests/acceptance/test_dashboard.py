"""The dashboard in a real browser, over a real run."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsers import BROWSER, NARROW, WatchedPage, chromium
from postgres import Postgres

from .conftest import User
from .served_dashboard import served

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")
LIMIT_MS = 60_000
TALK = """\
import json, pathlib, sys, time
model, result = sys.argv[1:3]
here = pathlib.Path(__file__).parent
for number in range(10_000):
    print(f"line {number} of {model}", flush=True)
    if (here / f"end-{model}").exists():
        break
    time.sleep(0.1)
if model == "m1" and not (here / "fixed").exists():
    print("\\x1b[31mit is not fixed\\x1b[0m")
    sys.exit(3)
pathlib.Path(result).write_text(json.dumps({"score": 1.0}))
"""
STUDY = """\
campaign: study
defaults: {limits: {tries: 1}}
matrix:
  models:
    - {name: m1, adapter: mock, model_kwargs: {answer: Ada Brandt}}
    - {name: m2, adapter: mock, model_kwargs: {answer: Ingham}}
  configs: {dense: null, sparse: {attention: [{local: 8}]}}
  benchmarks:
    - mock_benchmark
    - command: {name: talk, argv: [python, talk.py, "{model}", "{result}"]}
  exclude:
    - {benchmarks: talk, configs: sparse}
"""
HELD = """\
campaign: study
matrix:
  models: [{name: m1, adapter: none}, {name: m2, adapter: none}, {name: m3, adapter: none}]
  benchmarks:
    - command: {name: talk, argv: [python, talk.py, "{model}", "{result}"]}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LIMIT_MS)
    with chromium() as found:
        yield found


def test_a_person_follows_a_run(user: User, browser: Browser) -> None:
    user.write(STUDY)
    user.write(TALK, "talk.py")
    server, address, link = served(user)
    watched = WatchedPage(browser, address)
    page = watched.page
    page.set_default_timeout(LIMIT_MS)

    page.goto(link)
    assert "token" not in page.url
    expect(page.get_by_role("heading", level=1)).to_have_text("0 of 6 cells done")
    expect(page.get_by_text("read-only")).to_have_count(0)

    # The run progresses without a reload.
    user.start("run", "study.yaml", "--cpu-slots", "3")
    expect(page.get_by_role("heading", level=1)).to_contain_text("4 of 6 cells done")
    expect(page.locator("#status")).to_have_text("live")
    watched.check_accessible()

    # A cell's log grows; the cell fails, and is tried again.
    page.locator(".slot").get_by_role("link", name="m1/dense/talk").click()
    expect(page.locator("#log")).to_contain_text(re.compile(r"line [1-9]\d of m1"))
    (user.folder / "end-m1").touch()
    head = page.get_by_role("heading", level=1)
    expect(head).to_contain_text("failed")
    page.reload()
    expect(page.locator("#log .ansi-red")).to_have_text("it is not fixed")
    (user.folder / "fixed").touch()
    page.keyboard.press("r")
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("1 cell goes back to waiting")
    dialog.get_by_role("button", name="Retry").click()
    expect(dialog).to_contain_text("Ordered by")
    dialog.get_by_text("Close").click()
    expect(head).to_contain_text("done")

    # The matrix is filtered, and two configs are compared by sample.
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_label("config").select_option("sparse")
    expect(page.locator(".summary")).to_contain_text("2 cells: 2 models × 1 config")
    watched.check_accessible()
    page.locator(".tile").first.click()
    page.get_by_role("link", name="Side by side").click()
    expect(page.locator(".four caption")).to_contain_text("A is sparse, B is dense")
    expect(page.locator(".pairs li")).not_to_have_count(0)

    # A host is drained by its runner, and taken back.
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.get_by_role("link", name="Drain the host").click()
    expect(dialog).to_contain_text("3 devices of")
    dialog.get_by_role("button", name="Drain").click()
    expect(dialog).to_contain_text("cpu:0")
    expect(dialog).to_contain_text("Ordered by")
    dialog.get_by_text("Close").click()
    expect(page.get_by_role("link", name="Resume cpu:0")).to_be_visible()
    watched.check_accessible()
    page.get_by_role("link", name="Resume the host").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(dialog).to_contain_text("Ordered by")
    dialog.get_by_text("Close").click()
    expect(page.get_by_role("link", name="Resume")).to_have_count(0)

    # The browser goes offline and comes back; the page says so, and goes on.
    watched.context.set_offline(True)
    expect(page.locator("#status")).to_contain_text("does not answer")
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 machine at work")
    watched.context.set_offline(False)
    expect(page.locator("#status")).to_have_text("live")

    # The server is killed and started again; the page says so, and goes on with its session.
    server.kill()
    server.wait()
    expect(page.locator("#status")).to_contain_text("does not answer")
    (user.folder / "end-m2").touch()
    server, _, _ = served(user, int(address.rstrip("/").rpartition(":")[2]))
    expect(page.locator("#status")).to_have_text("live")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(head).to_contain_text("6 of 6 cells done")
    expect(page.get_by_text("read-only")).to_have_count(0)

    # Ctrl-C ends it although a stream is open.
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=30) == 0
    watched.check()


def test_two_browsers_follow_three_workers_through_a_restart_of_postgresql(
    user: User, own_postgres: Postgres, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write(HELD)
    user.write(TALK, "talk.py")
    (user.folder / "fixed").touch()
    at = ("--ledger", own_postgres.url())
    hosts = ("ana", "bea", "cleo")
    for host in hosts:
        monkeypatch.setenv("BENCHFLEET_HOST", host)
        user.start("run", "study.yaml", *at, "--cpu-slots", "1", "--results", host)
    soon = "from benchfleet.dashboard import watcher; watcher.CALL_TIMEOUT_S = 3.0"
    server, address, link = served(user, 0, *at, settings=soon)
    person = WatchedPage(browser, address)
    reader = WatchedPage(browser, address, viewport=NARROW)
    person.page.goto(link)
    reader.page.goto(f"{address}c/study/machines")
    every = [person.page, reader.page]
    expect(reader.page.get_by_role("heading", level=1)).to_have_text("3 machines at work")
    for host in hosts:
        expect(reader.page.get_by_role("heading", name=host)).to_contain_text("running")
    head = person.page.get_by_role("heading", level=1)
    expect(head).to_contain_text("0 of 3 cells done, 3 running")

    own_postgres.stop()
    for page in every:
        expect(page.locator("#status")).to_contain_text("the ledger cannot be read")
    expect(head).to_contain_text("0 of 3 cells done, 3 running")  # what was read before
    own_postgres.start()
    for page in every:
        expect(page.locator("#status")).to_have_class(re.compile("live"))
    for model in ("m1", "m2", "m3"):
        (user.folder / f"end-{model}").touch()
    expect(head).to_contain_text("3 of 3 cells done")
    expect(reader.page.get_by_role("heading", level=1)).to_contain_text("0 machines at work")
    for watched in (person, reader):
        watched.check()
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=30) == 0


def test_pages_fit_a_phone_read_without_script_and_open_from_disk(
    user: User, mock_run: Path, browser: Browser
) -> None:
    user.write((mock_run / "study.yaml").read_text())
    _, address, _ = served(user)
    phone = WatchedPage(browser, address, viewport=NARROW, color_scheme="dark")
    for path in ("", "matrix", "cells", "failures", "machines"):
        phone.page.goto(f"{address}c/study/{path}")
        expect(phone.page.locator("nav.tabs")).to_be_visible()
        phone.check_width()
        phone.check_accessible()
    phone.check()
    tabs = [phone.page, *(phone.context.new_page() for _ in range(9))]
    for tab in tabs:  # they share one stream, since a browser opens few connections to a server
        tab.goto(f"{address}c/study/")
    for tab in tabs:
        expect(tab.locator("#status")).to_have_class(re.compile("live"))
    phone.check()
    reader = WatchedPage(browser, address, java_script_enabled=False)
    reader.page.goto(address)
    expect(reader.page.get_by_role("heading", level=1)).to_contain_text("0 of 2 cells done")
    reader.page.get_by_role("link", name="Matrix").first.click()
    expect(reader.page.locator(".matrix")).to_be_visible()
    reader.check()
    user.run("dashboard", "study.yaml", "--export", "site")
    index = (user.folder / "site" / "index.html").as_uri()
    site = WatchedPage(browser, "file://")
    site.page.goto(index)
    expect(site.page.get_by_role("heading", level=1)).to_contain_text("0 of 2 cells done")
    site.page.keyboard.press("g")
    site.page.keyboard.press("m")
    expect(site.page.locator(".matrix")).to_be_visible()
    site.check()
