"""An HKube algorithm that gives its input back at once, by the websocket alone.

    python bench/peers/hkube_echo.py [json|msgpack|bson]

Written as a client of HKube's worker is in any language; it knows nothing of Tarmac.
"""

import json
import os
import sys

from websockets.sync.client import connect


def codec(name):
    """Return what writes a message and what reads one."""
    if name == "json":
        return json.dumps, json.loads
    if name == "msgpack":
        import msgpack

        return msgpack.packb, msgpack.unpackb
    import bson

    return (lambda message: bson.encode({"data": message})), (lambda b: bson.decode(b)["data"])


def main():
    """Serve until ``exit``."""
    name = sys.argv[1] if len(sys.argv) > 1 else "json"
    write, read = codec(name)
    host, port = os.environ["WORKER_SOCKET_HOST"], os.environ["WORKER_SOCKET_PORT"]
    url = f"ws://{host}:{port}?storage=v1&encoding={name}"
    with connect(url, compression=None, max_size=None) as socket:
        data = None
        for frame in socket:
            message = read(frame)
            if message["command"] == "initialize":
                data = message["data"]["input"]
                socket.send(write({"command": "initialized"}))
            elif message["command"] == "start":
                socket.send(write({"command": "started"}))
                socket.send(write({"command": "done", "data": data}))
            elif message["command"] == "stop":
                socket.send(write({"command": "stopped"}))
            elif message["command"] == "exit":
                return


main()
