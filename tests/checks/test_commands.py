"""A failure's commands are those that work on the machine that was seen."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded.evidence import CARD, DRIVER, H200, machine

from tarmac.checks.evidence import Container, Evidence, Inventory, Probe, Upkeep
from tarmac.checks.frameworks import find_framework
from tarmac.checks.inventory import read_inventory
from tarmac.checks.rules.commands import commands_for, general_commands
from tarmac.checks.run_probe import run_probe
from tarmac.checks.targets import THIS_PYTHON, python_target

UBUNTU = Upkeep(distribution="ubuntu", like=("debian",))
WHL = "https://download.pytorch.org/whl"


def on(
    *capabilities: tuple[int, int], driver: str = "13.0", upkeep: Upkeep = UBUNTU, **facts: Any
) -> Inventory:
    """Return a machine with GPUs of these capabilities."""
    gpus = tuple(
        H200.model_copy(update={"index": n, "name": f"chip {n}", "capability": capability})
        for n, capability in enumerate(capabilities)
    )
    own = DRIVER.model_copy(update={"cuda": driver})
    return machine(gpus, driver=own, upkeep=upkeep, cards=(CARD,) * len(gpus), **facts)


def probe(framework: str = "torch", where: str = "this Python", **result: Any) -> Probe:
    image = result.pop("image", None)
    return Probe(framework=framework, where=where, outcome="done", result=result, image=image)


def seen(inventory: Inventory, *probes: Probe) -> Evidence:
    return Evidence(inventory=inventory, probes=probes)


def torch(inventory: Inventory, *probes: Probe) -> tuple[str, ...]:
    places = [probe.label for probe in probes] or ["machine"]
    return commands_for(["{torch}"], places, seen(inventory, *probes))


OWN = {"build": {"releases": {"12.6": {"x86_64": [70, 90]}, "13.0": {"x86_64": [80, 90, 120]}}}}


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (on(), [f"pip install --force-reinstall torch --index-url {WHL}/cpu"]),
        (on((9, 0)), [f"pip install --force-reinstall torch --index-url {WHL}/cu132"]),
        (on((9, 0), (7, 0)), [f"pip install --force-reinstall torch --index-url {WHL}/cu126"]),
        (
            on((12, 0), (7, 0)),
            [
                "# without GPU 1 (chip 1, sm_70): no build has code for all GPUs: give this one an "
                "environment of its own",
                f"pip install --force-reinstall torch --index-url {WHL}/cu132",
            ],
        ),
        (
            on((12, 0), driver="12.4"),
            [
                "# first install a driver for CUDA 12.8 or newer; this one is for 12.4",
                "sudo apt install nvidia-driver-580-open",
                "sudo reboot",
                f"pip install --force-reinstall torch --index-url {WHL}/cu129",
            ],
        ),
        (
            on((7, 0), driver="11.4"),
            [
                "# first install a driver for CUDA 12.0 or newer; this one is for 11.4",
                "sudo apt install nvidia-driver-580",
                "sudo reboot",
                f"pip install --force-reinstall torch --index-url {WHL}/cu126",
                "# or, with the installed driver:",
                f"pip install --force-reinstall torch==2.7.1 --index-url {WHL}/cu118",
            ],
        ),
        (
            on((3, 7), driver="11.4"),
            [f"pip install --force-reinstall torch==2.0.1 --index-url {WHL}/cu118"],
        ),
        (
            on((9, 0), (3, 7)),
            [
                "# without GPU 1 (chip 1, sm_37): PyTorch 2.0.1 was the last release with code for "
                "it",
                f"pip install --force-reinstall torch --index-url {WHL}/cu132",
            ],
        ),
        (on((3, 5)), ["# without GPU 0 (chip 0, sm_35): no current release has code for it"]),
    ],
)
def test_the_build_is_for_driver_and_all_gpus_or_it_is_said_why_none_is(inventory, expected):
    assert torch(inventory) == tuple(expected)


def test_what_belongs_to_pytorch_is_in_the_same_command_in_the_version_that_does():
    companions = {
        "torchvision": {"version": "0.28.0+cpu", "needs": "2.13.0"},
        "torchaudio": {"version": "2.8.0", "needs": "2.8.0"},
        "xformers": {"version": "0.1", "needs": None},
    }
    (line,) = torch(on((9, 0)), probe(version="2.13.0+cpu", companions=companions, **OWN))
    assert line == (
        "pip install --force-reinstall torch==2.13.0 torchvision==0.28.0 torchaudio xformers "
        f"--index-url {WHL}/cu130"
    )


def test_a_release_whose_builds_are_not_known_makes_place_for_the_newest():
    companions = {"torchvision": {"version": "0.19.0", "needs": "2.4.0"}}
    (line,) = torch(on((9, 0)), probe(version="2.4.0", companions=companions))
    assert line == f"pip install --force-reinstall torch torchvision --index-url {WHL}/cu132"


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ({}, "pip install --force-reinstall torch==2.13.0 "),
        ({"is_first": True}, "pip install --force-reinstall torch==2.13.0 "),
        ({"is_first": False}, "/opt/my\\ env/bin/python -m pip install --force-reinstall torch"),
        (
            {"made_by": "conda", "is_first": False},
            "/opt/my\\ env/bin/python -m pip install --force-reinstall torch",
        ),
        (
            {"made_by": "uv"},
            "uv pip install --python /opt/my\\ env/bin/python --reinstall torch==2.13.0 ",
        ),
        (
            {"made_by": "system", "is_first": True},
            "/opt/my\\ env/bin/python -m venv ~/venv && ~/venv/bin/pip install --force-reinstall ",
        ),
    ],
)
def test_the_environments_own_installer_is_named(python, expected):
    facts = {"path": "/opt/my env/bin/python", **python} if python else {}
    (line,) = torch(on((9, 0)), probe(version="2.13.0+cpu", python=facts, **OWN))
    assert line.replace("'/opt/my env/bin/python'", "/opt/my\\ env/bin/python").startswith(expected)


def test_each_interpreter_has_its_command():
    def at(path: str) -> Probe:
        return probe(where=path, version="2.13.0+cpu", python={"path": path}, **OWN)

    lines = torch(on((9, 0)), at("/a/bin/python"), at("/b/bin/python"))
    assert [line.split(" install")[0] for line in lines] == [
        "/a/bin/python -m pip",
        "/b/bin/python -m pip",
    ]


def test_what_an_image_lacks_is_installed_in_the_image():
    facts = {"path": "/usr/local/bin/python3", "is_first": True}
    own = probe(where="my/image", image="my/image", version="2.13.0+cpu", python=facts, **OWN)
    (line,) = torch(on((9, 0)), own)
    assert line.endswith(f"--index-url {WHL}/cu130  # in the image my/image")


@pytest.mark.parametrize(
    ("driver", "framework", "expected"),
    [
        ("12.8", "torch", f"pip install --force-reinstall torch --index-url {WHL}/cu129"),
        ("12.8", "jax", "pip install --force-reinstall 'jax[cuda12]'"),
        ("11.4", "torch", f"pip install --force-reinstall torch==2.7.1 --index-url {WHL}/cu118"),
        ("12.8", "tensorflow", None),
    ],
)
def test_a_driver_that_is_too_old_is_replaced_or_gets_a_build_of_its_own(
    driver, framework, expected
):
    evidence = seen(on((9, 0), driver=driver), probe(framework))
    lines = commands_for(["{newer_driver}", "{or_build_for_driver}"], [framework], evidence)
    assert lines[:2] == ("sudo apt install nvidia-driver-580-open", "sudo reboot")
    rest = () if expected is None else ("# or a build for the installed driver:", expected)
    assert lines[2:] == rest


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ("keras", "pip install --force-reinstall keras"),
        ("jax", "pip install --force-reinstall 'jax[cuda13]'"),
        ("tensorflow", "pip install --force-reinstall 'tensorflow[and-cuda]'"),
        ("torch", f"pip install --force-reinstall torch --index-url {WHL}/cu132"),
        ("chainer", "tarmac check --provision chainer  # builds an environment in which it works"),
    ],
)
def test_a_framework_is_installed_anew_as_it_suits_the_machine(framework, expected):
    evidence = seen(on((9, 0)), probe(framework))
    assert commands_for(["{reinstall}"], [framework], evidence) == (expected,)


@pytest.mark.parametrize(
    ("distribution", "like", "expected"),
    [
        ("ubuntu", ("debian",), "sudo ubuntu-drivers install"),
        ("linuxmint", ("ubuntu", "debian"), "sudo ubuntu-drivers install"),
        ("debian", (), "sudo apt install linux-headers-$(dpkg --print-architecture) nvidia-driver"),
        ("fedora", (), "sudo dnf install akmod-nvidia"),
        ("rocky", ("rhel", "centos", "fedora"), "sudo dnf install nvidia-open"),
        ("opensuse-leap", ("suse", "opensuse"), "sudo zypper install nvidia-open"),
        ("arch", (), "sudo pacman -Syu nvidia-open"),
        ("void", (), "sudo ubuntu-drivers install  # Debian:"),
        ("", (), "sudo ubuntu-drivers install  # Debian:"),
    ],
)
def test_each_distribution_has_its_driver(distribution, like, expected):
    inventory = on((9, 0), upkeep=Upkeep(distribution=distribution, like=like))
    (first, *_) = commands_for(["{install_driver}"], ["machine"], seen(inventory))
    assert first.startswith(expected)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"upkeep": UBUNTU}, "sudo modprobe nvidia && sudo nvidia-smi -i 0 -c DEFAULT"),
        (
            {"upkeep": UBUNTU.model_copy(update={"is_root": True})},
            "modprobe nvidia && nvidia-smi -i 0 -c DEFAULT",
        ),
        (
            {"container": Container(kind="docker"), "upkeep": Upkeep(is_root=True)},
            "# on the host: sudo modprobe nvidia && sudo nvidia-smi -i 0 -c DEFAULT",
        ),
        (
            {"container": Container(kind="kubernetes")},
            "# on the node: sudo modprobe nvidia && sudo nvidia-smi -i 0 -c DEFAULT",
        ),
        (
            {"container": Container(kind="wsl")},
            "sudo modprobe nvidia && sudo nvidia-smi -i 0 -c DEFAULT",
        ),
    ],
)
def test_rights_are_asked_for_where_they_are_needed_and_can_be_had(facts, expected):
    line = "sudo modprobe nvidia && sudo nvidia-smi -i {gpu} -c DEFAULT"
    assert commands_for([line], ["GPU 0"], seen(on((9, 0), **facts))) == (expected,)


def test_under_windows_the_driver_is_windows():
    inventory = on(container=Container(kind="wsl"))
    lines = commands_for(["{install_driver}"], ["machine"], seen(inventory))
    assert lines[0].startswith("# in Windows: ")
    assert "sudo" not in " ".join(lines)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.13.0+cpu", ("PYTORCH_ALLOC_CONF", "TORCH_FR_BUFFER_SIZE")),
        ("2.11.0", ("PYTORCH_ALLOC_CONF", "TORCH_FR_BUFFER_SIZE")),
        # 2.9 knows the new name and obeys the old one alone (pytorch/pytorch#183387).
        ("2.9.0", ("PYTORCH_CUDA_ALLOC_CONF", "TORCH_FR_BUFFER_SIZE")),
        ("2.8.0", ("PYTORCH_CUDA_ALLOC_CONF", "TORCH_NCCL_TRACE_BUFFER_SIZE")),
        # The older name does in both.
        ("", ("PYTORCH_CUDA_ALLOC_CONF", "TORCH_NCCL_TRACE_BUFFER_SIZE")),
    ],
)
def test_variables_have_the_name_that_the_version_reads(version, expected):
    evidence = seen(on((9, 0)), probe(version=version))
    assert commands_for(["{alloc_conf} {flight_recorder}"], ["torch"], evidence) == (
        " ".join(expected),
    )


def test_pytorch_reads_both_names_of_its_variables(tmp_path):
    library = Path(pytest.importorskip("torch").__file__).parent / "lib"
    for name, file in (("ALLOC_CONF", "libc10.so"), ("_BUFFER_SIZE", "libtorch_cpu.so")):
        words = subprocess.run(
            ["grep", "-aoE", f"[A-Z_]*{name}", str(library / file)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        evidence = [seen(on(), probe(version=version)) for version in ("2.8.0", "2.9.0")]
        which = "{alloc_conf}" if name == "ALLOC_CONF" else "{flight_recorder}"
        for one in evidence:
            assert set(commands_for([which], ["torch"], one)) <= set(words)


def test_what_is_not_known_is_left_in_capitals():
    lines = ["pip install 'x[{jax_extra}]=={version}' -i {gpu} -s {address} {package} ${HOME}"]
    assert general_commands(lines) == (
        "pip install 'x[cuda13]' -i INDEX -s ADDRESS PACKAGE ${HOME}",
    )


def test_several_gpus_are_named_at_once_or_one_by_one():
    evidence = seen(on((9, 0), (9, 0)))
    lines = ["nvidia-smi -q{gpu_choice}", "nvidia-smi -i {gpu} -pl 700"]
    assert commands_for(lines, ["GPU 0", "GPU 1"], evidence) == (
        "nvidia-smi -q -i 0,1",
        "nvidia-smi -i 0 -pl 700",
        "nvidia-smi -i 1 -pl 700",
    )
    assert commands_for(lines[:1], ["machine"], evidence) == ("nvidia-smi -q",)
    assert general_commands(lines[:1]) == ("nvidia-smi -q -i INDEX",)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "unset CUDA_VISIBLE_DEVICES"),
        ({"SLURM_JOB_ID": "7"}, "srun --gres=gpu:1 ..."),
        ({"PBS_JOBID": "7"}, "# the scheduler hides"),
    ],
)
def test_what_a_scheduler_hides_is_asked_of_it(variables, expected):
    upkeep = read_inventory(Path("/"), variables).upkeep
    (first, *_) = commands_for(["{show_gpus}"], ["machine"], seen(on((9, 0), upkeep=upkeep)))
    assert first.startswith(expected)


def test_the_machine_says_how_it_is_kept(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(
        'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
    )
    upkeep = read_inventory(tmp_path, {}).upkeep
    assert (upkeep.distribution, upkeep.like) == ("rocky", ("rhel", "centos", "fedora"))
    assert upkeep.processor in ("x86_64", "aarch64")


def test_pytorchs_probe_tells_of_its_builds_and_companions(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    metadata = tmp_path / "torchvision-0.28.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n"
        "Requires-Dist: numpy\nRequires-Dist: torch (==2.13.0)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = run_probe(
        find_framework("torch"), THIS_PYTHON, depth="quick", devices=["cpu"], timeout_s=60
    ).result
    assert found["companions"]["torchvision"] == {"version": "0.28.0", "needs": "2.13.0"}
    own = getattr(torch.cuda, "PYTORCH_RELEASES_CODE_CC", {})
    assert found["build"]["releases"].keys() == own.keys()
    assert found["python"]["path"] == sys.executable


@pytest.mark.parametrize("maker", ["venv", "uv", "conda"])
def test_a_probe_tells_who_made_its_environment(maker, tmp_path):
    home = tmp_path / "env"
    if maker == "uv":
        if shutil.which("uv") is None:
            pytest.skip("uv makes the environment: pip install uv")
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, str(home)], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    if maker == "conda":
        (home / "conda-meta").mkdir()
    found = run_probe(
        find_framework("torch"), python_target(home / "bin/python"), depth="quick", timeout_s=60
    )
    assert found.outcome == "not installed"
    assert found.result["python"]["made_by"] == maker
    assert found.result["python"]["path"] == str(home / "bin/python")
    assert not found.result["python"]["is_first"]
