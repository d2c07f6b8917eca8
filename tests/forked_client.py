"""What `forked.forked_interpreter` writes, with the constants filled in: `python` by a fork.

Needs nothing but what the interpreter has without `site`, so that it starts in 0.02 s.
"""

import json
import os
import signal
import socket
import sys

REAL = None
SOCKET = None
AT_START = None
READ_AT_START = None
HEEDED = None
# Of the interpreter, without a value; a fork heeds these.
OPTIONS = ("-u", "-P", "-B")


def split(words):
    """Return the options and the rest, or None where only the real interpreter will do."""
    words = list(words)
    options = []
    while words and words[0] in OPTIONS:
        options.append(words.pop(0))
    is_program = bool(words) and words[0] != "-"
    if is_program and words[0].startswith("-"):
        is_program = words[0] in ("-m", "-c") and len(words) > 1
    return (options, words) if is_program else None


def descriptors():
    """Return the numbers of the open files, without those that are closed when a program starts."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if os.get_inheritable(int(name)):
                numbers.append(int(name))
        except OSError:
            pass  # The listing's own.
    return sorted(numbers)


def run(parts):
    """Have a fork do the work, and end as it does."""
    options, words = parts
    numbers = descriptors()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(SOCKET)
    request = {
        "words": words,
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all of this
        "start_new_session": os.getsid(0) == os.getpid(),
        "descriptors": numbers,
        "options": options,
        "client": os.getpid(),
    }
    pending = []
    numbers_of_signals = [
        number
        for number in signal.valid_signals()
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE)
        and signal.getsignal(number) is not signal.SIG_IGN
        and number < signal.SIGRTMIN
    ]
    for number in numbers_of_signals:
        signal.signal(number, lambda given, _: pending.append(given))
    socket.send_fds(connection, [b"{"], numbers)
    connection.sendall(json.dumps(request)[1:].encode() + b"\n")
    answers = connection.makefile("r")
    pid = int(answers.readline())
    for number in numbers_of_signals:
        signal.signal(number, lambda given, _: os.kill(pid, given))
    for number in pending:
        os.kill(pid, number)
    for number in numbers:
        os.close(number)
    status = int(answers.readline() or 9)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    parts = split(sys.argv[1:])
    at_start = {
        name: value
        for name, value in os.environ.items()
        if value and name.startswith(READ_AT_START) and name not in HEEDED
    }
    if parts is None or at_start != AT_START or not os.path.exists(SOCKET):  # noqa: PTH110
        os.execv(REAL, [REAL, *sys.argv[1:]])
    run(parts)
