"""Runs PyTorch's builds for CUDA on a machine without a GPU, over a stand-in for CUDA's libraries.

    python bed.py build [--torch 2.13]             download and build it, once
    python bed.py run [--torch 2.13] [--gpus 1] COMMAND...

Everything up to the launch of a kernel is real: Python, dispatch, the caching allocator, streams,
generators, the capture of graphs and what it forbids. Kernels compute nothing, and what comes back
from the device is zeros, so it shows control flow, memory and counts, and no numbers.

The wheels are downloaded once, checked against the hashes in ``torch-*.txt``, and kept in the
user's cache without the packages of CUDA that they require: 1.8 GB for each PyTorch.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import platformdirs
from filelock import FileLock

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
VERSIONS = ("2.11", "2.13")
DEFAULT = VERSIONS[-1]

_SOURCES = HERE / "libraries"
_RUNTIME = "libcudart.so.13"

# The symbols that have no version in PyTorch's libraries, by the library that they come from.
_UNVERSIONED = {
    "libcufile.so.0": "cuFile",
    "libcusparseLt.so.0": "cusparseLt",
    "libnccl.so.2": "nccl",
    "libcuda.so.1": "cu[A-Z]",
}
_OURS = re.compile(
    "(cuda|__cuda|cublas|cudnn|cufft|cusparse|nccl|cuFile|nvshmem|cupti|nvrtc|cusolver|cu[A-Z])"
)
_PRODUCT = re.compile("cublas.*(Gemm|gemm|gemv|trsm|dot|Dot)")
_CUDA_NOT_SUPPORTED = 801


class NoBedError(Exception):
    """The bed is not built, or cannot be; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Bed:
    """A PyTorch for CUDA, and the stand-in.

    Attributes:
        site: Where PyTorch is installed.
        libraries: Where the stand-in's libraries are.
    """

    site: Path
    libraries: Path

    def environment(
        self, num_gpus: int = 1, inherited: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """Return the environment in which this interpreter imports that PyTorch.

        Args:
            num_gpus: How many GPUs are pretended.
            inherited: What it adds to.
        """
        paths = [self.site, SOURCE, HERE, *filter(None, [inherited.get("PYTHONPATH")])]
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            # One directory: another libcudart on the way would be taken for a part of it.
            "LD_LIBRARY_PATH": str(self.libraries),
            "CUDA_STAND_IN_GPUS": str(num_gpus),
        }
        return {**inherited, **own}


def find_bed(torch: str = DEFAULT) -> Bed:
    """Return the bed of a PyTorch, which must have been built.

    Args:
        torch: One of `VERSIONS`.

    Raises:
        NoBedError: It has not.
    """
    bed = _bed(torch)
    if not (bed.site.is_dir() and bed.libraries.is_dir()):
        raise NoBedError(f"PyTorch {torch} for CUDA is not here; provide it: make gpu-bed")
    return bed


def build_bed(torch: str = DEFAULT) -> Bed:
    """Return the bed of a PyTorch, built where that has not been done yet.

    Raises:
        NoBedError: It cannot be built here.
    """
    bed = _bed(torch)
    bed.site.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(bed.site.parent / "lock"):
        if not bed.site.is_dir():
            _install(torch, bed.site)
        if not bed.libraries.is_dir():
            _compile_all(bed)
    return bed


def _bed(torch: str) -> Bed:
    """Name the directories of a bed; what they were made of is in their names."""
    wanted = _requirements(torch).read_bytes()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    root = platformdirs.user_cache_path("tarmac") / "cuda-stand-in"
    site = root / f"torch-{torch}-{tag}-{_digest(wanted)}"
    sources = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))
    digest = _digest(wanted, sources, Path(__file__).read_bytes())
    return Bed(site, root / f"libraries-{torch}-{tag}-{digest}")


def _requirements(torch: str) -> Path:
    return HERE / f"torch-{torch}.txt"


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


