"""``tarmac top`` of this machine as it is, and of hosts that are this machine."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys

import pytest

from tarmac.monitor import from_json


def begin(*words: str, **options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "tarmac", "top", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_what_watches_and_gives_back_what_it_holds(number, tmp_path):
    sock = tmp_path / "metrics.sock"
    watch = begin("--serve", f"unix:{sock}", stderr=subprocess.PIPE)
    assert watch.stderr.readline() == f"Serving metrics at unix:{sock}\n"
    watch.send_signal(number)
    assert watch.wait(200) == 130
    assert not sock.exists()
    watch.stdout.close()
    watch.stderr.close()


def test_this_machine_is_served_to_prometheus():
    watch = begin("--serve", ":0", stderr=subprocess.PIPE)
    place = watch.stderr.readline().split()[-1]
    address = place.removeprefix("http://").removesuffix("/metrics")
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    assert f'tarmac_host_up{{host="{os.uname().nodename}"}} 1.0' in text
    connection.close()
    watch.terminate()
    watch.wait(200)
    watch.stdout.close()
    watch.stderr.close()


def test_a_picture_loads_no_framework_and_nothing_that_draws_screens():
    code = (
        "import sys\n"
        "from tarmac.cli import main\n"
        "try:\n    main(['top', '--once'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'numpy', 'optuna', 'textual', 'rich', 'prometheus_client',\n"
        "         'starlette', 'pydantic', 'jinja2', 'httpx', 'filelock'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.stderr == "[]\n"


def test_two_hosts_tell_of_themselves_over_ssh(tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in {
        "ssh": 'while [ "$1" != "--" ]; do shift; done\nshift 2\nexec sh -c "$*"\n',
        "tarmac": f'exec "{sys.executable}" -m tarmac "$@"\n',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    # One picture waits 20 seconds for its hosts, which on a busy machine may be too few.
    with begin("--json", "--watch", "1", "--hosts", "n01,n02") as watch:
        for line in watch.stdout:
            hosts = from_json(json.loads(line)).hosts
            if not any(host.problem for host in hosts):
                break
        watch.terminate()
    assert [(host.host.name, host.problem) for host in hosts] == [("n01", ""), ("n02", "")]
    assert all(host.host.memory_total_bytes for host in hosts)
