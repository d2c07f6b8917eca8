"""The GPUs of a pool's machines and of its tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tarmac.formats.shipyard.report import Path, Report
from tarmac.wording import counted

# Source: _VM_GPU_COUNT in convoy/settings.py (3.9.1).
_NUMBERED = re.compile(r"standard_n[cdv](6|12|24)[a-z]*(_v\d+)?(_promo)?")
_COUNTS = {"6": 1, "12": 2, "24": 4}
_EIGHT = re.compile(r"standard_nd40r?s_v2")
# Later sizes, which Batch Shipyard does not know or mistakes for others.
# Source: "NVv3-series", learn.microsoft.com/azure/virtual-machines/nvv3-series.
_LATER = {"standard_nv12s_v3": 1, "standard_nv24s_v3": 2, "standard_nv48s_v3": 4}
# Sizes with FPGAs instead of GPUs.
_WITHOUT = re.compile(r"standard_np\d+s?(_v\d+)?")
_DEVICES = re.compile(r"\"?'?device=([^,\s]+(?:,[^,\s]+)*)'?\"?")


class Pool:
    """A pool of machines of the same size.

    Args:
        specification: ``pool_specification`` of the configuration, already checked. None if no file
            has it.
        report: Receives problems and differences from Batch Shipyard.

    Attributes:
        count: Number of GPUs per machine. None if unknown.
    """

    def __init__(self, specification: Mapping[str, Any] | None, report: Report) -> None:
        self.count: int | None = None
        self.specification = specification or {}
        self._report = report
        self._size = str(self.specification.get("vm_size") or "")
        size = self._size.lower()
        numbered = _NUMBERED.fullmatch(size)
        if size in _LATER:
            self.count = _LATER[size]
        elif numbered is not None:
            self.count = _COUNTS[numbered[1]]
        elif _EIGHT.fullmatch(size):
            self.count = 8
        elif size and (not size.startswith("standard_n") or _WITHOUT.fullmatch(size)):
            self.count = 0
        self._path: Path = ("pool_specification", "vm_size")
        self._is_windows = self._has_windows()
        if self._is_windows:
            report.refuse(
                ("pool_specification", "vm_configuration"),
                "its machines have Windows, and containers of Windows are not run on this one",
            )

    def _has_windows(self) -> bool:
        # Source: is_windows_pool in convoy/settings.py (3.9.1).
        machine = self.specification.get("vm_configuration") or {}
        platform, custom = (machine.get(name) or {} for name in ("platform_image", "custom_image"))
        publisher = platform.get("publisher") or self.specification.get("publisher") or ""
        agent = str(custom.get("node_agent") or "").lower()
        return publisher.lower() == "microsoftwindowsserver" or agent.startswith(
            "batch.node.windows"
        )

    def instances(self, wanted: Any) -> int | None:
        """Return the number of machines for ``num_instances``, or None if unknown."""
        count = self.specification.get("vm_count")
        counts = count if isinstance(count, dict) else {"dedicated": count}
        for kind in ("dedicated", "low_priority"):
            names = [f"pool_current_{kind}", f"pool_specification_vm_count_{kind}"]
            if kind == "dedicated":
                # Name before 2.7, still valid.
                names += ["pool_specification_vm_count"]
            if wanted in names:
                number = counts.get(kind)
                return number if isinstance(number, int) else None
        text = str(wanted)
        return int(text) if re.fullmatch(r"\d{1,6}", text) else None

    def gpus(
        self,
        job: Mapping[str, Any],
        job_path: Path,
        task: Mapping[str, Any],
        path: Path,
        option: str | None,
    ) -> int:
        """Return the number of GPUs for a task.

        Args:
            job: Job of the configuration, already checked.
            job_path: Keys that lead to the job in the configuration.
            task: Task of the configuration, already checked. Its settings override the job's.
            path: Keys that lead to the task in the configuration.
            option: Value of ``--gpus`` in the task's Docker options. None if the option is absent.
        """
        for owner, where in ((task, path), (job, job_path)):
            if owner.get("gpus") is not None:
                return self._asked(owner["gpus"], (*where, "gpus"))
            if owner is task and option is not None:
                return self._asked(option, (*where, "additional_docker_run_options"))
            if owner.get("gpu") is not None:
                return self._asked("all" if owner["gpu"] else "disable", (*where, "gpu"))
        if task.get("image") is not None and self._report.is_json(path):
            # Before 3.0, with JSON files only, a task without a GPU setting got no GPU.
            return 0
        return self._all(path, is_asked=False)

    def _asked(self, value: Any, path: Path) -> int:
        text = str(value).strip()
        if text in ("disable", "0"):
            return 0
        devices = _DEVICES.fullmatch(text)
        if text == "all" and self._is_windows:
            self._refuse_none(path)
        if text == "all":
            return self._all(path, is_asked=True)
        if devices is not None:
            count = len(set(devices[1].split(",")))
            self._report.note(path, f"{counted(count, 'GPU')}, whichever are free on this machine")
        elif re.fullmatch(r"[1-9]\d{0,4}", text):
            count = int(text)
        else:
            self._report.wrong(path, f"{value!r}: expected all, disable, a number, or device=0,1")
            return 0
        self._refuse_none(path)
        return count

    def _all(self, path: Path, *, is_asked: bool) -> int:
        if self.count:
            shown = f"{self.count} GPU{'' if self.count == 1 else 's'}"
            self._report.note(
                self._path,
                f"{self._size} has {shown}; a task that does not say how many gets all of them",
            )
        elif self.count is None and self._size:
            self._report.note(
                self._path,
                f"how many GPUs {self._size} has is not known: 1 is taken; gpus says more",
            )
            return 1
        elif is_asked:
            self._refuse_none(path)
            self._report.note(path, "no pool file says how many GPUs there are: 1 is taken")
            return 1
        elif self.count is None:
            self._report.note(path, "no pool file says whether there are GPUs: none is given")
        return self.count or 0

    def _refuse_none(self, path: Path) -> None:
        if self.count == 0:
            self._report.wrong(path, f"GPUs are requested, and {self._size} has none")
        elif self._is_windows:
            self._report.wrong(path, "GPUs are requested, and Windows pools give tasks none")
