"""Reports that were kept: a machine against an earlier report, and many machines side by side."""

from __future__ import annotations

import json
import re

import pytest
from recorded.evidence import DRIVER, H200, HOST, machine, on_gpu

from forked import run_python
from tarmac.checks import FORMS, compare_reports
from tarmac.checks.evidence import Driver, Evidence
from tarmac.checks.report.baseline import Baseline
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import SCHEMA_VERSION
from tarmac.errors import RequestError

LINKS = {"width": 16, "max_width": 16, "max_generation": 5, "generation": 1}


def node(count=8, rate=780e12, copies=52e9, driver="580.126.20", environment=None, **facts):
    gpus = tuple(
        H200.model_copy(update={"index": n, "pcie": LINKS, "nvlinks": (True,) * 18} | facts)
        for n in range(count)
    )
    inventory = machine(
        gpus, driver=DRIVER.model_copy(update={"version": driver}), environment=environment or {}
    )
    measured = on_gpu("torch", flops={"bf16": rate}, copies={"to_device": copies})
    return measured.model_copy(update={"inventory": inventory})


def report(evidence=None, **facts):
    return make_report(evidence or node(**facts), seconds=1)


@pytest.fixture
def good(tmp_path):
    """Return the file of a good node's report."""
    path = tmp_path / "good.json"
    path.write_text(FORMS["json"].render(report()))
    return path


def against(good, evidence):
    baseline = Baseline(good)
    baseline.refuse_other(evidence.inventory)
    judged = make_report(evidence, requirements=list(baseline.conditions()), seconds=1)
    return {r.text: r for r in judged.requirements}, judged


def test_a_machine_that_is_as_it_was_holds(good):
    found, judged = against(good, node())
    assert {r.met for r in found.values()} == {True}
    assert not any(r.better for r in found.values())
    assert judged.exit_code == 0


@pytest.mark.parametrize(
    ("rate", "met", "better", "said"),
    [
        (780e12, True, False, "780 TFLOP/s, 0.0% better"),
        (745e12, True, False, "745 TFLOP/s, 4.5% worse"),
        (740e12, False, False, "740 TFLOP/s, 5.1% worse"),
        (815e12, True, False, "815 TFLOP/s, 4.5% better"),
        (825e12, True, True, "825 TFLOP/s, 5.8% better"),
    ],
)
def test_a_rate_is_worse_or_better_from_5_percent_on(good, rate, met, better, said):
    found, judged = against(good, node(rate=rate))
    requirement = found["torch on cuda:0, bf16: 780 TFLOP/s"]
    assert (requirement.met, requirement.better, requirement.found) == (met, better, said)
    assert judged.exit_code == (0 if met else 1)


@pytest.mark.parametrize(
    ("facts", "text", "found"),
    [
        ({"count": 7}, "GPUs: 8", "7"),
        ({"driver": "570.86.15"}, "driver: 580.126.20", "570.86.15"),
        ({"pcie": {**LINKS, "width": 8}}, "PCIe lanes: 8 x 16", "8 x 8"),
        ({"nvlinks": (True,) * 17 + (False,)}, "NVLinks up: 8 x 18", "8 x 17"),
        ({"memory_bytes": 2**36}, "GPU memory: 8 x 140 GiB", "8 x 64 GiB"),
    ],
)
def test_hardware_and_driver_that_changed_are_said(good, facts, text, found):
    judged, whole = against(good, node(**facts))
    assert (judged[text].met, judged[text].found) == (False, found)
    assert whole.exit_code == 1


def test_a_clock_of_an_idle_link_is_no_change(good):
    assert against(good, node(pcie={**LINKS, "generation": 5}))[1].exit_code == 0


def test_what_a_silent_driver_does_not_tell_is_unknown(good):
    silent = Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Timeout")))
    found, _ = against(good, silent)
    assert found["GPUs: 8"].met is None
    assert found["memory: 64 GiB"].met is True


def test_a_rate_that_was_not_measured_does_not_hold(good):
    evidence = node().model_copy(update={"probes": ()})
    found, _ = against(good, evidence)
    requirement = found["torch on cuda:0, bf16: 780 TFLOP/s"]
    assert (requirement.met, requirement.found) == (False, "not measured")


def test_rates_of_frameworks_that_were_not_named_are_left_out(good):
    texts = {condition.text for condition in Baseline(good).conditions(["jax"])}
    assert "GPUs: 8" in texts
    assert not any("torch" in text for text in texts)


@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        (
            machine((H200.model_copy(update={"name": "NVIDIA H100"}),), driver=DRIVER),
            "its GPUs are NVIDIA H200, this one's NVIDIA H100",
        ),
        (
            machine().model_copy(update={"host": HOST.model_copy(update={"cpu": "another"})}),
            "its CPU is a CPU, this one's another",
        ),
    ],
)
def test_a_baseline_of_another_model_is_refused(good, inventory, words):
    with pytest.raises(RequestError, match=f"from another model of machine: {re.escape(words)}"):
        Baseline(good).refuse_other(inventory)


