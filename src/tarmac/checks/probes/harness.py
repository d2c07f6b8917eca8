"""The code that all probes share: the result's file, turns to measure, and errors.

A probe is a program of this folder that computes with one framework:

    python NAME_probe.py RESULT quick|normal|deep [DEVICE ...]

It runs under the interpreter that has the framework, from Python 3.7 on, on the host or with this
folder mounted into a container. So this module needs only the standard library. RESULT is rewritten
at the start of every stage, so that a crash or a hang leaves the name of its stage.

Variables: TARMAC_PROBE_LIMIT_S is the time limit of a probe in seconds, without its waits for other
probes. TARMAC_PROBE_RANKS is the number of processes of a probe with several. TARMAC_PROBE_TURN is
a file that the measuring probe locks. TARMAC_PROBE_WORK is a file that all computing probes lock
together, and a probe that needs the machine for itself locks alone.
"""

import contextlib
import faulthandler
import importlib.util
import json
import os
import shutil
import sys
import sysconfig
import time
import traceback
import warnings

# The steps of a process that computes together with others, in order.
STEPS = ["start", "import", "rendezvous", "all-reduce", "timing", "done"]

# Bytes of the message that ranks time: large enough to fill a link.
MESSAGE_BYTES = {"gpu": 1 << 28, "cpu": 1 << 24}

# Bytes of an array that is copied within a device: larger than its caches, also than a CPU's.
COPIED_BYTES = 1 << 28

# How long a device computes in a run that is timed.
RUN_S = 0.01


