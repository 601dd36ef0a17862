import contextlib

import pytest
import trio
from shoal.agent.calls import api_for
from shoal.agent.doctor import Facts
from shoal.agent.errors import Refused
from shoal.agent.frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode
from shoal.agent.histories import Histories
from shoal.agent.listener import open_listener
from shoal.agent.schedule import Schedule
from shoal.agent.server import Server
from shoal.agent.surveyor import Reloaded
from shoal.agent.watchers import NodeEvent, Watchers
from shoal.capabilities import NodeCapabilities
from shoal.placement import NodeRecord, NodeState, NodeVitals, View


class FakeBackend:
    """A cluster that does what a test says."""

    def __init__(self):
        self.node_id = f"{1:032x}"
        self.watchers = Watchers()
        self.operator_labels = {}
        self.view = View.of([node(1, gpu=False), node(2), node(3, vram=24564)], here=self.node_id)
        self.time = 1000.0
        self.seeds = iter(range(1, 1000))
        self.told = []
        self.schedule = Schedule(None, self.told.append)
        self.others = {}
        self.histories = Histories(None, self.told.append, lambda: self.others)
        self.warnings = ()
        self.keys = None
        self.reloaded = Reloaded(added={}, removed={}, changed={}, devices_changed=False)
        self.log = []
        self.gate = trio.Event()

    def now(self):
        return self.time

    def unix(self):
        return 1_700_000_000.0 + self.time

    def next_seed(self):
        return next(self.seeds)

    def status(self):
        return {"name": "n1", "addr": "127.0.0.1:7931", "cluster": "shoal"}

    def set_labels(self, labels):
        if "forbidden" in labels:
            raise Refused("no room for it")
        self.operator_labels = {**self.operator_labels, **labels}

    def unset_labels(self, keys):
        gone = [key for key in keys if key in self.operator_labels]
        self.operator_labels = {key: value for key, value in self.operator_labels.items() if key not in gone}
        return gone

    async def examine(self):
        return Facts(unix=2e9, name="n1", version="1.0", generation=1, bound="127.0.0.1:7931", loopback=True)

    async def reload(self):
        self.log.append("reload")
        await self.gate.wait()
        return self.reloaded

    def forget(self, node_id):
        self.view = self.view.remove(node_id)

    async def join(self, addresses):
        self.log.append(("join", addresses))
        await self.gate.wait()
        return len(addresses) - 1

    async def leave(self):
        self.log.append("leave")

    def stop(self):
        self.log.append("stop")

    def change(self, record, kind="record", other=None):
        self.view = self.view.replace(record)
        self.watchers.publish(NodeEvent(kind=kind, node_id=record.node_id, record=record, other=other, at=1.5))


def node(number, *, gpu=True, vram=8000, state=NodeState.ALIVE, load=10, **fields):
    labels = {"arch": "amd64", "os": "linux", "cpu_count": 4, "ram_mb": 16000, "gpu_nvidia": gpu}
    if gpu:
        labels["gpu_vram_mb"] = vram
    return NodeRecord(
        node_id=f"{number:032x}",
        name=f"n{number}",
        addr=f"127.0.0.1:{7000 + number}",
        state=state,
        capabilities=NodeCapabilities(labels),
        vitals=NodeVitals(load1_centi=load, ram_available_mb=8000),
        vitals_at=999.0,
        **fields,
    )


class Wire:
    """A client that speaks frames and knows nothing else."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = FrameReader(REPLY_BYTES)

    async def send(self, *messages):
        await self.stream.send_all(b"".join(encode(message, REQUEST_BYTES) for message in messages))

    async def receive(self):
        with trio.fail_after(5):
            while (message := self.reader.next_message()) is None:
                data = await self.stream.receive_some(1 << 16)
                if not data:
                    return None
                self.reader.feed(data)
            return message

    async def ask(self, call, args=None, **fields):
        message = {"id": 1, "call": call, **fields}
        await self.send(message if args is None else {**message, "args": args})
        return await self.receive()


@pytest.fixture
def eventually():
    """Wait until something holds, looking often; fail when it does not within some seconds."""

    async def eventually(holds, within=5.0, pause=0.002):
        for _ in range(int(within / pause)):
            if holds():
                return
            await trio.sleep(pause)
        assert holds()

    return eventually


@pytest.fixture
def make_node():
    return node


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def socket_path(tmp_path):
    return str(tmp_path / "api.sock")


@pytest.fixture
async def serving(nursery, backend, socket_path):
    """The API over the fake backend, on a real socket."""
    api = api_for(backend)
    await nursery.start(Server(api, open_listener(socket_path, "no-such-group-here")).run)
    return api


@pytest.fixture
def connect(serving, socket_path):
    """Connect and read the hello."""

    @contextlib.asynccontextmanager
    async def connect(*, greeted=True):
        async with await trio.open_unix_socket(socket_path) as stream:
            wire = Wire(stream)
            if greeted:
                await wire.receive()
            yield wire

    return connect
