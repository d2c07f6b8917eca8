"""Rules on the probes' computed results and on the ends of their processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.checks.rules.rule import Hits, Rule, measured_devices, place_of

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence

# Frameworks print a screen or two; a flood of output hides the lines that matter.
_FLOOD_BYTES = 10 * 2**20


def _wrong_result(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        for kind in ("matmul", "convolution"):
            judged = device.get(kind)
            if judged is not None and not judged["ok"]:
                error = f"{judged['error']:.1e}, more than {judged['tolerance']:.0e}"
                yield place_of(probe, device), f"{kind} is off by {error}"
        training = device.get("training")
        if training is not None and not training["ok"]:
            losses = ", ".join(f"{loss:.3f}" for loss in training["losses"])
            yield place_of(probe, device), f"the loss does not fall: {losses}"


def _probe_crashed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "crashed":
            yield probe.label, probe.detail


def _probe_hung(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "hung" and "all_reduce" not in probe.result:
            yield probe.label, probe.detail


def _probe_no_result(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "no result":
            yield probe.label, probe.detail


def _probe_left_processes(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        # A probe that was killed had no chance to end its own children.
        if probe.left_behind and probe.outcome != "hung":
            yield probe.label, f"{probe.left_behind} still running"


def _probe_flood(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.printed_bytes > _FLOOD_BYTES:
            yield probe.label, f"{probe.printed_bytes / 2**20:.0f} MiB"


def _import_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") == "import":
            yield probe.label, probe.detail


def _probe_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") != "import":
            yield probe.label, probe.detail


RULES: Mapping[str, Rule] = {
    "wrong-result": _wrong_result,
    "probe-crashed": _probe_crashed,
    "probe-hung": _probe_hung,
    "probe-no-result": _probe_no_result,
    "probe-left-processes": _probe_left_processes,
    "probe-flood": _probe_flood,
    "import-failed": _import_failed,
    "probe-failed": _probe_failed,
}
