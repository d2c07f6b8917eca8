"""The rendezvous of the agents of one attempt on several nodes, and their connections.

The conductor listens on the first node and puts its addresses into every agent's environment. An
agent tries all possible names and addresses of the first node until a host answers with the
attempt's token, because no agent knows beforehand which address is routed between two nodes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hmac
import json
import os
import re
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

_INVITATION = "TARMAC_RENDEZVOUS"

# Nodes that power up or have a long prolog join late.
RENDEZVOUS_TIMEOUT_S = 300.0

# Heartbeats, because a host without power or network does not close its connections.
BEAT_EVERY_S = 5.0
SILENT_AFTER_S = 45.0

_CONNECT_S = 3.0
_TRY_EVERY_S = 0.2
_GREETING_BYTES = 4096

# ioctl(2) for the IPv4 address of an interface: netdevice(7).
_SIOCGIFADDR = 0x8915


class Unreachable(Exception):  # noqa: N818 - named after the condition
    """A host answers at none of its addresses; the message has a reason for each."""


@dataclasses.dataclass(frozen=True)
class Invitation:
    """The address of the rendezvous, passed to agents in their environment.

    Attributes:
        addresses: Names and addresses that the host may have.
        port: TCP port that the host listens on.
        token: Token of the attempt, which both sides show.
    """

    addresses: Sequence[str]
    port: int
    token: str

    def to_variables(self) -> Mapping[str, str]:
        """Return the environment variable of the invitation; arguments would show the token."""
        return {_INVITATION: " ".join([str(self.port), self.token, *self.addresses])}

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> Invitation | None:
        """Return the invitation in an environment, or None."""
        return cls.take(dict(environment)) if _INVITATION in environment else None

    @classmethod
    def take(cls, environment: dict[str, str]) -> Invitation:
        """Remove the invitation from an environment, to hide it from the program, and return it.

        Raises:
            ValueError: The environment has no invitation.
        """
        text = environment.pop(_INVITATION, "")
        port, token, *addresses = text.split(" ") if text else ("", "", "")
        if not port.isdecimal():
            raise ValueError(f"{_INVITATION} is {text!r}: this agent was not started by another")
        return cls(addresses, int(port), token)


class Line:
    """A connection between two agents that carries a line of JSON for each message.

    Attributes:
        socket: Connected socket, for a selector to wait on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send a message; a message to a lost host is dropped silently."""
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """Wait for messages and return them; None at the end of the connection.

        Raises:
            TimeoutError: No message arrived within the socket's timeout.
        """
        try:
            received = self.socket.recv(65536)
        except (TimeoutError, socket.timeout) as error:  # noqa: UP041 - two until Python 3.10
            raise TimeoutError from error
        except OSError:
            return None
        if not received:
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            return None

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens on all addresses of this host, by default on a free port.

    Raises:
        OSError: The port is not free.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)


def reach(invitation: Invitation, limit_s: float) -> tuple[str, socket.socket]:
    """Connect to a host at the first of its addresses that answers with the token.

    Returns:
        The address and the connection. Both sides have shown the token.

    Raises:
        Unreachable: No address answered in time.
    """
    end = time.monotonic() + limit_s
    problems: dict[str, str] = {}
    while True:
        for address in invitation.addresses:
            try:
                connection = socket.create_connection((address, invitation.port), _CONNECT_S)
            except OSError as error:
                problems[address] = error.strerror or str(error) or "no answer"
                continue
            if _greet(connection, invitation.token):
                return address, connection
            connection.close()
            problems[address] = "another program answers"
        if time.monotonic() > end:
            tried = ", ".join(f"{address} ({why})" for address, why in problems.items())
            raise Unreachable(f"port {invitation.port} of {tried}")
        time.sleep(_TRY_EVERY_S)


def _greet(connection: socket.socket, token: str) -> bool:
    """Show the token to a server; return whether it answers with the token within 3 s."""
    try:
        connection.settimeout(_CONNECT_S)
        connection.sendall(token.encode() + b"\n")
        return _is_shown(connection, token)
    except OSError:
        return False


def knock(connection: socket.socket, token: str) -> bool:
    """Check the token of a client and answer with it; return whether it is right."""
    try:
        connection.settimeout(_CONNECT_S)
        if not _is_shown(connection, token):
            return False
        connection.sendall(token.encode() + b"\n")
    except OSError:
        return False
    return True


def _is_shown(connection: socket.socket, token: str) -> bool:
    # Byte by byte up to the newline: a later reader needs the bytes after it.
    shown = b""
    while not shown.endswith(b"\n") and len(shown) < _GREETING_BYTES:
        byte = connection.recv(1)
        if not byte:
            return False
        shown += byte
    return hmac.compare_digest(shown.strip(), token.encode())


def host_addresses(environment: Mapping[str, str]) -> list[str]:
    """Return the names and addresses by which other nodes may reach this one, the likeliest first.

    The engine's name for the node comes first, because sites resolve it to the right network. A pod
    has the name from its service. Loopback addresses come last, for nodes on the same machine. The
    token shows whether the right host answers.
    """
    pod = ""
    if "TARMAC_KUBERNETES_JOB" in environment:
        job = environment["TARMAC_KUBERNETES_JOB"]
        service = environment.get("TARMAC_KUBERNETES_SERVICE", job)
        pod = f"{job}-{environment.get('JOB_COMPLETION_INDEX', '0')}.{service}"
    names = [environment.get("SLURMD_NODENAME", ""), pod, socket.gethostname(), socket.getfqdn()]
    ranked = [*filter(None, names), *_interface_addresses()]
    loopback = [address for address in ranked if _is_loopback(address)]
    rest = [address for address in ranked if address not in loopback]
    return list(dict.fromkeys([*rest, *loopback, "127.0.0.1"]))


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith(("127.", "localhost."))


def _interface_addresses() -> list[str]:
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            # The call fails for an interface without an IPv4 address.
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(
                    sock.fileno(), _SIOCGIFADDR, struct.pack("256s", os.fsencode(name)[:15])
                )
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return addresses


def hosts_of(nodes: str) -> list[str]:
    """Return the hosts of a list in Slurm's notation.

    Example:
        >>> hosts_of("n[1-2,08-10],gpu1")
        ['n1', 'n2', 'n08', 'n09', 'n10', 'gpu1']
    """
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]*(?:\[[^\]]*\][^,\[]*)*", nodes):
        if part:
            hosts += _expanded(part)
    return hosts


def _expanded(part: str) -> list[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if match is None:
        return [part]
    before, ranges, after = match.groups()
    numbers: list[str] = []
    for text in ranges.split(","):
        first, _, last = text.partition("-")
        if last and first.isdecimal() and last.isdecimal():
            numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
        else:
            numbers.append(text)
    return [f"{before}{number}{rest}" for number in numbers for rest in _expanded(after)]


def program_variables(
    *, nodes: int, rank: int, gpus: int, address: str, port: int
) -> Mapping[str, str]:
    """Return the variables by which a program on several nodes finds its peers.

    torchrun reads its options from ``PET_*`` (torch/distributed/argparse_util.py), so a bare
    ``torchrun train.py`` works.

    Args:
        nodes: Number of nodes of the attempt.
        rank: Rank of this node, from 0.
        gpus: Number of GPUs of each node. 0: the program chooses its number of processes.
        address: Host name or address of the first node.
        port: Free TCP port on the first node.
    """
    variables = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "NNODES": str(nodes),
        "NODE_RANK": str(rank),
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(port),
    }
    if gpus:
        variables["PET_NPROC_PER_NODE"] = str(gpus)
    return variables
