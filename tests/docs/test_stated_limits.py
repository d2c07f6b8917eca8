"""Every limit and time that a page names in a sentence is the constant's in the source."""

from __future__ import annotations

import ast
import functools
from datetime import timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tarmac"

MINUTE, MIB, GIB = 60, 2**20, 2**30

# A page, a sentence with numbers left out, and where these are: file, name, and the page's unit.
STATED = [
    ("after-training", "with the model on {} samples", [("inference/exporting.py", "_SAMPLES", 1)]),
    (
        "after-training",
        "at most {} of the largest value",
        [("inference/exporting.py", "TOLERANCE", 1)],
    ),
    ("architecture", "lists again after {} s without", [("kubernetes/watch.py", "SILENCE_S", 1)]),
    ("read-logs", "a line longer than {} KiB", [("checks/reading/scan.py", "_REACH_BYTES", 512)]),
    ("check-nodes", "all its pairs take {} times", [("checks/rules/ranks.py", "_SLOW", 1)]),
    (
        "check-nodes",
        "a job of one core and {} MiB. In a partition of more than {} nodes",
        [("slurm/survey.py", "_MEMORY_BYTES", MIB), ("machine/surveyed.py", "MAX_NODES", 1)],
    ),
    ("clusters", "Ctrl-C within {} s cancels", [("cli/stopping.py", "_SECOND_WITHIN_S", 1)]),
    ("clusters", "run's directory, every {} s", [("files/holders.py", "HEARTBEAT_INTERVAL_S", 1)]),
    (
        "slurm",
        "by default {} MiB and {} KiB for each task",
        [
            ("executors/runners.py", "_MEMORY_BYTES", MIB),
            ("executors/runners.py", "_MEMORY_OF_TASK_BYTES", 2**10),
        ],
    ),
    (
        "cluster-retries",
        "at most {} times. The delay starts at {} s and doubles up to {} min",
        [
            ("jobs/retries.py", "MAX_DISTURBANCES", 1),
            ("jobs/retries.py", "_DISTURBED_PAUSE_S", 1),
            ("jobs/retries.py", "_LONGEST_DISTURBED_PAUSE_S", MINUTE),
        ],
    ),
    (
        "cluster-retries",
        "If the first {} tasks all fail alike within {} s each and {} are left",
        [
            ("executors/queueing/failures.py", "_FIRST", 1),
            ("executors/queueing/failures.py", "_QUICK_S", 1),
            ("executors/queueing/ledger.py", "_MANY", 1),
        ],
    ),
    (
        "slurm",
        "If the first {} tasks took less than {} s each",
        [("cli/views/short_tasks.py", "_FIRST", 1), ("cli/views/short_tasks.py", "_SHORT_S", 1)],
    ),
    ("clusters", "other processes hold {} GiB", [("node/gpus.py", "_HELD_BYTES", GIB)]),
    (
        "kubernetes",
        "it waits {} s for the others",
        [("node/rendezvous.py", "RENDEZVOUS_TIMEOUT_S", 1)],
    ),
    (
        "devices",
        "an all-reduce of the gradients, {} us and the time of the bytes: at the rate of NVLink "
        "switches where the chip has them, else at {} GB/s",
        [
            ("training/planning/sharing.py", "_LATENCY_S", 1e-6),
            ("training/planning/sharing.py", "_BANDWIDTH_BETWEEN_PROCESSORS", 1),
        ],
    ),
    (
        "devices",
        "lost one are killed after {} s",
        [("training/processes/launcher.py", "_AFTERLIFE_S", 1)],
    ),
    (
        "several-machines",
        "does not appear within {} s",
        [("node/rendezvous.py", "RENDEZVOUS_TIMEOUT_S", 1)],
    ),
    (
        "several-machines",
        "within {} s of the last heartbeat",
        [("node/rendezvous.py", "SILENT_AFTER_S", 1)],
    ),
    ("several-machines", "with its last {} lines", [("node/member.py", "_TAIL_LINES", 1)]),
    (
        "hkube-definitions",
        "after a crash, up to {} attempts",
        [("hkube/hosting/interface.py", "limit", 1)],
    ),
    (
        "hkube-definitions",
        "`ttl` of a node | the program is asked to stop, and ended after {} s",
        [("hkube/hosting/timers.py", "stop_s", 1)],
    ),
    (
        "hkube-definitions",
        "Tarmac waits {} s for it to return, and {} s for the first connection",
        [
            ("hkube/hosting/session.py", "_DISCONNECTED_S", 1),
            ("hkube/hosting/timers.py", "start_s", 1),
        ],
    ),
    ("hkube-definitions", "a crash after {} s", [("hkube/hosting/session.py", "_ALIVE_S", 0.5)]),
    (
        "hkube",
        "a deadlock is refused after {} min",
        [("hkube/hosting/timers.py", "stalled_s", MINUTE)],
    ),
    (
        "hkube-pipelines",
        "and {} MiB more for Tarmac",
        [("hkube/clusters/wrapping.py", "_HOST_BYTES", MIB)],
    ),
    (
        "jobs",
        "up to {} MiB and {} tasks",
        [("documents/parsing.py", "_MAX_BYTES", MIB), ("tasks/graph.py", "MAX_TASKS", 1)],
    ),
    (
        "judgement",
        "stays for {} minutes, with its outcome; of tasks and trials, at most the last {} do",
        [
            ("monitor/collector.py", "_ENDED_FOR", MINUTE),
            ("monitor/collector.py", "_MAX_ENDED_PARTS", 1),
        ],
    ),
    ("judgement", "for at most {} minutes: they", [("monitor/idle.py", "WARM_UP_S", MINUTE)]),
    (
        "judgement",
        "it writes every {} seconds",
        [("training/session/sampling.py", "INTERVAL_S", 1)],
    ),
    (
        "judgement",
        "the median of its last {} epochs; before the second epoch has ended, it is the time "
        "between two step counts, but at least {} seconds",
        [
            ("runs/training_glance.py", "_MEDIAN_OF", 1),
            ("runs/training_glance.py", "_LEAST_STEP_S", 1),
        ],
    ),
    (
        "precision",
        "{} steps without one double it",
        [("training/engine/loss_scale.py", "_GROWTH_STEPS", 1)],
    ),
    ("own-workload", "on the first {} samples", [("testing/selftest.py", "_NUM_SAMPLES", 1)]),
    ("report", "and for {} seconds at most", [("training/session/mistakes.py", "seconds", 1)]),
    ("report", "Above {} tasks, only", [("pages/job_lanes.py", "MAX_LANES", 1)]),
    (
        "report",
        "at most {} values: with more, from evenly spaced networks. With more than {} networks",
        [("studies/views/survey.py", "_MAX_VALUES", 1), ("pages/parameters.py", "_MAX_SHOWN", 1)],
    ),
    ("report", "have {} rows and the number of all", [("pages/search.py", "_MAX_TRIALS", 1)]),
    ("runs", "at the start, every {} s, and", [("training/session/sampling.py", "INTERVAL_S", 1)]),
    ("runs", "Above {} points each two", [("runs/sample_file.py", "MAX_POINTS", 1)]),
    (
        "search-cluster",
        "The counter grows every {} s",
        [("files/holders.py", "HEARTBEAT_INTERVAL_S", 1)],
    ),
    (
        "search-cluster",
        "a second one within {} s ends",
        [("cli/stopping.py", "_SECOND_WITHIN_S", 1)],
    ),
    ("security", "up to {} GB each", [("hkube/hosting/session.py", "MAX_PAYLOAD_BYTES", 1e9)]),
    (
        "top",
        "is tried again every {} to {} s",
        [
            ("monitor/hosts.py", "_AGAIN_AFTER_S", 1),
            ("monitor/hosts.py", "_AGAIN_AFTER_AT_MOST_S", 1),
        ],
    ),
    (
        "top-scripts",
        "A command has {} s, and {} s when",
        [("monitor/alerts.py", "_TIMEOUT_S", 1), ("monitor/alerts.py", "_PATIENCE_S", 1)],
    ),
    (
        "uninstall",
        "no task used for {} days",
        [("environments/shipped.py", "_UNUSED_S", 86_400)],
    ),
    (
        "precision",
        "one launch replays {} steps",
        [("training/engine/many_steps.py", "_AT_ONCE", 1)],
    ),
]


