"""Probes come back whatever the framework does, and leave nothing running."""

from __future__ import annotations

import ast
import os
import re
import secrets
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from forked import forked_interpreter
from tarmac.checks.evidence import Evidence, Host, Inventory
from tarmac.checks.frameworks import ALL_REDUCE, PROBES, Framework, find_framework
from tarmac.checks.rules.findings import find
from tarmac.checks.run_probe import run_probe
from tarmac.checks.targets import THIS_PYTHON, Target
from waiting import limit_s, wait_until

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

HOST = Host(cpu="", cores=1, memory_bytes=1, disk_free_bytes=1, kernel="", system="")


def odd(program: Path) -> Framework:
    return Framework("odd", "Odd", probe=program)


@pytest.fixture
def probe(tmp_path):
    """Return a function that runs a program as a probe."""

    def run(program: str, timeout_s: float = 60, name: str = "odd"):
        file = tmp_path / f"{name}_probe.py"
        file.write_text("import json, os, sys, time\n" + textwrap.dedent(program))
        return run_probe(odd(file), THIS_PYTHON, depth="normal", timeout_s=timeout_s)

    return run


def codes(found) -> list[str]:
    return [f.code for f in find(Evidence(inventory=Inventory(host=HOST), probes=(found,)))]


DONE = 'json.dump({"framework": "odd", "stage": "done", "devices": []}, open(sys.argv[1], "w"))\n'


def test_a_result_comes_back(probe):
    found = probe(DONE)
    assert found.outcome == "done"
    assert found.result["stage"] == "done"
    assert codes(found) == []


def test_a_crash_is_named_with_its_signal_and_its_stage(probe):
    found = probe(
        """
        json.dump({"stage": "product on cuda:0"}, open(sys.argv[1], "w"))
        import ctypes
        ctypes.string_at(0)
        """
    )
    assert (found.outcome, found.detail) == ("crashed", "SIGSEGV, during product on cuda:0")
    assert codes(found) == ["probe-crashed"]


def test_a_hang_ends_at_its_limit(probe):
    found = probe("time.sleep(600)", timeout_s=1)
    assert (found.outcome, found.detail) == ("hung", "its limit of 1 s")
    assert codes(found) == ["probe-hung"]


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("print('rubbish')", "it wrote no result and ended with exit code 0"),
        ("open(sys.argv[1], 'w').write('{rub')", "its result is not JSON and ended"),
        ("open(sys.argv[1], 'w').write('[1]')", "its result is not a JSON object and ended"),
        ("sys.exit(7)", "it wrote no result and ended with exit code 7"),
        (
            'json.dump({"devices": 3}, open(sys.argv[1], "w"))',
            "its result does not have the form of a probe's result and ended",
        ),
        (
            'json.dump({"stage": "devices"}, open(sys.argv[1], "w"))\nos._exit(3)',
            "it ended during devices",
        ),
    ],
)
def test_rubbish_is_no_result(probe, program, detail):
    found = probe(program)
    assert found.outcome == "no result"
    assert found.detail.startswith(detail)
    assert codes(found) == ["probe-no-result"]


def test_a_flood_of_output_is_read_and_dropped(probe):
    before = psutil.Process().memory_info().rss
    found = probe(
        "line = b'x' * 2**20\nfor _ in range(100): os.write(1, line)\n"
        "os.write(2, b'the end')\n" + DONE
    )
    assert found.outcome == "done"
    assert found.printed.endswith("the end")
    assert len(found.printed) == 4000
    assert found.printed_bytes == 100 * 2**20 + len("the end")
    assert codes(found) == ["probe-flood"]
    assert psutil.Process().memory_info().rss - before < 50 * 2**20


