"""The stand-in for NVIDIA's management library, asked through NVIDIA's own package."""

from __future__ import annotations

import ast

import pytest

from forked import run_python


@pytest.fixture
def ask(on_machine, tmp_path):
    """Return a function that asks a machine of some lines, and returns what a program prints."""

    def run(lines: str, program: str, **environment: str):
        machine = tmp_path / "machine.txt"
        machine.write_text(lines)
        start = (
            "import pynvml as n\nn.nvmlInit()\ng = [n.nvmlDeviceGetHandleByIndex(i) "
            "for i in range(n.nvmlDeviceGetCount())]\n"
        )
        env = on_machine("healthy", NVML_STAND_IN=str(machine), **environment)
        done = run_python("-c", start + program, env=env, check=True)
        return ast.literal_eval(done.stdout)

    return run


def test_a_value_changes_with_the_number_of_its_answers(ask):
    lines = "count 1\n0.clock 345 | 2 1980 | 3 1700\n0.power 70000\n"
    assert ask(lines, "print([n.nvmlDeviceGetClockInfo(g[0], 1) for _ in range(4)])") == [
        *(345, 345, 1980, 1700)
    ]


def test_a_value_changes_with_time(ask):
    program = (
        "import time\nfirst = n.nvmlDeviceGetPowerUsage(g[0])\n"
        "while (now := n.nvmlDeviceGetPowerUsage(g[0])) == first: pass\nprint([first, now])"
    )
    assert ask("count 1\n0.power 70000 | 300ms 690000\n", program) == [70000, 690000]


def test_a_value_is_another_while_the_gpu_is_busy(ask, tmp_path):
    busy = tmp_path / "busy"
    program = (
        "import pathlib\nfound = []\n"
        f"for act in ('touch', 'unlink'):\n    getattr(pathlib.Path({str(busy)!r}), act)()\n"
        "    found.append(n.nvmlDeviceGetClockInfo(g[0], 1))\nprint(found)"
    )
    lines = "count 1\n0.clock 345 | busy 1980\n"
    assert ask(lines, program, NVML_STAND_IN_BUSY=str(busy)) == [1980, 345]


def test_fields_are_answered_together_and_one_by_one_unsupported(ask):
    lines = "count 1\n0.field.230 1\n0.field.161 0\n0.field.161.3 7\n"
    program = (
        "values = n.nvmlDeviceGetFieldValues(g[0], [230, 94, (161, 2), (161, 3)])\n"
        "print([(v.nvmlReturn, v.value.ullVal) for v in values])"
    )
    assert ask(lines, program) == [(0, 1), (3, 0), (0, 0), (0, 7)]


def test_access_between_gpus_is_the_same_both_ways(ask):
    lines = "count 3\n0.p2p.1 00055\n1.topology.2 20\n"
    program = (
        "found = [n.nvmlDeviceGetP2PStatus(g[a], g[b], 2) for a, b in ((0, 1), (1, 0))]\n"
        "try: n.nvmlDeviceGetP2PStatus(g[0], g[2], 0)\n"
        "except n.NVMLError_NotSupported: found.append('unknown')\n"
        "print(found + [n.nvmlDeviceGetTopologyCommonAncestor(g[2], g[1])])"
    )
    assert ask(lines, program) == [0, 0, "unknown", 20]


def test_events_come_once_each_and_then_time_runs_out(ask):
    lines = "count 2\n0.event_types 8\n1.event_types 9\n1.event 20 8 79\n1.event 0 1 0\n"
    program = (
        "events, told = n.nvmlEventSetCreate(), []\n"
        "for gpu in g: n.nvmlDeviceRegisterEvents(gpu, n.nvmlEventTypeXidCriticalError, events)\n"
        "told.append(n.nvmlEventSetWait_v2(events, 5000).eventData)\n"
        "try: n.nvmlEventSetWait_v2(events, 1)\n"
        "except n.NVMLError_Timeout: told.append('timeout')\n"
        "n.nvmlEventSetFree(events)\nprint(told)"
    )
    assert ask(lines, program) == [79, "timeout"]


def test_an_old_driver_lacks_what_came_later(ask):
    program = (
        "found = []\n"
        "for ask in (lambda: n.nvmlDeviceGetMemoryInfo(g[0], version=n.nvmlMemory_v2),\n"
        "            lambda: n.nvmlDeviceGetSramEccErrorStatus(g[0],\n"
        "                n.byref(n.c_nvmlEccSramErrorStatus_v1_t()))):\n"
        "    try: ask(); found.append('answered')\n"
        "    except n.NVMLError as error: found.append(type(error).__name__)\nprint(found)"
    )
    lines = "count 1\n0.memory 100\n0.sram 0\n"
    assert ask(lines, program) == ["answered", "answered"]
    assert ask(lines + "old 1\n", program) == ["NVMLError_FunctionNotFound"] * 2


def test_values_repeat_and_grow_by_a_clock_of_the_test(ask, tmp_path):
    clock = tmp_path / "clock"
    program = (
        "import pathlib\nfound = []\n"
        "for now in (0, 2000, 4999, 5000, 7500):\n"
        f"    pathlib.Path({str(clock)!r}).write_text(str(now))\n"
        "    found.append((n.nvmlDeviceGetClockInfo(g[0], 1),"
        " n.nvmlDeviceGetTotalEnergyConsumption(g[0])))\nprint(found)"
    )
    lines = "count 1\n0.clock 345 | 2000ms 1980 | repeat 5000ms\n0.energy 7 +1000/s\n"
    assert ask(lines, program, NVML_STAND_IN_CLOCK=str(clock)) == [
        *((345, 7), (1980, 2007), (1980, 5006), (345, 5007), (1980, 7507))
    ]


def test_processes_and_their_shares_are_lists(ask):
    program = (
        "running = n.nvmlDeviceGetComputeRunningProcesses_v3(g[0])\n"
        "shares = n.nvmlDeviceGetProcessUtilization(g[0], 0)\n"
        "try: n.nvmlDeviceGetProcessUtilization(g[0], shares[0].timeStamp + 10**12)\n"
        "except n.NVMLError_NotFound: last = 'none since'\n"
        "print([[(p.pid, p.usedGpuMemory) for p in running], [(s.pid, s.smUtil) for s in shares],"
        " last])"
    )
    lines = "count 1\n0.process 7 1000, 8 2000\n0.shares 7 45, 8 30\n"
    assert ask(lines, program) == [[(7, 1000), (8, 2000)], [(7, 45), (8, 30)], "none since"]


def test_a_gpu_may_be_lost_while_others_answer(ask):
    program = (
        "found = []\nfor gpu in g:\n"
        "    try: found.append(n.nvmlDeviceGetClockInfo(gpu, 1))\n"
        "    except n.NVMLError as error: found.append(error.value)\nprint(found)"
    )
    lines = "count 2\n0.clock 345\n1.clock 345\n1.lost 0 | 1 15\n"
    assert ask(lines, program) == [345, 15]
