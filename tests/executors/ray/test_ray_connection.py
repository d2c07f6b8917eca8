"""What a driver asks before it begins: a head's health, token and versions, and its nodes."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest
from ray import exceptions
from ray_in_process import Head, Node

from tarmac.errors import RequestError
from tarmac.executors.ray.connection import connect

ONE = Node("n1")


def refused(address: str) -> RequestError:
    with pytest.raises(RequestError) as error:
        connect(address)
    return error.value


def test_a_process_is_connected_once_and_to_one_cluster(in_process, monkeypatch):
    ray = in_process(ONE)
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:1")
    before = signal.getsignal(signal.SIGTERM)
    made = connect(ray.head.address)
    assert connect(ray.head.address) is made
    (options,) = ray.inits
    assert (options["address"], options["namespace"]) == (ray.head.address, "tarmac")
    assert not options["log_to_driver"]
    assert made.answers()
    assert os.environ["RAY_ADDRESS"] == "elsewhere:1"
    assert signal.getsignal(signal.SIGTERM) is before
    words = f"works with the Ray cluster at {ray.head.address}, not elsewhere:1"
    assert words in refused("").message


def test_without_an_address_the_variables_is_taken_or_none_is_found(in_process, monkeypatch):
    ray = in_process(ONE)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    missing = refused("")
    assert missing.message == "no Ray cluster was found on this machine"
    assert "RAY_ADDRESS" in missing.hint
    assert refused("auto").message == missing.message
    monkeypatch.setenv("RAY_ADDRESS", ray.head.address)
    assert connect().address == ray.head.address


def test_another_version_is_refused_with_what_to_install(in_process):
    ray = in_process(ONE)
    ray.head.versions |= {"ray_version": "2.9.0", "python_version": "3.10.1"}
    error = refused(ray.head.address)
    assert "is of another version: Ray 2.9.0 there, 2.60.0 here, Python 3.10.1" in error.message
    assert error.hint.startswith("Install Tarmac with Python 3.10.1 and ray==2.9.0\n")
    assert not ray.inits


@pytest.mark.parametrize("versions", [None, {}, {"ray_version": "2.9.0"}])
def test_a_head_that_does_not_say_its_versions_is_left_to_ray_itself(in_process, versions):
    ray = in_process(ONE)
    ray.head.versions = versions
    assert connect(ray.head.address)


def test_a_head_that_asks_for_a_token_gets_the_one_that_ray_would_send(in_process, monkeypatch):
    ray = in_process(ONE, head=Head(token="right-token"))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right-token")
    unsent = refused(ray.head.address)
    assert unsent.message == f"the Ray cluster at {ray.head.address} asks for a token"
    assert "RAY_AUTH_TOKEN_PATH" in unsent.hint
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong-token")
    assert "does not take the token" in refused(ray.head.address).message
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right-token")
    assert connect(ray.head.address)


def test_another_server_is_told_from_a_head(in_process):
    in_process(ONE)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    with server.accept()[0] as client:
                        client.sendall(b"SSH-2.0-OpenSSH\r\n")
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        error = refused(address)
        server.shutdown(socket.SHUT_RDWR)
    assert error.message.startswith(f"the Ray cluster at {address} does not answer: the server")
    assert "there is not a Ray head: " in error.message


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port"])
def test_what_is_no_host_and_port_is_refused_with_the_form(in_process, address):
    in_process(ONE)
    assert refused(address).message.endswith(f"{address} does not answer: expected HOST:PORT")


def test_a_cluster_that_does_not_take_this_process_says_so_in_one_line(in_process):
    ray = in_process(ONE)
    ray.refuses = exceptions.RaySystemError("no raylet here\nand a long trace")
    error = refused(ray.head.address)
    assert "does not take this process: System error: no raylet here" in error.message
    assert "trace" not in error.message
    ray.refuses = ConnectionError()
    assert refused(ray.head.address).message.endswith("does not take this process: ConnectionError")


def test_nodes_are_named_by_their_hosts_or_by_what_tells_them_apart(in_process):
    def names(*listed) -> list[str]:
        ray = in_process(ONE)
        ray.nodes = lambda: [
            {
                "Alive": number != 9,
                "NodeManagerHostname": host,
                "NodeManagerAddress": "192.0.2.1",
                "NodeName": name,
                "NodeID": f"{number}" * 8,
                "Resources": {"CPU": 1.0},
                "Labels": None,
            }
            for number, host, name in listed
        ]
        return [node.name for node in connect(ray.head.address).nodes()]

    assert names((1, "a", "x"), (2, "b", "y"), (9, "dead", "z")) == ["a", "b"]
    assert names((1, "a", "x"), (2, "a", "y"), (3, "b", "z")) == ["x", "y", "b"]
    assert names((1, "a", "x"), (2, "a", "x")) == ["a-111111", "a-222222"]
    assert names((1, "a", ""), (2, "a", "y")) == ["192.0.2.1", "y"]


def test_nodes_are_asked_for_once_in_a_while(in_process):
    ray = in_process(Node("n1", cpus=3))
    made = connect(ray.head.address)
    assert [node.name for node in made.nodes()] == ["n1"]
    ray.known["n2"] = Node("n2")
    assert len(made.nodes()) == 1
    assert made.free()["CPU"] == 3.0
