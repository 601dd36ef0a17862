"""Agents that meet, leave, die and come back, as real processes on loopback."""

import json
import signal
import time

import pytest

STOP_SECONDS = 5.0
# What a restart brings beside its one event: the new address, the record again, and perhaps a probe that missed.
BESIDE = ("address", "record", "schedule", "engines", "history", "suspected", "refuted")


def test_three_agents_converge_and_answer(agents, shoal):
    one = agents("one", labels={"region": "us", "gpu_nvidia": True, "gpu_vram_mb": 24564}).start().ready()
    seeds = {"seeds": [one.address]}
    agents("two", gossip=seeds, labels={"region": "us"}).start()
    three = agents("three", gossip=seeds, labels={"region": "eu", "gpu_nvidia": True, "gpu_vram_mb": 8000}).start()
    done = shoal("wait", "--members", "3", "--matching", "region", agent=three)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 alive\n", "")
    done = shoal("find", "gpu_nvidia, gpu_vram_mb>=20GiB", "-o", "name", agent=three)
    assert (done.returncode, done.stdout) == (0, "one\n")
    done = shoal("find", "region=us", "-o", "json", agent=three)
    assert {node["name"] for node in json.loads(done.stdout)["nodes"]} == {"one", "two"}
    done = shoal("find", "gpu_vram_mb>=100GiB", agent=three)
    assert (done.returncode, done.stdout) == (3, "")
    assert "3 nodes known" in done.stderr


def test_waiting_in_vain_says_so(agents, shoal):
    one = agents("one").start().ready()
    done = shoal("wait", "--members", "3", "--timeout", "0.3s", agent=one)
    assert done.returncode == 75
    assert "3 nodes" in done.stderr


def test_a_stopped_agent_has_left_and_never_failed(cluster, watch, eventually):
    one, *leaving = cluster("one", "two", "three")
    seen = watch(one)
    ids = {agent.name: agent.node_id for agent in leaving}
    for agent, number in zip(leaving, (signal.SIGTERM, signal.SIGINT), strict=True):
        began = time.monotonic()
        assert agent.stop(number) == 0
        assert time.monotonic() - began < STOP_SECONDS
        eventually(lambda agent=agent: one.states()[agent.name] == "left")
        assert "Traceback" not in agent.output()
        assert not agent.socket.exists()
    assert one.states() == {"one": "alive", "two": "left", "three": "left"}
    for name, node_id in ids.items():
        assert seen.kinds(node_id) == ["left"], name


def test_the_leave_command_ends_the_agent(cluster, shoal, eventually):
    one, two = cluster("one", "two")
    done = shoal("leave", agent=two)
    assert (done.returncode, done.stderr) == (0, "")
    assert two.process.wait(STOP_SECONDS) == 0
    eventually(lambda: one.states() == {"one": "alive", "two": "left"})


