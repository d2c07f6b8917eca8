"""Every command of the catalogue is one that works, as far as that can be seen here.

Each failure's commands are made for many machines and read as a shell reads them: programs and
options are known (`programs.toml`), packages resolve, and none changes nothing.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from recorded.evidence import CARD, DRIVER, H200, machine

from tarmac.checks import read_catalogue
from tarmac.checks.evidence import Container, Evidence, Inventory, Probe, Upkeep
from tarmac.checks.rules.commands import commands_for, general_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tarmac.checks import Failure

PROGRAMS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("programs.toml").read_text(encoding="utf-8")
)

# Packages of Debian's main are looked up where apt is. Others, and who has them:
PACKAGES = {
    "nvidia-driver": "https://packages.debian.org/bookworm/nvidia-driver",
    "nvidia-driver-580": "https://packages.ubuntu.com/noble-updates/nvidia-driver-580",
    "nvidia-driver-580-open": "https://packages.ubuntu.com/noble-updates/nvidia-driver-580-open",
    "nvidia-open": "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/debian.html",
    "cuda-drivers-580": (
        "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/debian.html"
    ),
    "cuda-toolkit-12-8": "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    "nvidia-fabricmanager": "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    "nvlsm": "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    "nvidia-imex": "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
    "nvidia-container-toolkit": (
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"
        "install-guide.html"
    ),
}

# What is not installed where a failure is found, so that pip needs no word to install it.
MISSING = {
    "library-missing": "the libraries that are missed",
    "libdevice": "the compiler's package, which is missed",
}

# The Python that most of the packages have wheels for.
RESOLVE = (
    *("uv", "pip", "compile", "--quiet"),
    *("--python-version", "3.11", "--python-platform", "linux"),
)

# Words of commands that a reader fills in.
_GAP = re.compile(r"\.\.\.|[A-Z_]{3,}|-")


def _probe(framework: str, **python: Any) -> Probe:
    result = {
        "version": "2.13.0+cpu",
        "python": {"path": "/opt/env/bin/python", **python},
        "companions": {"torchvision": {"version": "0.28.0+cpu", "needs": "2.13.0"}},
        "build": {"releases": {"12.6": {"x86_64": [70, 90]}, "13.0": {"x86_64": [90, 120]}}},
    }
    return Probe(framework=framework, where="this Python", outcome="done", result=result)


def _inventory(*capabilities: tuple[int, int], driver: str = "13.0", **facts: Any) -> Inventory:
    gpus = tuple(
        H200.model_copy(update={"index": n, "capability": chip, "address": f"0000:{n}9:00.0"})
        for n, chip in enumerate(capabilities)
    )
    own = DRIVER.model_copy(update={"cuda": driver})
    return machine(gpus, driver=own, cards=(CARD,), **facts)


UBUNTU = Upkeep(distribution="ubuntu", like=("debian",))
MACHINES: Mapping[str, Inventory] = {
    "nothing is known": machine(),
    "no GPU": machine(upkeep=UBUNTU),
    "Ubuntu": _inventory((9, 0), upkeep=UBUNTU),
    "old driver": _inventory((12, 0), driver="12.4", upkeep=UBUNTU),
    "oldest driver": _inventory((8, 0), driver="11.4", upkeep=UBUNTU),
    "mixed GPUs": _inventory((12, 0), (7, 0), upkeep=UBUNTU),
    "old GPU": _inventory((3, 7), driver="11.4", upkeep=UBUNTU),
    "root": _inventory((9, 0), upkeep=Upkeep(distribution="debian", is_root=True)),
    "Slurm": _inventory((9, 0), upkeep=UBUNTU.model_copy(update={"scheduler": "slurm"})),
    "container": _inventory((9, 0), upkeep=UBUNTU, container=Container(kind="docker")),
    "Kubernetes": _inventory((9, 0), container=Container(kind="kubernetes")),
    "WSL": _inventory((9, 0), upkeep=UBUNTU, container=Container(kind="wsl")),
    **{
        name: _inventory((9, 0), upkeep=Upkeep(distribution=name))
        for name in ("debian", "fedora", "rhel", "suse", "arch", "void")
    },
}
MAKERS: tuple[Mapping[str, Any], ...] = (
    {"is_first": True},
    {"made_by": "conda"},
    {"made_by": "uv"},
    {"made_by": "system"},
)


FRAMEWORKS = ("torch", "jax", "tensorflow", "mxnet", "chainer", "horovod")
EVIDENCE = [
    Evidence(inventory=inventory, probes=tuple(_probe(name, **python) for name in FRAMEWORKS))
    for inventory in MACHINES.values()
    for python in MAKERS
]


@functools.cache
def commands_of(code: str) -> tuple[str, ...]:
    """Return a failure's commands on all machines, at all places."""
    lines = read_catalogue()[code].fix
    found = dict.fromkeys(general_commands(lines))
    # Without a gap and without pip, a line is the same at all places of a machine.
    is_fixed = not any("{" in line or "pip " in line for line in lines)
    for evidence in EVIDENCE:
        for place in ("machine",) if is_fixed else ("machine", "GPU 0", *FRAMEWORKS):
            found |= dict.fromkeys(commands_for(lines, [place], evidence))
    return tuple(found)


