"""What is mounted is read once, and again as soon as that has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tarmac.files.mounts import Mounts, mounts_seen

WATCH = """
import os, subprocess, sys
from tarmac.files import Readings
from tarmac.files.mounts import Mounts, mounts_seen
from pathlib import Path

place = sys.argv[1]
mounts, readings = Mounts(), Readings()

def type_now():
    return mounts.look()[0].get(place, "none")

def in_child():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Of the module's own list, which a child opens anew.
        os.write(writing, str(mounts_seen()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return int(os.read(reading, 9))

assert mounts_seen() == mounts_seen() == 1
assert readings.is_on_network(Path(place) / "x") is False
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
assert in_child() == 2
print(type_now(), mounts_seen(), mounts_seen())
subprocess.run(["umount", place], check=True)
print(type_now(), mounts_seen(), mounts_seen())
"""


def test_a_mount_that_comes_or_goes_is_seen_at_once(tmp_path):
    alone = shutil.which("unshare")
    if alone is None or os.geteuid() != 0:
        pytest.skip("mounts are made as root, where no other process sees them: sudo pytest")
    command = [alone, "--mount", sys.executable, "-c", WATCH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "permission denied" in done.stderr.lower() or "not permitted" in done.stderr:
        pytest.skip(f"nothing may be mounted here: {done.stderr.splitlines()[-1]}")
    assert done.stdout.splitlines() == ["tmpfs 2 2", "none 3 3"], done.stderr


def test_the_list_is_read_once_while_nothing_changes():
    assert mounts_seen() == mounts_seen() > 0
    mounts = Mounts()
    assert mounts.look()[0] is mounts.look()[0]
