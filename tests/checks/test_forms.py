"""A report in each form for programs, read by the programs' own readers; and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from recorded import RECORDED
from recorded.evidence import DRIVER, H200, done, gpu, machine, on_gpu, said, with_gpu

from forked import run_python
from tarmac.checks import FORMS, read_catalogue
from tarmac.checks.evidence import Driver, Evidence, Probe
from tarmac.checks.report.make import make_report
from tarmac.checks.report.requirements import parse_requirements
from tarmac.checks.rules import kernel
from tarmac.cli.choices import FAIL_ON, FORMATS

EVERYTHING = [
    pytest.param(evidence, id=f"{code}-{number}")
    for code, cases in RECORDED.items()
    for number, evidence in enumerate(cases)
]

MEASURED = on_gpu(
    "torch",
    flops={"bf16": 780e12, "fp32": 50e12},
    copies={"to_device": 52e9, "from_device": 51e9, "memory": 4300e9, "pinned": True},
)
HOT = gpu(slowdowns=("sw_thermal",), temperature_c=88)
SILENT = Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Timeout")))
NOT_STARTED = Evidence(
    inventory=machine(),
    probes=(
        Probe(framework="jax", where="this Python", outcome="not started", detail="python: gone"),
    ),
)
NO_DRIVER = Evidence(
    inventory=machine(driver=Driver(nvml_error="NVML: NVML Shared Library Not Found"))
)
ECC = gpu(uncorrected_errors=3)


def report(evidence, *, require=(), **asked):
    return make_report(evidence, requirements=parse_requirements(require), seconds=1.5, **asked)


def run(*arguments, env=None, **pipes):
    return run_python("-m", "tarmac", "check", *arguments, env=env, **pipes)


@pytest.mark.parametrize(
    ("evidence", "asked", "code"),
    [
        (MEASURED, {}, 0),
        (ECC, {}, 1),
        (SILENT, {}, 3),
        (NOT_STARTED, {}, 3),
        (NO_DRIVER, {}, 0),
        (gpu(error="Unknown Error"), {}, 3),
        (HOT, {}, 0),
        (HOT, {"fail_on": "warning"}, 1),
        (gpu(persistence=False), {"fail_on": "warning"}, 0),
        (gpu(persistence=False), {"fail_on": "note"}, 1),
        (ECC, {"skip": ["ecc"]}, 0),
        (ECC, {"only": ["xid"]}, 0),
        (ECC, {"only": ["ecc"]}, 1),
        (SILENT, {"only": ["ecc"]}, 3),
        (SILENT, {"fail_on": None}, 0),
        (SILENT, {"fail_on": None, "require": ["driver>=570"]}, 3),
        (NO_DRIVER, {"fail_on": None, "require": ["driver>=570"]}, 1),
        (ECC, {"fail_on": None, "require": ["gpus>=1"]}, 0),
        (ECC, {"fail_on": None, "require": ["gpus>=2"]}, 1),
        (ECC, {"fail_on": "failure", "require": ["gpus>=1"]}, 1),
    ],
)
def test_the_exit_code_says_whether_all_holds_something_failed_or_none_could_look(
    evidence, asked, code
):
    assert report(evidence, **asked).exit_code == code


def test_what_failed_comes_before_what_could_not_be_looked_at():
    both = ECC.model_copy(update={"probes": NOT_STARTED.probes})
    assert report(both).exit_code == 1
    assert [unseen.where for unseen in report(both).unseen] == ["jax"]


@pytest.mark.parametrize("evidence", RECORDED.get("kernel-log-unreadable", ()))
def test_a_kernel_log_that_was_asked_for_and_may_not_be_read_is_unknown(evidence):
    assert report(evidence).exit_code == 0
    assert report(evidence, only=["ecc"]).exit_code == 0
    assert report(evidence, only=sorted(kernel.RULES)).exit_code == 3


def test_an_absent_framework_fails_and_is_no_finding():
    absent = Probe(framework="jax", where="this Python", outcome="not installed")
    evidence = Evidence(inventory=machine(), probes=(absent,))
    assert report(evidence).exit_code == 1
    assert report(evidence, only=["ecc"]).exit_code == 0


@pytest.mark.parametrize(
    ("framework", "image", "says"),
    [
        ("tensorflow", None, "; to build what has it: tarmac check --provision tensorflow"),
        ("torch", None, "; to install it: pip install 'tarmac-gpu[train]'"),
        ("mine", None, ""),
        ("tensorflow", "python:3.11", ""),
    ],
)
def test_an_absent_framework_comes_with_what_brings_it(framework, image, says):
    absent = Probe(framework=framework, where="here", image=image, outcome="not installed")
    (verdict,) = report(Evidence(inventory=machine(), probes=(absent,))).frameworks
    assert verdict.text == f"not installed in here{says}"


def test_who_skips_a_cause_skips_its_consequences_and_is_told():
    evidence = done("torch", build={"cuda": None}, version="2.13.0+cpu")
    assert [f.code for f in report(evidence).findings] == ["torch-cpu-build"]
    skipping = report(evidence, skip=["torch-cpu-build"])
    assert not skipping.findings
    assert [f.code for f in skipping.skipped] == ["torch-cpu-build"]


def test_a_consequence_that_is_looked_for_alone_is_found():
    evidence = done("torch", build={"cuda": None}, version="2.13.0+cpu")
    assert [f.code for f in report(evidence, only=["silent-cpu"]).findings] == ["silent-cpu"]


def assert_brief(evidence):
    line = FORMS["brief"].render(report(evidence, fail_on="note"))
    assert line.count("\n") == 1
    assert 0 < len(line.rstrip("\n")) <= 80
    assert line.isascii()
    assert not re.search(r"[\"'`$\\|]", line)


@pytest.mark.parametrize(
    ("evidence", "asked", "line"),
    [
        (MEASURED, {}, "ok: 1 x NVIDIA H200, torch ok"),
        (Evidence(inventory=machine()), {}, "ok: no NVIDIA GPU"),
        (ECC, {}, "FAILED: ecc at GPU 0"),
        (ECC, {"require": ["gpus>=2"]}, "FAILED: ecc at GPU 0; not gpus>=2, found 1"),
        (SILENT, {}, "UNKNOWN: machine: the driver does not answer: NVML: Timeout"),
        (
            SILENT,
            {"fail_on": None, "require": ["driver>=570", "cuda>=12"]},
            "UNKNOWN: cannot tell driver>=570; cannot tell cuda>=12",
        ),
    ],
)
def test_a_brief_line_says_the_answer_and_why(evidence, asked, line):
    assert FORMS["brief"].render(report(evidence, **asked)) == f"{line}\n"


def test_a_brief_line_counts_what_it_has_no_room_for():
    require = [f"gpus>={number}00000000" for number in range(1, 9)]
    line = FORMS["brief"].render(report(MEASURED, require=require, fail_on=None)).rstrip()
    assert len(line) <= 80
    assert line.startswith("FAILED: not gpus>=100000000, found 1; not gpus>=200000000, ")
    assert line.endswith("(+6)")


# The form of a plugin's first line: https://www.monitoring-plugins.org/doc/guidelines.html.
_PERFDATA = re.compile(r"[^\s'=]+=-?[\d.]+(e[+-]\d+)?(s|us|ms|%|B|c)?(;[\d.]*){0,4}")


def assert_nagios(given):
    text = FORMS["nagios"].render(given)
    first, *rest = text.splitlines()
    states = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
    status = states[FORMS["nagios"].exit_code(given)]
    said, bar, data = first.partition(" | ")
    assert said.startswith(f"TARMAC {status} - ")
    assert bar
    assert all(_PERFDATA.fullmatch(item) for item in data.split(" ")), data
    assert not [line for line in rest if "|" in line]
    # What is wrong, where and what shows it, after which come indented lines of what to do.
    levels = [line.partition(": ")[0] for line in rest if not line.startswith(("  ", "skipped"))]
    assert levels == [finding.level for finding in given.findings]


@pytest.mark.parametrize(
    ("evidence", "asked", "code"),
    [
        (MEASURED, {}, 0),
        (HOT, {}, 1),
        (HOT, {"fail_on": "warning"}, 2),
        (ECC, {}, 2),
        (SILENT, {}, 3),
    ],
)
def test_nagios_gets_its_own_exit_codes(evidence, asked, code):
    assert FORMS["nagios"].exit_code(report(evidence, **asked)) == code


def assert_junit(given):
    junitparser = pytest.importorskip("junitparser")
    suites = junitparser.JUnitXml.fromstring(FORMS["junit"].render(given).encode())
    (suite,) = suites
    outcomes = [type(result).__name__ for case in suite for result in case.result]
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (
        len(list(suite)),
        outcomes.count("Failure"),
        outcomes.count("Error"),
        outcomes.count("Skipped"),
    )
    assert all(len(case.result) <= 1 for case in suite)
    assert ("Failure" in outcomes) == (given.exit_code == 1)
    assert ("Failure" in outcomes or "Error" in outcomes) == (not given.ok)
    names = [case.name for case in suite]
    assert len({(case.classname, case.name) for case in suite}) == len(names)


def test_junit_holds_what_xml_cannot():
    junitparser = pytest.importorskip("junitparser")
    text = FORMS["junit"].render(report(said("torch", "an \x1b[31merror\x00 <&]]> \ud800")))
    (suite,) = junitparser.JUnitXml.fromstring(text.encode("utf-8", "strict"))
    assert suite.failures == 1


def test_junit_shows_what_was_skipped():
    junitparser = pytest.importorskip("junitparser")
    given = report(ECC, skip=["ecc"])
    (suite,) = junitparser.JUnitXml.fromstring(FORMS["junit"].render(given).encode())
    assert [case.name for case in suite if case.is_skipped] == ["ecc"]


_UNITS = ("_bytes", "_celsius", "_watts", "_hertz", "_ratio", "_seconds", "_total", "_per_second")
_COUNTS = (
    *("_ok", "_code", "_findings", "_info", "_met", "_unseen", "_answers"),
    *("_generation", "_lanes", "_up", "_nvlinks", "_pages"),
)


def assert_prometheus(evidence):
    parser = pytest.importorskip("prometheus_client.parser")
    given = report(evidence, require=["gpus>=1", "gpus>=1", "cuda>=12"])
    families = list(parser.text_string_to_metric_families(FORMS["prometheus"].render(given)))
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families)
    samples = [sample for family in families for sample in family.samples]
    assert all(sample.name.endswith((*_UNITS, *_COUNTS)) for sample in samples)
    keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(set(keys)) == len(keys)
    (code,) = (sample.value for sample in samples if sample.name == "tarmac_check_exit_code")
    assert code == given.exit_code


@pytest.mark.parametrize("evidence", [*EVERYTHING, MEASURED, HOT, SILENT, NOT_STARTED])
def test_every_form_of_a_report_is_read_by_its_reader(evidence):
    given = report(evidence)
    assert_brief(evidence)
    assert_nagios(given)
    for asked in (
        given,
        report(evidence, fail_on="note"),
        report(evidence, require=["gpus>=9", "cuda>=99"]),
    ):
        assert_junit(asked)
    assert_prometheus(evidence)


def test_prometheus_gets_numbers_in_base_units():
    parser = pytest.importorskip("prometheus_client.parser")
    hot = H200.model_copy(
        update={
            "temperature_c": 88,
            "sm_clock_mhz": {"now": 900},
            "utilization": 50,
            "name": 'a "b" \\c\n',
        }
    )
    evidence = MEASURED.model_copy(update={"inventory": machine((hot,), driver=DRIVER)})
    text = FORMS["prometheus"].render(report(evidence))
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["tarmac_gpu_temperature_celsius", "0"] == 88
    assert found["tarmac_gpu_sm_clock_hertz", "0"] == 900e6
    assert found["tarmac_gpu_utilization_ratio", "0"] == 0.5
    assert found["tarmac_gpu_memory_bytes", "0"] == 150754820096
    assert found["tarmac_framework_flops_per_second", "torch", "cuda:0", "bf16"] == 780e12
    to_device = ("torch", "cuda:0", "to_device")
    assert found["tarmac_framework_copy_bytes_per_second", *to_device] == 52e9
    assert found["tarmac_gpu_info", "0", "GPU-7d3c132a", 'a "b" \\c\n', ""] == 1


def test_the_choices_of_the_command_line_are_what_there_is():
    assert {*FORMATS} == {"text", *FORMS}
    assert {*FAIL_ON} == {failure.level for failure in read_catalogue().values()}


def test_a_probe_that_cannot_be_started_is_an_unknown_and_exit_code_3(tmp_path):
    # It says its version, and is gone when the probe is to start.
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nrm {program}\necho True\n")
    program.chmod(0o755)
    done = run("torch", "--quick", "--python", str(program))
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"UNKNOWN\s+torch \(.*gave no answer: .*No such file", done.stdout)
    assert "Could not check: torch (" in done.stdout


def test_what_was_skipped_is_said_and_does_not_count(on_machine):
    env = on_machine("ecc-errors")
    asked = ("--quick", "--device", "cpu", "--only", "ecc")
    assert run(*asked, env=env).returncode == 1
    done = run("--quick", "--device", "cpu", "--skip", "ecc", env=env)
    assert done.returncode == 0
    assert "Skipped: " in done.stdout
    assert "[ecc]" in done.stdout


def test_the_short_forms_are_those_that_are_named(on_machine):
    env = on_machine("unknown-error")
    asked = ("--quick", "--device", "cpu", "--only", "ecc")
    long, short = run(*asked, "--format", "brief", env=env), run(*asked, "--brief", env=env)
    assert (long.stdout, long.returncode) == (short.stdout, 3)
    done = run(*asked, "--json", env=env)
    facts = json.loads(done.stdout)
    assert (facts["ok"], facts["exit_code"], done.returncode) == (False, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "eccc"], "unknown code 'eccc', did you mean 'ecc'?"),
        (["--skip", "xidd"], "unknown code 'xidd', did you mean 'sxid'?"),
        (["--skip", "ecc", "--only", "ecc"], "ecc cannot be both in --only and in --skip"),
        (["--fail-on", "warnings"], "unknown --fail-on 'warnings', did you mean 'warning'?"),
        (["--format", "xml"], "unknown --format 'xml'"),
        (["--json", "--brief"], "--json and --brief exclude each other"),
        (["--brief", "--format", "junit"], "--brief and --format junit exclude each other"),
    ],
)
def test_a_wrong_request_is_refused(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert not done.stdout


def test_a_nagios_plugin_that_was_asked_wrongly_is_unknown():
    done = run("--format", "nagios", "--skip", "xidd")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "TARMAC UNKNOWN - unknown code 'xidd', did you mean 'sxid'?\n"


@pytest.mark.parametrize("form", FORMATS)
def test_what_cannot_be_printed_is_said(form):
    with Path("/dev/full").open("w") as full:
        done = run(
            *("mxnet", "--quick", "--format", form),
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: standard output cannot be written: No space left on device\n"
    )


def test_a_secret_and_a_name_are_in_no_form(monkeypatch):
    from tarmac.checks import without_names

    monkeypatch.setenv("HOME", "/home/jane")
    environment = {"HF_TOKEN": "hf_verysecret", "USER": "jane"}
    evidence = said("torch", "at /home/jane/x with hf_verysecret", with_gpu())
    given = without_names(report(evidence, require=["torch"]), environment)
    for form in FORMS.values():
        text = form.render(given)
        assert "hf_verysecret" not in text
        assert "jane" not in text
