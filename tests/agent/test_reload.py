"""`reload` over a real socket, and what it and the warnings look like on the command line."""

import json

import attrs
import pytest
import trio
from shoal.agent import cli
from shoal.agent.surveyor import Reloaded
from shoal.capabilities import DeviceGroup

CHANGES = Reloaded(
    added={"kvm": True},
    removed={"spot": 1},
    changed={"rack": (7, "7")},
    devices_changed=True,
    needs_restart=("gossip.bind",),
)


@pytest.fixture
def shoal(serving, socket_path, capsys):
    async def shoal(*arguments):
        with trio.fail_after(20):
            code = await trio.to_thread.run_sync(cli.main, ["--socket", socket_path, *arguments])
        return code, *capsys.readouterr()

    return shoal


async def test_a_reload_answers_what_is_different(connect, backend):
    backend.gate.set()
    backend.reloaded, backend.warnings = CHANGES, ["cpu: /sys: EACCES"]
    async with connect() as wire:
        assert (await wire.ask("reload"))["ok"] == {
            "added": {"kvm": True},
            "removed": {"spot": 1},
            "changed": {"rack": [7, "7"]},
            "devices_changed": True,
            "needs_restart": ["gossip.bind"],
            "warnings": ["cpu: /sys: EACCES"],
        }


async def test_a_slow_reload_does_not_stop_other_calls(connect, backend):
    async with connect() as wire:
        await wire.send({"id": 1, "call": "reload"}, {"id": 2, "call": "version"})
        assert (await wire.receive())["id"] == 2
        backend.gate.set()
        assert (await wire.receive())["id"] == 1


async def test_the_command_shows_each_change_on_a_line(shoal, backend):
    backend.gate.set()
    backend.reloaded, backend.warnings = CHANGES, ["cpu: /sys: EACCES"]
    code, out, err = await shoal("reload")
    assert code == 0
    assert out == "+ kvm = true\n- spot = 1\n~ rack = 7 (was 7, Int, now Str)\n~ devices\n"
    assert err.splitlines() == [
        "warning: cpu: /sys: EACCES",
        "warning: changed too, in force after a restart: gossip.bind",
    ]
    assert json.loads((await shoal("reload", "-o", "json"))[1])["changed"] == {"rack": [7, "7"]}


async def test_the_command_says_when_nothing_changed(shoal, backend):
    backend.gate.set()
    assert await shoal("reload") == (0, "nothing changed\n", "")


async def test_only_this_node_shows_its_warnings(shoal, backend):
    backend.warnings = ["cpu: /sys: EACCES"]
    out = (await shoal("show", "n1"))[1]
    assert out.endswith("\nwarnings\n  cpu: /sys: EACCES\n")
    out = (await shoal("show", "n2"))[1]
    assert "EACCES" not in out
    assert "are shown there" in out
    assert json.loads((await shoal("show", "n1", "-o", "json"))[1])["warnings"] == ["cpu: /sys: EACCES"]
    assert "warnings" not in json.loads((await shoal("show", "n2", "-o", "json"))[1])


async def test_a_node_without_warnings_shows_none(shoal):
    assert "warnings" not in (await shoal("show", "n1"))[1]


async def test_devices_are_shown_with_their_known_fields(shoal, backend):
    record = backend.view.get(f"{3:032x}")
    group = DeviceGroup(kind="gpu", vendor="nvidia", model="a100", vram_mb=40960, count=2)
    backend.view = backend.view.replace(
        attrs.evolve(record, capabilities=attrs.evolve(record.capabilities, devices=(group,)))
    )
    node = json.loads((await shoal("show", "n3", "-o", "json"))[1])
    assert node["devices"] == [{"kind": "gpu", "vendor": "nvidia", "model": "a100", "vram_mb": 40960, "count": 2}]
