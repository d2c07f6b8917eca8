"""A failure's commands for a certain machine: the placeholders ``{...}`` of the catalogue.

The functions are pure: they depend on the evidence alone, so any machine can make the commands for
any other. A place is the device, framework or machine at which a failure was seen.

| in the catalogue | becomes |
| --- | --- |
| ``pip install``, ``pip list`` | the same with the installer of the place's interpreter |
| ``{torch}`` | lines that install the PyTorch that suits driver and GPUs, with its companions |
| ``{reinstall}`` | lines that install the framework of the place again |
| ``{or_build_for_driver}`` | lines that install a build for the present driver, if one exists |
| ``{install_driver}`` and other tables of ``commands.toml`` | lines, by the distribution |
| ``{alloc_conf}`` and other variables there | a variable's name in the installed version |
| ``{show_gpus}`` | lines that undo a CUDA_VISIBLE_DEVICES that hides GPUs, by the scheduler |
| ``{jax_extra}`` | JAX's extra for the driver |
| ``{gpu}``, ``{address}`` | index and address of the GPU of the place |
| ``{gpu_choice}`` | nvidia-smi's option for the GPUs of all places: `` -i 0,3``; empty for all |
| ``{run_with_gpus}`` | the command that starts a container with GPUs on this machine's engine |
| ``{package}`` | the framework of the place |

A line with facts of a place comes once for each place. Root gets commands without ``sudo``. In a
container, a command with ``sudo`` becomes a comment to run it on the host.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.checks.engines import run_with_gpus
from tarmac.checks.evidence import Evidence, Host, Inventory, Probe, Upkeep
from tarmac.machine import (
    RELEASES,
    BuildChoice,
    Capability,
    Gpu,
    Releases,
    choose_build,
    is_driver_too_old,
)

_INDEX = "https://download.pytorch.org/whl"

# Frameworks whose last versions need older tools and packages than pip would choose.
_RETIRED = frozenset({"mxnet", "chainer", "horovod"})

# By scheduler: GPUs that a scheduler hides belong to other jobs, so the job must ask for them.
_SHOW_GPUS: Mapping[str | None, Sequence[str]] = {
    None: ["unset CUDA_VISIBLE_DEVICES", "export CUDA_VISIBLE_DEVICES=0  # or the ones you want"],
    "slurm": ["srun --gres=gpu:1 ...  # the scheduler hides GPUs that the job did not request"],
    "other": ["# the scheduler hides GPUs that the job did not request: request GPUs"],
}

_PIP = re.compile(r"(?<![\w/-])(?:python -m )?pip (install|uninstall|list|check)\b")

# Options of pip that uv names differently.
_UV = {
    "--force-reinstall": "--reinstall",
    "uninstall -y": "uninstall",
    "--no-cache-dir": "--no-cache",
}

# Replacements of unknown values, where not the placeholder's name in capitals.
_UNKNOWN = {"gpu": "INDEX"}

# Older cards need NVIDIA's closed kernel module; its last branch for them is 580
# (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html).
_OPEN_FROM: Capability = (7, 5)

# CUDA 13, and JAX's builds for it, begin with Turing (https://docs.jax.dev/en/latest/installation.html).
_CUDA_13_FROM: Capability = (7, 5)


@dataclasses.dataclass(frozen=True)
class _Place:
    """A device, a framework or ``machine`` at which a failure was seen, with the evidence."""

    name: str
    evidence: Evidence
    all_names: Sequence[str]

    @functools.cached_property
    def gpu(self) -> Gpu | None:
        return next((gpu for gpu in self.inventory.gpus if gpu.label == self.name), None)

    @functools.cached_property
    def probe(self) -> Probe | None:
        """The probe of the framework that the place belongs to; None for a GPU or the machine."""
        owners = [
            probe
            for probe in self.evidence.probes
            if self.name == probe.label or self.name.startswith(f"{probe.label} on ")
        ]
        return max(owners, key=lambda probe: len(probe.label), default=None)

    @functools.cached_property
    def torch(self) -> Probe | None:
        """PyTorch's probe in the same interpreter; for a GPU or the machine, the only one."""
        own = self.probe
        all_ = [probe for probe in self.evidence.probes if probe.framework == "torch"]
        beside = [probe for probe in all_ if own is not None and probe.where == own.where]
        candidates = beside or (all_ if own is None else [])
        return candidates[0] if len(candidates) == 1 else None

    @property
    def inventory(self) -> Inventory:
        return self.evidence.inventory

    @functools.cached_property
    def capabilities(self) -> list[Capability]:
        return [gpu.capability for gpu in self.inventory.gpus if gpu.capability is not None]


