"""The plain table: what it says, and that it fits wherever it is printed."""

import dataclasses
import re
from datetime import timedelta

import pytest
from rich.cells import cell_len
from top_scenes import (
    AT,
    HOST,
    SCENES,
    full_node,
    gpu,
    hostile,
    node,
    nothing_known,
    one,
    slices,
    training,
    two_hosts,
    without_gpu,
)

from forked import run_python
from tarmac.monitor import Finding, ProcessRow, Snapshot, Work
from tarmac.monitor.once import render_once

_WIDTHS = (1, 20, 40, 80, 120, 200)


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("name", SCENES)
def test_no_line_is_wider_than_the_terminal(name, width):
    lines = render_once(SCENES[name](), width).splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= max(width, 20)


@pytest.mark.parametrize("name", SCENES)
def test_nothing_moves_the_cursor_or_hides_itself(name):
    text = render_once(SCENES[name](), 200)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_own_drawing_is_ascii():
    assert render_once(full_node(), 200).isascii()


def test_a_character_that_the_terminal_lacks_becomes_a_question_mark():
    assert "日本語" in render_once(hostile(), 200)
    assert "txt.exe ????" in render_once(hostile(), 200, encoding="latin-1")


def test_each_gpu_is_joined_to_the_work_on_it():
    lines = render_once(full_node(), 200).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("0   B"))
    assert "mnist-cnn-20260701-115501-3f2a" in lines[first]
    assert lines[first + 1].split("  ")[1:4] == [
        "B mnist-cnn-20260701-115501-3f2a",
        "epoch 7/20",
        "loss 0.0312",
    ]
    assert lines[first + 2].strip() == (
        "! waits for data 31% of the time  $ tarmac train --workers 8"
    )


def test_work_on_several_gpus_is_told_once_and_named_on_each():
    text = render_once(full_node(), 200)
    assert (
        text.count("epoch 7/20  loss 0.0312  val accuracy 0.9871  452k/s  left 3m05s  saved") == 2
    )
    assert text.count("mnist-cnn-20260701-115501-3f2a") == 4


def test_a_search_is_shown_by_the_training_that_is_on_the_gpu():
    line = next(x for x in render_once(full_node(), 200).splitlines() if x.startswith("3 "))
    assert "digits-search/trial-41" in line


def test_processes_of_others_are_told_with_their_user_memory_and_command():
    text = render_once(full_node(), 200)
    assert "- 52001 bob  33.0 GiB  0%  slurm 81234  /opt/conda/bin/python finetune.py" in text
    assert "a process of an unknown user  1.0 GiB  in quirky_hopper" in text


def test_a_gpu_held_idle_is_told_with_its_holder_and_for_how_long():
    text = render_once(full_node(), 120)
    assert "I GPU held idle: 4 (bob, 14m)" in text
    assert "idle 14m, bob:python" in text


def test_what_is_wrong_comes_first_with_what_to_type():
    lines = render_once(full_node(), 120).splitlines()
    assert lines[1].startswith("F GPU 7: Xid 79")
    assert lines[1].endswith("$ sudo reboot")
    assert lines[2].startswith("n persistence mode is off")


def test_a_finding_of_the_last_check_is_shown_with_its_age():
    checked = Finding(
        "slow-memory", "warning", "slow", at=AT - timedelta(hours=3), is_of_check=True
    )
    seen = dataclasses.replace(checked, code="row-remap", is_of_check=False)
    text = render_once(one(node([gpu(0)], findings=(checked, seen))), 200)
    assert "W slow [slow-memory], from the check of 3h00m ago\n" in text
    assert "W slow [row-remap]\n" in text


def test_a_recorded_h100_is_a_row_with_all_that_its_driver_answered(on_machine, tmp_path):
    environment = on_machine("h100", TARMAC_RUNS=str(tmp_path / "runs"), COLUMNS="120")
    done = run_python("-m", "tarmac", "top", "--once", env=environment, check=True)
    (row,) = (line for line in done.stdout.splitlines() if "H100" in line)
    assert row.split() == [
        *("0", "F", "H100", "80GB", "HBM3", "0%", "..........", "0.5/80", "144/700", "50C"),
        *("1980/1980", "5x16", "free"),
    ]


def test_a_command_that_does_not_fit_beside_its_finding_has_a_line_of_its_own():
    assert "\n  $ sudo reboot\n" in render_once(full_node(), 40)