class Probe:
    """A running probe.

    ``result`` is the content of RESULT. ``seconds`` is the time to measure each rate, 0 for no
    measurement. ``sizes`` are the sizes of a product that fills a GPU or a CPU.
    """

    def __init__(self, framework, path, depth, arguments):
        self.depth = depth
        self.seconds = {"quick": 0.0, "normal": 0.15, "deep": 1.0}[depth]
        self.sizes = {"cpu": 768 if depth == "normal" else 2048, "gpu": 8192}
        self.result = {
            "framework": framework,
            "stage": "import",
            "devices": [],
            "placements": [],
            "notes": [],
            "error": None,
            "wanted": arguments,
            "python": _python(),
            "began_s": {},
            "waited_s": 0.0,
        }
        self._path = path
        self._started = time.perf_counter()
        self._locks = {
            name: os.open(os.environ[variable], os.O_RDONLY)
            for name, variable in (("TURN", "TARMAC_PROBE_TURN"), ("WORK", "TARMAC_PROBE_WORK"))
            if variable in os.environ
        }

    @property
    def wanted(self):
        """The devices that were named; empty for all."""
        return self.result["wanted"]

    @property
    def directory(self):
        """The directory of RESULT; the parent removes it, even where this process is killed."""
        return os.path.dirname(os.path.abspath(self._path))

    def stage(self, name):
        """Write the name of a stage that starts, and when."""
        self.result["stage"] = name
        self.result["began_s"].setdefault(name, round(time.perf_counter() - self._started, 3))
        write_whole(self._path, self.result)

    def wants(self, name):
        """Return whether to probe a device: ``cuda:0`` is named by itself or by ``cuda``."""
        return not self.wanted or name in self.wanted or name.split(":")[0] in self.wanted

    def lacks(self, *modules):
        """Return whether a module is missing, and if so mark the framework as absent."""
        if all(importlib.util.find_spec(name) is not None for name in modules):
            return False
        self.result["absent"] = True
        return True

    @contextlib.contextmanager
    def importing(self):
        """Time the imports within the context."""
        self.stage("import")
        start = time.perf_counter()
        yield
        self.result["import_s"] = time.perf_counter() - start

    def device(self, name, on_gpu):
        """Add an entry for a device to the result, and return it."""
        entry = {"name": name, "kind": "gpu" if on_gpu else "cpu"}
        self.result["devices"].append(entry)
        return entry

    def ran(self, entry, operation, place):
        """Record the place where an operation ran, both as the framework names them.

        ``entry`` is the entry of the device that the operation was meant for.
        """
        self.result["placements"].append(
            {"device": entry["name"], "operation": operation, "ran_on": str(place)}
        )

    def compute(self):
        """Wait while another probe has the machine for itself, and then count as at work."""
        self._lock("WORK", is_shared=True)

    @contextlib.contextmanager
    def turn(self, entry=None):
        """Hold the lock that lets only one of several parallel probes measure.

        ``entry`` is the entry of the device to measure. A CPU is measured while no other probe
        computes or imports, because that takes the same cores.
        """
        self._unlock("WORK")
        self._lock("TURN")
        try:
            with self.alone() if (entry or {}).get("kind") == "cpu" else contextlib.nullcontext():
                yield
        finally:
            self._unlock("TURN")
            self.compute()

    @contextlib.contextmanager
    def alone(self):
        """Let no other probe compute meanwhile; within a turn."""
        self._lock("WORK")
        try:
            yield
        finally:
            self._unlock("WORK")

    def _lock(self, name, is_shared=False):
        """Wait for a lock. The wait does not count towards the probe's time limit."""
        if self._locks:
            import fcntl

            start = time.perf_counter()
            self.result["is_waiting"] = True
            self.stage(self.result["stage"])
            faulthandler.cancel_dump_traceback_later()
            # The system releases the lock when this process ends, however it ends.
            fcntl.flock(self._locks[name], fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
            del self.result["is_waiting"]
            self.result["waited_s"] += time.perf_counter() - start
            _end_after(self._started + self.result["waited_s"] - time.perf_counter())
            self.stage(self.result["stage"])

    def _unlock(self, name):
        if self._locks:
            import fcntl

            fcntl.flock(self._locks[name], fcntl.LOCK_UN)

    def rate(self, work, function, wait=lambda _: None):
        """Return the work per second of the fastest of several runs.

        A run is so many calls that the device computes for some milliseconds before the host waits
        for it, once, by ``wait`` with the last call's result. Otherwise the time to start a call
        and to wait would count: it makes an H100's copies look a third slower than they are.
        """
        wait(function())
        calls, best, end = 3, 0.0, time.perf_counter() + self.seconds
        while True:
            start = time.perf_counter()
            for _ in range(calls):
                last = function()
            wait(last)
            now = time.perf_counter()
            best = max(best, calls * work / (now - start))
            if now > end:
                return best
            calls = min(max(3, int(calls * RUN_S / (now - start))), 100)


def run(framework, main, as_rank=None):
    """Run a probe's ``main(probe)``, and exit with code 1 where it failed.

    A probe with several processes starts itself with ``--rank``. Each of these processes calls
    ``as_rank`` with the arguments that follow.
    """
    _end_after(0.0)
    if sys.argv[1] == "--rank":
        as_rank(*sys.argv[2:])
        return
    probe = Probe(framework, sys.argv[1], sys.argv[2], sys.argv[3:])
    probe.compute()
    attempt(probe, main, BaseException)
    sys.exit(1 if probe.result["error"] else 0)


def _end_after(later_s):
    """Print the traceback of a hang and exit at the time limit, in case the parent is gone."""
    if "TARMAC_PROBE_LIMIT_S" in os.environ:
        limit_s = max(0.0, float(os.environ["TARMAC_PROBE_LIMIT_S"]) + later_s)
        faulthandler.dump_traceback_later(limit_s + 5, exit=True)


def attempt(probe, main, caught=Exception):
    """Call a probe's ``main``, and write its error, if it is of type ``caught``, and warnings."""
    result = probe.result
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            main(probe)
        except caught as error:
            result["error"] = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": traceback.format_exc(),
            }
    result["notes"] += [str(warning.message) for warning in warned]
    result["libraries"] = _libraries()
    probe.stage(result["stage"])


def write_whole(path, content):
    """Write JSON atomically: a reader sees all of it or the previous content."""
    with open(path + ".part", "w") as file:
        json.dump(content, file)
    os.replace(path + ".part", path)


def relative(ours, reference):
    """Return the largest difference of two arrays, relative to the reference's largest value."""
    return float(abs(ours - reference).max() / abs(reference).max())


def judged(error, tolerance):
    """Return an error with its tolerance and verdict."""
    # A NaN compares as False, so it is never ok.
    return {"error": error, "tolerance": tolerance, "ok": bool(error <= tolerance)}


