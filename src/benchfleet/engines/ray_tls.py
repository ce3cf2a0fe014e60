"""Encrypts the connections of slots where Ray encrypts its own, with the same certificates."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping

_CHUNK = 2**16  # bytes
_LENGTH = struct.Struct("!I")
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_Convert = Callable[[bytes], tuple[bytes, bool]]
_TRUE = {"1", "true"}


def tls_context(environ: Mapping[str, str], *, server: bool) -> ssl.SSLContext | None:
    """What both ends of a connection need, which prove to each other that the same authority
    signed them; None where Ray's own TLS is off. Raises OSError for files that cannot be read."""
    if environ.get("RAY_USE_TLS", "").lower() not in _TRUE:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # certificates name clusters, and addresses of nodes change
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(
        environ.get("RAY_TLS_SERVER_CERT", ""), environ.get("RAY_TLS_SERVER_KEY", "")
    )
    context.load_verify_locations(environ.get("RAY_TLS_CA_CERT", ""))
    return context


class Relay:
    """Carries bytes between an encrypted connection and a local socket (`plain`), whose file
    descriptor a process can read and write.

    TLS has no end of one direction alone, and slots need it. So what is encrypted is blocks, each
    behind its length; an empty one ends its direction.
    """

    def __init__(self, secure: ssl.SSLSocket) -> None:
        self.plain, self._ours = socket.socketpair()
        self._secure = secure
        for handle in (self._secure, self._ours):
            handle.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="tls", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until all was carried, once both ends are closed."""
        self._thread.join(seconds)

    def _run(self) -> None:
        outgoing = _Flow(self._ours, self._secure, _to_block)
        incoming = _Flow(self._secure, self._ours, _Blocks().feed)
        with contextlib.suppress(OSError):
            while not (outgoing.over and incoming.over):
                # Decrypted bytes wait where `poll` does not see them: so first try, then wait.
                if not outgoing.carry() + incoming.carry():
                    poll = select.poll()
                    for reads, writes in ((outgoing, incoming), (incoming, outgoing)):
                        events = select.POLLIN * reads.reads | select.POLLOUT * bool(writes.buffer)
                        if events:
                            poll.register(reads.source, events)
                    poll.poll()
                if incoming.over:
                    self._ours.shutdown(socket.SHUT_WR)
        self._secure.close()
        self._ours.close()


class _Flow:
    """One direction of a relay. `convert` gives what a piece becomes, and whether it is the last;
    an empty piece is the end of the source."""

    def __init__(self, source: socket.socket, target: socket.socket, convert: _Convert) -> None:
        self.source, self._target, self._convert = source, target, convert
        self.buffer = bytearray()
        self._ended = False

    @property
    def reads(self) -> bool:
        return not self._ended and len(self.buffer) < _CHUNK

    @property
    def over(self) -> bool:
        return self._ended and not self.buffer

    def carry(self) -> bool:
        """Carry what can be carried now; whether anything could. Raises OSError."""
        moved = False
        if self.reads:
            with contextlib.suppress(*_LATER):
                piece, self._ended = self._convert(self.source.recv(_CHUNK))
                self.buffer += piece
                moved = True
        if self.buffer:
            with contextlib.suppress(*_LATER):
                del self.buffer[: self._target.send(self.buffer)]
                moved = True
        return moved


def _to_block(data: bytes) -> tuple[bytes, bool]:
    return _LENGTH.pack(len(data)) + data, not data


class _Blocks:
    """What is in a stream of blocks, cut anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        self._data += data
        content = bytearray()
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if not length:
                return bytes(content), True
            if len(self._data) < _LENGTH.size + length:
                break
            content += self._data[_LENGTH.size : _LENGTH.size + length]
            del self._data[: _LENGTH.size + length]
        return bytes(content), not data  # the connection broke