def typed(line: str) -> str:
    """Return what of a line is to be typed, also where that is elsewhere; empty for a remark."""
    return re.sub(r"^# on the (host|node): |^# in your program.*|^#.*", "", line)


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each program that a line starts, without what redirects it."""
    inner = re.search(r"\$\(([^()]*)\)", text)
    while inner is not None:
        yield from simple_commands(inner[1])
        text = text[: inner.start()] + "INNER" + text[inner.end() :]
        inner = re.search(r"\$\(([^()]*)\)", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    skips = False
    for word in lexer:
        if set(word) <= set(";&|()"):
            if word == "&" and words:
                continue
            if words:
                yield words
            words, skips = [], False
        elif set(word) <= set("<>&"):
            skips = True
        elif skips:
            skips = False
        else:
            words.append(word)
    if words:
        yield words


def program_of(words: list[str]) -> list[str]:
    """Return a program and its words, without variables and what runs it as somebody else."""
    words = [*words]
    while words and (re.match(r"^\w+=", words[0]) or words[0] == "sudo"):
        del words[0]
    if words[:2] == ["env", "-u"]:
        return program_of(words[3:])
    if len(words) > 2 and words[0].startswith(("/", "~")) and words[1:2] == ["-m"]:
        return words[2:]
    if words and words[0].startswith(("/", "~")):
        words[0] = Path(words[0]).name
    return words


ALL = pytest.mark.parametrize("failure", read_catalogue().values(), ids=lambda f: f.code)


def test_bash_understands_every_line():
    lines = [typed(line) for code in read_catalogue() for line in commands_of(code)]
    # Bash parses a whole line before it runs any of it, and leaves at the line's first word.
    script = 'for line; do (eval "exit 0; $line") || echo "not understood: $line"; done'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *lines], capture_output=True, text=True, check=False
    )
    assert not [line for line in lines if "\n" in line]
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@ALL
def test_every_line_has_its_gaps_filled_and_its_quotes_closed(failure: Failure):
    for line in commands_of(failure.code):
        assert not re.search(r"(?<!\$)\{\w+\}", line), line
        shlex.split(typed(line), comments=True)


@ALL
def test_programs_and_options_are_known(failure: Failure):
    for line in commands_of(failure.code):
        for words in simple_commands(typed(line)):
            program, *arguments = program_of(words) or [""]
            if _GAP.fullmatch(program) or not program:
                continue
            assert program in PROGRAMS, f"{program!r} of {line!r} is not in programs.toml"
            if "-c" in arguments and program == "python":
                continue
            _check_options(PROGRAMS[program], arguments, line)


def _check_options(known: Mapping[str, Any], arguments: list[str], line: str) -> None:
    options = set(known.get("options", ()))
    commands = known.get("commands", {})
    first = next((word for word in arguments if not word.startswith("-")), "")
    if first in commands:
        options |= set(commands[first])
    else:
        assert not (commands and first) or options, (
            f"{first!r} of {line!r} is no command of programs.toml"
        )
    for word in arguments:
        if word.startswith("-") and not _GAP.fullmatch(word):
            assert {word, word.split("=")[0]} & options, f"{word!r} of {line!r} is not known"


def test_every_program_has_a_package_or_a_page():
    for name, known in PROGRAMS.items():
        assert known.get("package") or known["page"].startswith("https://"), name


HELP = {
    "dmesg": ["--help"],
    "docker": ["run", "--help"],
    "fuser": ["--help"],
    "journalctl": ["--help"],
    "kubectl": ["get", "--help"],
    "ldconfig": ["--help"],
    "pip": ["install", "--help"],
    "systemctl": ["--help"],
    "torchrun": ["--help"],
    "uv": ["pip", "install", "--help"],
    **{name: ["--help"] for name in ("cut", "env", "grep", "ls", "sort", "tail", "uniq", "uname")},
}


@pytest.mark.parametrize("program", HELP)
def test_options_are_in_the_programs_own_help(program):
    # PyTorch's lies beside this Python, whose environment need not be activated.
    found = shutil.which(program) or shutil.which(program, path=Path(sys.executable).parent)
    if found is None:
        pytest.skip(f"{program} is not here; Debian's package: {PROGRAMS[program].get('package')}")
    done = subprocess.run(
        [found, *HELP[program]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
    )
    said = done.stdout + done.stderr
    known = PROGRAMS[program]
    asked = known.get("commands", {}).get(HELP[program][0], ())
    for option in (*known.get("options", ()), *asked):
        letters = [f"-{letter}" for letter in option[1:] if letter.isalpha()]
        is_long = option.startswith("--")
        for part in [option.split("=")[0]] if is_long else letters:
            assert part in said, f"{option} is not in: {program} {' '.join(HELP[program])}"


@ALL
def test_it_changes_something_and_keeps_what_is_others(failure: Failure):
    for line in commands_of(failure.code):
        text = typed(line)
        if re.search(r"\bpip install\b", text):
            has_word = re.search(r"--(force-)?reinstall| -U | --upgrade|uninstall", text)
            wanted = [Requirement(word) for word in packages_of(text)]
            is_new = all(requirement.specifier or requirement.extras for requirement in wanted)
            assert has_word or is_new or failure.code in MISSING or "-m venv" in text, (
                f"{line}: pip says that it is satisfied already"
            )
            names = {requirement.name for requirement in wanted}
            assert "torch" not in names or "--index-url https://download.pytorch.org/whl/" in text
        for path in re.findall(r"\b(\w*PATH)=(\S+)", text):
            assert f"${path[0]}" in path[1], f"{line}: what {path[0]} was before is lost"


def test_no_variable_is_unset_that_a_scheduler_has_set():
    inventory = MACHINES["Slurm"]
    for failure in read_catalogue().values():
        for line in commands_for(failure.fix, ["machine"], Evidence(inventory=inventory)):
            assert not re.search(r"(unset|env -u)\b.*(VISIBLE_DEVICES|SLURM_)", line), line


def packages_of(text: str) -> list[str]:
    """Return what a line lets pip install."""
    (arguments,) = re.findall(r"pip install(.*)", text)
    words = shlex.split(arguments, comments=True)
    with_value = ("--index-url", "--python")
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in with_value and not _GAP.fullmatch(word)
    ]


def pip_lines() -> set[str]:
    return {
        typed(line)
        for code in read_catalogue()
        for line in commands_of(code)
        if "pip install" in typed(line)
    }


def test_what_pip_is_to_install_has_a_packages_form():
    for line in pip_lines():
        for word in packages_of(line):
            Requirement(word)
        for url in re.findall(r"--index-url (\S+)", line):
            assert re.fullmatch(
                r"https://download\.pytorch\.org/whl/(cpu|cu\d{3}|rocm\d\.\d)", url
            ), line


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_what_pip_is_to_install_can_be_had_together(tmp_path):
    if shutil.which("uv") is None:
        pytest.skip("uv resolves without installing: pip install uv")
    refused = []
    for packages in sorted({tuple(packages_of(line)) for line in pip_lines()} - {()}):
        wanted = tmp_path / "wanted.txt"
        wanted.write_text("\n".join(packages))
        # PyTorch's releases are the same in all its indices, which not every machine reaches.
        done = subprocess.run(
            [*RESOLVE, str(wanted)],
            capture_output=True,
            text=True,
            check=False,
        )
        if "error sending request" in done.stderr.lower():
            pytest.skip("the index of packages is not reached")
        if done.returncode != 0:
            refused.append((packages, done.stderr[-600:]))
    assert not refused


def test_debian_has_the_packages_that_apt_is_to_install():
    names = {
        word.removesuffix("-INNER")
        for code in read_catalogue()
        for line in commands_of(code)
        for words in simple_commands(typed(line))
        if program_of(words)[:2] == ["apt", "install"]
        for word in program_of(words)[2:]
    }
    unknown = {name for name in names - PACKAGES.keys() if not _GAP.fullmatch(name)}
    if shutil.which("apt-cache") is None:
        pytest.skip("apt's lists are looked at on Debian")
    for name in sorted(unknown):
        listed = subprocess.run(
            ["apt-cache", "search", "--names-only", f"^{re.escape(name)}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if not listed.stdout and not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
            pytest.skip("apt has no lists here: sudo apt update")
        assert listed.stdout, f"{name} is in no list of apt, and not in PACKAGES"
