"""Checking as a user does it: the verb, the command line, its JSON and its page."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tarmac
from forked import forked_interpreter, run_python
from tarmac import RequestError
from tarmac.checks import FRAMEWORKS, check_here, find_failure, quick_check, read_catalogue
from tarmac.checks.evidence import Driver, Evidence, Host, Inventory, Probe
from tarmac.checks.frameworks import find_framework
from tarmac.checks.inventory import read_inventory
from tarmac.checks.report.make import make_report
from tarmac.checks.report.requirements import parse_requirements
from tarmac.checks.targets import container_target
from tarmac.errors import TarmacError

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

pytestmark = pytest.mark.usefixtures("forked_probes")

ROOT = Path(__file__).parents[2]


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "tarmac", "check", *arguments, env=env)


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_docs_pages_are_made_from_the_catalogue_and_the_model():
    rendered = load(ROOT / "docs" / "render_failures.py")
    assert (ROOT / "docs" / "failures.md").read_text() == rendered.render_page()
    assert (ROOT / "docs" / "check-report.schema.json").read_text() == rendered.render_schema()
    assert (ROOT / "docs" / "check-read.schema.json").read_text() == rendered.render_log_schema()


def test_a_machine_without_a_gpu_works_on_its_cpu_and_says_so():
    done = run("torch", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"cpu only\s+torch\s+works, on the CPU; no GPU was used", done.stdout)
    assert "What to do" not in done.stdout


def test_keras_is_taken_through_its_backends_where_it_is_named_or_there_is_time(monkeypatch):
    seen = []

    def collect(tasks, *_, **__):
        seen.append([task.variables for task in tasks if task.framework == "keras"])
        raise RequestError("far enough")

    monkeypatch.setattr("tarmac.checks.verb._collect", collect)
    for names, depth in (((), "normal"), ((), "deep"), (("keras",), "normal")):
        with pytest.raises(RequestError, match="far enough"):
            tarmac.check(names, pythons=[sys.executable], depth=depth)
    backends = [{"KERAS_BACKEND": name} for name in find_framework("keras").backends]
    assert len(backends) > 1
    assert seen == [[{}], backends, backends]


def test_findings_come_with_what_to_type(on_machine):
    done = run("--quick", env=on_machine("throttled"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "Devices  NVIDIA driver 580.126.20, for CUDA up to 13.0"
    assert re.match(r"  warning   GPU 0  NVIDIA H200, 140 GiB, 88 °C; slowed by heat", lines[1])
    todo = lines[lines.index("What to do") :]
    assert todo[1] == "  1. PyTorch is built without CUDA (torch)  [torch-cpu-build]"
    assert re.search(r"pip install .*--(force-)?reinstall torch==", "\n".join(todo))
    assert done.stdout.index("torch-cpu-build") < done.stdout.index("throttle-thermal")


@pytest.mark.parametrize(("machine", "is_one_by_one"), [("alone", True), ("healthy", False)])
def test_probes_compute_one_after_another_where_a_gpu_takes_one_process(
    on_machine, tmp_path, machine, is_one_by_one
):
    # Each interpreter waits for the other to come: while there is hope, or until it does.
    interpreters = []
    for mine, other in (("a", "b"), ("b", "a")):
        path = tmp_path / mine / "python"
        path.parent.mkdir()
        path.write_text(
            f"""#!/bin/bash
[ "$1" = -I ] && exec '{sys.executable}' "$@"
echo begin {mine} >> {tmp_path}/log
touch {tmp_path}/{mine}.here
for ((n = 0; n < 20 || {0 if is_one_by_one else 1}; n++)); do
    [ -e {tmp_path}/{other}.here ] && break
    sleep 0.05
