"""Becomes a program inside a control group: ``python launcher.py GROUP DESCRIPTOR PROGRAM ...``.

It joins the group before it becomes the program, so that no child can begin outside. Why the
program cannot be started goes to DESCRIPTOR as an error number. Stands alone, so that it starts at
once.
"""

import os
import signal
import sys


def main() -> None:
    """Join the group and become the program."""
    group, descriptor, *command = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)
    # What Python ignores for itself, the program would ignore as well.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib starts slowly
            # As it was given: Python may have added a locale of its own.
            variables = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            # The process that writes.
            file.write("0")
        os.execvpe(command[0], command, {key: value for key, _, value in variables})  # noqa: S606 - the task's own program
    except OSError as error:
        os.write(int(descriptor), str(error.errno).encode())
        sys.exit(127)


if __name__ == "__main__":
    main()
