"""Make the pictures in `docs/pictures` from a run of the demo campaign.

``python tools/pictures.py`` needs benchfleet with the extras ``lm-eval`` and ``report``, tmux and
chromium. It takes about a minute.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
CAMPAIGN = ROOT / "examples/recall/campaign.yaml"
PICTURES = ROOT / "docs/pictures"
COLUMNS, ROWS = 100, 10
LIVE_AFTER_CELLS = 2
PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; background: #0c0c0c; color: #d9d9d9 }}
pre {{ margin: 0; padding: 16px 20px; font: 15px/1.45 "DejaVu Sans Mono", Menlo, monospace }}
</style><pre>{}</pre>"""


def main() -> int:
    """Run the demo campaign and take both pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        screen = live_view(results, Path(folder, "tmux"))
        page = Path(folder, "live.html")
        page.write_text(PAGE.format(to_html(screen)), encoding="utf-8")
        screenshot(
            page, PICTURES / "live.png", width=980, height=len(screen.splitlines()) * 22 + 32
        )
        report = Path(folder, "report.html")
        command = ["report", str(CAMPAIGN), "--results", str(results), "--output", str(report)]
        subprocess.run([sys.executable, "-m", "benchfleet", *command], check=True)
        screenshot(report, PICTURES / "report.png", width=1250, height=960)
    return 0


def live_view(results: Path, socket: Path) -> str:
    """What a terminal shows in the middle of a run, with its colours; the run then ends."""
    tmux = ["tmux", "-S", str(socket)]
    arguments = ["run", str(CAMPAIGN), "--results", str(results), "--cpu-slots", "2"]
    command = shlex.join([sys.executable, "-m", "benchfleet", *arguments])
    terminal = {**os.environ, "TERM": "xterm-256color"}
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    subprocess.run([*tmux, "new-session", "-d", *size, command], check=True, env=terminal)
    chosen, screen = "", ""
    try:
        while subprocess.run([*tmux, "has-session"], capture_output=True).returncode == 0:
            capture = [*tmux, "capture-pane", "-p", "-e"]
            screen = subprocess.run(capture, capture_output=True, text=True).stdout
            if shows_two_busy_slots(Text.from_ansi(screen).plain):
                chosen = screen.rstrip()
            time.sleep(0.05)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True)
    if not chosen:
        raise SystemExit(
            f"the live view never had two busy dense slots; its last screen:\n{screen}"
        )
    return chosen


def shows_two_busy_slots(screen: str) -> bool:
    """Whether a few cells are done and both slots are in the middle of a dense cell."""
    done = re.search(r"(\d+) done", screen)
    count = int(done.group(1)) if done else 0
    dense = re.findall(r"cpu:\d .*/dense/.* (\d+)/(\d+) ", screen)
    busy = [now for now, total in dense if 20 <= int(now) < int(total)]
    return count >= LIVE_AFTER_CELLS and len(busy) == 2


def to_html(screen: str) -> str:
    """Terminal output as HTML text with coloured spans."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(re.sub("\x1b\\[[34]9m", "\x1b[0m", screen)), soft_wrap=True)
    return console.export_html(theme=MONOKAI, inline_styles=True, code_format="{code}")


def screenshot(page: Path, picture: Path, *, width: int, height: int) -> None:
    """A picture of the top of a page, at twice its size."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no chromium here; install it: apt-get install chromium")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        f"--user-data-dir={page.parent / 'browser'}", "--virtual-time-budget=5000",
        "--force-device-scale-factor=1.25", f"--window-size={width},{height}",
        f"--screenshot={picture}",
    ]  # fmt: skip
    subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
