"""What is fuzzed, one class for each family of parsers: `seeds` to begin with, and `check` for any bytes.

`check` raises for a fault and for nothing else. Imports are inside: they are what atheris instruments.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

HERE = ("10.1.0.1", 7931)
THERE = ("10.2.0.1", 7931)
KEY = b"k" * 32


class Target(Protocol):
    def seeds(self) -> list[bytes]: ...
    def check(self, data: bytes) -> None: ...


def attempt(make: Callable[[], Any], refused: type[Exception]) -> tuple[Any, Any]:
    """What `make` gives, or None and the error of the one kind that it may raise."""
    try:
        return make(), None
    except refused as error:
        return None, error


def pieces(data: bytes) -> list[bytes]:
    """Several inputs in one: each begins with its length in two bytes."""
    found: list[bytes] = []
    while len(data) > 2:
        length = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return found


def joined(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def gossip_messages() -> list[bytes]:
    """One or more of each kind of message, with items of each kind, as payloads of frames."""
    from shoal.gossip import Rank, Vitals, items, wire
    from shoal.gossip.member import Claim, Section
    from shoal.gossip.messages import Flag, Head, Row, Speaker, Summary, Want

    me, other = Speaker(b"a" * 16, 1000, 3), b"b" * 16
    section = Section(1000, 2, items.digest_of(b"payload"), b"payload")
    rows = [
        items.pack_row(Row(Claim(other, 1000, 1, Rank.ALIVE, ("10.0.0.7", 7931)), (Head(1, 2, b"d" * 8),))),
        items.pack_row(Row(Claim(b"c" * 16, 1000, 1, Rank.SUSPECT, ("fd00::7", 7931), (b"x" * 8, b"y" * 8)))),
        items.pack_row(Row(Claim(b"e" * 16, 1000, 1, Rank.DEAD, None)), 3600),
    ]
    more = [items.pack_section(other, 1, section), items.pack_want(Want(other, 1000, 1, 2))]
    summary = Summary(2, b"d" * 8, 77, 5, 78)
    vitals = Vitals.unpack(bytes(30)).pack()
    ping = wire.opening(wire.PING, 5, me, Flag.VITALS, summary) + wire.aim(other, 1000, Rank.ALIVE, 0) + vitals
    ack = wire.opening(wire.ACK, 5, me, 0, summary)
    asked = wire.ping_request(9, me, (other, 1000, 500), ("10.0.0.7", 7931))
    whole = [ping + b"".join(rows), ack + rows[0], asked]
    plain = [wire.message(kind, me, [*rows, *more], request=5) for kind in range(1, 16)]
    return [*whole, *plain, wire.message(wire.GOSSIP, me, [rows[1]])]


class Wire:
    """Messages of gossip: any payload is a message or one WireError."""

    def __init__(self) -> None:
        from shoal.gossip import WireError, wire
        from shoal.gossip.frames import PlainFrames

        self.refused, self.wire, self.frames = WireError, wire, PlainFrames("shoal")

    def seeds(self) -> list[bytes]:
        return gossip_messages()

    def check(self, data: bytes) -> None:
        with contextlib.suppress(self.refused):
            self.frames.unwrap(data)
        assert self.frames.unwrap(self.frames.wrap(data)) == data
        with contextlib.suppress(self.refused):
            first = self.wire.decode(data)
            assert self.wire.decode(bytes(data)) == first


class OneNode:
    """A node on both of its ports: any packets leave it alive, itself, and within its bounds."""

    def __init__(self) -> None:
        from shoal.gossip import Identity, Node, Send, Settings
        from shoal.gossip.frames import DATAGRAM_BYTES, PlainFrames

        self.frames, self.send, self.most = PlainFrames("shoal"), Send, DATAGRAM_BYTES
        identity = Identity(node_id=b"n" * 16, generation=1000, boot_id=b"b" * 8)
        self.make: Callable[[], Any] = lambda: Node(identity, Settings.lan(), Random(1), advertise=HERE)

    def seeds(self) -> list[bytes]:
        messages = gossip_messages()
        return [joined(messages[start : start + 6]) for start in range(0, len(messages), 6)]

    def check(self, data: bytes) -> None:
        node, now = self.make(), 0.0
        node.start(now)
        for number, payload in enumerate(pieces(data)):
            now += 0.3
            frame = self.frames.wrap(payload)
            effects = node.receive(frame, (THERE[0], 7931 + number % 3), now)
            reply, more = node.serve(frame, THERE, now)
            for effect in (*effects, *more):
                assert type(effect) is not self.send or len(effect.data) <= self.most
            assert reply is None or self.frames.unwrap(reply)
        me = node.me
        assert me.node_id == node.identity.node_id
        assert me.state.value == "alive"
        assert len(list(node.members())) <= 1 + len(data)


class Sealed:
    """Sealed frames and the text of keys: what was not sealed by a key never opens."""

    def __init__(self) -> None:
        from shoal.gossip import KeyRefused, KeyRing, Seal, WireError, parse_key

        self.refused, self.key_refused, self.parse_key = WireError, KeyRefused, parse_key
        self.ring = KeyRing.of([KEY, b"o" * 32])
        self.seal = Seal(self.ring, "shoal", Random(1))

    def seeds(self) -> list[bytes]:
        from shoal.gossip import Seal, key_text

        seal = Seal(self.ring, "shoal", Random(2))
        sealed = [seal.wrap(payload) for payload in gossip_messages()[:6]]
        return [*sealed, key_text(KEY).encode(), key_text(KEY).encode() + b"\n"]

    def check(self, data: bytes) -> None:
        opened = None
        with contextlib.suppress(self.refused):
            opened = self.seal.unwrap(data, THERE)
        # A fuzzer without the key cannot make what opens, but the seeds do, once.
        assert opened is None or len(data) == len(opened) + self.seal.overhead
        frame = self.seal.wrap(data)
        flipped = bytearray(frame)
        flipped[len(data) % len(frame)] ^= 1 << len(data) % 8
        for damaged in (bytes(flipped), frame[:-1], frame + b"\0"):
            with contextlib.suppress(self.refused):
                self.seal.unwrap(damaged)
                raise AssertionError("a damaged frame opened")
        assert self.seal.unwrap(frame) == data
        with contextlib.suppress(self.key_refused):
            assert len(self.parse_key(data.decode("utf-8", "surrogateescape"))) == 32


class Frames:
    """Frames of the local socket, and the arguments of its calls."""

    def __init__(self) -> None:
        import trio
        from shoal.agent.calls import api_for
        from shoal.agent.errors import ShoalError
        from shoal.agent.frames import REQUEST_BYTES, FrameReader
        from shoal.agent.in_flight import CONTROLS, request_id, scope, take_credit
        from shoal.agent.peer import Level

        trio.current_time = lambda: 0.0  # deadlines count from it, and no loop runs here
        self.error, self.admin, self.controls = ShoalError, Level.ADMIN, CONTROLS
        self.reader: Callable[[], Any] = lambda: FrameReader(REQUEST_BYTES)
        self.around = (request_id, scope)
        self.take_credit, self.api = take_credit, api_for(None)  # pyright: ignore[reportArgumentType]

    def seeds(self) -> list[bytes]:
        from shoal.agent.calls import CALLS
        from shoal.agent.frames import REQUEST_BYTES, encode

        given = {"requirement": "gpu_nvidia, ram_mb>=8GiB", "labels": {"zone": "a"}, "node": "n1", "limit": 3}
        found: list[bytes] = []
        for number, call in enumerate(CALLS):
            names = {argument.name for argument in call.arguments}
            arguments = {name: value for name, value in given.items() if name in names}
            found.append(encode({"id": number, "call": call.name, "args": arguments, "deadline_ms": 50}, REQUEST_BYTES))
        task = {"description": "write code", "context_tokens": 4000, "tools": ["git"], "vram_mb": 8000}
        found.append(encode({"id": "x", "call": "place", "args": {"task": task, "policy": "banded"}}, REQUEST_BYTES))
        found.append(encode({"id": 1, "call": "credit", "args": {"stream": 1, "add": 5}}, REQUEST_BYTES))
        return found

    def check(self, data: bytes) -> None:
        whole, ended = self._read([data])
        middle = len(data) // 2
        assert repr(self._read([data[:middle], data[middle:]])) == repr((whole, ended))
        for message in whole:
            for read in self.around:
                with contextlib.suppress(self.error):
                    read(message)
            with contextlib.suppress(self.error):
                self._ask(message)

    def _read(self, parts: list[bytes]) -> tuple[list[dict[str, Any]], str | None]:
        reader, messages = self.reader(), []
        for part in parts:
            reader.feed(part)
            try:
                while (message := reader.next_message()) is not None:
                    messages.append(message)
            except self.error as error:
                return messages, str(error)
        return messages, None

    def _ask(self, message: dict[str, Any]) -> None:
        name, arguments = message.get("call"), message.get("args")
        if isinstance(name, str) and name in self.controls:
            self.controls[name]({}, arguments)
            return
        call = self.api.call(name)
        with contextlib.suppress(self.error):
            arguments, _ = self.take_credit(arguments)
        self.api.request(call, arguments, self.admin)


class Records:
    """Records and the other sections: any bytes are a value or one typed error, and a record comes back."""

    def __init__(self) -> None:
        from shoal.agent.payloads import EnginesPayload, HistoryPayload, PayloadError, RecordPayload, SchedulePayload
        from shoal.capabilities import NodeCapabilities, RecordError

        self.record, self.refused, self.payload_refused = NodeCapabilities, RecordError, PayloadError
        self.kinds = (RecordPayload, SchedulePayload, EnginesPayload, HistoryPayload)

    def seeds(self) -> list[bytes]:
        from shoal.agent.payloads import EnginesPayload, RecordPayload, SchedulePayload
        from shoal.capabilities import DeviceGroup

        labels = {"arch": "amd64", "ram_mb": 16000, "gpu_nvidia": True, "site/rack": 7, "cuda": "12.4", "zone": "a"}
        gpus = [DeviceGroup(kind="gpu", vendor="nvidia", model="L4", vram_mb=24564, compute=89, count=2)]
        record = self.record(labels, gpus)
        payloads = [RecordPayload("n1", "1.0", record), SchedulePayload(), EnginesPayload(None)]
        encoded: list[bytes] = []
        for payload in payloads:
            with contextlib.suppress(Exception):
                encoded.append(payload.encode())
        return [record.to_wire(), self.record({}).to_wire(), *encoded]

    def check(self, data: bytes) -> None:
        with contextlib.suppress(self.refused):
            record = self.record.from_wire(data)
            again = self.record.from_wire(record.to_wire())
            assert again == record
            assert again.digest == record.digest
        for kind in self.kinds:
            with contextlib.suppress(self.payload_refused):
                assert type(kind.decode(data)) is kind


class Requirements:
    """The text of requirements: a requirement that comes back, or a syntax error inside the text."""

    def __init__(self) -> None:
        from shoal.capabilities import NodeCapabilities, RequirementSyntaxError, parse_requirement, review

        self.parse, self.review, self.refused = parse_requirement, review, RequirementSyntaxError
        self.record = NodeCapabilities({"arch": "amd64", "ram_mb": 16000, "gpu_nvidia": True, "cuda": "12.4"})

    def seeds(self) -> list[bytes]:
        texts = (
            "gpu_nvidia, gpu_vram_mb>=20GiB",
            "region=us, !spot, lacks(battery)",
            "arch in (amd64, arm64), cuda>=v12.4 | has(rocm)",
            "2*gpu[vendor=nvidia, vram_mb>=24GB, same=model]",
            'model="a \\"quoted\\" name", ram_mb<=1.5TiB',
        )
        return [text.encode() for text in texts]

    def check(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        requirement, error = attempt(lambda: self.parse(text), self.refused)
        if error is not None:
            assert 1 <= error.column <= len(text) + 1
            assert str(error)
            return
        assert self.parse(str(requirement)) == requirement
        failing = requirement.check(self.record)
        assert (not failing) == self.record.satisfies(requirement)
        self.review(requirement, [self.record])


class Toml:
    """Configuration files: a whole configuration or one error that names the file."""

    def __init__(self) -> None:
        from shoal.agent.config import load
        from shoal.agent.errors import BadConfiguration

        self.load, self.refused = load, BadConfiguration
        self._directory = tempfile.TemporaryDirectory(prefix="shoal-fuzz-")  # goes with this object
        self.file = Path(self._directory.name) / "shoal.toml"

    def seeds(self) -> list[bytes]:
        texts = (
            '[node]\nname = "n1"\nstate_dir = "/var/lib/shoal"\nleave_on_stop = false\n',
            '[gossip]\nbind = "[::]:7931"\nadvertise = "10.0.0.1:7931"\nseeds = ["a.example", "[fd00::1]:7"]\n',
            '[gossip]\nprofile = "wan"\ncluster = "reef"\nallow_plaintext = true\n[log]\nlevel = "debug"\n',
            '[labels]\nzone = "a"\nrack = 7\nspot = true\n"site/row" = "b"\n[detect]\nenabled = false\n',
            '[api]\nsocket = "/run/x"\ngroup = ""\n[detect]\ndisk_paths = ["/data"]\nlabels_dir = ""\n',
        )
        return [text.encode() for text in texts]

    def check(self, data: bytes) -> None:
        self.file.write_bytes(data)
        config, error = attempt(lambda: self.load(str(self.file), environ={}), self.refused)
        if error is not None:
            assert str(self.file) in error.message
        else:
            assert list(config.rows())


TARGETS: dict[str, Callable[[], Target]] = {
    "wire": Wire,
    "node": OneNode,
    "seal": Sealed,
    "frames": Frames,
    "records": Records,
    "requirements": Requirements,
    "toml": Toml,
}
