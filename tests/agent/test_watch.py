"""The watch stream over a real socket: snapshot, deltas, credit, resync."""

import trio
from shoal.agent import watchers
from shoal.placement import NodeState


async def test_a_snapshot_and_then_every_change(connect, backend, make_node):
    async with connect() as wire:
        await wire.send({"id": 7, "call": "watch", "args": {"labels": False}})
        snapshot = await wire.receive()
        assert (snapshot["id"], snapshot["more"], snapshot["ok"]["event"]) == (7, True, "snapshot")
        assert [row["name"] for row in snapshot["ok"]["nodes"]] == ["n1", "n2", "n3"]
        backend.change(make_node(2, state=NodeState.DEAD), "failed")
        change = (await wire.receive())["ok"]
        assert (change["event"], change["node"]["state"], change["at"]) == ("failed", "dead", 1.5)
        assert "labels" not in change["node"]


async def test_a_change_during_the_snapshot_is_not_lost(connect, backend, make_node):
    backend.view = backend.view.of([make_node(number) for number in range(600)], here=backend.node_id)
    async with connect() as wire:
        await wire.send({"id": 7, "call": "watch", "args": {"credit": 1}})
        assert (await wire.receive())["ok"]["partial"] is True
        backend.change(make_node(1, state=NodeState.DEAD), "failed")
        await wire.send({"id": 8, "call": "credit", "args": {"stream": 7, "add": 10}})
        events = [(await wire.receive()) for _ in range(4)]
        assert [event["ok"].get("event") for event in events if event["id"] == 7] == ["snapshot", "snapshot", "failed"]


async def test_vitals_come_only_when_asked_for(connect, backend, make_node):
    async with connect() as wire:
        await wire.send({"id": 1, "call": "watch"}, {"id": 2, "call": "watch", "args": {"vitals": True}})
        await wire.receive()
        await wire.receive()
        backend.change(make_node(2, load=400), "vitals")
        backend.change(make_node(2), "record")
        got = [await wire.receive() for _ in range(3)]
        assert [event["ok"]["event"] for event in got if event["id"] == 1] == ["record"]
        assert [event["ok"]["event"] for event in got if event["id"] == 2] == ["vitals", "record"]


async def test_without_credit_nothing_is_sent_and_a_slow_reader_gets_one_resync(connect, backend, make_node, serving):
    async with connect() as wire:
        await wire.send({"id": 7, "call": "watch", "args": {"credit": 2}})
        await wire.receive()
        await trio.testing.wait_all_tasks_blocked()
        for number in range(watchers.QUEUE + 100):
            backend.change(make_node(2, load=number))
            if number < 2:
                await trio.testing.wait_all_tasks_blocked()
        assert (await wire.receive())["ok"]["event"] == "record"
        await trio.testing.wait_all_tasks_blocked()
        await wire.send({"id": 8, "call": "credit", "args": {"stream": 7, "add": 100}})
        replies = [await wire.receive() for _ in range(3)]
        events = [reply["ok"] for reply in replies if reply["id"] == 7]
        # The change that waited for credit when the loss began is sent first; it is older than the snapshot.
        assert [event["event"] for event in events] == ["record", "resync"]
        assert events[-1]["nodes"][1]["vitals"]["load1_centi"] == watchers.QUEUE + 99
        backend.change(make_node(3), "left")
        assert (await wire.receive())["ok"]["event"] == "left"
        assert serving.counters["resync"] == 1


async def test_a_reader_that_takes_nothing_gets_a_resync_when_it_reads_again(connect, backend, make_node):
    backend.view = backend.view.of([make_node(number) for number in range(250)], here=backend.node_id)
    async with connect() as wire:
        await wire.send({"id": 7, "call": "watch"})
        await wire.receive()
        for round_ in range(40):
            for number in range(250):
                backend.change(make_node(number, load=round_))
            await trio.testing.wait_all_tasks_blocked()
        events = []
        while not events or events[-1] != "resync":
            events.append((await wire.receive())["ok"]["event"])
        assert events.count("record") < 10_000


async def test_wait_ends_when_enough_nodes_are_alive(connect, backend, make_node):
    async with connect() as wire:
        assert (await wire.ask("wait", {"members": 3}))["ok"] == {"alive": 3, "known": 3}
        await wire.send({"id": 9, "call": "wait", "args": {"members": 2, "requirement": "gpu_vram_mb>=20GB"}})
        await trio.testing.wait_all_tasks_blocked()
        backend.change(make_node(4, vram=8000), "joined")
        backend.change(make_node(5, vram=24564), "joined")
        assert await wire.receive() == {"id": 9, "ok": {"alive": 2, "known": 5}}
