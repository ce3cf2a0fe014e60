"""The dashboard behind a real nginx, with a path prefix, in two browsers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchfleet.dashboard.app import application
from benchfleet.dashboard.security import allowed_hosts
from benchfleet.dashboard.server import listen, serving
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens
from benchfleet.testing import sample_cell
from browsers import BROWSER, WatchedPage, chromium
from dashboards import KEY, NAME, every_kind_of_cell
from watchers import free_port

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
LIMIT_MS = 60_000
CONFIG = """\
daemon off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /bench/ {{
      proxy_pass http://127.0.0.1:{target}/;
      proxy_set_header Host $http_host;
      proxy_buffering off;
    }}
  }}
}}
"""


@contextmanager
def proxied(folder: Path, port: int, target: int) -> Iterator[None]:
    """An nginx of the test's own."""
    file = folder / "nginx.conf"
    file.write_text(CONFIG.format(folder=folder, port=port, target=target))
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(file)])
    try:
        while not (folder / "pid").exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(NGINX is None or BROWSER is None, reason="needs nginx and chromium")
def test_behind_a_prefix_pages_are_live_and_orders_pass(tmp_path: Path) -> None:
    campaign = every_kind_of_cell(tmp_path)
    campaigns = campaign.campaigns()
    port, listener = free_port(), listen("127.0.0.1", 0)
    target = listener.getsockname()[1]
    tokens, streams = Tokens(KEY, target), Streams()
    hosts = allowed_hosts("127.0.0.1", target, [f"127.0.0.1:{port}"])
    app = application(campaigns, tokens, streams, hosts=hosts, private=False)
    address = f"http://127.0.0.1:{port}/bench/"
    with (
        closing(campaign.ledger),
        serving(app, listener, stop=streams.stop),
        proxied(tmp_path, port, target),
        chromium() as browser,
    ):
        owner, reader = WatchedPage(browser, address), WatchedPage(browser, address)
        expect.set_options(timeout=LIMIT_MS)
        owner.page.goto(f"{address}?token={tokens.link()}")
        reader.page.goto(address)
        for watched in (owner, reader):
            assert watched.page.url == f"{address}c/{NAME}/"
            expect(watched.page.locator("#status")).to_have_text("live")
        campaign.finish(sample_cell(4))
        for watched in (owner, reader):
            head = watched.page.get_by_role("heading", level=1)
            expect(head).to_contain_text("3 of 6 cells done")
        owner.page.get_by_role("link", name="Retry 1").click()
        dialog = owner.page.locator("#dialog")
        dialog.get_by_role("button", name="Retry").click()
        expect(dialog).to_contain_text("Ordered by")
        expect(reader.page.locator("[data-failed]").first).to_be_hidden()
        assert reader.page.get_by_role("link", name="Retry 1").count() == 0
        owner.check()
        reader.check()
    campaigns.stop()
