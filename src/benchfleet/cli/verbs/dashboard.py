"""``benchfleet dashboard``: a campaign in the browser, live."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.humanize import counted, sized
from benchfleet.errors import BenchfleetError, MissingExtra, wrong_option

if TYPE_CHECKING:
    from benchfleet.dashboard.campaigns import Campaigns
    from benchfleet.dashboard.tokens import Tokens

DEFAULT_PORT = 8050
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it asks for trusted hosts
_CONNECT_TIMEOUT_S = 5.0
_NEEDS = ("fastapi", "jinja2", "uvicorn", "multipart")


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet dashboard study.yaml --open")
    parser.add_argument(
        "--port", metavar="N", type=int, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}"
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="where to listen; elsewhere than on loopback, reading needs the link too",
    )
    parser.add_argument(
        "--trusted-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name under which browsers reach it, such as a proxy's; repeatable",
    )
    parser.add_argument("--open", action="store_true", help="open it in this machine's browser")
    parser.add_argument(
        "--export",
        metavar="DIR",
        type=Path,
        help="write the pages as files that open without a server, and end",
    )
    parser.add_argument(
        "--link",
        action="store_true",
        help="only print another one-time link for the dashboard that runs at --port",
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve the dashboard until Ctrl-C."""
    if missing := [need for need in _NEEDS if find_spec(need) is None]:
        raise MissingExtra(
            f"the dashboard needs {', '.join(missing)}; pip install 'benchfleet[dashboard]'"
        )
    if not 0 <= arguments.port <= 65_535:
        raise wrong_option("--port", f"{arguments.port} is not a port: use 0 to 65535")
    if arguments.host in _WILDCARDS and not arguments.trusted_host:
        raise wrong_option(
            "--host",
            f"{arguments.host} is every address: add --trusted-host NAME for each name under which "
            "browsers reach it",
        )
    arguments.trusted_host = [*map(_as_in_address, arguments.trusted_host)]
    if arguments.export is not None:
        return _export(arguments)
    if arguments.link:
        _check_listens(arguments.host, arguments.port)
        return _print_link(arguments, _tokens(arguments.port))
    return _serve(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    from benchfleet.dashboard.app import application
    from benchfleet.dashboard.security import allowed_hosts
    from benchfleet.dashboard.server import listen, serve
    from benchfleet.dashboard.stream import Streams

    campaigns = _campaigns(arguments)
    listener = listen(arguments.host, arguments.port)
    arguments.port = listener.getsockname()[1]
    tokens, streams = _tokens(arguments.port), Streams()
    app = application(
        campaigns,
        tokens,
        streams,
        hosts=allowed_hosts(arguments.host, arguments.port, arguments.trusted_host),
        private=arguments.host not in _LOOPBACK,
    )
    _print_link(arguments, tokens)
    try:
        serve(app, listener, stop=streams.stop)
    finally:
        campaigns.stop()
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from benchfleet.dashboard.export import LARGE_BYTES, export

    campaigns = _campaigns(arguments)
    try:
        if len(campaigns.names) > 1:
            names = ", ".join(campaigns.names.values())
            raise wrong_option("--campaign", f"name one campaign to export: {names}")
        campaign = campaigns.get(next(iter(campaigns.names)))
        assert campaign is not None  # noqa: S101 - it has one
        written = export(campaign, arguments.export)
    finally:
        campaigns.stop()
    if arguments.json:
        values = {"pages": written.pages, "cell_pages": written.cell_pages, "bytes": written.size}
        print_json({**values, "index": str(written.folder / "index.html")})
        return 0
    say(
        f"{written.folder / 'index.html'}: {written.pages} pages, and a page for "
        f"{written.cell_pages} of {counted(written.cells, 'cell')}; {sized(written.size)}"
    )
    if written.is_large:
        say(f"over {sized(LARGE_BYTES)}: some mail and web servers refuse a site of this size")
    return 0


def _campaigns(arguments: argparse.Namespace) -> Campaigns:
    from benchfleet.dashboard.campaigns import campaigns_of_ledger, campaigns_of_study

    if arguments.campaign is not None:
        study, _ = options.opened(arguments)
        return campaigns_of_study(study)
    if not arguments.ledger:
        raise wrong_option("CAMPAIGN", "is missing; give its file, or --ledger")
    return campaigns_of_ledger(arguments.ledger, arguments.results, arguments.named)


def _tokens(port: int) -> Tokens:
    from benchfleet.dashboard.tokens import Tokens, own_key

    try:
        return Tokens(own_key(os.environ), port)
    except OSError as error:
        raise BenchfleetError(f"no key for the dashboard: {error}") from error


def _check_listens(host: str, port: int) -> None:
    """Raises BenchfleetError where no dashboard can be there."""
    host = _WILDCARDS.get(host, host)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise BenchfleetError(
            f"nothing listens at {_as_in_address(host)}:{port}, so a link would open nothing: start"
            " the dashboard, or give the --host and --port that it was started with"
        ) from error


def _as_in_address(name: str) -> str:
    """The name as browsers write it, which put an IPv6 address in brackets."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


def _print_link(arguments: argparse.Namespace, tokens: Tokens) -> int:
    name = (arguments.trusted_host or [_as_in_address(arguments.host)])[0]
    address = (
        f"http://{name}/" if ":" in name.rpartition("]")[2] else f"http://{name}:{arguments.port}/"
    )
    link = f"{address}?token={tokens.link()}"
    if arguments.json:
        print_json({"address": address, "link": link})
        sys.stdout.flush()
    else:
        say(
            f"dashboard: {address} (read-only)",
            f"to give orders, open this link once, within 15 minutes: {link}",
            flush=True,
        )
    if arguments.open:
        import webbrowser

        webbrowser.open(link)
    return 0