WRONG = [
    ("{", ":1:2: no JSON: expecting property name"),
    ("", ":1:1: no JSON: expecting value"),
    ('{"a": 1,\n "b": }', ":2:7: no JSON: expecting value"),
    ("[]", ": not a report of tarmac check"),
    ('{"schema_version": 3}', ": not a report of tarmac check"),
    ('{"schema_version": 1, "inventory": {}}', ": of schema_version 1, this Tarmac's is "),
    (f'{{"schema_version": {SCHEMA_VERSION}, "inventory": {{}}}}', ": incomplete report: "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_no_report_is_refused_with_its_place(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(RequestError) as refused:
        Baseline(path)
    assert str(refused.value).startswith(f"{path}{message}")


def run(*arguments, env=None):
    return run_python("-m", "tarmac", "check", *arguments, env=env)


def test_a_report_is_saved_and_stands_against_itself(on_machine, tmp_path):
    env, path = on_machine("eight"), tmp_path / "new" / "good.json"
    quick = ("--quick", "--device", "cpu")
    saved = run(*quick, "--save", path, env=env)
    assert saved.returncode == 0, saved.stdout + saved.stderr
    assert json.loads(path.read_text())["ok"] is True
    again = run(*quick, "--against", path, env=env)
    assert again.returncode == 0, again.stdout + again.stderr
    assert re.search(r"holds +\d+ of good.json", again.stdout)
    other = run(*quick, "--against", path, "--brief", env=on_machine("healthy"))
    assert (other.returncode, other.stdout[:24]) == (1, "FAILED: not GPUs: 8, fou")
    before = path.read_text()
    failing = run(*quick, "--save", path, "--fail-on", "note", "--require", "gpus>=9", env=env)
    assert failing.returncode == 1
    assert "is not written, because this check did not" in failing.stderr
    assert path.read_text() == before


def test_a_place_that_cannot_be_written_is_said():
    done = run("--quick", "--only", "ecc", "--device", "cpu", "--save", "/proc/tarmac/good.json")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write /proc/tarmac/good.json: ")


def test_rates_of_a_baseline_need_more_than_a_quick_check(good):
    done = run("--quick", "--against", good)
    assert done.returncode == 2
    assert "good.json: torch on cuda:0, bf16: 780 TFLOP/s is requested, but a quick" in done.stderr


def test_machines_that_are_alike_have_no_odd_one():
    fleet = compare_reports({f"n{n}": report(rate=(780 + n) * 1e12) for n in range(4)})
    assert (fleet.odd, fleet.differences) == ((), ())
    assert fleet.num_alike > 10


@pytest.mark.parametrize(
    ("facts", "item", "value"),
    [
        ({"driver": "570.86.15"}, "driver", "570.86.15"),
        ({"count": 7}, "GPUs", "7"),
        ({"environment": {"NCCL_DEBUG": "TRACE"}}, "$NCCL_DEBUG", "TRACE"),
        ({"rate": 700e12}, "torch on cuda:0, bf16", "700 TFLOP/s, 10.3% less"),
        ({"persistence": False}, "persistence", "8 x False"),
        ({"uncorrected_errors": 2}, "findings", "ecc"),
    ],
)
def test_the_odd_one_out_is_named_with_what_is_odd(facts, item, value):
    reports = {"n1": report(), "n2": report(), "n3": report(), "n4": report(**facts)}
    fleet = compare_reports(reports)
    assert fleet.odd == ("n4",)
    assert {d.item: dict(d.odd) for d in fleet.differences}[item] == {"n4": value}


def test_a_spread_that_all_share_makes_none_odd():
    rates = (600, 650, 700, 750, 800)
    fleet = compare_reports({f"n{r}": report(rate=r * 1e12) for r in rates})
    assert fleet.odd == ()


def test_two_that_differ_are_both_odd():
    fleet = compare_reports({"a": report(), "b": report(driver="570.86.15")})
    (difference,) = (d for d in fleet.differences if d.item == "driver")
    assert (difference.usual, len(difference.odd)) == ("", 2)


@pytest.fixture
def fleet_files(tmp_path):
    for name, facts in {"n1": {}, "n2": {}, "n3": {"driver": "570.86.15"}}.items():
        (tmp_path / f"{name}.json").write_text(FORMS["json"].render(report(**facts)))
    return [tmp_path / f"{name}.json" for name in ("n1", "n2", "n3")]


def test_the_command_shows_a_table_and_exits_with_1_where_one_is_odd(fleet_files):
    done = run("compare", *fleet_files)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^driver +580\.126\.20 +n3 +570\.86\.15$", done.stdout, re.MULTILINE)
    assert "1 of 3 machines; different: n3; equal in " in done.stdout
    facts = json.loads(run("compare", "--json", *fleet_files).stdout)
    assert facts["odd"] == ["n3"]
    assert run("compare", *fleet_files[:2]).returncode == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["n1"], "1 reports are named, expected at least 2"),
        (["n1", "none"], "none.json: cannot be read: No such file"),
        (["n1", "n1"], "a report is named twice"),
        (["n1", "broken"], "broken.json:1:2: no JSON"),
    ],
)
def test_what_cannot_be_compared_is_refused(fleet_files, names, message):
    folder = fleet_files[0].parent
    (folder / "broken.json").write_text("{")
    done = run("compare", *(folder / f"{name}.json" for name in names))
    assert done.returncode == 2
    assert message in done.stderr


def test_a_framework_that_is_called_as_the_command_can_be_checked():
    done = run("--", "compare")
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown framework 'compare'")
