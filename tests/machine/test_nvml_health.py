"""What tells of a GPU's health, beside the driver."""

from __future__ import annotations

import os
import subprocess
import sys

from tarmac.machine.nvml_health import users_of


def test_who_has_a_device_open_is_known_by_its_processes(tmp_path):
    node = tmp_path / "nvidia-uvm"
    node.touch()
    assert users_of(str(node)) == set()
    program = f"open({str(node)!r}); keep = open({str(node)!r}); print(flush=True); input()"
    with (
        node.open(),
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        assert other.stdout is not None
        other.stdout.readline()
        assert users_of(str(node)) == {os.getpid(), other.pid}
        other.communicate(b"\n")