def trained(losses):
    """Return the losses of three steps with their verdict."""
    return {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}


def matrices(np, size):
    """Return two random matrices in float32, ``[size, size]`` each, to measure products.

    Products of zeros draw less power and run faster. This generator draws 67 million numbers in
    some tenths of a second, and `RandomState` in seconds.
    """
    rng = np.random.default_rng(0)
    return [rng.standard_normal((size, size), dtype="float32") for _ in range(2)]


def convolve(np, images, kernels):
    """Convolve in float64: images ``[n, h, w, c]``, kernels ``[3, 3, c, out]``, no padding."""
    height, width = images.shape[1] - 2, images.shape[2] - 2
    out = np.zeros((len(images), height, width, kernels.shape[3]))
    for row in range(3):
        for column in range(3):
            part = images[:, row : row + height, column : column + width]
            out += part.astype(np.float64) @ kernels[row, column].astype(np.float64)
    return out


def convolve_channels_first(np, images, kernels):
    """Convolve in float64: images ``[n, c, h, w]``, kernels ``[out, c, 3, 3]``, no padding."""
    out = convolve(np, images.transpose(0, 2, 3, 1), kernels.transpose(2, 3, 1, 0))
    return out.transpose(0, 3, 1, 2)


def num_ranks():
    """Return the number of processes that compute together."""
    return int(os.environ.get("TARMAC_PROBE_RANKS", "2"))


def ranks_limit_s():
    """Return the time limit of ranks in seconds.

    It is 0.8 of the probe's own limit, so that hung ranks are named before the probe is ended.
    """
    return 0.8 * float(os.environ.get("TARMAC_PROBE_LIMIT_S", "600"))


def numbers_of(positions, rank):
    """Return a rank's summands for an array of positions: integers, so that sums are exact."""
    return positions * (2 * rank + 3) % 251


def bus_rate(count, num_bytes, seconds):
    """Return the bus bandwidth of an all-reduce, which does not depend on the number of ranks.

    See PERFORMANCE.md of NVIDIA's nccl-tests.
    """
    return 2.0 * (count - 1) / count * num_bytes / seconds


def latest(reports, waiting):
    """Return the names of the running ranks at the earliest step, and that step.

    ``reports`` has the reports of all ranks, ``waiting`` the numbers of the ranks that still run.
    """
    first = min(STEPS.index(rank["step"]) for rank in reports)
    late = [n for n in waiting if STEPS.index(reports[n]["step"]) == first] or list(waiting)
    return ", ".join("rank %d" % number for number in late), STEPS[first]


def teller(directory, rank):
    """Return a function that writes a rank's step and facts to its file."""
    path = _rank_file(directory, rank)

    def say(**facts):
        write_whole(path, facts)

    return say


def read_ranks(directory, count):
    """Return the report that each rank has written."""
    reports = []
    for rank in range(count):
        try:
            with open(_rank_file(directory, rank)) as file:
                reports.append(json.load(file))
        except OSError:
            reports.append({"step": "start"})
    return reports


def _rank_file(directory, rank):
    return os.path.join(directory, "rank-%d.json" % rank)


def _python():
    """Return the facts that decide which command installs packages for this interpreter."""
    made_by = ""
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        made_by = "conda"
    elif sys.prefix != sys.base_prefix:
        with contextlib.suppress(OSError), open(os.path.join(sys.prefix, "pyvenv.cfg")) as file:
            made_by = "uv" if any(line.split("=")[0].strip() == "uv" for line in file) else "venv"
    elif os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")):
        # The distribution's Python, into which pip may install nothing (PEP 668).
        made_by = "system"
    first = shutil.which("pip")
    return {
        "path": sys.executable,
        "made_by": made_by,
        "has_pip": importlib.util.find_spec("pip") is not None,
        # Whether `pip` on PATH installs for this interpreter.
        "is_first": first is not None and os.path.dirname(first) == os.path.dirname(sys.executable),
    }


def _libraries():
    """Return the paths of the CUDA libraries that this process has loaded."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 1}
    except OSError:
        return []
    names = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")
    return sorted(path for path in paths if os.path.basename(path).startswith(names))