def commands_for(
    lines: Sequence[str], places: Sequence[str], evidence: Evidence
) -> tuple[str, ...]:
    """Return a failure's commands for the machine of some evidence.

    Args:
        lines: Lines of the catalogue, with placeholders.
        places: Places of the failure: devices, frameworks, or ``machine``.
        evidence: Everything that the check saw: inventory, probes and readings.
    """
    commands = [
        _for_whom(command, evidence.inventory)
        for line in lines
        for place in places
        for command in _filled(line, _Place(place, evidence, places))
    ]
    return tuple(dict.fromkeys(commands))


def general_commands(lines: Sequence[str]) -> tuple[str, ...]:
    """Return a failure's commands for a current machine without known facts."""
    host = Host(cpu="", cores=1, memory_bytes=0, disk_free_bytes=0, kernel="", system="")
    return commands_for(lines, [""], Evidence(inventory=Inventory(host=host)))


def _filled(line: str, place: _Place) -> Iterator[str]:
    """Yield the commands of one line of the catalogue, with its placeholders replaced."""
    name = line[1:-1] if re.fullmatch(r"\{\w+\}", line) else ""
    if name == "torch":
        lines = _install_torch(place)
    elif name == "reinstall":
        lines = _reinstall(place)
    elif name == "or_build_for_driver":
        lines = [*_build_for_driver(place)]
    elif name == "show_gpus":
        lines = [*_SHOW_GPUS.get(place.inventory.upkeep.scheduler, _SHOW_GPUS["other"])]
    elif name in _systems():
        lines = _systems()[name][_system(place.inventory, _systems()[name])]
    else:
        yield _with_values(_with_installer(line, place.probe), place)
        return
    for part in lines:
        yield _with_values(part, place)


def _with_values(line: str, place: _Place) -> str:
    gpu, probe = place.gpu, place.probe
    oldest = min(place.capabilities, default=_OPEN_FROM)
    values = {
        "package": "" if probe is None else probe.framework,
        "version": str((probe and probe.result.get("version")) or "").split("+")[0],
        "gpu": "" if gpu is None else str(gpu.index),
        "address": "" if gpu is None else gpu.address or "",
        "jax_extra": _jax_extra(place),
        "run_with_gpus": run_with_gpus(place.inventory.engines, place.inventory.container.kind),
        "branch": "580-open" if oldest >= _OPEN_FROM else "580",
        "nvidia_package": "nvidia-open" if oldest >= _OPEN_FROM else "cuda-drivers-580",
        **{name: _variable(facts, place) for name, facts in _variables().items()},
    }
    if not values["version"]:
        line = line.replace("=={version}", "")
    line = line.replace("{gpu_choice}", _gpu_choice(place.all_names))
    # An unknown value becomes a name in capitals, for the reader to replace.
    return re.sub(
        r"(?<!\$)\{(\w+)\}",
        lambda match: values.get(match[1]) or _UNKNOWN.get(match[1], match[1].upper()),
        line,
    )


def _gpu_choice(places: Sequence[str]) -> str:
    """Return nvidia-smi's option for the GPUs of a failure; empty for all GPUs."""
    indices = [place.removeprefix("GPU ") for place in places if place.startswith("GPU ")]
    if len(indices) == len(places):
        return f" -i {','.join(indices)}"
    return "" if any(places) else f" -i {_UNKNOWN['gpu']}"


