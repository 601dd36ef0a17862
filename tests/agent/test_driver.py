"""The driver over a scripted node: what it is told, when, and that its effects are obeyed in order."""

import contextlib
import socket
import struct

import pytest
import trio
from shoal.agent import driver as driver_module
from shoal.agent.driver import LAG_SECONDS, MOST_NAMED, OLD_SECONDS, Driver
from shoal.agent.udp import DRAIN, bind_pair
from shoal.gossip import (
    Ask,
    Change,
    Changed,
    Conflict,
    Identity,
    Isolation,
    Left,
    Note,
    Persist,
    Refused,
    ResolveSeeds,
    SectionTooLarge,
    Send,
    TimedOut,
    Token,
    Vitals,
    Wake,
)
from shoal.gossip.effects import Purpose
from structlog.testing import capture_logs

NOWHERE = ("2001:db8::1", 7931)  # an IPv4 socket refuses it


def token(number, purpose=Purpose.PROBE):
    return Token(purpose, number=number)


class ScriptedNode:
    """Records every input without its `now`, and answers with the effects that a test put under the input's name.

    A list under a name is what each call answers; a function gets the input's arguments.
    """

    def __init__(self):
        self.log = []
        self.times = []
        self.script = {}
        self.over = set()

    def moot(self, token):
        return token.number in self.over

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def take(*arguments):
            assert arguments[-1] == pytest.approx(trio.current_time(), abs=5), "every input brings the time of its turn"
            self.log.append((name, *arguments[:-1]))
            self.times.append(arguments[-1])
            answer = self.script.get(name, [])
            return answer(*arguments[:-1]) if callable(answer) else answer

        return take

    def inputs(self, *names):
        return [entry for entry in self.log if entry[0] in names]

    def woken(self):
        """(time, number) of each timer that fired."""
        return [(when, entry[1].number) for when, entry in zip(self.times, self.log, strict=True) if entry[0] == "wake"]


class Watching:
    """The observer: what it was told, in one list with the datagrams that a peer had by then."""

    def __init__(self, peer):
        self.told = []
        self._peer = peer

    def _tell(self, *what):
        self.told += [*self._peer.heard(), what]

    def changed(self, change):
        self._tell("changed", change)

    def isolation(self, *, isolated):
        self._tell("isolation", isolated)

    def conflict(self, conflict):
        self._tell("conflict", conflict)

    def identity(self, identity):
        self._tell("identity", identity)


