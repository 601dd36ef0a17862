"""The small tasks that run on a timer: the vitals sampler, the watch on the own address and the watchdog."""

import socket

import trio
from shoal.agent.advertise import LOOK_SECONDS, AddressWatch
from shoal.agent.errors import BadConfiguration
from shoal.agent.systemd import Notifier
from shoal.agent.vitals import SAMPLE_SECONDS, Sampler
from shoal.gossip import Vitals


async def test_vitals_are_sampled_at_once_and_then_on_a_timer(nursery, autojump_clock):
    taken = []

    def deliver(row):
        taken.append((trio.current_time(), row))

    sampler = Sampler(lambda: Vitals(load1_centi=len(taken)), deliver, lambda seconds: trio.current_time() + seconds)
    nursery.start_soon(sampler.run)
    await trio.sleep(3.5 * SAMPLE_SECONDS)
    assert [when for when, _ in taken] == [0.0, 1.0, 2.0, 3.0]
    assert [row.load1_centi for _, row in taken] == [0, 1, 2, 3]


async def test_another_address_is_told_and_a_lost_route_changes_nothing(nursery, autojump_clock):
    hosts, moves = ["10.0.0.7"], []

    def find():
        if not hosts:
            raise BadConfiguration("no route")
        return hosts[0], 7931

    nursery.start_soon(AddressWatch(find(), find, moves.append).run)
    await trio.sleep(2.5 * LOOK_SECONDS)
    hosts.clear()
    await trio.sleep(2 * LOOK_SECONDS)
    assert moves == []
    hosts.append("10.0.0.99")
    await trio.sleep(3 * LOOK_SECONDS)
    assert moves == [("10.0.0.99", 7931)]


async def test_the_watchdog_is_pinged_from_the_loop(nursery, tmp_path, autojump_clock):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        nursery.start_soon(Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "10000000"}).watchdog)
        heard = 0
        for _ in range(3):
            await trio.sleep(4.9)
            assert manager.recv(100) == b"WATCHDOG=1"
            heard += 1
            await trio.sleep(0.1)
        assert heard == 3


async def test_without_a_watchdog_nobody_pings(autojump_clock):
    await Notifier({"NOTIFY_SOCKET": "/run/notify"}).watchdog()
    await Notifier({"WATCHDOG_USEC": "10000000"}).watchdog()
    assert trio.current_time() == 0