def test_what_is_unknown_is_a_dash_and_never_a_zero():
    text = render_once(nothing_known(), 80)
    assert "CPU - of -" in text
    assert "-/-" in text
    assert not re.search(r"\b0%|0\.0", text)


def test_a_machine_without_a_gpu_says_why_and_shows_its_work():
    text = render_once(without_gpu(), 80)
    assert "no GPU: there is no NVIDIA driver here\n" in text
    assert "epoch 7/20" in text
    assert "WATTS" not in text


def _job(states):
    """Return a job, with a task for each state."""
    whole = Work("j", "job", "/runs/j", "running", done=5, total=2560)
    tasks = [
        Work(f"j/t{n}", "task", "/runs/j", "running", parent="j", state=state)
        for n, state in enumerate(states)
    ]
    return (whole, *tasks)


def test_of_thousands_of_tasks_a_few_are_shown_and_the_others_counted():
    states = ["waiting"] * 32 + ["busy"] * 2000 + ["hung"] + ["ended"] * 3
    text = render_once(one(node([], work=_job(states))), 120)
    shown = re.findall(r"^    (\S) j/t(\d+)\b", text, re.MULTILINE)
    assert len(shown) == 8
    assert shown[-1] == ("H", "2032")
    assert {int(number) for _, number in shown} <= {*range(32, 2033)}
    assert re.findall(r"^    (\d+ more: .*)$", text, re.MULTILINE) == [
        "2028 more: 1993 run, 32 wait, 3 ended"
    ]


@pytest.mark.parametrize("number", [0, 1, 8, 9])
def test_tasks_that_take_no_more_room_than_their_count_are_all_shown(number):
    text = render_once(one(node([], work=_job(["busy"] * number))), 120)
    assert len(re.findall(r" j/t\d+\b", text)) == number
    assert "more:" not in text


def test_tasks_on_one_gpu_are_folded_there():
    work = [
        dataclasses.replace(work, gpu_uuids=("GPU-0",)) for work in _job(["idle"] + ["busy"] * 40)
    ]
    text = render_once(one(node([gpu(0)], work=tuple(work))), 120)
    assert len(re.findall(r"^  \S j/t\d+\b", text, re.MULTILINE)) == 8
    assert "  33 more: 33 run\n" in text


def test_a_training_of_a_task_stands_below_it_wherever_it_comes_in_the_list():
    works = (*_job(["busy"] * 2), training("inner", parent="j/t0"))
    lines = render_once(one(node([], work=works)), 120).splitlines()
    at = next(number for number, line in enumerate(lines) if " j/t0" in line)
    assert lines[at + 1].startswith("      B inner ")
    assert lines[at + 2].startswith("    B j/t1")


def test_slices_are_numbered_below_their_card():
    text = render_once(slices(), 120)
    assert re.search(r"^0\.0 F .* free$", text, re.MULTILINE)
    assert re.search(r"^0\.1 B .* mnist-cnn", text, re.MULTILINE)


def test_a_host_that_no_longer_answers_says_so_with_its_age():
    assert "node-c  last seen 1m35s ago: ssh: connect to host" in render_once(two_hosts(), 120)


def test_a_loss_that_is_no_number_is_shown():
    work = training(loss=float("nan"), gpu_uuids=("GPU-0",))
    assert "loss nan" in render_once(one(node([gpu(0)], work=(work,))), 120)


def test_there_are_colours_only_where_they_are_asked_for():
    assert "\x1b" not in render_once(full_node(), 120)
    colored = render_once(full_node(), 120, color=True)
    assert "\x1b[33m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored).replace(" ", "") == render_once(
        full_node(), 120
    ).replace(" ", "")


def test_no_host_at_all_is_no_error():
    assert render_once(Snapshot(full_node().at, ()), 80).startswith("0 hosts")


def test_a_process_without_a_command_is_told_by_its_user():
    process = ProcessRow(7, "GPU-0", "bob")
    text = render_once(one(node([gpu(0)], processes=(process,))), 80)
    assert re.search(r" bob$", text, re.MULTILINE)


def test_a_part_of_a_core_is_told_as_such():
    host = dataclasses.replace(HOST, cpu_count=0.5)
    assert "CPU 34% of 0.5" in render_once(one(node([gpu(0)], host=host)), 120)