def _jax_extra(place: _Place) -> str:
    is_old = is_driver_too_old("13.0", place.inventory.driver.cuda)
    return (
        "cuda12" if is_old or min(place.capabilities, default=(9, 0)) < _CUDA_13_FROM else "cuda13"
    )


def _variable(facts: Mapping[str, str], place: _Place) -> str:
    version = str((place.torch and place.torch.result.get("version")) or "")
    known = re.match(r"(\d+)\.(\d+)", version)
    since = tuple(map(int, facts["since"].split(".")))
    is_new = known is not None and (int(known[1]), int(known[2])) >= since
    return facts["name"] if is_new else facts["before"]


# Commands for Python packages.


def _with_installer(line: str, probe: Probe | None) -> str:
    """Return a line with ``pip`` replaced by the installer of a probe's interpreter."""
    python: Mapping[str, Any] = (probe and probe.result.get("python")) or {}
    path, made_by = shlex.quote(str(python.get("path"))), python.get("made_by")
    if probe is not None and probe.image is not None and _PIP.search(line):
        return f"{line}  # in the image {probe.image}"
    if not python.get("path") or not _PIP.search(line):
        return line
    if made_by == "uv":
        for pips, uvs in _UV.items():
            line = line.replace(pips, uvs)
        return _PIP.sub(lambda match: f"uv pip {match[1]} --python {path}", line)
    if made_by == "system" and "pip install" in line:
        # The distribution forbids pip to install into its Python (PEP 668).
        line = re.sub("pip uninstall [^&]*&& ", "", line)
        line = _PIP.sub(lambda match: f"~/venv/bin/pip {match[1]}", line)
        return f"{path} -m venv ~/venv && {line}"
    own = "pip" if python.get("is_first") else f"{path} -m pip"
    return _PIP.sub(lambda match: f"{own} {match[1]}", line)


def _reinstall(place: _Place) -> list[str]:
    """Return the lines that install the framework of a place again, for this machine."""
    probe = place.probe
    name = "{package}" if probe is None else probe.framework
    if name in ("torch", "all-reduce"):
        return _install_torch(place)
    if name in _RETIRED:
        return [f"tarmac check --provision {name}  # builds an environment in which it works"]
    has_gpu = bool(place.inventory.gpus) or bool(place.inventory.nvidia_cards)
    extras = {"jax": "jax[{jax_extra}]", "tensorflow": "tensorflow[and-cuda]"} if has_gpu else {}
    wanted = shlex.quote(extras[name]) if name in extras else name
    return [_with_installer(f"pip install --force-reinstall {wanted}", probe)]


def _build_for_driver(place: _Place) -> Iterator[str]:
    """Yield the lines that install a build for the present driver, if one exists."""
    name = "torch" if place.probe is None else place.probe.framework
    lines = []
    if name == "jax":
        lines = _reinstall(place)
    elif name in ("torch", "all-reduce"):
        choice = _choose(place)
        older = choice if choice.needs_driver is None else choice.meanwhile
        lines = [] if older is None else _commands_of(older, place)
    if lines:
        yield "# or a build for the installed driver:"
        yield from lines


def _install_torch(place: _Place) -> list[str]:
    """Return the lines that install the PyTorch that suits driver and GPUs, with companions."""
    inventory, probe = place.inventory, place.torch
    if inventory.upkeep.distribution and not inventory.gpus and not inventory.nvidia_cards:
        return [_torch_command(probe, "cpu", release=_release(probe))]
    choice = _choose(place)
    lines = [*_needed_driver(choice, place), *_commands_of(choice, place)]
    if choice.meanwhile is not None:
        lines += ["# or, with the installed driver:", *_commands_of(choice.meanwhile, place)]
    return lines


def _choose(place: _Place) -> BuildChoice:
    return choose_build(
        place.inventory.driver.cuda,
        place.capabilities,
        releases=_own_releases(place.torch) or RELEASES,
        processor=place.inventory.upkeep.processor,
    )


def _own_releases(probe: Probe | None) -> Releases | None:
    build = (probe and probe.result.get("build")) or {}
    return build.get("releases") or None