@functools.cache
def values_of(file: str) -> dict[str, ast.expr]:
    """Return the values of constants, fields and parameters' defaults of a file."""
    values: dict[str, ast.expr] = {}
    for node in ast.walk(ast.parse((SOURCE / file).read_text())):
        match node:
            case ast.Assign(targets=[ast.Tuple(names)], value=ast.Tuple(those)):
                values |= {
                    ast.unparse(name): value for name, value in zip(names, those, strict=True)
                }
            case ast.Assign(targets=[ast.Name(name)], value=value):
                values.setdefault(name, value)
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                values.setdefault(name, value)
            case ast.arguments(kwonlyargs=arguments, kw_defaults=defaults):
                pairs = zip(arguments, defaults, strict=True)
                values |= {argument.arg: value for argument, value in pairs if value}
    return values


def shown(file: str, name: str, unit: float) -> str:
    """Return a constant as pages write it."""
    code = compile(ast.Expression(values_of(file)[name]), file, "eval")
    value = eval(code, {"__builtins__": {}, "timedelta": timedelta})
    number = (value.total_seconds() if isinstance(value, timedelta) else value) / unit
    return f"{number:,.0f}" if number == int(number) else f"{number:.9f}".rstrip("0")


@pytest.mark.parametrize(
    ("page", "sentence", "constants"), STATED, ids=[f"{row[0]}: {row[1]}" for row in STATED]
)
def test_a_number_in_a_sentence_of_a_page_is_that_of_the_source(page, sentence, constants):
    text = " ".join((ROOT / "docs" / f"{page}.md").read_text().split())
    assert sentence.format(*(shown(*constant) for constant in constants)) in text
