"""The one UDP socket: bound beside a TCP listener on the same port, drained in bursts, written without waiting.

`wait_readable` and a bounded non-blocking drain cost 10-13 us a packet in bursts; `await recvfrom` 48-97 us.
"""

import errno
import ipaddress
import socket
from collections.abc import Iterator

import trio

from ..gossip.member import Address
from .errors import AddressInUse, AddressUnusable

# At most this many datagrams per wake-up, so that timers and queries get their turn in a flood.
DRAIN = 64
# Larger than any datagram we send (1200 B); a longer one is truncated here and refused by the parser.
RECEIVE_BYTES = 2048
# Room for a burst of a few hundred packets while the loop is busy with something else.
RECEIVE_BUFFER = 1 << 20
# As many datagrams as that holds, each with the kernel's own bytes; and a bound where it may be larger.
MOST_WAITING = 1 << 14
# Connections that wait to be accepted: a join storm must not be refused by the kernel.
BACKLOG = 128
# An ephemeral port that is free for UDP may be taken for TCP; another pair is tried this often.
PAIR_TRIES = 16


class UdpSocket:
    """A bound, non-blocking UDP socket with canonical addresses on both sides."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._dual = sock.family == socket.AF_INET6

    @property
    def address(self) -> Address:
        return canonical(self.sock.getsockname())

    def drain(self) -> Iterator[tuple[bytes, Address]]:
        """The datagrams waiting now, at most `DRAIN`. A refusal of an earlier packet's target is nobody's failure."""
        for _ in range(DRAIN):
            try:
                data, source = self.sock.recvfrom(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue
            yield data, canonical(source)

    def discard(self) -> int:
        """Drop the datagrams waiting now; how many they were."""
        count = 0
        for _ in range(MOST_WAITING // DRAIN):
            found = sum(1 for _ in self.drain())
            count += found
            if found < DRAIN:
                break
        return count

    def send(self, data: bytes, to: Address) -> bool:
        """Send now or not at all; False when this machine (not the peer) refused."""
        host, port = to
        if self._dual and ":" not in host:
            host = f"::ffff:{host}"
        try:
            self.sock.sendto(data, (host, port))
        except OSError:
            return False
        return True

    async def readable(self) -> None:
        await trio.lowlevel.wait_readable(self.sock)

    def close(self) -> None:
        if self.sock.fileno() != -1:
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


def canonical(sockaddr: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    """`(host, port)` with one spelling per host: an IPv4-mapped IPv6 address is the IPv4 address (consul#529)."""
    host, port = sockaddr[0], sockaddr[1]
    if ":" in host:
        parsed = ipaddress.IPv6Address(host.partition("%")[0])
        mapped = parsed.ipv4_mapped
        host = str(mapped) if mapped is not None else str(parsed)
    return host, port


def bind_pair(host: str, port: int) -> tuple[UdpSocket, socket.socket]:
    """A UDP socket and a listening TCP socket on one port; port 0 takes a pair that is free for both.

    Raises:
        AddressInUse: another process has the port.
        AddressUnusable: the address is not this machine's, or may not be bound.
    """
    for attempt in range(PAIR_TRIES):
        udp = _bound(host, port, socket.SOCK_DGRAM)
        try:
            return UdpSocket(udp), _bound(host, udp.getsockname()[1], socket.SOCK_STREAM)
        except AddressInUse:
            udp.close()
            if port != 0 or attempt == PAIR_TRIES - 1:
                raise
        except AddressUnusable:
            udp.close()
            raise
    raise AddressInUse(f"{host}:{port}")


def _bound(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        sock.setblocking(False)
        sock.bind((host, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(where) from error
        raise AddressUnusable(where, error.strerror or str(error)) from error
    return sock