def _commands_of(choice: BuildChoice, place: _Place) -> list[str]:
    """Return the lines that install a build, after comments on the GPUs that it leaves out."""
    lines = [*_left_out(choice, place)]
    if choice.index is None:
        return lines
    # The installed PyTorch's own table is for its own release; Tarmac's table for the newest one.
    own = _release(place.torch) if _own_releases(place.torch) else None
    return [*lines, _torch_command(place.torch, choice.index, release=choice.release or own)]


def _torch_command(probe: Probe | None, index: str, *, release: str | None) -> str:
    companions: Mapping[str, Any] = (probe and probe.result.get("companions")) or {}
    here = _release(probe)
    wanted = ["torch" if release is None else f"torch=={release}"]
    for name, facts in companions.items():
        # Without a version, the resolver chooses the one that needs this PyTorch.
        fits = release is not None and release == here and facts.get("needs") == release
        wanted.append(f"{name}=={facts['version'].split('+')[0]}" if fits else name)
    packages = " ".join(wanted)
    line = f"pip install --force-reinstall {packages} --index-url {_INDEX}/{index}"
    return _with_installer(line, probe)


def _release(probe: Probe | None) -> str | None:
    """Return the installed release, such as ``2.13.0``; None for a build that no index has."""
    version = str((probe and probe.result.get("version")) or "")
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(\+(cpu|cu\d+))?", version)
    return match[1] if match else None


def _needed_driver(choice: BuildChoice, place: _Place) -> Iterator[str]:
    if choice.needs_driver is None:
        return
    here = place.inventory.driver.cuda
    newest = choice.needs_driver
    yield f"# first install a driver for CUDA {newest} or newer; this one is for {here}"
    systems = _systems()["newer_driver"]
    yield from systems[_system(place.inventory, systems)]


def _left_out(choice: BuildChoice, place: _Place) -> Iterator[str]:
    for gpu in place.inventory.gpus:
        if gpu.capability not in choice.left_out or gpu.capability is None:
            continue
        chip = f"{gpu.name or 'unknown'}, sm_{gpu.capability[0]}{gpu.capability[1]}"
        if choice.is_mix:
            why = "no build has code for all GPUs: give this one an environment of its own"
        elif gpu.capability == (3, 7):
            why = "PyTorch 2.0.1 was the last release with code for it"
        else:
            why = "no current release has code for it"
        yield f"# without {gpu.label} ({chip}): {why}"


# Commands for the system.


def _system(inventory: Inventory, systems: Mapping[str, Any]) -> str:
    """Return the entry of a table that applies to this machine's system."""
    if inventory.container.kind == "wsl" and "wsl" in systems:
        return "wsl"
    return next((name for name in _names(inventory.upkeep) if name in systems), "any")


def _names(upkeep: Upkeep) -> tuple[str, ...]:
    """Return the distribution's name and its ancestors'; only ``rhel`` for RHEL's family."""
    names = (upkeep.distribution, *upkeep.like)
    # Enterprise distributions descend from Fedora, but do not have its packages.
    if "rhel" in names or "centos" in names:
        return ("rhel",)
    # Amazon Linux has neither Fedora's nor RHEL's packages; it gets RHEL's commands.
    return ("rhel",) if upkeep.distribution == "amzn" else names


def _for_whom(line: str, inventory: Inventory) -> str:
    """Return a command without ``sudo`` for root, and as a comment in a container."""
    if "sudo " not in line.split("#", 1)[0]:
        return line
    if inventory.is_confined:
        where = "node" if inventory.container.kind == "kubernetes" else "host"
        return f"# on the {where}: {line}"
    return line.replace("sudo ", "") if inventory.upkeep.is_root else line


@functools.cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def _systems() -> Mapping[str, Mapping[str, Any]]:
    return {name: table for name, table in _tables().items() if name != "variables"}


def _variables() -> Mapping[str, Mapping[str, str]]:
    variables: Mapping[str, Mapping[str, str]] = _tables()["variables"]
    return variables
