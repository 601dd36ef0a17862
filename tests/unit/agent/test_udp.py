import contextlib
import socket

import pytest
from shoal.agent.errors import AddressInUse, AddressUnusable
from shoal.agent.udp import DRAIN, RECEIVE_BYTES, UdpSocket, bind_pair, canonical


@pytest.fixture
def pairs():
    """Makes pairs of sockets; all are closed at the end."""
    with contextlib.ExitStack() as closing:

        def make(host="127.0.0.1", port=0):
            udp, tcp = bind_pair(host, port)
            closing.callback(udp.sock.close)
            closing.callback(tcp.close)
            return udp, tcp

        yield make


@pytest.fixture
def ipv6(pairs):
    try:
        pairs("::1")
    except AddressUnusable as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")


def waiting(udp):
    """Everything that waits, in as many drains as it takes; loopback delivers before `sendto` returns."""
    taken = []
    while burst := list(udp.drain()):
        taken += burst
    return taken


# One spelling per address


@pytest.mark.parametrize(
    ("sockaddr", "address"),
    [
        (("10.0.0.7", 7931), ("10.0.0.7", 7931)),
        (("::ffff:10.0.0.7", 7931, 0, 0), ("10.0.0.7", 7931)),
        (("2001:0db8:0000:0000:0000:0000:0000:0001", 1, 0, 0), ("2001:db8::1", 1)),
        (("2001:DB8::1", 1, 0, 0), ("2001:db8::1", 1)),
        (("fe80::1%eth0", 7931, 0, 2), ("fe80::1", 7931)),
        (("::1", 7931, 0, 0), ("::1", 7931)),
    ],
)
def test_one_host_has_one_spelling(sockaddr, address):
    assert canonical(sockaddr) == address


# A pair on one port


def test_udp_and_tcp_have_one_port(pairs):
    udp, tcp = pairs()
    assert tcp.getsockname() == udp.sock.getsockname()
    assert udp.address == ("127.0.0.1", tcp.getsockname()[1])
    with socket.create_connection(udp.address, timeout=5):
        pass


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_that_another_has_is_in_use(kind):
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"127\.0\.0\.1:{port}") as caught:
            bind_pair("127.0.0.1", port)
        assert caught.value.exit_code == 75
    for sock in bind_pair("127.0.0.1", port):
        getattr(sock, "sock", sock).close()


def test_a_free_port_is_free_for_both(monkeypatch, pairs):
    """The first port found for UDP is taken for TCP; another one is tried, and the first is given back."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        real, asked = socket.socket.bind, []

        def bind(sock, address):
            asked.append(address)
            real(sock, ("127.0.0.1", taken) if len(asked) == 1 else address)

        monkeypatch.setattr(socket.socket, "bind", bind)
        udp, _ = pairs()
        assert udp.address[1] != taken
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            real(again, ("127.0.0.1", taken))


def test_an_address_of_another_machine_is_unusable():
    with pytest.raises(AddressUnusable, match=r"198\.51\.100\.77:7931 cannot be used: ") as caught:
        bind_pair("198.51.100.77", 7931)
    assert caught.value.exit_code == 78


@pytest.mark.parametrize("step", [socket.SOCK_STREAM, "listen"])
def test_a_pair_that_fails_halfway_holds_nothing(monkeypatch, step):
    real = socket.socket.bind

    def bind(sock, address):
        if sock.type == step:
            raise PermissionError(13, "Permission denied")
        real(sock, address)

    def listen(_sock, _backlog):
        raise OSError(98, "Address already in use")

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if step == "listen":
        monkeypatch.setattr(socket.socket, "listen", listen)
    else:
        monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises((AddressUnusable, AddressInUse)) as caught:
        bind_pair("127.0.0.1", port)
    monkeypatch.undo()
    assert caught.tb, "held, so that what only the garbage collector would close stays open"
    for sock in bind_pair("127.0.0.1", port):
        getattr(sock, "sock", sock).close()


def test_a_restart_gets_its_port_back_at_once(pairs):
    """Connections of the run before, in TIME_WAIT, must not keep the next run from its port."""
    udp, tcp = bind_pair("127.0.0.1", 0)
    address = udp.address
    with socket.create_connection(address, timeout=5) as client:
        server, _ = tcp.accept()
        server.close()  # the side that closes first waits
        assert client.recv(1) == b""
    udp.sock.close()
    tcp.close()
    pairs(*address)


# Datagrams


def test_what_is_sent_arrives_with_its_source(pairs):
    one, two = pairs()[0], pairs()[0]
    assert one.send(b"hello", two.address)
    assert waiting(two) == [(b"hello", one.address)]
    assert waiting(two) == []


def test_a_flood_is_taken_in_bounded_bursts(pairs):
    one, two = pairs()[0], pairs()[0]
    for number in range(2 * DRAIN + 5):
        assert one.send(str(number).encode(), two.address)
    assert [len(list(two.drain())) for _ in range(4)] == [DRAIN, DRAIN, 5, 0]


def test_empty_and_oversized_datagrams_are_datagrams(pairs):
    one, two = pairs()[0], pairs()[0]
    assert one.send(b"", two.address)
    assert one.send(b"x" * 60_000, two.address)
    assert [len(data) for data, _ in waiting(two)] == [0, RECEIVE_BYTES]


def test_nobody_at_the_other_end_is_no_failure_of_ours(pairs):
    one, two = pairs()[0], pairs()[0]
    gone = two.address
    two.sock.close()
    for _ in range(3):
        assert one.send(b"hello?", gone)
    assert waiting(one) == []


def test_an_error_that_waits_on_the_socket_is_passed_over(pairs, monkeypatch):
    one, two = pairs()[0], pairs()[0]

    class Failing:
        family = socket.AF_INET
        errors = iter([ConnectionRefusedError(111, "refused"), OSError(113, "no route")])

        def recvfrom(self, size):
            for error in self.errors:
                raise error
            return two.sock.recvfrom(size)

    one.send(b"after", two.address)
    assert list(UdpSocket(Failing()).drain()) == [(b"after", one.address)]


@pytest.mark.parametrize("to", [("2001:db8::1", 7931), ("255.255.255.255", 7931), ("127.0.0.1", 0)])
def test_what_this_machine_refuses_is_told(pairs, to):
    assert pairs()[0].send(b"hello", to) is False


def test_a_datagram_larger_than_any_is_refused_here(pairs):
    one, two = pairs()[0], pairs()[0]
    assert one.send(b"x" * 70_000, two.address) is False


def test_dual_stack_speaks_to_both_and_shows_one_address(ipv6, pairs):
    wide, four, six = pairs("::")[0], pairs("127.0.0.1")[0], pairs("::1")[0]
    port = wide.address[1]
    assert four.send(b"4", ("127.0.0.1", port))
    assert six.send(b"6", ("::1", port))
    assert waiting(wide) == [(b"4", four.address), (b"6", six.address)]
    assert wide.send(b"to 4", four.address)
    assert wide.send(b"to 6", six.address)
    assert waiting(four) == [(b"to 4", ("127.0.0.1", port))]
    assert waiting(six) == [(b"to 6", ("::1", port))]
