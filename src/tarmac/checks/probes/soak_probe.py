"""Keeps every GPU, or the CPU without one, busy with PyTorch for some time, and compares results.

    python soak_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result, and `soak_work` for the computations.
TARMAC_PROBE_SOAK_S is the duration in seconds. A device counts as hung after TARMAC_PROBE_SILENCE_S
seconds without progress. Started as ``--rank DIRECTORY ...``, the program is the process of one
device. It writes its progress to a file of its own, so that devices that hang can be named.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

from harness import read_ranks, run, teller

LOOK_EVERY_S = 0.25


def as_rank(directory, number, device, following, end):
    """Soak a device until a time of `time.monotonic`, and write the result to a file."""
    from soak_work import Soak

    tell, parent = teller(directory, int(number)), os.getppid()

    def say(**facts):
        # The parent process is gone, so nothing else would end this one.
        if os.getppid() != parent:
            sys.exit(1)
        tell(**facts)

    say(step="import")
    # If memory runs out, the kernel shall kill this process before all others.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    import torch

    soak = Soak(torch, device, following, say)
    try:
        soak.run(float(end))
    except Exception as error:
        say(**dict(soak.state, error="%s: %s" % (type(error).__name__, error)))
        raise


def count_gpus(probe):
    """Return the number of GPUs that PyTorch sees; skip its import where there can be none."""
    nodes = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
    can_be_none = not probe.wanted and not any(map(os.path.exists, nodes))
    if can_be_none or set(probe.wanted) == {"cpu"}:
        return 0
    with probe.importing():
        import torch

    return torch.cuda.device_count()


def start(directory, names, end):
    """Start a process for each device."""
    gpus = [name for name in names if name != "cpu"]
    # Makes repeated products bit-identical: see "Results Reproducibility" in cuBLAS's
    # documentation, and "Conditional Numerical Reproducibility" in that of Intel's MKL.
    fixed = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", MKL_CBWR="AUTO")
    for number, name in enumerate(names):
        following = ""
        if name != "cpu" and len(gpus) > 1:
            following = gpus[(gpus.index(name) + 1) % len(gpus)]
        program = [sys.executable, os.path.abspath(__file__), "--rank", directory]
        yield subprocess.Popen(program + [str(number), name, following, str(end)], env=fixed)


def how_it_ended(code, report):
    """Describe the end of a process that did not finish its soak."""
    if code < 0:
        try:
            how = "ended by %s" % signal.Signals(-code).name
        except ValueError:
            how = "ended by signal %d" % -code
    else:
        how = "ended with exit code %d" % code
    text = "%s at: %s" % (how, report["step"])
    return "%s, by %s" % (text, report["error"].splitlines()[0]) if report.get("error") else text


def main(probe):
    if probe.lacks("torch"):
        return
    # The import of PyTorch is part of the time.
    begin = time.monotonic()
    seconds = float(os.environ.get("TARMAC_PROBE_SOAK_S", "60"))
    silence_s = float(os.environ.get("TARMAC_PROBE_SILENCE_S", "120"))
    gpus = ["cuda:%d" % index for index in range(count_gpus(probe))]
    names = [name for name in gpus + ["cpu"] if probe.wants(name)] if probe.wanted else gpus
    # The CPU is soaked only where it is named, or where there is no GPU.
    names = names if names or probe.wanted else ["cpu"]
    entries = [probe.device(name, name != "cpu") for name in names]
    probe.stage("soak")
    with tempfile.TemporaryDirectory(dir=probe.directory) as directory:
        processes = list(start(directory, names, begin + seconds))
        try:
            watch(probe, directory, processes, entries, silence_s)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    probe.result["seconds"] = time.monotonic() - begin
    probe.stage("done")


def watch(probe, directory, processes, entries, silence_s):
    """Write the progress of the devices, until each is done, has died or hangs."""
    heard = [(None, time.monotonic())] * len(processes)
    left, parent = set(range(len(processes))), os.getppid()
    while left:
        # The parent process is gone.
        if os.getppid() != parent:
            sys.exit(1)
        time.sleep(LOOK_EVERY_S)
        codes = [process.poll() for process in processes]
        reports = read_ranks(directory, len(processes))
        for number in sorted(left):
            entry = entries[number]
            entry["soak"] = reports[number]
            entry["chip"] = reports[number].get("chip")
            probe.result["version"] = reports[number].get("version")
            now = time.monotonic()
            if reports[number] != heard[number][0]:
                heard[number] = (reports[number], now)
            if codes[number] is not None:
                left.discard(number)
                if codes[number] or reports[number]["step"] != "done":
                    entry["lost"] = how_it_ended(codes[number], reports[number])
            elif now - heard[number][1] > silence_s:
                left.discard(number)
                entry["lost"] = "no sign for %g s at: %s" % (silence_s, reports[number]["step"])
                processes[number].kill()
        probe.stage("soak")


if __name__ == "__main__":
    run("soak", main, as_rank)