class Peer:
    """Another agent's UDP socket."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.address = self.sock.getsockname()

    def heard(self):
        taken = []
        with contextlib.suppress(BlockingIOError):
            while True:
                taken.append(self.sock.recv(2048))
        return taken


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.sock.close()


@pytest.fixture
def node():
    return ScriptedNode()


@pytest.fixture
def observer(peer):
    return Watching(peer)


@pytest.fixture
def make(node, observer):
    """A driver on sockets of its own; its address is in `make.address`."""
    with contextlib.ExitStack() as closing:

        def make(seeds=()):
            udp, tcp = bind_pair("127.0.0.1", 0)
            closing.callback(udp.sock.close)
            closing.callback(tcp.close)
            make.address = udp.address
            return Driver(node, udp, tcp, seeds=seeds, observer=observer)

        yield make


@pytest.fixture
def start(make, nursery, node):
    """A running driver; `effects` are what its node wants at the start."""

    async def start(*effects, seeds=()):
        node.script["start"] = list(effects)
        made = make(seeds)
        await nursery.start(made.run)
        return made

    return start


# Timers


async def test_timers_fire_in_order_and_at_their_time(start, node, autojump_clock):
    await start(*(Wake(token(number), after) for number, after in [(1, 3.0), (2, 1.0), (3, 1.0), (4, 2.5), (5, 0.0)]))
    await trio.sleep(10)
    assert node.woken() == [(0.0, 5), (1.0, 2), (1.0, 3), (2.5, 4), (3.0, 1)]


async def test_an_earlier_timer_set_while_sleeping_wakes_earlier(start, node, autojump_clock):
    driver = await start(Wake(token(1), 100.0))
    await trio.sleep(1)
    node.script["publish"] = [Wake(token(2), 5.0)]
    driver.publish(1, b"record")
    node.script["publish"] = [Wake(token(3), 2.0)]
    driver.publish(1, b"record")
    await trio.sleep(20)
    assert node.woken() == [(3.0, 3), (6.0, 2)]
    await trio.sleep(100)
    assert node.woken()[2:] == [(100.0, 1)]


async def test_the_first_timer_of_all_may_come_long_after_the_start(start, node, autojump_clock):
    driver = await start()
    await trio.sleep(1000)
    node.script["set_vitals"] = [Wake(token(1), 0.5)]
    driver.set_vitals(Vitals())
    await trio.sleep(1)
    assert node.woken() == [(1000.5, 1)]


async def test_a_timer_sets_the_next(start, node, autojump_clock):
    node.script["wake"] = lambda woken: [Wake(token(woken.number + 1), 1.0)] if woken.number < 4 else []
    await start(Wake(token(1), 1.0))
    await trio.sleep(10)
    assert node.woken() == [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4)]


async def test_every_timer_fires_once_with_the_token_that_it_was_set_with(start, node, autojump_clock):
    tokens = [Token(Purpose.SUSPICION, b"key", number) for number in (0, 0, 7)]
    await start(*(Wake(each, 1.0) for each in tokens))
    await trio.sleep(5)
    assert node.inputs("wake") == [("wake", each) for each in tokens]


async def test_nobody_wakes_up_for_timers_with_nothing_left_to_do(start, make, node, peer, autojump_clock):
    node.script["receive"] = lambda data, _source: node.over.update(data) or []
    await start(Wake(token(1), 1.0), Wake(token(2), 2.0), Wake(token(3), 3.0))
    await trio.sleep(0.5)
    peer.sock.sendto(bytes([1, 2]), make.address)
    await trio.sleep(2.0)
    assert node.woken() == []
    await trio.sleep(2.0)
    assert [number for _, number in node.woken()] == [3]


async def test_a_moment_near_a_timer_is_that_timers(start, autojump_clock):
    driver = await start(Wake(token(1), 0.1), Wake(token(2), 0.8), Wake(token(3), 1.2))
    now = trio.current_time()
    assert driver.soon(1.0) == pytest.approx(now + 0.8)
    assert driver.soon(10.0) == pytest.approx(now + 10.0)


async def test_timers_without_a_pause_starve_nobody(start, make, node, peer):
    """Real time: a node that always wants to be woken at once still hears its datagrams."""
    node.script["wake"] = lambda woken: [Wake(woken, 0.0)]
    heard = trio.Event()
    node.script["receive"] = lambda _data, _source: heard.set() or []
    await start(Wake(token(1), 0.0))
    peer.sock.sendto(b"hello", make.address)
    with trio.fail_after(5):
        await heard.wait()


# Gaps


async def test_late_timers_after_a_stall_are_told_once_and_first(start, node, mock_clock):
    await start(*(Wake(token(number), float(number)) for number in (1, 2, 3)))
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(7.5)
    await trio.testing.wait_all_tasks_blocked()
    assert node.log[1:] == [("lagged", 6.5), ("wake", token(1)), ("wake", token(2)), ("wake", token(3))]


async def test_a_datagram_after_a_stall_is_heard_after_the_node_knows_of_the_gap(start, make, node, peer, mock_clock):
    await start(Wake(token(1), 1.0))
    await trio.testing.wait_all_tasks_blocked()
    peer.sock.sendto(b"news", make.address)
    mock_clock.jump(1.0 + OLD_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    assert node.log[1] == ("lagged", OLD_SECONDS)
    assert sorted(entry[0] for entry in node.log[2:]) == ["receive", "wake"]


async def test_what_the_socket_kept_over_a_long_stop_is_dropped(start, make, node, peer, mock_clock):
    driver = await start(Wake(token(1), 1.0))
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(2 * DRAIN + 1):
        peer.sock.sendto(b"old news", make.address)
    mock_clock.jump(60.0)
    await trio.testing.wait_all_tasks_blocked()
    assert node.log[1:] == [("lagged", 59.0), ("wake", token(1))]
    assert driver.counters["datagrams dropped after an absence"] == 2 * DRAIN + 1
    peer.sock.sendto(b"news", make.address)
    await trio.testing.wait_all_tasks_blocked()
    assert node.inputs("receive") == [("receive", b"news", peer.address)]


async def test_each_stall_is_told(start, node, mock_clock):
    node.script["wake"] = lambda woken: [Wake(woken, 1.0)]
    await start(Wake(token(1), 1.0))
    for _ in range(2):
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(4.0)
    await trio.testing.wait_all_tasks_blocked()
    assert [entry[0] for entry in node.log[1:]] == ["wake", "lagged", "wake"] * 2
    assert node.inputs("lagged") == [("lagged", 3.0)] * 2


async def test_a_little_late_is_no_gap(start, node, mock_clock):
    await start(Wake(token(1), 1.0))
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(1.0 + 0.9 * LAG_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    assert node.log[1:] == [("wake", token(1))]


async def test_a_long_quiet_time_is_no_gap(start, make, node, peer, autojump_clock):
    await start(Wake(token(1), 3600.0))
    await trio.sleep(1000)
    peer.sock.sendto(b"hello", make.address)
    await trio.sleep(5000)
    assert [entry[0] for entry in node.log[1:]] == ["receive", "wake"]


async def test_a_suspend_is_told_once_by_its_length(start, node, autojump_clock, monkeypatch):
    """CLOCK_MONOTONIC, which timers run by, stands still meanwhile: nothing looks late."""
    ahead = [100.0]
    monkeypatch.setattr(driver_module, "_boottime_ahead", lambda: ahead[0])
    node.script["wake"] = lambda woken: [Wake(woken, 1.0)]
    await start(Wake(token(1), 1.0))
    await trio.sleep(1.5)
    ahead[0] += 3600
    await trio.sleep(2)
    assert [entry for entry in node.log if entry[0] != "wake"][1:] == [("resumed", 3600.0)]
    assert [entry[0] for entry in node.log[1:]] == ["wake", "resumed", "wake", "wake"]


async def test_a_suspend_that_also_made_timers_late_is_told_as_one_gap(start, node, mock_clock, monkeypatch):
    ahead = [0.0]
    monkeypatch.setattr(driver_module, "_boottime_ahead", lambda: ahead[0])
    driver = await start(Wake(token(1), 1.0), Wake(token(2), 2.0))
    await trio.testing.wait_all_tasks_blocked()
    ahead[0] = 50.0
    mock_clock.jump(10.0)
    driver._notice_gap(trio.current_time())  # as when a datagram is read before the timers get their turn
    await trio.testing.wait_all_tasks_blocked()
    assert node.log[1:] == [("resumed", 50.0), ("wake", token(1)), ("wake", token(2))]


def test_without_such_a_clock_nothing_is_ever_suspended(monkeypatch):
    monkeypatch.delattr(driver_module.time, "CLOCK_BOOTTIME", raising=False)
    assert driver_module._boottime_ahead() == 0.0


# Datagrams


async def test_datagrams_come_with_their_source_and_answers_go_there(start, make, node, peer, eventually):
    node.script["receive"] = lambda data, source: [Send(b"re:" + data, source)]
    await start()
    peer.sock.sendto(b"one", make.address)
    peer.sock.sendto(b"two", make.address)
    await eventually(lambda: len(node.log) == 3)
    assert node.log[1:] == [("receive", b"one", peer.address), ("receive", b"two", peer.address)]
    assert peer.heard() == [b"re:one", b"re:two"]


async def test_a_flood_is_drained_in_bounded_bursts_between_timers(start, make, node):
    """Real time: every packet causes another one, so that the socket is never empty; timers get their turn."""
    node.script["receive"] = lambda data, _source: [Send(data, make.address)]
    await start(Wake(token(1), 0.05))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        for _ in range(2 * DRAIN):
            flood.sendto(b"again", make.address)
    with trio.fail_after(5):
        while not node.woken():
            await trio.lowlevel.checkpoint()
    assert len(node.inputs("receive")) > 0


async def test_first_packets_are_out_when_the_driver_is_ready(start, peer):
    await start(Send(b"first", peer.address))
    assert peer.heard() == [b"first"]


async def test_a_failed_send_is_told_after_what_was_due_already(start, node, peer, autojump_clock):
    node.script["send_failed"] = [Send(b"after all", peer.address)]
    await start(Send(b"lost", NOWHERE), Send(b"good", peer.address), Wake(token(1), 1.0))
    assert node.log[1:] == [("send_failed", NOWHERE)]
    assert peer.heard() == [b"good", b"after all"]
    await trio.sleep(2)
    assert node.woken() == [(1.0, 1)], "what follows a failed send is obeyed all the same"


async def test_an_identity_is_stored_before_packets_that_carry_it(start, node, observer, peer):
    identity = Identity(node_id=bytes(16), generation=8, boot_id=bytes(8))
    await start(Send(b"old", peer.address), Persist(identity), Send(b"new", peer.address))
    assert observer.told == [b"old", ("identity", identity)]
    assert peer.heard() == [b"new"]


async def test_what_the_node_shows_is_told_in_order(start, observer):
    changed = Changed(bytes(16), Change.JOINED)
    conflict = Conflict(bytes(16), None, None)
    await start(changed, Isolation(isolated=True), Isolation(isolated=False), conflict, changed)
    assert observer.told == [
        ("changed", changed),
        ("isolation", True),
        ("isolation", False),
        ("conflict", conflict),
        ("changed", changed),
    ]


async def test_notes_are_logged_as_they_are(start):
    with capture_logs() as logs:
        await start(Note("packet.refused", {"source": "10.0.0.7:7931", "reason": "magic"}))
    assert logs == [
        {"event": "packet.refused", "source": "10.0.0.7:7931", "reason": "magic", "log_level": "warning"},
    ]


# Streams


@pytest.fixture
async def answering(nursery):
    """An agent's TCP port that answers each request with `answering.reply(payload)`; None never answers."""

    class Answering:
        reply = staticmethod(lambda payload: b"re:" + payload)

        async def treat(self, stream):
            head = await stream.receive_some(4)
            if len(head) < 4:
                return  # whoever asked is gone already
            reply = self.reply(await stream.receive_some(*struct.unpack("<I", head)))
            if reply is None:
                await trio.sleep_forever()
            await stream.send_all(struct.pack("<I", len(reply)) + reply)

    made = Answering()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made.address = listener.socket.getsockname()
    nursery.start_soon(trio.serve_listeners, made.treat, [listener])
    return made


