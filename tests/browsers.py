"""A real browser for tests, in which foreign requests and forbidden code fail the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, until the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A page of one origin, with what it must not do."""

    def __init__(self, browser: Browser, origin: str, **context: Any) -> None:
        self.origin = origin
        self.context = browser.new_context(**{"viewport": WIDE, **context})
        self.page: Page = self.context.new_page()
        self.violations: list[str] = []
        self.page.on("request", self._look_at_request)
        self.page.on("console", self._look_at_message)
        self.page.on("pageerror", lambda error: self.violations.append(str(error)))

    def _look_at_request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.violations.append(f"request to {request.url}")

    def _look_at_message(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "violates" in message.text:
            self.violations.append(message.text)

    def check(self) -> None:
        """Nothing forbidden happened so far."""
        assert self.violations == []

    def check_accessible(self) -> None:
        """axe finds nothing serious on the page as it is."""
        found = Axe().run(self.page).response["violations"]
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []

    def check_width(self) -> None:
        """The page itself does not scroll sideways."""
        assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