done
echo end {mine} >> {tmp_path}/log
"""
        )
        path.chmod(0o755)
        interpreters += ["--python", str(path)]
    env = on_machine(machine)
    if machine == "alone":
        # Compute mode EXCLUSIVE_PROCESS, with nobody on the GPU.
        lines = Path(env["NVML_STAND_IN"]).with_name("exclusive.txt").read_text().splitlines()
        env["NVML_STAND_IN"] = str(tmp_path / "alone.txt")
        kept = [line for line in lines if not line.startswith("0.process")]
        (tmp_path / "alone.txt").write_text("\n".join(kept) + "\n")
    run("torch", "--quick", *interpreters, env=env)
    words = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    expected = ["begin", "end", "begin", "end"]
    assert words == (expected if is_one_by_one else ["begin", "begin", "end", "end"])


def test_json_has_the_published_form(on_machine):
    jsonschema = pytest.importorskip("jsonschema")
    done = run("--quick", "--json", env=on_machine("ecc-errors"))
    report = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "check-report.schema.json").read_text())
    jsonschema.validate(report, schema)
    assert report["ok"] is False
    assert report["schema_version"] == 3
    assert report["inventory"]["gpus"][0]["uncorrected_errors"] == 3


def test_a_report_does_not_name_its_user(on_machine, tmp_path):
    env = on_machine("healthy", HOME="/home/jane", LD_LIBRARY_PATH="/home/jane/cuda/lib64")
    env |= {"LOGNAME": "jane", "USER": "jane", "NVIDIA_API_KEY": "nvapi-secret"}
    # A value that one variable keeps secret, another may show.
    env |= {"TORCH_HUB": "/scratch/jane", "NCCL_CONF_FILE": "nvapi-secret", "OMP_X": "/home/janet"}
    page = tmp_path / "page.html"
    done = run("--quick", "--json", "--html", str(page), env=env)
    for text in (done.stdout, page.read_text()):
        assert not re.search(r"jane\b", text)
        assert "nvapi-secret" not in text
    assert "~/cuda/lib64" in done.stdout
    assert "/scratch/USER" in done.stdout
    assert "/home/janet" in done.stdout
    assert "/home/jane/cuda" in run("--quick", "--json", "--names", env=env).stdout


def test_a_user_without_a_name_gets_a_report():
    # As Kubernetes starts it with runAsUser.
    become = ["unshare", "--user", "--map-user=43210", "--map-group=43210"]
    if subprocess.run([*become, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(
            "no user namespace can be made; allow it: sysctl kernel.unprivileged_userns_clone=1"
        )
    hidden = {"HOME", "USER", "LOGNAME", "LNAME", "USERNAME"}
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    command = [*become, sys.executable, "-m", "tarmac", "check", "jax", "--quick", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["frameworks"][0]["answer"] == "absent"


def test_a_number_that_is_none_is_null_in_json():
    device = {"name": "cuda:0", "kind": "gpu"}
    device["matmul"] = {"error": float("nan"), "tolerance": 1e-3, "ok": False}
    probe = Probe(
        framework="torch",
        where="this Python",
        outcome="done",
        result={"stage": "done", "devices": [device]},
    )
    report = make_report(Evidence(inventory=read_inventory(), probes=(probe,)), seconds=1)
    assert [finding.code for finding in report.findings] == ["wrong-result"]
    facts = json.loads(report.model_dump_json())
    assert facts["probes"][0]["result"]["devices"][0]["matmul"]["error"] is None


def test_the_page_needs_nothing_else_and_escapes_what_it_shows(on_machine, tmp_path):
    machine = tmp_path / "odd.txt"
    machine.write_text("count 1\n0.name <script>alert(1)</script>\n0.persistence 0\n")
    page = tmp_path / "page.html"
    env = on_machine("healthy") | {"NVML_STAND_IN": str(machine)}
    run("--quick", "--device", "cpu", "--html", str(page), env=env)
    text = page.read_text()
    assert "All is well" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert not re.search(r"(src|href)=\"(?!https://|#)", text)
    assert not re.search(r"<(script .*src|link|img)", text)


@pytest.mark.parametrize(
    ("machine", "requirements", "code"),
    [
        ("healthy", ["gpus>=1"], 0),
        ("healthy", ["gpus>=2"], 1),
        ("eight", ["gpus==8", "driver>=570", "cuda>=12.8", "gpu_memory>=140"], 0),
        ("eight", ["gpu_memory>=200"], 1),
        ("fell-off-bus", ["gpus>=2"], 1),
        ("driver-mismatch", ["gpu"], 1),
        ("healthy", ["tensorflow"], 1),
    ],
)
def test_what_is_required_decides(on_machine, machine, requirements, code):
    arguments = [part for text in requirements for part in ("--require", text)]
    done = run("--quick", "--device", "cpu", *arguments, env=on_machine(machine))
    assert done.returncode == code, done.stdout
    assert done.stdout.count("holds" if code == 0 else "FAILS") >= 1


@pytest.mark.parametrize(
    ("requirement", "is_met", "found"),
    [
        ("cuda>=12.8", True, "12.10"),
        ("cuda<12.9", False, "12.10"),
        ("driver>=570.86.10", True, "570.86.15"),
        ("driver>=570.124", False, "570.86.15"),
        ("driver>=570", True, "570.86.15"),
    ],
)
def test_versions_are_compared_as_versions(requirement, is_met, found):
    host = Host(cpu="", cores=1, memory_bytes=1, disk_free_bytes=1, kernel="", system="")
    driver = Driver(version="570.86.15", cuda="12.10")
    evidence = Evidence(inventory=Inventory(host=host, driver=driver), probes=())
    (judge,) = parse_requirements([requirement])
    result = judge(evidence, ())
    assert (result.met, result.found) == (is_met, found)


def test_every_framework_has_a_probe_and_is_known_by_its_alias():
    for name in FRAMEWORKS:
        assert find_framework(name).program.is_file()
    assert find_framework("PyTorch").name == "torch"
    assert find_framework("TF").name == "tensorflow"
    named = [condition.framework for condition in parse_requirements(["pytorch", "gpus>=1", "tf"])]
    assert named == ["torch", None, "tensorflow"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tensorfow"], "unknown framework 'tensorfow', did you mean 'tensorflow'?"),
        (["--require", "gpus=>1"], "--require 'gpus=>1' is not understood"),
        (["--require", "driver>=570.x"], "--require 'driver>=570.x': '570.x' is not a version"),
        (["--require", "cuda>=12..8"], "--require 'cuda>=12..8': '12..8' is not a version"),
        (["--require", "gpus>=1.2.3"], "--require 'gpus>=1.2.3': '1.2.3' is not a number"),
        (["nosuch"], "unknown framework 'nosuch'\n"),
        (["--require", "luck"], "--require 'luck' is not understood"),
        (["--explain", "omm"], "unknown code 'omm', did you mean 'oom'?"),
        (["--python", "/no/such/python"], "--python /no/such/python is not a program"),
        (["--python", "/bin/true"], "--python /bin/true is not Python 3.7 or newer"),
        (["--provision", "torch"], "unknown environment 'torch'"),
        (["--timeout", "0"], "timeout is 0, expected above 0 seconds"),
        (["--ranks", "1"], "ranks is 1, expected at least 2"),
        (["--device", "gpu0"], "device is 'gpu0', expected cpu, cuda or cuda:INDEX"),
        (["--quick", "--deep"], "--quick and --deep exclude each other"),
    ],
)
def test_a_wrong_request_is_refused(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert not done.stdout


def test_a_failure_is_explained():
    done = run("--explain", "oom")
    assert done.returncode == 0
    assert done.stdout.startswith("oom: out of GPU memory\n")
    assert "source: https://" in done.stdout


def test_no_entry_is_explained_with_gaps():
    for code in read_catalogue():
        done = find_failure(code)
        assert "{" not in done.general_cause
        assert not [line for line in done.general_fix if re.search(r"\{[a-z_]+\}", line)]


def test_a_device_that_is_not_there_is_a_failure():
    done = run("torch", "--quick", "--device", "cuda:7")
    assert done.returncode == 1
    assert re.search(r"FAILED\s+torch .*the requested device does not exist", done.stdout)


def test_a_requirement_holds_wherever_a_framework_was_looked_for(tmp_path):
    broken = tmp_path / "bin/python"
    broken.parent.mkdir()
    broken.write_text(f'#!/bin/sh\n[ "$1" = -I ] && exec "{sys.executable}" "$@"\nkill -SEGV $$\n')
    broken.chmod(0o755)
    report = tarmac.check(
        ["torch"], pythons=[forked_interpreter(), broken], depth="quick", require=["pytorch"]
    )
    assert [probe.outcome for probe in report.probes] == ["done", "crashed"]
    assert not report.ok
    assert [verdict.answer for verdict in report.frameworks] == ["cpu only", "failure"]


def test_a_framework_that_was_named_and_is_missing_is_a_failure():
    report = tarmac.check(["mxnet"], depth="quick")
    assert not report.ok
    assert [verdict.answer for verdict in report.frameworks] == ["absent"]


def test_python_gets_the_same_report():
    report = tarmac.check(["pytorch"], depth="quick", devices=["cpu"], require=["pytorch"])
    assert report.ok
    (verdict,) = report.frameworks
    assert (verdict.name, verdict.answer) == ("torch", "cpu only")


def test_another_interpreter_is_probed(tmp_path):
    report = tarmac.check(["torch"], pythons=[forked_interpreter()], depth="quick")
    (probe,) = report.probes
    assert probe.where == forked_interpreter()


def test_an_image_without_an_engine_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RequestError, match="neither docker nor podman is here"):
        container_target("my-image")


def test_an_engine_that_does_not_answer_is_said_in_its_words(tmp_path, monkeypatch):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(RequestError, match="docker does not answer: Cannot connect to the Docker"):
        container_target("my-image")


def test_the_quick_check_is_cached_until_something_changes(tmp_path):
    first = quick_check(tmp_path, {})
    assert quick_check(tmp_path, {}) == first
    assert len(list(tmp_path.iterdir())) == 1
    quick_check(tmp_path, {"CUDA_VISIBLE_DEVICES": "1"})
    assert len(list(tmp_path.iterdir())) == 2
    for kept in tmp_path.iterdir():
        kept.write_text("{damaged")
    assert quick_check(tmp_path, {}).ok


@pytest.fixture
def trained(tmp_path):
    """Return a function that trains at a machine's first start: (output, check.json, programs)."""
    (tmp_path / "programs").touch()
    program = (
        "import runpy, sys\n"
        "def log(event, details):\n"
        "    if event == 'subprocess.Popen':\n"
        f"        with open({str(tmp_path / 'programs')!r}, 'a') as log:\n"
        "            print(details[1], file=log)\n"
        "sys.addaudithook(log)\n"
        "runpy.run_module('tarmac', run_name='__main__', alter_sys=True)\n"
    )

    def train(*arguments: str) -> tuple[str, dict, str]:
        done = run_python(
            *("-c", program, "train", "digits-mlp", "--epochs", "1", *arguments),
            check=True,
            env=os.environ
            | {"TARMAC_RUNS": str(tmp_path / "runs"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        (path,) = (tmp_path / "runs").iterdir()
        report = json.loads((path / "check.json").read_text())
        return done.stdout, report, (tmp_path / "programs").read_text()

    return train


def test_the_first_training_of_a_boot_checks_its_devices_itself(trained):
    output, report, programs = trained()
    assert report["schema_version"] == 3
    (probe,) = report["probes"]
    (device,) = probe["result"]["devices"]
    assert device["training"]["ok"]
    assert "check:" not in output
    assert "torch_probe" not in programs


def test_where_workers_train_another_process_checks_beside_them(trained):
    _, report, programs = trained("--devices", "cpu:2", "--strategy", "ddp")
    assert report["probes"][0]["outcome"] == "done"
    assert programs.count("torch_probe") == 1


def test_a_check_in_this_process_changes_nothing_that_a_training_sees(tmp_path):
    import torch

    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    before = set(sys.modules)
    report = check_here(["cpu"], tmp_path, {})
    assert torch.equal(torch.rand(3), expected)
    assert not {"harness", "torch_probe"} & (set(sys.modules) - before)
    assert check_here(["cpu"], tmp_path, {}) == report


def test_a_device_that_computes_wrongly_is_said_and_verifies_nothing(tmp_path, monkeypatch, capsys):
    from tarmac.cli import preflight
    from tarmac.cli.entry import main

    wrong = {"error": 0.5, "tolerance": 1e-3, "ok": False}
    device = {"name": "cpu", "kind": "cpu", "matmul": wrong}
    probe = Probe(
        framework="torch", where="this Python", outcome="done", result={"devices": [device]}
    )
    report = make_report(Evidence(inventory=read_inventory(), probes=(probe,)), seconds=0.1)
    monkeypatch.setattr(preflight, "check_here", lambda _: report)
    arguments = ["train", "digits-mlp", "--output", str(tmp_path)]
    codes = []
    for more in ([], ["--verify"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *more])
        codes.append(ended.value.code)
    assert codes == [0, 1]
    said = capsys.readouterr()
    assert said.out.count("See what to do: tarmac check --explain wrong-result") == 2
    assert "the check of the devices found wrong results: matmul is off by 5.0e-01" in said.err


@pytest.mark.frameworks
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", ["tensorflow", "jax", "keras", "mxnet", "chainer", "horovod"])
def test_a_provisioned_framework_computes(framework):
    try:
        report = tarmac.check(provision=[framework], devices=["cpu"], timeout_s=200)
    except TarmacError as error:
        pytest.fail(str(error))
    works = [probe for probe in report.probes if probe.outcome == "done"]
    assert works, [(probe.detail, probe.text) for probe in report.probes]
    for probe in works:
        assert probe.framework == framework
        for device in probe.result["devices"]:
            for kind in ("matmul", "convolution", "training"):
                assert device.get(kind, {"ok": True})["ok"]
            if framework == "horovod":
                assert device["bus_bytes_per_s"] > 1e6
            elif framework != "keras":
                assert device["flops"]["fp32"] > 1e8
                assert device["copies"]["memory"] > 1e8
        placements = probe.result["placements"]
        assert {row["device"] for row in placements} == {
            device["name"] for device in probe.result["devices"]
        }
        assert all(re.search("cpu|numpy", row["ran_on"], re.IGNORECASE) for row in placements)
        # Ranks say it of one operation each.
        assert len(placements) >= (2 if framework == "horovod" else 4)
    assert not [finding for finding in report.findings if finding.code == "wrong-result"]
