"""Recorded failures of ``failures/results.toml``, by code."""

from __future__ import annotations

from recorded.evidence import done, ended, machine, on_gpu
from tarmac.checks.evidence import Evidence, Probe

RECORDED: dict[str, list[Evidence]] = {
    "wrong-result": [
        on_gpu("torch", matmul={"error": 0.2, "tolerance": 1e-3, "ok": False}),
        on_gpu("torch", training={"losses": [1.0, 2.0, 3.0], "ok": False}),
    ],
    "probe-crashed": [ended("crashed", "SIGSEGV, during product on cuda:0")],
    "probe-hung": [ended("hung", "its limit of 120 s")],
    "probe-no-result": [ended("no result", "it wrote no result and ended with exit code 0")],
    "probe-left-processes": [
        Evidence(
            inventory=machine(),
            probes=(Probe(framework="odd", where="this Python", outcome="done", left_behind=2),),
        )
    ],
    "probe-flood": [
        Evidence(
            inventory=machine(),
            probes=(
                Probe(
                    framework="odd", where="this Python", outcome="done", printed_bytes=100 * 2**20
                ),
            ),
        )
    ],
    "import-failed": [
        ended("failed", "ImportError: libcupti.so.13: cannot open shared object file", "import")
    ],
    "probe-failed": [ended("failed", "RuntimeError during product on cpu: something else")],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "wrong-result": [
        on_gpu(
            "torch",
            matmul={"error": 9e-4, "tolerance": 1e-3, "ok": True},
            training={"losses": [1.41, 1.40, 1.39], "ok": True},
        )
    ],
    "probe-crashed": [ended("failed", "RuntimeError during product on cuda:0: something else")],
    "probe-hung": [
        # What its ranks waited for is known, and said instead.
        done("all-reduce", all_reduce={"problem": "hung", "detail": "rank 1 at: all-reduce"})
    ],
    "probe-no-result": [ended("not installed", "")],
    "probe-left-processes": [
        Evidence(
            inventory=machine(),
            probes=(Probe(framework="odd", where="this Python", outcome="hung", left_behind=2),),
        )
    ],
    "probe-flood": [
        Evidence(
            inventory=machine(),
            probes=(
                Probe(
                    framework="odd", where="this Python", outcome="done", printed_bytes=5 * 2**20
                ),
            ),
        )
    ],
    "import-failed": [ended("failed", "RuntimeError during devices: something else")],
    "probe-failed": [ended("failed", "ImportError: no module named odd", "import")],
}