@contextlib.contextmanager
def _made_whole(path: Path) -> Iterator[Path]:
    """Give a directory to fill, which gets its name when all is in it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as unfinished:
        inner = Path(unfinished) / "it"
        inner.mkdir()
        yield inner
        inner.rename(path)


def _install(torch: str, site: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise NoBedError("pip is not here; make it: make gpu-bed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:"]
    with _made_whole(site) as directory:
        _call(*command, "--target", str(directory), "--requirement", str(_requirements(torch)))
        # The runtime itself, which comes with its headers, would be found before the stand-in.
        shutil.rmtree(directory / "nvidia/cu13/lib")


def _call(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoBedError(
            f"{command[0]} is not here; provide it: sudo apt install gcc binutils"
        ) from None
    if done.returncode != 0:
        raise NoBedError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def _compile_all(bed: Bed) -> None:
    """Compile a library for each that PyTorch is linked with."""
    wanted = _undefined(bed.site)
    by_library = {name: names for name, names in wanted.items() if name.startswith("lib")}
    by_library["libnvshmem_host.so.3"] = wanted["NVSHMEM"] | {"nvshmem_init"}
    by_library["libcurand.so.10"] = set()
    for name, start in _UNVERSIONED.items():
        by_library[name] = {symbol for symbol in wanted[""] if re.match(start, symbol)}
        wanted[""] -= by_library[name]
    unversioned = {*_UNVERSIONED}
    with _made_whole(bed.libraries) as directory:
        # The others are linked with it.
        _compile(_RUNTIME, by_library.pop(_RUNTIME), _RUNTIME, bed.site, directory)
        for name, symbols in by_library.items():
            version = "NVSHMEM" if "nvshmem" in name else name
            _compile(name, symbols, None if name in unversioned else version, bed.site, directory)


def _undefined(site: Path) -> dict[str, set[str]]:
    """Return the symbols that PyTorch wants of CUDA, by the version that it wants them in."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for path in [*site.glob("torch/lib/*.so"), *site.glob("torch/_C*.so")]:
        for line in _call("readelf", "--dyn-syms", "--wide", str(path)).splitlines():
            words = line.split()
            if len(words) >= 8 and words[6] == "UND" and _OURS.match(words[7]):
                name, _, version = words[7].partition("@")
                found[version.lstrip("@")].add(name)
    return found


def _compile(
    library: str, symbols: set[str], version: str | None, site: Path, directory: Path
) -> None:
    """Compile one library: its own source, where there is one, and a stub for any other symbol."""
    short = library.removeprefix("lib").partition(".so")[0]
    source = _SOURCES / f"{short}.c"
    compiler = ["cc", "-O1", "-w", "-fPIC", f"-I{site / 'nvidia/cu13/include'}"]
    objects = []
    if source.exists():
        objects.append(str(directory / f"{short}.o"))
        _call(*compiler, "-c", str(source), "-o", objects[0])
        lines = _call("nm", "--defined-only", "--format=posix", objects[0]).splitlines()
        symbols = symbols - {line.split()[0] for line in lines}
    stubs = directory / f"{short}-stubs.c"
    stubs.write_text(_stubs(sorted(symbols), is_runtime=library == _RUNTIME))
    options = [f"-Wl,-soname,{library}"]
    if version is not None:
        (directory / f"{short}.map").write_text(f"{version} {{ global: *; }};\n")
        options.append(f"-Wl,--version-script={directory / short}.map")
    runtime = [] if library == _RUNTIME else [f"-L{directory}", f"-l:{_RUNTIME}"]
    output = str(directory / library)
    _call(*compiler, "-shared", str(stubs), *objects, "-o", output, *options, *runtime, "-lpthread")


def _stubs(symbols: list[str], *, is_runtime: bool) -> str:
    """Return C that defines functions of these names."""
    lines = ["int stand_in_launch(const char *name, void *stream);"]
    for name in symbols:
        if _PRODUCT.search(name):
            # 13 is CUBLAS_STATUS_EXECUTION_FAILED.
            body = f'{{ return stand_in_launch("{name}", *handle) ? 13 : 0; }}'
            lines.append(f"int {name}(void **handle) {body}")
        else:
            lines.append(
                f"int {name}(void) {{ return {_CUDA_NOT_SUPPORTED if is_runtime else 0}; }}"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Build a bed, or run a command in one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="download and build it, once")
    run = verbs.add_parser("run", help="run a command in it")
    for verb in (build, run):
        verb.add_argument("--torch", choices=VERSIONS, default=DEFAULT)
    run.add_argument("--gpus", type=int, default=1, help="how many GPUs are pretended")
    run.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    try:
        bed = build_bed(asked.torch)
    except NoBedError as error:
        sys.exit(f"error: {error}")
    if asked.verb == "build":
        sys.stdout.write(f"{bed.libraries}\n")
        return
    os.execvpe(asked.command[0], asked.command, bed.environment(asked.gpus))


if __name__ == "__main__":
    main()
