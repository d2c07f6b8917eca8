"""Multi-instance tasks, which run on several machines. Tarmac runs those of one instance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tarmac.formats.shipyard.mapping.pool import Pool
from tarmac.formats.shipyard.report import Path, Report


def command_of(
    task: Mapping[str, Any], path: Path, pool: Pool, report: Report
) -> tuple[str | None, bool]:
    """Return the command of a multi-instance task on one machine.

    A task of several instances is refused: on one machine, its program would compute a different
    result or wait for the others. A task of one instance runs unchanged.

    Args:
        task: Task of the configuration with ``multi_instance``, already checked.
        path: Keys that lead to the task in the configuration.
        pool: Pool that the task runs on.
        report: Receives problems, differences from Batch Shipyard, and refusals.

    Returns:
        The command, and whether it needs Bash, as in Batch Shipyard.
    """
    settings = task["multi_instance"]
    where = (*path, "multi_instance")
    wanted = settings.get("num_instances")
    count = pool.instances(wanted)
    if pool.specification.get("inter_node_communication_enabled") is False:
        report.wrong(where, "the pool needs inter_node_communication_enabled: true", rests_on=())
    shown = f"{wanted}" if str(count) == str(wanted) else f"{wanted} ({count or 'not known'})"
    if wanted is None or (count is None and not str(wanted).startswith("pool_")):
        report.wrong(
            (*where, "num_instances") if wanted is not None else where,
            f"num_instances is {wanted!r}, expected a number or "
            "pool_specification_vm_count_dedicated",
        )
    elif count != 1:
        report.refuse(
            (*where, "num_instances"),
            f"{shown} machines are needed, and this is one: a cluster engine will place such "
            "tasks; num_instances: 1 runs it here",
        )
    else:
        report.note(where, "one instance is run, as a task like any other")
    command = task.get("command")
    if not command:
        report.wrong(path, "a multi-instance task needs a command", rests_on=("command",))
        return command, False
    mpi = settings.get("mpi")
    if mpi is not None:
        command = f"{_mpi_line(mpi, (*where, 'mpi'), report)} {command}"
    before = settings.get("coordination_command"), settings.get("pre_execution_command")
    line = "".join(
        (f"({before[0]}) & " if before[0] else "", f"{before[1]} && " if before[1] else "")
    )
    return f"{line}{command}", bool(line or mpi)


def _mpi_line(mpi: Mapping[str, Any], path: Path, report: Report) -> str:
    runtime = mpi.get("runtime")
    # Unchanged: the path may be a variable, and file names may have capitals.
    program = mpi.get("executable_path") or "mpirun"
    options = [part for part in mpi.get("options") or () if part is not None]
    processes = mpi.get("processes_per_node")
    words = " ".join(options).split()
    if processes is not None or not {"-np", "-n"} & set(words):
        number = "1" if processes is None else str(processes)
        if not re.fullmatch(r"\d{1,6}", number):
            number = f"$({number.strip('`').removeprefix('$(').removesuffix(')')})"
        options = [f"-np {number}", *options]
    if runtime == "openmpi":
        # Containers run as root, which Open MPI refuses without this option.
        options = ["--allow-run-as-root", *options]
    report.note(path, f"{runtime}'s processes are all on this machine")
    return " ".join([program, *options])
