"""A configuration's volumes as mounts of containers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.formats.shipyard.mapping.files import inside
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import WORK


class Volumes:
    """The volumes that tasks may name.

    Args:
        configuration: Complete configuration, already checked.
        report: Receives problems and differences from Batch Shipyard.
    """

    def __init__(self, configuration: Mapping[str, Any], report: Report) -> None:
        resources = configuration.get("global_resources") or {}
        # The key is docker_volumes before 3.0.
        self._name = "volumes" if resources.get("volumes") else "docker_volumes"
        volumes = resources.get(self._name) or {}
        self._known = {
            kind: volumes.get(kind) or {} for kind in ("data_volumes", "shared_data_volumes")
        }
        self._report = report

    def mounts(
        self, job: Mapping[str, Any], job_path: Path, task: Mapping[str, Any], task_path: Path
    ) -> list[dict[str, Any]]:
        """Return the mounts of a job's and a task's volumes, each volume once."""
        mounts: dict[tuple[str, str], dict[str, Any]] = {}
        for kind in self._known:
            for owner, path in ((job, job_path), (task, task_path)):
                for number, name in enumerate(owner.get(kind) or ()):
                    if name is None or (kind, name) in mounts:
                        continue
                    for mount in self._mount(kind, name, (*path, kind, number)):
                        mounts[kind, name] = mount
        return [*mounts.values()]

    def _mount(self, kind: str, name: str, path: Path) -> Iterator[dict[str, Any]]:
        known = self._known[kind]
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            where = f"global_resources.{self._name if known else 'volumes'}.{kind}"
            hint = f"did you mean {near[0]!r}?" if near else f"{where} has {', '.join(known)}"
            if not known:
                hint = f"{where} of config.yaml says what it is"
            self._report.wrong(path, f"{name!r} is no volume", hint)
            return
        volume = known[name] or {}
        place: Path = ("global_resources", self._name, kind, name)
        target = volume.get("container_path") or ""
        if target.startswith(("$AZ_BATCH_", "${AZ_BATCH_")) and inside(target) not in (None, "."):
            target = f"{WORK}/{inside(target)}"
        if not target.startswith("/") or "$" in target:
            self._report.wrong(place, "container_path is missing, or no absolute path")
            return
        source = volume.get("host_path")
        if kind == "shared_data_volumes":
            source = f"shipyard-{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}"
            driver = volume.get("volume_driver")
            self._report.note(
                place,
                f"for {driver}, a volume of this machine's engine is taken, {source}, which is "
                "empty at first and stays",
            )
        elif not source:
            self._report.note(place, "no host_path: the container's own file system has it")
            return
        elif "$" in source or not source.startswith("/"):
            self._report.refuse(
                (*place, "host_path"), f"{source!r} is not a directory of this machine"
            )
            return
        mount = {"source": source, "target": target}
        if volume.get("bind_options") == "ro":
            mount["read_only"] = True
        yield mount
