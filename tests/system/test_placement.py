"""Placement over real agents: what one of them is told decides what another one answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

TASK = ("run a 7b model with ollama", "--tool", "git")
ABLE = {"tool_git": True, "tool_ollama": True}


@pytest.fixture
def three(agents, eventually):
    """Three agents that pretend to be able to run a model; `three` has the most memory, `one` the least."""
    sizes = {"one": 8192, "two": 16384, "three": 32768}
    seed = agents("one", labels={**ABLE, "ram_mb": sizes["one"], "zone": "a"}).start().ready()
    gossip = {"seeds": [seed.address]}
    made = [seed]
    made += [
        agents(name, gossip=gossip, labels={**ABLE, "ram_mb": sizes[name], "zone": "b"}).start()
        for name in ("two", "three")
    ]
    for agent in made:
        agent.ready()
        eventually(lambda agent=agent: len(agent.call("find", {"requirement": "tool_ollama"})["nodes"]) == 3)
    return made


@pytest.fixture
def placed(shoal):
    """Where an agent places the task: the names, empty when nothing fits."""

    def placed(agent, *options):
        done = shoal("place", *TASK, "-o", "name", *options, agent=agent)
        assert done.returncode == (0 if done.stdout else 3), done.stderr
        return done.stdout.split()

    return placed


def test_tasks_that_fit_nearly_fit_and_never_fit(three, shoal, placed, eventually):
    one, _, three_ = three
    eventually(lambda: one.call("place", {"task": "x"})["view"]["unknown"] == 0, "vitals of all")
    assert placed(one, "--avoid", "one", "--avoid", "two") == ["three"]
    assert "one" in placed(three_, "--count", "2", "--anti-affinity", "zone"), "it alone is in its zone"
    done = shoal("place", *TASK, "--min-free-ram", "30GiB", "--require", "zone=a", agent=one)
    assert (done.returncode, done.stdout) == (3, "")
    assert "one    only free memory: needs 30 GiB, has 7 GiB, 23 GiB short" in done.stderr
    assert "without term 1 (zone=a): 1 more node" in done.stderr
    done = shoal("place", *TASK, "--require", "ram_mb>=1TB", "-o", "json", agent=one)
    assert done.returncode == 3
    told = json.loads(done.stdout)["explanation"]
    assert (told["verdict"], told["totals"][0]["count"]) == ("infeasible", 3)


def test_a_cordon_is_known_everywhere_and_outlives_the_agent(three, shoal, placed, eventually):
    one, two, big = three
    assert placed(one, "--avoid", "one", "--avoid", "two") == ["three"]
    assert shoal("cordon", "three", agent=one).returncode == 5
    assert shoal("cordon", agent=big).stdout == "three is cordoned: it gets no new work\n"
    only = ("--avoid", "one", "--avoid", "two")
    eventually(lambda: placed(one, *only) == placed(two, *only) == [])
    assert one.rows()["three"]["schedulable"] == "cordoned"
    big.kill()
    big.start().ready()
    eventually(lambda: one.rows()["three"]["state"] == "alive")
    assert one.rows()["three"]["schedulable"] == "cordoned"
    told = shoal("place", *TASK, *only, agent=one).stderr
    assert "three  only cordoned (shoal uncordon, there)" in told
    shoal("uncordon", agent=big)
    eventually(lambda: placed(one, *only) == ["three"])


def test_a_failure_told_to_one_agent_counts_for_all_until_another_lifts_it(three, shoal, placed, eventually):
    one, two, big = three
    only = ("--avoid", "one", "--avoid", "two")
    done = shoal("fail", "three", "exec-crash", TASK[0], agent=two)
    assert done.stdout == "three: local-llm-inference is kept away from it for 24 h (exec-crash, once)\n"
    eventually(lambda: placed(one, *only) == placed(two, *only) == placed(big, *only) == [])
    assert "shoal override three" in shoal("place", *TASK, *only, agent=one).stderr
    two.kill()
    two.start().ready()
    eventually(lambda: two.states() == dict.fromkeys(("one", "two", "three"), "alive"))
    assert placed(two, *only) == [], "it remembers over a restart"
    assert shoal("override", "three", agent=one).returncode == 0
    eventually(lambda: placed(one, *only) == placed(two, *only) == placed(big, *only) == ["three"])


def test_runs_seen_by_one_agent_are_experience_of_all(three, shoal, placed, eventually):
    one, two, _ = three
    done = shoal("observe", "three", *TASK, "--took", "90s", "--peak-ram", "500GiB", agent=one)
    assert done.returncode == 0
    only = ("--avoid", "one", "--avoid", "two")
    eventually(lambda: placed(two, *only) == [])
    assert "peak of earlier runs: needs 500 GiB" in shoal("place", *TASK, *only, agent=two).stderr
    (row,) = json.loads(shoal("history", "-o", "json", agent=two).stdout)["history"]
    assert (row["name"], row["wall_ms"], row["samples"]) == ("three", 90_000, 1)


OLLAMA = {
    "/api/version": {"version": "0.5.1"},
    "/api/ps": {"models": [{"name": "qwen2.5:7b", "size_vram": 5 << 30, "expires_at": "2099-01-01T00:00:00Z"}]},
}


class Ollama(BaseHTTPRequestHandler):
    """As much of ollama as is asked."""

    def do_GET(self):
        body = json.dumps(OLLAMA.get(self.path, {})).encode()
        self.send_response(200 if self.path in OLLAMA else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def ollama():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ollama)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_models_that_an_engine_holds_are_known_to_others(agents, shoal, ollama, eventually):
    one = agents("one").start().ready()
    agents("two", gossip={"seeds": [one.address]}, detect={"enabled": True}).start(OLLAMA_HOST=ollama).ready()
    task = ("place", "--tool", "ollama", "x", "--explain")
    done = eventually(lambda: (done := shoal(*task, agent=one)).returncode == 0 and done)
    assert "two" in done.stdout
    assert "ollama holds qwen2.5:7b" in done.stdout