def running(name: str) -> list[int]:
    """Return the processes of a probe's file, whose name no other probe has."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(f"{name}_probe.py" in part for part in process.info["cmdline"] or ())
    ]


def test_children_are_ended_also_those_that_left_the_session(probe):
    name = secrets.token_hex(8)
    found = probe(
        """
        for leave in (False, True):
            if os.fork() == 0:
                if leave:
                    os.setsid()
                    if os.fork():
                        os._exit(0)
                time.sleep(600)
        """
        + DONE,
        name=name,
    )
    assert found.outcome == "done"
    assert found.left_behind == 2
    assert codes(found) == ["probe-left-processes"]
    assert running(name) == []


def test_the_driver_is_asked_where_the_process_computes(tmp_path):
    program, enough = tmp_path / "odd_probe.py", tmp_path / "enough"
    program.write_text(
        "import json, os, sys, time\n"
        f"while not os.path.exists({str(enough)!r}): time.sleep(0.01)\n" + DONE
    )
    asked: list[int] = []

    def gpus_of(pid: int) -> set[int]:
        asked.append(pid)
        if len(asked) == 2:
            enough.touch()
        return {len(asked) % 2}

    found = run_probe(odd(program), THIS_PYTHON, depth="quick", timeout_s=60, gpus_of=gpus_of)
    assert found.seen_on_gpus == (0, 1)
    assert len(set(asked)) == 1


def test_a_check_that_is_interrupted_leaves_nothing_running(tmp_path):
    name = secrets.token_hex(8)
    program, ready = tmp_path / f"{name}_probe.py", tmp_path / "ready"
    program.write_text(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(ready)!r}, 'w').close()\n"
        "time.sleep(600)\n"
    )

    def interrupt(pid: int) -> set[int]:
        if ready.exists():
            raise KeyboardInterrupt
        return set()

    with pytest.raises(KeyboardInterrupt):
        run_probe(odd(program), THIS_PYTHON, depth="quick", timeout_s=60, gpus_of=interrupt)
    assert running(name) == []


@pytest.mark.parametrize(
    "starts",
    [
        "run_probe(odd, THIS_PYTHON, depth='quick', timeout_s=600)",
        "run_probe(odd, Target('image', (engine,), 'image'), depth='quick', timeout_s=600)",
        "RankWorker([sys.executable, program], os.environ, 0).hear(600)",
    ],
    ids=["probe", "container", "rank"],
)
def test_a_check_that_is_killed_leaves_nothing_running(tmp_path, starts):
    name = secrets.token_hex(8)
    program, engine, ready = tmp_path / f"{name}_probe.py", tmp_path / "engine", tmp_path / "ready"
    program.write_text(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(ready)!r}, 'w').close()\n"
        "time.sleep(600)\n"
    )
    # The engine's container is this process, and has no variable of its client.
    engine.write_text(
        f"""#!/bin/sh
