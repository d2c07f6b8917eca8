"""Files of what a machine is expected to be: the same conditions as --require's, with places."""

from __future__ import annotations

import json
import tomllib

import pytest
from recorded.evidence import DRIVER, H200, machine, on_gpu

from tarmac.checks import Expectation
from tarmac.checks.evidence import Driver, Evidence, Limits
from tarmac.checks.report.expectation import read_expectation
from tarmac.checks.report.make import make_report
from tarmac.checks.report.requirements import parse_requirement
from tarmac.cli.views.schema import render_schema
from tarmac.documents import parse_toml
from tarmac.errors import RequestError

EIGHT = machine(
    tuple(H200.model_copy(update={"index": n, "vbios": "96.00.99.00.01"}) for n in range(8)),
    driver=DRIVER,
    limits=Limits(cpus=64, shm_bytes=2**34),
    environment={"NCCL_DEBUG": "WARN"},
)
NODE = on_gpu("torch", flops={"bf16": 780e12}, copies={"to_device": 52e9}).model_copy(
    update={"inventory": EIGHT}
)
WHOLE = """\
gpus = 8
gpu_name = "NVIDIA H200"
gpu_memory = 140
vbios = "equal"
driver = ">=570"
cuda = "13.0"
cpus = 64
memory = 64
shm = ">=16"
frameworks = ["pytorch"]

[variables]
NCCL_DEBUG = "WARN"
CUDA_LAUNCH_BLOCKING = false

[rates.torch]
bf16 = 600
to_device = ">40"
"""


def judged(tmp_path, text, evidence=NODE):
    path = tmp_path / "node.toml"
    path.write_text(text)
    report = make_report(evidence, requirements=read_expectation(path), seconds=1)
    return {requirement.text: requirement for requirement in report.requirements}


def test_a_node_that_is_what_it_should_be_holds(tmp_path):
    found = judged(tmp_path, WHOLE)
    assert {r.met for r in found.values()} == {True}, [r for r in found.values() if not r.met]
    assert {r.source for r in found.values()} == {"node.toml"}
    assert "gpus==8" in found
    assert "torch.bf16>=600" in found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gpus = 4", "8"),
        ('gpu_name = "NVIDIA H100"', "NVIDIA H200"),
        ("gpu_memory = 200", "140.401"),
        ('vbios = "96.00.99.00.02"', "96.00.99.00.01"),
        ('driver = "570.86"', "580.126.20"),
        ("cpus = 128", "64"),
        ("memory = 128", "64"),
        ('frameworks = ["jax"]', "not checked"),
        ('variables = {NCCL_DEBUG = "INFO"}', "WARN"),
        ("variables = {NCCL_DEBUG = false}", "WARN"),
        ('variables = {NCCL_IB_HCA = "mlx5"}', "not set"),
        ("rates.torch.bf16 = 800", "780 TFLOP/s on cuda:0"),
        ("rates.torch.fp16 = 1", "not measured"),
    ],
)
def test_what_is_otherwise_is_said_with_what_is_there(tmp_path, line, found):
    (requirement,) = judged(tmp_path, line).values()
    assert (requirement.met, requirement.found) == (False, found)


def test_firmware_that_differs_between_gpus_is_not_equal(tmp_path):
    gpus = (EIGHT.gpus[0], EIGHT.gpus[1].model_copy(update={"vbios": "96.00.61.00.01"}))
    evidence = Evidence(inventory=machine(gpus, driver=DRIVER))
    (requirement,) = judged(tmp_path, 'vbios = "equal"', evidence).values()
    assert (requirement.met, requirement.found) == (False, "96.00.61.00.01, 96.00.99.00.01")


@pytest.mark.parametrize("line", ["driver = 580", 'vbios = "equal"', "gpu_memory = 1"])
def test_what_a_silent_driver_does_not_tell_is_unknown(tmp_path, line):
    silent = Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Timeout")))
    (requirement,) = judged(tmp_path, line, silent).values()
    assert requirement.met is None


def test_a_line_of_require_and_one_of_a_file_are_the_same_condition(tmp_path):
    (requirement,) = judged(tmp_path, 'driver = ">=570"').values()
    asked = parse_requirement("driver>=570")(NODE, ())
    assert requirement.model_dump(exclude={"source"}) == asked.model_dump(exclude={"source"})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gpus = 8\ngpu = 1\n", ":2:1: gpu: unknown key", "did you mean 'gpus'?"),
        ("[rates.torch]\n\n  bf61 = 1", ":3:3: rates.torch.bf61: unknown key", "'bf16'?"),
        ("[rates.tensorfow]\nbf16 = 1", ":1:8: rates.tensorfow: unknown framework", "tensorflow"),
        ('frameworks = ["jaxx"]', ":1:1: frameworks[0]: 'jaxx': unknown framework 'jaxx'", ""),
        ("gpus = true", ":1:1: gpus: true: expected a number, or a comparison", ""),
        ('gpus = ">= many"', ":1:1: gpus: '>= many': 'many' is not a number", ""),
        ('driver = "5x"', ":1:1: driver: '5x': '5x' is not a version", ""),
        ("a = {b = 1, gpus = 2}", ":1:1: a: unknown key", ""),
        ("gpus = 8\ngpus = 9", ":2:9: cannot overwrite a value", ""),
        ("gpus 8", ":1:6: expected '=' after a key", ""),
        ("", " expects nothing", ""),
        ("\x00", ":1:1: ", ""),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(tmp_path, text, message, hint):
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(RequestError) as refused:
        read_expectation(path)
    assert f"{path}{message}" in str(refused.value)
    assert hint in str(refused.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(RequestError, match="cannot be read: No such file"):
        read_expectation(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00g")
    with pytest.raises(RequestError, match=":1:1: is not UTF-8"):
        read_expectation(tmp_path / "binary.toml")


def test_values_of_toml_know_their_lines():
    text = 'a = 1\nb = [\n  2,\n  3,\n]\n\n[c."d.e"]\nf = """\n\n"""\n[[g]]\nh = 1\n[[g]]\nh = 2\n'
    document = parse_toml(text, "x.toml")
    assert document.value == tomllib.loads(text)
    assert document.place_of(("a",)) == (1, 1)
    assert document.place_of(("b", 1)).line == 2
    assert document.place_of(("c", "d.e", "f")) == (8, 1)
    assert document.place_of(("g", 1, "h")) == (14, 1)


def test_the_schema_takes_what_is_read():
    jsonschema = pytest.importorskip("jsonschema")
    schema = render_schema(Expectation, "x")
    validator = jsonschema.Draft202012Validator(json.loads(json.dumps(schema)))
    validator.validate(tomllib.loads(WHOLE))
    for wrong in ({"gpu": 1}, {"rates": {"torch": {"x": 1}}}, {"variables": {"A": True}}):
        assert not validator.is_valid(wrong)