def test_a_client_that_goes_in_the_middle_of_a_leave_leaves_no_agent_behind(cluster, eventually):
    one, two = cluster("one", "two")
    client = two.client()
    client.version()
    client._connection._send("leave", {}, 10.0)
    eventually(lambda: one.states()["two"] == "left")
    client.close()
    assert two.process.wait(STOP_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_ends_it_quietly(agents, number, eventually):
    agent = agents("one", node={"state_dir": ""}).start()
    eventually(lambda: agent.socket.exists() or agent.process.poll() is not None)
    assert agent.stop(number) == 0
    assert "Traceback" not in agent.output()


def test_a_node_that_is_killed_and_started_again_is_replaced_once(cluster, watch, eventually):
    """consul#733: back after a moment, on a new address; the timings are so slow that a start is a moment."""
    one, two, three = cluster("one", "two", "three", profile="wan")
    before, address = two.status(), two.address
    seen = [watch(one), watch(three)]
    two.kill()
    two.start().ready()
    after = two.status()
    assert after["node_id"] == before["node_id"]
    assert after["generation"] > before["generation"]
    assert after["addr"] != address
    for agent in (one, three):
        row = eventually(lambda agent=agent: (r := agent.rows()["two"])["addr"] == after["addr"] and r)
        assert (row["node_id"], row["generation"]) == (after["node_id"], after["generation"])
    for watcher in seen:
        eventually(lambda watcher=watcher: "replaced" in watcher.kinds(after["node_id"]))
    # Two intervals later nothing more has come of it.
    later = time.time() + 2
    eventually(lambda: time.time() > later and one.states() == three.states() == dict.fromkeys(one.states(), "alive"))
    for watcher in seen:
        about = [kind for kind in watcher.kinds(after["node_id"]) if kind not in BESIDE]
        assert about == ["replaced"], "one event for one restart: no failure, no leave, no join"


def test_a_node_that_stays_away_fails_everywhere_and_its_return_is_told_once(cluster, watch, eventually):
    one, two, three = cluster("one", "two", "three")
    node_id = two.node_id
    seen = [watch(one), watch(three)]
    two.kill()
    eventually(lambda: one.states()["two"] == three.states()["two"] == "dead")
    assert one.call("find", {"requirement": "arch", "labels": False})["total"] == 2
    two.start().ready()
    eventually(lambda: one.states()["two"] == three.states()["two"] == "alive")
    for watcher in seen:
        eventually(lambda watcher=watcher: "replaced" in watcher.kinds(node_id))
        kinds = [kind for kind in watcher.kinds(node_id) if kind not in BESIDE]
        assert kinds == ["failed", "replaced"]


def test_labels_set_at_run_time_survive_a_restart_and_reach_the_others(cluster, shoal, eventually):
    one, two = cluster("one", "two")
    assert shoal("labels", "set", "zone=b", "spot=true", "price=3", agent=two).returncode == 0
    eventually(lambda: one.rows()["two"].get("labels", {}).get("zone") == "b")
    two.kill()
    two.start().ready()
    assert json.loads(shoal("labels", "list", "-o", "json", agent=two).stdout) == {
        "zone": "b",
        "spot": True,
        "price": 3,
    }
    generation = two.status()["generation"]
    row = eventually(lambda: (r := one.rows()["two"])["generation"] == generation and r.get("labels") and r)
    assert (row["labels"]["zone"], row["labels"]["spot"], row["labels"]["price"]) == ("b", True, 3)


DAMAGE = {
    "empty": lambda _data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "flipped": lambda data: data[:-10] + bytes([data[-10] ^ 1]) + data[-9:],
}


def test_damaged_state_files_are_set_aside_and_the_agent_starts(cluster, shoal, eventually):
    one, two = cluster("one", "two")
    assert shoal("labels", "set", "zone=b", agent=two).returncode == 0
    eventually((two.state / "peers.json").exists, "the first picture of the peers")
    files = {file: file.read_bytes() for file in two.state.glob("*.json")}
    assert {"identity.json", "labels.json", "peers.json"} <= {file.name for file in files}
    ids = [two.node_id]
    for number, damage in enumerate(DAMAGE.values(), 1):
        two.kill()
        for file, data in files.items():
            file.write_bytes(damage(data))
        two.start().ready()
        ids.append(two.node_id)
        assert two.call("labels_list")["labels"] == {}
        assert two.output().count("state.damaged") == number * len(files)
        for file in files:
            assert file.with_suffix(".damaged").exists()
            assert two.output().count(str(file.with_suffix(".damaged"))) == number
    assert len(set(ids)) == len(ids), "each is a new node, and what was on disk is never half believed"
    eventually(lambda: ids[-1] in {row["node_id"] for row in one.call("members")["nodes"]})


def test_a_cluster_that_was_killed_as_a_whole_comes_back_without_seeds(cluster, eventually):
    one, two = cluster("one", "two")
    address = one.address
    eventually((two.state / "peers.json").exists, "the first picture of the peers")
    one.kill()
    two.kill()
    one.configure({"gossip": {"bind": address}})
    two.configure({})
    two.start()
    one.start().ready()
    two.ready()
    eventually(lambda: one.states() == two.states() == {"one": "alive", "two": "alive"})
