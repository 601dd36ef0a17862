import os
import socket
import threading

import pytest
from shoal.agent.systemd import Notifier


@pytest.fixture
def manager(tmp_path):
    """The service manager's end of the notify protocol."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(5)
        yield sock


@pytest.fixture
def environment(manager):
    return {"NOTIFY_SOCKET": manager.getsockname()}


def test_the_messages_are_those_of_the_protocol(manager, environment):
    notifier = Notifier(environment)
    notifier.ready("n1 on 127.0.0.1:7931")
    notifier.reloading(12_345)
    notifier.stopping()
    assert manager.recv(4096) == b"READY=1\nSTATUS=n1 on 127.0.0.1:7931"
    assert manager.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=12345"
    assert manager.recv(4096) == b"STOPPING=1"


def test_an_abstract_address_begins_with_a_zero_byte():
    name = f"shoal-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        sock.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert sock.recv(4096) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "/no/such/socket", "@no-such-name-of-ours", "x" * 500, "relative"])
def test_without_a_manager_nothing_happens(address):
    Notifier({"NOTIFY_SOCKET": address}).ready("n1")
    Notifier({}).stopping()


def test_a_manager_that_reads_nothing_stops_nobody(manager, environment):
    notifier = Notifier(environment)
    for _ in range(2000):
        notifier.stopping()


def test_a_manager_that_is_busy_gets_ready_all_the_same(manager, environment):
    notifier = Notifier(environment)
    for _ in range(2000):  # more than its queue holds
        notifier.stopping()
    heard = []

    def hear_all():
        while b"READY=1" not in (heard or [b""])[-1]:
            heard.append(manager.recv(4096))

    listener = threading.Timer(0.05, hear_all)
    listener.start()
    notifier.ready("n1")
    listener.join(5)
    assert heard[-1] == b"READY=1\nSTATUS=n1"


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": ""}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_pinged_twice_as_often_as_it_asks(variables, seconds):
    assert Notifier({"NOTIFY_SOCKET": "/run/notify", **variables})._watchdog == seconds