async def test_an_ask_is_answered_with_the_reply_and_its_token(start, node, answering, eventually):
    await start(Ask(token(4, Purpose.SYNC), answering.address, b"sync", 5.0))
    await eventually(lambda: len(node.log) == 2)
    assert node.log[1] == ("answered", token(4, Purpose.SYNC), b"re:sync")


async def test_an_ask_that_is_refused_says_so(start, node, eventually):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    await start(Ask(token(4), address, b"sync", 5.0))
    await eventually(lambda: len(node.log) == 2)
    assert node.log[1] == ("answered", token(4), Refused())


async def test_asks_end_on_their_own_and_in_their_time(start, node, answering, autojump_clock):
    """A peer that is silent holds up neither timers nor the other asks."""
    answering.reply = lambda payload: None if payload == b"silent" else payload
    await start(
        Ask(token(1), answering.address, b"silent", 3.0),
        Ask(token(2), answering.address, b"quick", 3.0),
        Wake(token(9), 1.0),
    )
    await trio.sleep(2)
    assert node.inputs("answered", "wake") == [("answered", token(2), b"quick"), ("wake", token(9))]
    await trio.sleep(2)
    assert node.inputs("answered")[1:] == [("answered", token(1), TimedOut())]
    assert node.times[-1] == pytest.approx(3.0, abs=0.1)


