"""The calls about keys and the doctor, over a real socket."""

from random import Random

import pytest
from shoal.agent.doctor import Facts
from shoal.agent.keys import Keys
from shoal.agent.peer import Level
from shoal.gossip import KeyRing, Member, State, key_id, key_text

OLD, NEW = b"\x01" * 32, b"\x02" * 32


@pytest.fixture
def answer(connect):
    async def answer(call, **args):
        async with connect() as wire:
            reply = await wire.ask(call, args)
            return reply.get("ok", reply.get("err"))

    return answer


@pytest.fixture
def sealed(backend):
    here = bytes.fromhex(backend.node_id)
    facts = {"generation": 1, "incarnation": 0, "since": 0.0, "vitals": None, "vitals_at": None, "udp_broken": False}
    states = {1: State.ALIVE, 2: State.ALIVE, 3: State.DEAD}
    members = [
        Member(node_id=number.to_bytes(16, "big"), address=("10.0.0.1", number), state=state, sections={}, **facts)
        for number, state in states.items()
    ]
    backend.keys = Keys(
        KeyRing.of([OLD]), "shoal", Random(1), state=None,
        here=lambda: here, members=lambda: members, publish=lambda _payload: None,
    )  # fmt: skip
    return backend.keys


async def test_keys_are_listed_by_id_with_the_names_of_those_that_lack_them(answer, sealed):
    listed = await answer("keys_list")
    key = {"id": key_id(OLD), "in_use": True, "have": 1, "using": 1, "lacking": ["n2"], "dead_lacking": ["n3"]}
    assert listed == {
        "in_use": key_id(OLD), "target": None, "members": 2, "dead": ["n3"], "stored": False, "keys": [key],
    }  # fmt: skip


async def test_a_key_is_installed_used_and_removed(answer, sealed):
    assert await answer("keys_install", key=key_text(NEW)) == {"id": key_id(NEW), "stored": False}
    assert (await answer("keys_use", id=key_id(NEW)))["kind"] == "refused"
    assert await answer("keys_use", id=key_id(NEW), force=True) == {"id": key_id(NEW)}
    assert (await answer("keys_remove", id=key_id(OLD)))["kind"] == "refused"
    assert await answer("keys_remove", id=key_id(OLD), force=True) == {"id": key_id(OLD)}
    assert (await answer("keys_remove", id=key_id(NEW), force=True))["kind"] == "refused", "it seals"
    sealed.drop()
    assert sealed.ring.keys == (NEW,)


async def test_a_rotation_begins_and_is_resumed(answer, sealed):
    assert (await answer("keys_rotate"))["kind"] == "refused"
    assert (await answer("keys_rotate", key=key_text(NEW)))["target"] == key_id(NEW)
    assert (await answer("keys_rotate"))["target"] == key_id(NEW)
    assert (await answer("keys_list"))["target"] == key_id(NEW)


async def test_a_rotation_to_the_only_key_says_where_it_leads_and_is_over(answer, sealed):
    assert (await answer("keys_rotate", key=key_text(OLD)))["target"] == key_id(OLD)
    assert (await answer("keys_list"))["target"] is None
    assert (await answer("keys_rotate"))["kind"] == "refused"


@pytest.mark.parametrize("key", ["opensesame", "opensesame" * 100, 7, ["opensesame"]])
async def test_no_answer_repeats_what_was_given_for_a_key(answer, sealed, key):
    for call in ("keys_install", "keys_rotate"):
        error = await answer(call, key=key)
        assert error["kind"] in {"refused", "bad-argument"}
        assert "sesame" not in str(error)


async def test_without_keys_every_call_says_what_to_do(answer):
    for call, args in (("keys_list", {}), ("keys_install", {"key": "x"}), ("keys_use", {"id": "x"})):
        error = await answer(call, **args)
        assert (error["kind"], error["msg"]) == ("refused", "this agent gossips without a key")


async def test_keys_are_for_admins(serving):
    levels = {name: serving.call(name).level for name in serving.names if name.startswith("keys_")}
    assert set(levels.values()) == {Level.ADMIN}
    assert len(levels) == 5


async def test_the_doctor_answers_findings(answer, backend):
    facts = Facts(
        unix=2e9,
        name="n1",
        version="1.0",
        generation=1,
        bound="0.0.0.0:7931",
        loopback=False,
        state_dir="/s",
        seeds=("a:1",),
    )

    async def examine():
        return facts

    backend.examine = examine
    told = await answer("doctor")
    assert told["well"] is False
    wrong = [finding for finding in told["findings"] if finding["level"] != "ok"]
    assert [(finding["check"], finding["level"]) for finding in wrong] == [("encryption", "warning")]
