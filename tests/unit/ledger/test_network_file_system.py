"""Which folders SQLite may not be used in, from the table of mounts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.ledger.sqlite.file import network_file_system

MOUNTS = r"""
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/me/local xfs rw 0 0
//nas/share /mnt/my\040share cifs rw 0 0
me@host:/ /mnt/host fuse.sshfs rw 0 0
/dev/sdc1 /mnt/stick fuseblk rw 0 0
C:\134 /mnt/c 9p rw 0 0
scratch /scratch lustre rw 0 0
server:/covered /covered nfs rw 0 0
/dev/sdd1 /covered ext4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", None),
        ("/var/lib", None),
        ("/tmp/results", None),
        ("/home", "nfs4"),
        ("/home/me/results", "nfs4"),
        ("/home/me/local/results", None),
        ("/homework", None),
        ("/mnt/my share/results", "cifs"),
        ("/mnt/host", "fuse.sshfs"),
        ("/mnt/stick", None),
        ("/mnt/c/Users", "9p"),
        ("/scratch/me", "lustre"),
        ("/covered/here", None),
    ],
)
def test_the_innermost_and_latest_mount_decides(folder: str, kind: str | None) -> None:
    assert network_file_system(Path(folder), MOUNTS) == kind


def test_without_a_table_of_mounts_everything_counts_as_local() -> None:
    assert network_file_system(Path("/home"), "") is None