async def test_what_an_answer_causes_is_obeyed(start, node, answering, peer, eventually):
    node.script["answered"] = [Send(b"thanks", peer.address)]
    await start(Ask(token(1), answering.address, b"sync", 5.0))
    await eventually(lambda: peer.heard() == [b"thanks"])


async def test_requests_of_others_are_served_by_the_node(start, make, node, peer):
    node.script["serve"] = lambda payload, _source: (b"re:" + payload, [Send(b"news", peer.address)])
    await start()
    async with await trio.open_tcp_stream(*make.address) as stream:
        await stream.send_all(struct.pack("<I", 4) + b"sync")
        assert await stream.receive_some() == struct.pack("<I", 7) + b"re:sync"
        assert node.log[1:] == [("serve", b"sync", stream.socket.getsockname())]
    assert peer.heard() == [b"news"]


async def test_what_the_streams_refuse_is_counted_and_the_node_is_told_from_where(start, make, node, eventually):
    node.script["serve"] = (None, [])
    driver = await start()
    async with await trio.open_tcp_stream(*make.address) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await eventually(lambda: driver.counters == {"streams: no frame": 1})
        assert node.inputs("serve") == [("serve", b"GET ", stream.socket.getsockname())]


# Seeds


class Names(trio.abc.HostnameResolver):
    def __init__(self, known):
        self.known = known

    async def getaddrinfo(self, host, port, *_how):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (self.known[name], port))]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_seeds_are_joined_at_the_start_and_looked_up_when_asked(start, node, eventually):
    trio.socket.set_custom_hostname_resolver(Names({"good": "10.0.0.7"}))
    node.script["join"] = [ResolveSeeds()]
    with capture_logs() as logs:
        await start(seeds=[("good", 7931), ("gone", 7931)])
        await eventually(lambda: len(node.log) == 3)
    assert node.log == [("start",), ("join",), ("resolved", [("10.0.0.7", 7931)])]
    assert [(entry["event"], entry["seed"]) for entry in logs] == [("seed.unresolved", "gone:7931")]


async def test_without_seeds_nobody_is_joined(start, node):
    await start()
    assert node.log == [("start",)]


