"""Shared fixtures: small data, places to write, and the real MNIST where it is."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import http.server
import importlib.util
import json
import os
import pickle
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import psutil
import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

import shared
import skips
from busybox import docker_engine, make_busybox_image, remove_busybox
from forked import FAILURES, STARTED, forked_interpreter
from tarmac.control_groups import is_unified, own_groups
from tarmac.masking import values as masking_values
from tarmac.testing.slurm import OneMachineSlurm
from waiting import limit_s, wait_until

_HAS_TORCH = importlib.util.find_spec("torch") is not None
_GPU_WORKERS = 4

# Programs that tests start have more threads together than there are cores: threads that spin while
# they wait take those from the ones that work. Two trainings at once took 11 s so, and 5 s else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What whoever runs the tests has set for their own work is no matter of the tests.
os.environ["TARMAC_SETTINGS_FILE"] = os.environ["TARMAC_SECRETS"] = os.devnull

# What tests install once for all of them lies in the user's cache; a home may be read-only.
try:
    _cache = platformdirs.user_cache_path("tarmac", ensure_exists=True)
    tempfile.TemporaryFile(dir=_cache).close()
except OSError:
    _kept = Path(tempfile.gettempdir()) / f"tarmac-tests-{os.geteuid()}"
    os.environ["XDG_CACHE_HOME"] = str(_kept)

# A program whose disk is full, or whose files may not grow, leaves half a compiled file beside a
# module, and all that import it later fail: Python takes a short write for a whole one.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# In a container the checkout may be another user's than the tests': it is what they are to run.
if (_owner := Path(__file__).stat().st_uid) not in (0, os.geteuid()):
    os.environ["TARMAC_TRUSTED_USERS"] = str(_owner)

# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_program(
    program: subprocess.Popen[Any], kind: type[BaseException] | None, *rest: Any
) -> None:
    if kind is not None and issubclass(kind, FAILURES):
        program.kill()
    _leave(program, kind, *rest)


_leave = subprocess.Popen.__exit__
subprocess.Popen.__exit__ = _end_program  # type: ignore[method-assign]

# Tests run in parallel on few cores: how long a draw takes says nothing of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


# What NVIDIA's management library says of machines; the stand-in for it reads such files.
_MACHINES = Path(__file__).parent / "checks" / "machines"


@pytest.fixture(autouse=True)
def _no_secrets_of_others() -> Iterator[None]:
    """A secret that one test resolves is left out of no text of the next."""
    yield
    masking_values._known.clear()
    masking_values._in_order.clear()
    masking_values._words.clear()
    masking_values._learned.clear()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Tests run in parallel: threads of one test on the cores of another only make both slower.
    if _HAS_TORCH:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def forked_children() -> Iterator[None]:
    """Have what this process starts by `sys.executable` be forks, for as long as a module's tests.

    Search workers and the ranks of a training import nothing then: each is ready after 0.1 s of
    CPU, not 3. A room has it for all of its tests by an autouse fixture of its own that names it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forked_interpreter())
        yield


@pytest.fixture
def mnist() -> None:
    """Skip where the real MNIST files are not under TARMAC_DATA."""
    root = os.environ.get("TARMAC_DATA")
    if root is None or not list(Path(root).glob("mnist/train-images*")):
        pytest.skip("MNIST is not here; provide it: tarmac data fetch mnist, and set TARMAC_DATA")


@pytest.fixture(scope="session")
def busybox_image() -> Iterator[str]:
    """Yield an image of Busybox and nothing else."""
    yield make_busybox_image()
    remove_busybox("docker")