case $1 in
run) echo "$@" > {tmp_path}/label; env -i '{sys.executable}' {program} & wait ;;
ps) grep -qe "--label ${{5#label=}} " {tmp_path}/label && echo container ;;
rm) touch {tmp_path}/removed ;;
esac
"""
    )
    engine.chmod(0o755)
    paths = f"import os, sys; program, engine = {str(program)!r}, {str(engine)!r}\n"
    modules = (
        "from pathlib import Path\n"
        "from tarmac.checks.frameworks import Framework\n"
        "from tarmac.checks.ranks.worker import RankWorker\n"
        "from tarmac.checks.run_probe import run_probe\n"
        "from tarmac.checks.targets import THIS_PYTHON, Target\n"
        "odd = Framework('odd', 'Odd', probe=Path(program))\n"
    )
    check = subprocess.Popen([sys.executable, "-c", paths + modules + starts])
    wait_until(ready.exists, "the start of the probe")
    check.kill()
    check.wait()
    if "image" in starts:
        wait_until((tmp_path / "removed").exists, "the removal of the container")
        for pid in running(name):
            psutil.Process(pid).kill()
    wait_until(lambda: running(name) == [], "the end of the probe")


def test_an_error_keeps_its_words(probe):
    found = probe(
        'json.dump({"framework": "odd", "stage": "devices", "error": {"type": "RuntimeError", '
        '"message": "CUDA out of memory. Tried", "traceback": "CUDA out of memory. Tried"}}, '
        "open(sys.argv[1], 'w'))\nsys.exit(1)"
    )
    assert found.outcome == "failed"
    assert found.detail == "RuntimeError during devices: CUDA out of memory. Tried"
    assert codes(found) == ["oom"]


@pytest.fixture
def forked_target() -> Target:
    """Return a target whose processes have imported PyTorch."""
    return Target("this Python", (forked_interpreter(),))


def test_pytorch_computes_here(forked_target):
    found = run_probe(
        find_framework("torch"), forked_target, depth="normal", devices=["cpu"], timeout_s=100
    )
    assert found.outcome == "done", found.text
    (cpu,) = found.result["devices"]
    assert cpu["matmul"]["ok"]
    assert cpu["convolution"]["ok"]
    assert cpu["training"]["ok"]
    assert cpu["placement"] == "cpu"
    assert cpu["flops"]["fp32"] > 1e8
    assert cpu["copies"]["memory"] > 1e8
    assert codes(found) == []


def test_pytorchs_probe_does_not_import_the_compiler(tmp_path):
    # It takes as long as PyTorch itself, which is most of a quick check.
    program = find_framework("torch").program
    code = (
        "import runpy, sys\n"
        f"sys.path[0], sys.argv = {str(PROBES)!r}, ['', {str(tmp_path / 'r')!r}, 'quick', 'cpu']\n"
        f"try: runpy.run_path({str(program)!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n", done.stderr


def test_a_check_without_expectations_loads_no_reader_of_yaml():
    code = "import sys, tarmac.checks.verb; print({'ruamel.yaml', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_probe_finds_what_it_shares_where_python_is_told_to_be_safe(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    found = run_probe(find_framework("mxnet"), THIS_PYTHON, depth="quick", timeout_s=60)
    assert found.outcome == "not installed", found.text


@pytest.mark.parametrize("program", sorted(PROBES.glob("*.py")), ids=lambda program: program.stem)
def test_a_probe_can_be_read_by_the_oldest_python_that_is_probed(program):
    ast.parse(program.read_text(), feature_version=(3, 7))


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_another_user_cannot_put_a_containers_result_there(tmp_path):
    engine = tmp_path / "engine"
    engine.write_text(
        f'#!/usr/bin/env -S "{sys.executable}"\n'
        "import json, os, subprocess, sys\n"
        "path = next(a for a in sys.argv if a.endswith(':/tarmac/result')).split(':')[0]\n"
        "forge = ['sh', '-c', 'echo > \"$0\"/forged', path]\n"
        "forging = subprocess.run(forge, user=65534, group=65534, extra_groups=[])\n"
        "mode = os.stat(path).st_mode & 0o777\n"
        "result = {'stage': 'done', 'devices': [], 'forged': forging.returncode == 0}\n"
        "result['mode'] = mode\n"
        "json.dump(result, open(path + '/result.json', 'w'))\n"
    )
    engine.chmod(0o755)
    target = Target("image", (str(engine),), "image")
    found = run_probe(find_framework("torch"), target, depth="quick", timeout_s=60)
    assert found.outcome == "done", found.text
    # An image's own user writes there, whoever that is.
    assert found.result["mode"] == 0o777
    assert not found.result["forged"]


def test_a_framework_that_is_not_there_is_not_a_failure():
    found = run_probe(find_framework("mxnet"), THIS_PYTHON, depth="quick", timeout_s=60)
    assert found.outcome == "not installed"


def started_by(interpreter: Path, directory: Path) -> Target:
    """Return a target whose probes start others by an interpreter of ours."""
    starter = directory / "starter.py"
    starter.write_text(
        "import os, runpy, sys\n"
        f"sys.executable = {str(interpreter)!r}\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path[0] = os.path.dirname(sys.argv[0])\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return Target("odd", (sys.executable, str(starter)))


def test_ranks_all_reduce(forked_target):
    found = run_probe(ALL_REDUCE, forked_target, depth="normal", num_ranks=2, timeout_s=100)
    assert found.outcome == "done", found.text
    (ranks,) = found.result["devices"]
    assert ranks["name"] == "2 ranks by gloo"
    assert ranks["bus_bytes_per_s"] > 1e6


def test_a_rank_that_dies_is_named_without_waiting_for_the_limit(tmp_path):
    interpreter = tmp_path / "python"
    interpreter.write_text(
        f'#!/bin/sh\nif [ "$RANK" = 1 ]; then exit 7; fi\nexec {forked_interpreter()} "$@"\n'
    )
    interpreter.chmod(0o755)
    target = started_by(interpreter, tmp_path)
    found = run_probe(ALL_REDUCE, target, depth="normal", num_ranks=2, timeout_s=100)
    assert found.outcome == "failed"
    assert found.detail.endswith("rank 1 ended with exit code 7 at: start")
    assert codes(found) == ["probe-failed"]


def test_a_rank_that_never_starts_is_named(tmp_path):
    interpreter = tmp_path / "python"
    # The last rank never comes to its program.
    interpreter.write_text(
        f'#!/bin/sh\nif [ "$RANK" = 1 ]; then sleep 600; fi\nexec {forked_interpreter()} "$@"\n'
    )
    interpreter.chmod(0o755)
    target = started_by(interpreter, tmp_path)
    # The other rank may be the first of all tests that imports PyTorch.
    limit = round(limit_s(20))
    found = run_probe(ALL_REDUCE, target, depth="normal", num_ranks=2, timeout_s=limit)
    assert found.outcome == "hung"
    assert re.fullmatch(r"rank 1 at: start, after [\d.]+ s", found.detail)
    assert codes(found) == ["all-reduce-hung"]
