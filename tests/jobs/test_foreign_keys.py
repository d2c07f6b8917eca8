"""Keys of other systems in job files, ``x-`` keys, and numbers that no task means."""

from __future__ import annotations

import pytest

from tarmac.errors import RequestError
from tarmac.jobs import foreign_keys
from tarmac.jobs.reader import parse_job
from tarmac.tasks.model import Retries

PROGRAM = "name: x\ncommand: echo\n"


def message(text: str) -> str:
    with pytest.raises(RequestError) as caught:
        parse_job(text, "job.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{PROGRAM}gpus: 1",
            "job.yaml:3:1: gpus: unknown key\n  write here: resources: {gpus: 1}",
        ),
        (f"{PROGRAM}image: debian", "write here: environment: {image: NAME}"),
        (f"{PROGRAM}env_file: .env", "write here: env: {NAME: value}"),
        (f"{PROGRAM}depends_on: [a]", "write here: needs: [NAME], in one of its tasks"),
        (f"{PROGRAM}needs: [a]", "write here: needs, in one of its tasks"),
        ("name: x\nsteps: []", "write here: tasks: [{name: NAME, command: echo}]"),
        ("name: x\nservices: {}", "write here: tasks: [{name: NAME, command: echo}]"),
        ("name: x\ntasks: [{name: a, command: b, dependsOn: c}]", "write here: needs: [NAME]"),
        (
            "name: x\ntasks: [{name: a, command: b, parallelism: 2}]",
            "write here: concurrency: 2, at the top of the file",
        ),
        (f"{PROGRAM}after_all: {{name: y, command: z, mem: 1G}}", "write here: resources: {memory"),
        (f"{PROGRAM}resources: {{accelerators: H100}}", "write here: gpus: 1"),
        (f"{PROGRAM}resources: {{nvidia.com/gpu: 1}}", "write here: gpus: 1"),
        (f"{PROGRAM}environment: {{image: a, volumes: [/a]}}", "write here: mounts: [{"),
        (f"{PROGRAM}environment: {{A: b}}", "variables belong in env"),
        (f"{PROGRAM}comand: [a]", "did you mean 'command'?"),
    ],
)
def test_a_key_of_another_system_is_answered_with_ours(text, said):
    assert said in message(text)


@pytest.mark.parametrize("own", foreign_keys._OWN_KEYS)
def test_what_is_suggested_for_a_task_may_stand_in_one(own):
    key = own.partition(":")[0]
    text = f"name: x\n{own}\n" + ("" if key in ("command", "tasks") else "command: echo\n")
    if key in ("needs", "on_failure"):
        text = f"name: x\ntasks: [{{name: NAME, command: a}}, {{name: b, command: c, {own}}}]"
    assert parse_job(text).name == "x"


@pytest.mark.parametrize("inner", ["resources", "environment"])
def test_what_is_suggested_for_a_part_of_a_task_may_stand_in_it(inner):
    table = foreign_keys._OF_RESOURCES if inner == "resources" else foreign_keys._OF_ENVIRONMENTS
    for own in {*table.values()}:
        image = "image: a, " if "mounts" in own else ""
        parse_job(f"{PROGRAM}{inner}: {{{image}{own}}}")


def test_keys_that_begin_with_x_hold_anchors_at_the_top_and_in_tasks():
    job = parse_job(
        "x-base: &base {cpus: 2, memory: 1GiB}\nname: x\nresources: *base\n"
        "tasks: [{name: a, command: b, x-note: '{{ any }}', resources: {<<: *base, gpus: 1}}]"
    )
    assert (job.resources.cpus, job.tasks[0].resources.gpus) == (2, 1)
    assert "unknown key" in message(f"{PROGRAM}resources: {{x-a: 1}}")


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ("[256]", "job.yaml:3:34: retries.exit_codes[0]: 256: expected an exit code from 1 to 255"),
        ("[75, 999999]", "job.yaml:3:38: retries.exit_codes[1]: 999999: expected"),
        ("[0]", "retries.exit_codes[0]: 0 is success"),
        ("[-65]", "-65: expected an exit code"),
    ],
)
def test_an_exit_code_that_no_program_has_is_refused(codes, said):
    assert said in message(f"{PROGRAM}retries: {{count: 1, exit_codes: {codes}}}")


@pytest.mark.parametrize(
    "line",
    [
        "priority: true",
        "concurrency: true",
        "retries: {count: true}",
        "retries: {count: 1, exit_codes: [true]}",
        "resources: {gpus: true}",
        "resources: {gpus: {type: a100, count: true}}",
        "resources: {nodes: true}",
        "sweep: {repeat: true}",
        "sweep: {random: {count: true, parameters: {a: [1]}}}",
    ],
)
def test_true_is_no_number_of_a_job(line):
    assert "true: expected a number, not true or false" in message(f"{PROGRAM}{line}")


def test_a_signal_in_exit_codes_is_known_by_both_of_its_numbers():
    assert set(Retries(count=1, exit_codes=(137, 75)).codes) == {137, -9, 75}
    assert set(Retries(count=1, exit_codes=(-15, 255)).codes) == {143, -15, 255}


@pytest.mark.parametrize("name", ["memory", "gpu_memory", "shm"])
def test_a_number_of_bytes_that_was_meant_as_mebibytes_is_refused(name):
    said = message(f"{PROGRAM}resources: {{{name}: 512}}")
    assert f"job.yaml:3:13: resources.{name}: 512 bytes: expected at least 1 MiB" in said
    assert "512MiB" in said
    assert parse_job(f"{PROGRAM}resources: {{{name}: 1048576}}").name == "x"


def test_a_placeholder_without_a_value_is_shown_where_it_stands():
    said = message("name: x\ncommand: |\n  true\n  echo ${{ github.sha }} {{payload}}\nenv: {}\n")
    assert "job.yaml:4:9: command: {{ github.sha }} has no value" in said
    assert "job.yaml:4:26: command: {{ payload }} has no value" in said
    assert "For literal braces: {{ '{{' }}payload}}" in said
    said = message('name: x\ncommand: [a, "{{ b }}"]\nenv: {A: "{{ b }}"}\n')
    assert "job.yaml:2:15: command[1]" in said
    assert "job.yaml:3:11: env.A" in said