@pytest.fixture
def registry(tmp_path: Path, busybox_image: str, reserve_port: Callable[[], int]) -> Iterator[str]:
    """Return the name of an image in a real registry that wants ``me`` with ``hunter2hunter2``."""
    programs = [shutil.which("docker-registry"), shutil.which("htpasswd")]
    if None in programs:
        pytest.skip("no registry is here; provide one: sudo sh .ci/start-docker")
    port = reserve_port()
    made = subprocess.run(
        ["htpasswd", "-Bbn", "me", "hunter2hunter2"], capture_output=True, text=True, check=True
    )
    (tmp_path / "htpasswd").write_text(made.stdout)
    (tmp_path / "registry.yml").write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"level": "error"},
                "storage": {"filesystem": {"rootdirectory": str(tmp_path / "images")}},
                "http": {"addr": f"127.0.0.1:{port}"},
                "auth": {"htpasswd": {"realm": "x", "path": str(tmp_path / "htpasswd")}},
            }
        )
    )
    serving = subprocess.Popen(
        ["docker-registry", "serve", str(tmp_path / "registry.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    name = f"127.0.0.1:{port}/private:1"
    config = ["--config", str(tmp_path / "docker-config")]
    login = [*config, "login", "-u", "me", "-p", "hunter2hunter2", f"127.0.0.1:{port}"]
    wait_until(
        lambda: not subprocess.run(["docker", *login], capture_output=True, check=False).returncode,
        "the login to the registry",
    )
    subprocess.run(["docker", "tag", busybox_image, name], check=True)
    subprocess.run(["docker", *config, "push", "--quiet", name], check=True, capture_output=True)
    subprocess.run(["docker", "rmi", name], check=True, capture_output=True)
    yield name
    serving.terminate()
    serving.wait()
    subprocess.run(["docker", "rmi", name], check=False, capture_output=True)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a client of a store with a bucket, which the variables name as TensorFlow's did."""
    reason = "the server of a store that tests start is not installed"
    boto3 = pytest.importorskip("boto3", reason=reason)
    moto = pytest.importorskip("moto.server", reason=reason)
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    # All servers of one process share what they hold: nothing of an earlier test is there.
    reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=60).close()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "hunter2hunter2",
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT": f"{host}:{port}",
        "S3_USE_HTTPS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield client
    server.stop()


@pytest.fixture(scope="module")
def start_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Return a function that starts a Slurm of two nodes; all end with the module."""
    if os.geteuid() != 0 or not shutil.which("slurmctld"):
        pytest.skip("no Slurm can be started here; provide one, as root: apt install slurm-wlm")
    with contextlib.ExitStack() as clusters:
        yield lambda **arguments: clusters.enter_context(
            OneMachineSlurm(tmp_path_factory.mktemp("slurm"), **arguments)
        )


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a wheel of one module, ``tool``, and gives its path."""

    def make(source: str, *, has_script: bool = False) -> Path:
        wheel = tmp_path / "tool-1.0-py3-none-any.whl"
        info = "tool-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("tool.py", source)
            file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
            file.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            if has_script:
                file.writestr(f"{info}/entry_points.txt", "[console_scripts]\ntool = tool:main\n")
            file.writestr(f"{info}/RECORD", "")
        return wheel

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system of a size, such as ``1m``, and gives its path.

    Called again, it makes the same one larger or smaller.
    """
    disk = tmp_path / "disk"

    def mount(size: str) -> Path:
        options = "remount," if disk.exists() else ""
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"{options}size={size}", "tmpfs", str(disk)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            disk.rmdir()
            pytest.skip("a small disk cannot be mounted here; try as root: sudo make test")
        return disk

    yield mount
    if disk.exists():
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def second_user() -> Callable[[Callable[[], object]], object]:
    """Return a function that calls another as user "nobody", in a process that it waits for.

    What the call returns comes back; what it raises is raised again.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; run the tests as root")
    nobody = pwd.getpwnam("nobody")

    def call(function: Callable[[], object]) -> object:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(nobody.pw_gid)
                os.setuid(nobody.pw_uid)
                outcome = (True, function())
            except BaseException as error:
                outcome = (False, error)
            with os.fdopen(writer, "wb") as file:
                pickle.dump(outcome, file)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            is_returned, value = pickle.load(file)
        os.waitpid(pid, 0)
        if not is_returned:
            raise value
        return value

    return call


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Yield a directory that all users may enter, as ``tmp_path`` is not, and write to."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def stand_in() -> Path:
    """Return the directory of a libnvidia-ml.so.1 for tests, built by the C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is here; provide one: sudo apt install gcc")
    source = _MACHINES.parent / "nvml_stand_in.c"
    command = [compiler, "-shared", "-fPIC", source, "-o"]
    # Of one path for all workers, so that they share the forks that have it loaded.
    return shared.made_once(
        "nvml", lambda path: subprocess.run([*command, path / "libnvidia-ml.so.1"], check=True)
    )


@pytest.fixture
def on_machine(stand_in: Path, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that gives the environment in which a machine's GPUs are seen.

    Its kernel has logged nothing but its start: what this machine's has is this machine's.
    """
    programs = tmp_path / "programs-of-the-machine"
    programs.mkdir()
    dmesg = programs / "dmesg"
    dmesg.write_text("#!/bin/sh\necho '[    0.000000] Linux version 6.1.0'\n")
    dmesg.chmod(0o755)

    libraries = str(stand_in), os.environ.get("LD_LIBRARY_PATH")

    def give(name: str, **environment: str) -> dict[str, str]:
        return (
            os.environ
            | {
                "PATH": f"{programs}:{os.environ['PATH']}",
                "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
                "NVML_STAND_IN": str(_MACHINES / f"{name}.txt"),
            }
            | environment
        )

    return give


@pytest.fixture(scope="module")
def reserve_port() -> Iterator[Callable[[], int]]:
    """Return a function that gives a port of 127.0.0.1 for a server that is started later.

    Nobody else gets it meanwhile, and the server may take it: as servers do, by SO_REUSEADDR.
    """
    with contextlib.ExitStack() as held:

        def reserve() -> int:
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            return int(holder.getsockname()[1])

        yield reserve


class _Trickle(http.server.BaseHTTPRequestHandler):
    """Sends the first byte of a million at most, says so, and no other until the test ends."""

    def do_HEAD(self) -> None:
        self.server.begun.set()  # type: ignore[attr-defined]
        self.server.over.wait()  # type: ignore[attr-defined]

    def do_PUT(self) -> None:
        self.do_HEAD()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(b"x")
        self.wfile.flush()
        self.server.begun.set()  # type: ignore[attr-defined]
        self.server.over.wait()  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class SlowServer:
    """A server whose answers begin and do not end.

    Attributes:
        url: Of something to fetch.
        begun: Is set when a client has its first byte, or waits for an answer.
    """

    url: str
    begun: threading.Event


@pytest.fixture
def slow_server() -> Iterator[SlowServer]:
    """Yield a server on 127.0.0.1 whose answers begin and do not end."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Trickle) as serving:
        serving.begun, serving.over = threading.Event(), threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield SlowServer(f"http://127.0.0.1:{serving.server_address[1]}/big.bin", serving.begun)
        serving.over.set()
        serving.shutdown()


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a test has started, with all that this has started.

    Attributes:
        variable: In the environment of each such process.
    """

    variable: str

    def processes(self, name: str | None = None) -> list[psutil.Process]:
        """Return those that are there now; with a name, only those of this name."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self.variable in process.environ() and name in (None, process.name()):
                    found.append(process)
        return found


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trace:
    """Mark what is started from now on.

    What it builds goes into an empty cache, and servers on this machine are asked without a proxy.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    name = f"TRACE_{os.getpid()}_{secrets.token_hex(4)}"
    monkeypatch.setenv(name, "1")
    return Trace(name)


@pytest.fixture(scope="session")
def python_image(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Iterable[str]], str]:
    """Return a function that makes a Docker image of Debian's Python 3.11, and returns its name.

    It takes the name, and files and folders of this environment's packages, which the image's
    Python imports.
    """
    engine = docker_engine()
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("an image is built by debootstrap as root: sudo apt install debootstrap")
    if sysconfig.get_python_version() != "3.11":
        pytest.skip("the image has Debian's Python 3.11, and gets this environment's packages")

    def make(name: str, packages: Iterable[str]) -> str:
        root = tmp_path_factory.mktemp("image")
        command = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout[-2000:]
        (root / "usr/bin/python").symlink_to("python3")
        # Debian leaves packages to apt; images that are made for Python leave them to pip.
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink(missing_ok=True)
        there = root / "usr/lib/python3/dist-packages"
        for package in packages:
            source = Path(sysconfig.get_path("purelib")) / package
            if source.is_dir():
                shutil.copytree(source, there / package, symlinks=True)
            elif source.exists():
                shutil.copy(source, there / package)
        tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        subprocess.run([engine, "import", "-", name], stdin=tar.stdout, check=True)
        shutil.rmtree(root)
        return name

    return make


@pytest.fixture
def limited_group() -> Iterator[Callable[[str, Mapping[str, str]], Path]]:
    """Return a function that makes a control group with limits, to put processes of a test in.

    It takes a controller and what to write to which of its files, by the names of version 2
    (``cpu.max``, ``memory.max``).
    """
    made: list[Path] = []

    def make(controller: str, limits: Mapping[str, str]) -> Path:
        groups = own_groups(controller)
        if not groups:
            pytest.skip("no control groups are mounted here")
        path = groups[-1] / f"tarmac-test-{os.getpid()}-{controller}"
        try:
            path.mkdir()
            made.append(path)
            for name, text in limits.items():
                if not is_unified() and name == "cpu.max":
                    quota, period = text.split()
                    (path / "cpu.cfs_period_us").write_text(period)
                    (path / "cpu.cfs_quota_us").write_text(quota)
                else:
                    file = name if is_unified() else "memory.limit_in_bytes"
                    (path / file).write_text(text)
        except OSError as error:
            pytest.skip(f"control groups cannot be made here, try as root: {error}")
        return path

    yield make
    for path in made:
        path.rmdir()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    # Fixtures, whose forks may serve several tests, have started theirs before.
    del item
    STARTED.clear()
    try:
        return (yield)
    except BaseException:
        # A training that nobody waits for any more would take the cores of the tests that follow.
        for process in STARTED:
            process.kill()
        raise


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Any:
    # A test on a busy machine gets as much longer as what it waits for.
    scaled = settings._replace(timeout=limit_s(settings.timeout))
    return pytest_timeout.pytest_timeout_set_timer(item, scaled)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    # Each makes a context on the GPU, of half a gigabyte: not one for every core there.
    return _GPU_WORKERS if config.option.markexpr == "gpu" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["keeps_bytecode"] = not sys.dont_write_bytecode


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    # All workers import all modules. Each begins at another folder and keeps what it has rewritten
    # for `assert`, so that a module is rewritten once, and not by all of them at the same time.
    config, here = session.config, Path(__file__).parent
    worker = getattr(config, "workerinput", {"keeps_bytecode": False})
    if worker["keeps_bytecode"] and [Path(name).resolve() for name in config.args] == [here]:
        parts = sorted({path.relative_to(here).parts[0] for path in here.rglob("test_*.py")})
        first = len(parts) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args = [str(here / part) for part in parts[first:] + parts[:first]]
    # What is made here stays, and looking for garbage among it takes a sixth of the time.
    gc.disable()
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = before and not worker["keeps_bytecode"]
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    # Workers have to agree on the order before it is drawn by chance.
    items.sort(key=lambda item: item.path)
    for item in items:
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device; run: pytest -m gpu on one"))
    return (yield)


def _has_cuda() -> bool:
    if not _HAS_TORCH:
        return False
    import torch

    return torch.cuda.is_available()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shared.begin()
    # Hooks of this file do not see a folder whose own conftest.py fails.
    config.pluginmanager.register(skips)
    # A test whose random numbers must be the same each time has a seed of its own.
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    # pytest-randomly says it in a header, which `-q` hides.
    if seed := getattr(config.option, "randomly_seed", None):
        terminalreporter.line(f"In random order; repeat it by --randomly-seed={seed}")


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what one test leaves for its user, such as the last check, from the others."""
    place = tmp_path_factory.getbasetemp() / "state" / secrets.token_hex(8)
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
