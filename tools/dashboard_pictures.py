"""Make the pictures of the dashboard in docs/pictures: over a real run of the demo campaign.

``python tools/dashboard_pictures.py`` needs the extra ``dev`` and a Chromium; it takes two minutes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import ViewportSize, expect  # noqa: E402

from browsers import chromium  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
CAMPAIGN = ROOT / "examples" / "recall" / "campaign.yaml"
COMMAND = [sys.executable, "-m", "benchfleet.cli.main"]
SIZE: ViewportSize = {"width": 1280, "height": 620}
LIMIT_MS = 300_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        at = [str(CAMPAIGN), "--results", folder]
        server = subprocess.Popen(
            [*COMMAND, "dashboard", *at, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        if server.stdout is None:
            raise SystemExit("the dashboard has no output")
        text = ""
        while not text.rstrip().endswith("}"):
            text += server.stdout.readline()
        link = json.loads(text)["link"]
        run = subprocess.Popen(
            [*COMMAND, "run", *at, "--cpu-slots", "2"], stdout=subprocess.DEVNULL
        )
        try:
            with chromium() as browser:
                page = browser.new_context(viewport=SIZE, device_scale_factor=1.5).new_page()
                page.goto(link)
                head = page.get_by_role("heading", level=1)
                expect(head).to_contain_text(re.compile(r"^(1[5-9]|2\d) of 40"), timeout=LIMIT_MS)
                expect(page.locator(".slot .num").first).to_be_visible(timeout=LIMIT_MS)
                page.screenshot(path=PICTURES / "dashboard.png")
                page.get_by_role("link", name="Matrix").first.click()
                expect(page.locator(".matrix")).to_be_visible()
                page.wait_for_timeout(1000)  # for the map beside it
                page.screenshot(
                    path=PICTURES / "dashboard-matrix.png",
                    clip={"x": 0, "y": 0, "width": 1280, "height": 450},
                )
        finally:
            for process in (run, server):
                process.send_signal(signal.SIGINT)
                process.wait()


if __name__ == "__main__":
    main()
