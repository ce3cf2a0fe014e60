"""How git and a server speak of a push: packets of text, as in gitprotocol-pack(5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NONE = "0" * 40  # in place of an object, for a ref that is not there
END = b"0000"
_WANTED = "report-status atomic quiet"
_NEEDED = ("report-status", "atomic", "delete-refs")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a push."""

    done: bool
    reasons: Sequence[str] = field(default_factory=list)  # of the refs that were refused
    err: str = ""


class Packets:
    """What arrives, cut into packets."""

    def __init__(self) -> None:
        self._told, self._start = bytearray(), 0
        self.lines: list[str] = []
        self.ended = False

    def feed(self, told: bytes) -> None:
        """Take in what comes next. Raises ValueError for what is not made of packets."""
        self._told += told
        while not self.ended and len(self._told) >= self._start + 4:
            start = self._start + 4
            size = int(self._told[self._start : start], 16)
            if size and (size < 4 or len(self._told) < self._start + size):
                if size < 4:
                    raise ValueError(f"a packet of {size} bytes")
                return
            self.ended = not size
            if size:
                line = self._told[start : self._start + size].removesuffix(b"\n")
                self.lines.append(line.decode("utf-8", "surrogateescape"))
            self._start += size or 4


@dataclass(frozen=True, kw_only=True)
class Advertised:
    """What a repository says of itself before it is pushed to."""

    refs: Mapping[str, str]
    there: frozenset[str]  # objects that it has, with all that they lead to
    can: frozenset[str]
    whole: bool  # whether its history has no gaps

    @property
    def plain(self) -> bool:
        """Whether it takes what we say."""
        hashes = {one for one in self.can if one.startswith("object-format=")}
        known = hashes <= {"object-format=sha1"}
        return self.whole and known and self.can.issuperset(_NEEDED)


def advertised(lines: Iterable[str]) -> Advertised:
    """What a repository says first: its refs, and what whoever serves it can do."""
    can: list[str] = []
    pairs = []
    for line in lines:
        told, _, abilities = line.partition("\0")
        can += abilities.split()
        pairs.append(told.split(" ", 1))
    whole = not any(oid == "shallow" for oid, _ in pairs)
    refs = {name: oid for oid, name in pairs if oid not in ("shallow", NONE)}
    there = frozenset(oid for oid, _ in pairs)  # a name may be there twice: .have
    return Advertised(refs=refs, there=there, can=frozenset(can), whole=whole)


def asked(swaps: Sequence[tuple[str, str, str]], pack: bytes) -> bytes:
    """A push of refs from one object ("": none) to another, all or none: old, new, ref."""
    words = [f"{old or NONE} {new or NONE} {ref}" for old, new, ref in swaps]
    return b"".join(_packets(words)) + END + pack


def _packets(words: Sequence[str]) -> Iterator[bytes]:
    abilities = f"\0 {_WANTED}"
    for told in words:
        content = (told + abilities).encode("utf-8", "surrogateescape")
        yield b"%04x" % (len(content) + 4) + content
        abilities = ""


def reported(out: bytes, err: str, number: int) -> Answer:
    """What came of a push of so many refs, by what was said last and complained of."""
    packets = Packets()
    try:
        packets.feed(out)
    except ValueError:
        return Answer(done=False, err=err or "what it answers is no report")
    if not packets.ended:
        return Answer(done=False, err=err or "it ended without a report")
    told = [line.split(" ", 2) for line in packets.lines]
    if [words[0] for words in told] == ["unpack", *["ok"] * number]:
        return Answer(done=True, err=err)
    refused = [(words[1], words[2]) for words in told if words[0] == "ng" and len(words) == 3]
    said = err or "\n".join(f"{ref}: {why}" for ref, why in refused)
    return Answer(done=False, reasons=[why for _, why in refused], err=said)
