"""What the calls answer, over a real socket."""

import attrs
import pytest
import trio
from shoal.placement import NodeRecord, NodeState, Schedulable


@pytest.fixture
def answer(connect):
    async def answer(call, **args):
        async with connect() as wire:
            reply = await wire.ask(call, args)
            return reply.get("ok", reply.get("err"))

    return answer


async def test_status_counts_members_by_state(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(2, state=NodeState.SUSPECT)).with_isolated(isolated=True)
    status = await answer("status")
    assert status["members"] == {"alive": 2, "suspect": 1, "dead": 0, "left": 0}
    assert (status["name"], status["isolated"], status["calls"]) == ("n1", True, {"status": 1})


async def test_members_are_in_order_and_can_be_chosen_by_state(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(2, state=NodeState.DEAD))
    rows = (await answer("members"))["nodes"]
    assert [row["name"] for row in rows] == ["n1", "n2", "n3"]
    assert rows[0]["here"] is True
    assert rows[2]["labels"]["gpu_vram_mb"] == 24564
    assert rows[2]["vitals"] == {"ram_available_mb": 8000, "load1_centi": 10}
    assert rows[2]["vitals_age_ms"] == 1000
    assert [row["name"] for row in (await answer("members", states=["dead"]))["nodes"]] == ["n2"]


async def test_find_suitable_nodes_over_the_socket_answers_the_best_first(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(2, load=350))
    found = await answer("find", requirement="gpu_nvidia, gpu_vram_mb>=8000")
    assert [row["name"] for row in found["nodes"]] == ["n3", "n2"]
    assert (found["total"], found["known"], found["isolated"]) == (2, 3, False)
    found = await answer("find", requirement="gpu_nvidia", limit=1)
    assert (len(found["nodes"]), found["total"]) == (1, 2)


async def test_find_without_a_match_explains_it_on_request(answer, backend, make_node):
    backend.view = (
        backend.view.replace(make_node(4, state=NodeState.DEAD))
        .replace(make_node(5, schedulable=Schedulable.CORDONED))
        .replace(NodeRecord(node_id="f" * 32, name="new"))
    )
    asked = "gpu_nvidia, gpu_vram_mb>=80000, zoone=a"
    assert "explanation" not in await answer("find", requirement=asked)
    found = await answer("find", requirement=asked, explain=True)
    told = found["explanation"]
    assert (found["nodes"], found["total"], found["known"]) == ([], 0, 6)
    assert (told["verdict"], told["excluded_count"]) == ("unknown", 6)
    assert [(total["text"], total["count"]) for total in told["totals"]] == [
        ("gpu_vram_mb>=80000", 5),
        ("zoone=a", 5),
        ("gpu_nvidia", 2),
        ("the cordon", 1),
    ]
    assert any("zoone" in hint for hint in told["hints"])


async def test_find_reviews_a_requirement_on_request(answer):
    assert "warnings" not in await answer("find", requirement="has(gpu_nvidia)")
    warnings = (await answer("find", requirement="has(gpu_nvidia)", review=True))["warnings"]
    assert "gpu_nvidia" in warnings[0]


async def test_a_syntax_error_names_its_column(answer):
    error = await answer("find", requirement="gpu_nvidia, gpu_vram_mb>>8000")
    assert error["kind"] == "bad-requirement"
    assert error["column"] in (24, 25, 26)


async def test_a_contradiction_is_refused(answer):
    error = await answer("find", requirement="ram_mb>=2000, ram_mb<=1000")
    assert error["kind"] == "bad-requirement"
    assert "nothing can satisfy" in error["msg"]


async def test_show_takes_names_ids_and_beginnings_of_ids(answer, backend, make_node):
    for wanted in ("n2", f"{2:032x}"):
        node = (await answer("show", node=wanted))["node"]
        assert (node["name"], node["schedulable"], node["devices"]) == ("n2", "yes", [])
    assert (await answer("show", node="0000"))["kind"] == "usage"
    backend.view = backend.view.remove(f"{2:032x}").remove(f"{3:032x}")
    assert (await answer("show", node="0000"))["node"]["name"] == "n1"


async def test_show_prefers_the_living_of_one_name(answer, backend, make_node):
    twin = attrs.evolve(make_node(9, state=NodeState.DEAD), name="n2")
    backend.view = backend.view.of([make_node(2), twin])
    assert (await answer("show", node="n2"))["node"]["state"] == "alive"


async def test_labels_are_set_all_or_none_listed_and_unset(answer, backend):
    assert (await answer("labels_set", labels={"rack": 7, "ssd": True}))["labels"] == {"rack": 7, "ssd": True}
    assert (await answer("labels_set", labels={"good": 1, "bad key": 1}))["kind"] == "bad-argument"
    assert (await answer("labels_list"))["labels"] == {"rack": 7, "ssd": True}
    assert (await answer("labels_unset", keys=["ssd", "none"]))["unset"] == ["ssd"]
    assert backend.operator_labels == {"rack": 7}


async def test_only_gone_nodes_can_be_forgotten(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(3, state=NodeState.LEFT))
    assert (await answer("forget", node="n3"))["name"] == "n3"
    assert len(backend.view) == 2


async def test_a_join_that_nobody_answers_is_an_error(answer, backend):
    backend.gate.set()
    error = await answer("join", addresses=["10.0.0.1"])
    assert (error["kind"], error["msg"]) == ("try-again", "10.0.0.1:7931 did not answer")


async def test_a_join_through_a_name_that_is_none_says_so(answer, backend, monkeypatch):
    async def unknown(*_arguments, **_options):
        raise OSError("Name or service not known")

    monkeypatch.setattr("trio.socket.getaddrinfo", unknown)
    backend.gate.set()
    error = await answer("join", addresses=["alpha.example"])
    assert error["msg"] == (
        "alpha.example:7931 did not answer: alpha.example:7931 does not resolve: Name or service not known"
    )
    assert error["hint"] == "correct the name, or the name service"


async def test_a_name_service_that_hangs_does_not_hold_the_answer_up(answer, backend, monkeypatch, autojump_clock):
    async def hangs(*_arguments, **_options):
        await trio.sleep_forever()

    monkeypatch.setattr("trio.socket.getaddrinfo", hangs)
    backend.gate.set()
    begun = trio.current_time()
    assert (await answer("join", addresses=["alpha.example"]))["msg"] == "alpha.example:7931 did not answer"
    assert trio.current_time() - begun < 2
