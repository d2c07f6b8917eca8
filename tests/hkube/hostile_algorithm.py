"""An HKube algorithm that does against the protocol what its input names.

    python hostile_algorithm.py [v1|v3] [json|msgpack]

It gives ``"ok"`` for the input ``["ok"]``. What is hostile is written to the socket by hand: no
library sends it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys

import msgpack
from websockets.sync.client import connect

STORAGE = sys.argv[1] if len(sys.argv) > 1 else "v1"
ENCODING = sys.argv[2] if len(sys.argv) > 2 else "json"
ADDRESS = (os.environ["WORKER_SOCKET_HOST"], int(os.environ["WORKER_SOCKET_PORT"]))
URL = "ws://{}:{}".format(*ADDRESS)
QUERY = f"?storage={STORAGE}&encoding={ENCODING}"
TEXT, BINARY, PING = 1, 2, 9


def say(ws, command, data=None, **more):
    message = {"command": command, "data": data, **more}
    ws.send(json.dumps(message) if ENCODING == "json" else msgpack.packb(message))


def raw(ws, opcode, payload, *, length=None, final=True):
    """Send a frame, of which ``length`` may say what is not true."""
    length = len(payload) if length is None else length
    first = opcode | (0x80 if final else 0)
    if length < 126:
        header = struct.pack(">BB", first, 0x80 | length)
    elif length < 2**16:
        header = struct.pack(">BBH", first, 0x80 | 126, length)
    else:
        header = struct.pack(">BBQ", first, 0x80 | 127, length)
    ws.socket.sendall(header + bytes(4) + payload)


def text(payload):
    return lambda ws: raw(ws, TEXT, payload if isinstance(payload, bytes) else payload.encode())


def binary(payload):
    return lambda ws: raw(ws, BINARY, payload)


def said(command, data=None, **more):
    return lambda ws: say(ws, command, data, **more)


def then_done(*acts):
    def act(ws):
        for one in acts:
            one(ws)
        say(ws, "done", "after all")

    return act


def connections(count):
    def act(ws):
        others = []
        for _ in range(count):
            try:
                others.append(connect(URL + QUERY, open_timeout=3))
            except Exception:
                continue
        say(ws, "done", "the first one")

    return act


def bare_sockets(payload):
    def act(ws):
        held = [socket.create_connection(ADDRESS) for _ in range(20)]
        for one in held:
            one.sendall(payload)
        say(ws, "done", "the first one")

    return act


def flood(ws):
    for _ in range(10_000):
        raw(ws, TEXT, b'{"command":"progress","data":{"progress":0.5}}')
    say(ws, "done", "flooded")


def pings(ws):
    for _ in range(20_000):
        raw(ws, PING, b"ping")
    say(ws, "done", "pinged")


def fragments(ws):
    raw(ws, TEXT, b'{"command":', final=False)
    for _ in range(500):
        raw(ws, 0, b" ", final=False)
    raw(ws, 0, b'"done","data":"whole"}')


def leave_a_child(ws):
    subprocess.Popen(["sleep", "3600"])
    os._exit(0)


def print_much(ws):
    line = "x" * 1023 + "\n"
    for _ in range(20_000):
        sys.stdout.write(line)
    say(ws, "done", "printed")


ACTS = {
    "ok": said("done", "ok"),
    "frame of 1 TiB": lambda ws: raw(ws, TEXT, b"{", length=2**40),
    "frame of 2**63 bytes": lambda ws: raw(ws, TEXT, b"{", length=2**63),
    "unknown opcode": lambda ws: raw(ws, 0xB, b"{}"),
    "no UTF-8": text(b'{"command":"done","data":"\xff\xfe"}'),
    "no JSON": text("hello"),
    "half of a JSON": text('{"command":"done"'),
    "a list": text("[1, 2]"),
    "a number": text("1"),
    "no command": text('{"data": 1}'),
    "a command that is a list": text('{"command": [1]}'),
    "a key twice": text('{"command":"done","command":"done","data":"ok"}'),
    "deep": text('{"command":"done","data":' + "[" * 200_000 + "]" * 200_000 + "}"),
    "a long number": text('{"command":"done","data":' + "9" * 100_000 + "}"),
    "NaN": text('{"command":"done","data":NaN}'),
    "1e999": text('{"command":"done","data":1e999}'),
    "half a surrogate": text('{"command":"done","data":"\\ud800"}'),
    "NUL": text('{"command":"done","data":{"a\\u0000b":"\\u0000"}}'),
    "binary on a link of texts": binary(b"\x81\xa7command\xa4done"),
    "unknown command": then_done(said("obey", 1)),
    "the worker's command": then_done(said("initialize", {"input": ["ok"]})),
    "initialized again": then_done(said("initialized"), said("started")),
    "done twice": then_done(said("done", "first")),
    "stopped unasked": said("stopped"),
    "stopping unasked": then_done(*[said("stopping")] * 50),
    "error of nothing": said("errorMessage"),
    "error that is a number": said("errorMessage", error=5),
    "error in error": said("errorMessage", error={"code": {}, "message": {"a": [1]}, "details": 1}),
    "error of 5 MB": said("errorMessage", error={"code": "x", "message": "m" * 5_000_000}),
    "progress of nothing": then_done(said("progress")),
    "progress of texts": then_done(said("progress", {"progress": "much", "details": [1]})),
    "progress of 1e308": then_done(
        said("progress", {"progress": 1e308}),
        text('{"command":"progress","data":{"progress":NaN}}'),
    ),
    "child of nothing": then_done(said("startAlgorithmExecution")),
    "child of no name": then_done(
        said("startAlgorithmExecution", {"execId": {}, "algorithmName": [1]})
    ),
    "child that is not there": then_done(
        said("startAlgorithmExecution", {"execId": "1", "algorithmName": "nobody", "input": []})
    ),
    "pipeline of nothing": then_done(
        said("startRawSubPipeline", {"subPipelineId": "1", "subPipeline": 5})
    ),
    "pipeline of no name": then_done(
        said("startStoredSubPipeline", {"subPipelineId": "1", "subPipeline": {}})
    ),
    "end of a child that is none": then_done(
        said("stopAlgorithmExecution", {"execId": "none"}), said("stopSubPipeline", None)
    ),
    "logs": then_done(*[said("logData", ["line" * 1000])] * 100),
    "spans": then_done(
        said("startSpan"),
        said("finishSpan", 5),
        said("servingStatus", []),
        said("streamingOutMessage", {"x": 1}),
    ),
    "flood": flood,
    "pings": pings,
    "fragments": fragments,
    "second connection": connections(1),
    "10 connections": connections(10),
    "sockets that say nothing": bare_sockets(b""),
    "sockets that say anything": bare_sockets(b"\x00\xff" * 1000),
    "sockets that begin a request": bare_sockets(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000),
    "leaves politely": lambda ws: ws.close(),
    "leaves at once": lambda ws: ws.socket.shutdown(socket.SHUT_RDWR),
    "exits with 0": lambda ws: os._exit(0),
    "kills itself": lambda ws: os.kill(os.getpid(), signal.SIGKILL),
    "leaves a child": leave_a_child,
    "prints 20 MB": print_much,
    "stores outside": then_done(
        said("storing", {"storageInfo": {"path": "../../../../../../../etc/passwd", "size": 10}})
    ),
    "stores at a root": then_done(
        said("storing", {"storageInfo": {"path": "/etc/passwd", "size": 10}})
    ),
    "stores nothing": then_done(said("storing")),
    "stores a number": then_done(said("storing", {"storageInfo": 5})),
    "stores what is not there": then_done(
        said("storing", {"storageInfo": {"path": "none/here", "size": 1}})
    ),
    "a list of 4 G elements": binary(b"\x82\xa7command\xa4done\xa4data\xdd\xff\xff\xff\xff"),
    "an extension type": binary(b"\x82\xa7command\xa4done\xa4data\xc7\x05\x2ahello"),
    "keys that are lists": binary(b"\x82\xa7command\xa4done\xa4data\x81\x91\x01\x02"),
    "half of a MessagePack": binary(b"\x82\xa7command"),
    "deep MessagePack": binary(b"\x82\xa7command\xa4done\xa4data" + b"\x91" * 100_000 + b"\x01"),
}


def main():
    with connect(URL + QUERY, compression=None, max_size=None) as ws:
        act = "ok"
        for frame in ws:
            message = json.loads(frame) if ENCODING == "json" else msgpack.unpackb(frame)
            if message["command"] == "initialize":
                act = message["data"]["input"][0]
                say(ws, "initialized")
            elif message["command"] == "start":
                say(ws, "started")
                ACTS[act](ws)
            elif message["command"] == "stop":
                say(ws, "stopped")
            elif message["command"] == "exit":
                return


main()
