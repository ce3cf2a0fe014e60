"""``python -m benchfleet``: the command line of this interpreter's benchfleet."""

from __future__ import annotations

from benchfleet.cli.main import command

if __name__ == "__main__":
    command()