async def test_seeds_of_a_later_join_are_kept(start, node, eventually):
    driver = await start(seeds=[("127.0.0.1", 1)])
    node.script["join"] = [ResolveSeeds()]
    driver.join([("127.0.0.1", 2), ("127.0.0.1", 1)])
    await eventually(lambda: node.inputs("resolved"))
    driver.join()
    await eventually(lambda: len(node.inputs("resolved")) == 2)
    for _, found in node.inputs("resolved"):
        assert sorted(found) == [("127.0.0.1", 1), ("127.0.0.1", 2)]


async def test_of_very_many_addresses_to_join_the_latest_are_kept_beside_the_seeds(start, node, eventually):
    driver = await start(seeds=[("127.0.0.1", 1)])
    for port in range(2, 1002):
        driver.join([("127.0.0.1", port), ("127.0.0.1", 2)])
    node.script["join"] = [ResolveSeeds()]
    driver.join()
    await eventually(lambda: node.inputs("resolved"))
    ((_, found),) = node.inputs("resolved")
    assert sorted(port for _, port in found) == [1, 2, *range(1002 - MOST_NAMED + 1, 1002)]


async def test_a_seed_that_does_not_resolve_is_logged_at_once_and_then_once_a_minute(start, node, autojump_clock):
    """It is looked up every few seconds, for ever."""
    names = Names({"good": "10.0.0.7"})
    trio.socket.set_custom_hostname_resolver(names)
    node.script["join"] = [ResolveSeeds()]
    with capture_logs() as logs:
        driver = await start(seeds=[("good", 7931), ("gone", 7931)])
        for _ in range(26):
            await trio.sleep(5)
            driver.join()
        assert len(node.inputs("resolved")) >= 26
        assert [entry["seed"] for entry in logs] == ["gone:7931"] * 3
        names.known["gone"] = "10.0.0.8"
        driver.join()
        await trio.sleep(5)
        del names.known["gone"]
        driver.join()
        await trio.sleep(5)
    assert len(logs) == 4, "a name that is lost again is told again"


async def test_seeds_that_give_nothing_are_told_too(start, node, eventually):
    trio.socket.set_custom_hostname_resolver(Names({}))
    await start(ResolveSeeds(), seeds=[("gone", 7931)])
    await eventually(lambda: node.inputs("resolved") == [("resolved", [])])


# Commands and the end


async def test_a_section_too_large_is_told_to_the_caller(start, node):
    driver = await start()

    def refuse(kind, payload):
        raise SectionTooLarge(kind, len(payload), 16384)

    node.script["publish"] = refuse
    with pytest.raises(SectionTooLarge):
        driver.publish(1, bytes(20_000))


async def test_commands_before_the_start_are_obeyed(make, node, nursery, autojump_clock):
    """The agent publishes its record first, so that its first packets carry it."""
    driver = make()
    node.script["publish"] = [Wake(token(1), 1.0)]
    driver.publish(1, b"record")
    await nursery.start(driver.run)
    await trio.sleep(2)
    assert node.log == [("publish", 1, b"record"), ("start",), ("wake", token(1))]


async def test_leaving_ends_when_the_node_says_so(start, node, autojump_clock):
    node.script["leave"] = [Wake(token(1, Purpose.LEAVE), 2.0)]
    node.script["wake"] = [Left()]
    driver = await start()
    await driver.leave()
    assert trio.current_time() == 2.0
    node.script["leave"] = []
    await driver.leave()
    assert trio.current_time() == 2.0, "one who has left need not wait again"


async def test_leaving_has_the_deadline_of_the_caller(start, autojump_clock):
    driver = await start()
    with trio.move_on_after(4) as scope:
        await driver.leave()
    assert scope.cancelled_caught


async def test_when_it_ends_the_port_is_free_and_nothing_is_asked_any_more(make, node, answering):
    node.script["start"] = [Ask(token(1), answering.address, b"silent", 60.0), Wake(token(2), 60.0)]
    answering.reply = lambda _payload: None
    driver = make()
    async with trio.open_nursery() as inner:
        await inner.start(driver.run)
        inner.cancel_scope.cancel()
    assert [entry[0] for entry in node.log] == ["start"]
    for sock in bind_pair(*make.address):
        getattr(sock, "sock", sock).close()
    driver.close()


async def test_a_fault_of_the_node_ends_the_driver(make, node):
    def fail(_woken):
        raise ZeroDivisionError

    node.script |= {"start": [Wake(token(1), 0.0)], "wake": fail}
    with pytest.RaisesGroup(ZeroDivisionError, allow_unwrapped=True, flatten_subgroups=True):
        await make().run()
