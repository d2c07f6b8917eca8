"""The options of ``tarmac top``."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watching:
    """The options of ``tarmac top``, as its help describes them."""

    gpu: tuple[str, ...] | None
    run: tuple[str, ...] | None
    user: tuple[str, ...] | None
    host: tuple[str, ...] | None
    mine: bool
    pid: tuple[int, ...] | None
    visible: bool
    idle_after_s: float
    output: Path | None
    once: bool
    as_json: bool
    as_csv: bool
    watch_s: float | None
    interval_s: float
    readonly: bool
    light: bool
    ascii_only: bool
    web: int | None
    hosts: tuple[str, ...] | None
    slurm: bool
    ray: bool
    host_command: str
    record: Path | None
    replay: Path | None
    speed: float | None
    serve: str | None
    dcgm_names: bool
    job_map: Path | None
    alerts: tuple[tuple[str, str], ...]
    fail_idle: bool

    @property
    def is_of_hosts(self) -> bool:
        """Whether other machines are watched."""
        return self.hosts is not None or self.slurm or self.ray

    @property
    def is_kept(self) -> bool:
        """Whether snapshots also go to a recording, a job map or alerts."""
        return bool(self.record or self.job_map or self.alerts)

    @property
    def is_repeated(self) -> bool:
        """Whether snapshots are printed repeatedly."""
        return self.watch_s is not None

    @property
    def is_screen(self) -> bool:
        """Whether to show the screen, which is the form without any other form."""
        from tarmac.monitor import can_show_screen

        is_other = self.once or self.as_json or self.as_csv or self.serve is not None
        return not is_other and can_show_screen()
