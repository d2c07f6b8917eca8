"""An algorithm by HKube's Python wrapper: its input says what it does."""

import os
import pathlib
import signal
import socket
import threading

from hkube_python_wrapper import Algorunner

counts = {"tasks": 0}
stop_asked = threading.Event()


def init(args):
    stop_asked.clear()


def start(args, api):
    counts["tasks"] += 1
    action, *rest = args["input"]
    return ACTIONS[action](args, api, *rest)


def stop(args):
    stop_asked.set()


def give(args, api, value):
    return value


def tell(args, api):
    names = ("jobId", "taskId", "nodeName", "pipelineName", "algorithmName", "batchIndex")
    return {"pid": os.getpid(), **counts, **{name: args.get(name) for name in names}}


def fail(args, api, message):
    raise ValueError(message)


def crash(args, api):
    os.kill(os.getpid(), signal.SIGKILL)


def make(args, api, kind, size):
    return b"\x00\xff" * (size // 2) if kind == "bytes" else "x" * size


def drop(args, api, value):
    back = threading.Event()
    api._wc.events.on_connection += back.set
    lose(args, api, value)
    assert back.wait(30)
    return value


def lose(args, api, value):
    port = int(os.environ["WORKER_SOCKET_PORT"])
    for path in pathlib.Path("/proc/self/fd").iterdir():
        try:
            copy = socket.socket(fileno=os.dup(int(path.name)))
        except OSError:
            continue
        with copy:
            try:
                if copy.getpeername()[1] == port:
                    copy.shutdown(socket.SHUT_RDWR)
            except (OSError, IndexError):
                pass
    # What is sent now is sent to nobody.
    return value


def until_stop(args, api):
    assert stop_asked.wait(60)
    return "stopped by itself"


def leave(args, api):
    os._exit(0)


def hang(args, api):
    while True:
        signal.pause()


def call(args, api, algorithm, inputs):
    return api.start_algorithm(algorithm, inputs)


def call_pipeline(args, api, name, flow_input):
    return api.start_stored_subpipeline(name, flow_input)


ACTIONS = {
    f.__name__: f
    for f in (
        give,
        tell,
        fail,
        crash,
        leave,
        make,
        drop,
        lose,
        until_stop,
        hang,
        call,
        call_pipeline,
    )
}

if __name__ == "__main__":
    Algorunner.Run(start=start, init=init, stop=stop)
