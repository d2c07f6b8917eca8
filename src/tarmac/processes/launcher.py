"""Executes a program in a control group: ``python launcher.py GROUP DESCRIPTOR PROGRAM ...``.

The launcher joins the group before it executes the program, so that no child can start outside.
Where the program cannot be started, the launcher writes the error number to DESCRIPTOR. The file
imports nothing from Tarmac, so that it starts fast.
"""

import os
import signal
import sys


def main() -> None:
    """Join the group and execute the program."""
    group, descriptor, *command = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)
    # Python ignores these signals, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib starts slowly
            # The original environment, as Python may have added a locale of its own.
            variables = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            # 0 stands for the writing process.
            file.write("0")
        os.execvpe(command[0], command, {key: value for key, _, value in variables})  # noqa: S606 - the task's own program
    except OSError as error:
        os.write(int(descriptor), str(error.errno).encode())
        sys.exit(127)


if __name__ == "__main__":
    main()
