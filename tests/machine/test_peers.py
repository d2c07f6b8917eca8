"""Who has opened a connection from this machine is looked up in the kernel's list."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from tarmac.machine import peers
from tarmac.machine.peers import lists_peers, owner_of_peer


@contextlib.contextmanager
def connected(family=socket.AF_INET, address="127.0.0.1"):
    """Yield both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(family) as client:
        client.connect((address, listener.getsockname()[1]))
        server, _ = listener.accept()
        with server:
            yield server, client


def test_an_own_connection_is_this_users():
    with connected() as (server, _):
        assert owner_of_peer(server.getpeername(), server.getsockname()) == os.geteuid()


def test_an_own_connection_by_ipv6_is_this_users():
    with (
        contextlib.suppress(OSError),
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2]),
    ):
        server, peer = listener.accept()
        with server:
            assert owner_of_peer(peer[:2], server.getsockname()[:2]) == os.geteuid()
            return
    pytest.skip("this machine has no IPv6")


def test_a_line_that_the_kernel_left_out_once_is_looked_for_again(monkeypatch):
    texts = iter(["", "", "0: 0200007F:0002 0100007F:0001 01 0:0 00:0 00 1234 0 56\n"])
    monkeypatch.setattr(peers, "_read", lambda table: next(texts))
    assert owner_of_peer(("127.0.0.2", 2), ("127.0.0.1", 1)) == 1234


def test_a_socket_of_ipv6_that_reaches_an_address_of_ipv4_has_an_owner_too():
    with contextlib.suppress(OSError), connected(socket.AF_INET6, "::ffff:127.0.0.1") as ends:
        server, _ = ends
        assert owner_of_peer(server.getpeername(), server.getsockname()) == os.geteuid()
        return
    pytest.skip("this machine has no IPv6")


def test_another_users_connection_is_the_other_users(second_user):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def connect():
            with socket.socket() as client:
                client.connect(("127.0.0.1", port))
                server, _ = listener.accept()
                with server:
                    return owner_of_peer(server.getpeername(), server.getsockname()), os.getuid()

        owners = second_user(connect)
        assert owners[0] == owners[1] != os.geteuid()


def test_nothing_is_told_of_a_connection_that_is_not_there_or_a_list_that_is_damaged(tmp_path):
    own, peer = ("127.0.0.1", 1), ("127.0.0.1", 2)
    assert owner_of_peer(peer, own) is None
    assert owner_of_peer(("no address", 2), own) is None
    damaged = tmp_path / "tcp"
    assert owner_of_peer(peer, own, [damaged]) is None
    assert (lists_peers(), lists_peers([damaged])) == (True, False)
    for text in (
        "",
        "  0: 0100007F:0002 0100007F:0001 01",
        "\xff",
        "0: 0100007F:0002 0100007F:0001 ",
    ):
        damaged.write_text(text)
        assert owner_of_peer(peer, own, [damaged]) is None
