"""Which command gives GPUs to a container, by the engines that are here."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from recorded.evidence import ABSENT, CARD, machine, text

from tarmac.checks.engines import Engines, read_engines, run_with_gpus
from tarmac.checks.evidence import Container, Driver, Evidence
from tarmac.checks.rules.findings import find


@pytest.mark.parametrize(
    ("engines", "kind", "command"),
    [
        (Engines(docker="28.2.2"), None, "docker run --gpus all"),
        (Engines(docker="29.0.0"), None, "docker run --device nvidia.com/gpu=all"),
        (
            Engines(docker="29.4.0", podman="4.9.3"),
            None,
            "docker run --device nvidia.com/gpu=all",
        ),
        (Engines(podman="4.9.3"), None, "podman run --device nvidia.com/gpu=all"),
        (Engines(), "podman", "podman run --device nvidia.com/gpu=all"),
        (Engines(), "docker", "docker run --gpus all"),
        (Engines(docker="dev"), None, "docker run --gpus all"),
    ],
)
def test_the_command_that_is_printed_is_the_one_that_works_here(engines, kind, command):
    assert run_with_gpus(engines, kind) == command
    inventory = machine(
        container=Container(kind=kind or "docker"),
        driver=ABSENT.model_copy(update={"modules": ("nvidia",)}),
        cards=(CARD,),
        engines=engines,
    )
    (finding,) = find(Evidence(inventory=inventory))
    assert (finding.code, finding.fix[0]) == ("no-gpus-flag", f"{command} ...")


def test_the_engine_here_is_asked():
    engine = shutil.which("docker")
    command = [engine or "", "version", "--format", "{{.Server.Version}}"]
    answer = engine and subprocess.run(command, capture_output=True, text=True, check=False)
    if not answer or answer.returncode != 0:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    found = read_engines()
    assert found.docker == answer.stdout.strip()
    assert "runc" in found.runtimes


def test_descriptions_of_gpus_are_found(tmp_path):
    folder = tmp_path / "etc/cdi"
    folder.mkdir(parents=True)
    (folder / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    (folder / "other.yaml").write_text("kind: vendor.com/nic\n")
    (folder / "nvidia.yaml.bak").write_text("kind: nvidia.com/gpu\n")
    assert read_engines(tmp_path).cdi == ("/etc/cdi/nvidia.yaml",)


def test_what_nvml_does_not_know_is_mended_here_or_on_the_host():
    error = Driver(nvml_error="NVML: Unknown Error")
    (bare,) = find(Evidence(inventory=machine(driver=error)))
    (inside,) = find(Evidence(inventory=machine(driver=error, container=Container(kind="docker"))))
    assert bare.code == inside.code == "nvml-unknown"
    assert "dmesg" in bare.fix[0]
    assert any("create-dev-char-symlinks" in line for line in inside.fix)


def test_docker_29s_words_and_podmans_name_the_description():
    for words in ("failed to discover GPU vendor from CDI: no known GPU vendor found",):
        (finding,) = find(text(words))
        assert any("nvidia-ctk cdi generate" in line for line in finding.fix)
