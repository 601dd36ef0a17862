"""Sealed clusters of real agents: who gets in, who stays out, and a key that changes while they run."""

import base64
import json
import os
import subprocess
import sys
import threading

import pytest
from shoal.agent.errors import Refused, ShoalError
from shoal.gossip import key_id, key_text, parse_key

OLD, NEW, OTHER = (key_text(bytes([number]) * 32) for number in (1, 2, 3))
ID = {text: key_id(parse_key(text)) for text in (OLD, NEW, OTHER)}


@pytest.fixture
def key_file(directory):
    """Makes key files of mode 0600."""

    def key_file(name, *keys):
        path = directory / name
        path.write_text("# ours\n" + "".join(f"{key}\n" for key in keys))
        path.chmod(0o600)
        return path

    return key_file


@pytest.fixture
def sealed(agents, key_file, eventually):
    """Makes a sealed cluster, the first being the seed of all."""

    def sealed(*names, keys=(OLD,)):
        path = str(key_file("cluster.key", *keys))
        seed = agents(names[0], gossip={"key_file": path}).start().ready()
        settings = {"key_file": path, "seeds": [seed.address]}
        made = [seed, *(agents(name, gossip=settings).start() for name in names[1:])]
        for agent in made[1:]:
            agent.ready()
        alive = dict.fromkeys(names, "alive")
        eventually(lambda: all(agent.states() == alive for agent in made), "a sealed cluster")
        return made

    return sealed


def installed(agent):
    """Ids of the keys that any member has, with (have, using)."""
    return {key["id"]: (key["have"], key["using"]) for key in agent.call("keys_list")["keys"]}


def test_a_sealed_cluster_converges_and_shows_one_key_everywhere(sealed, eventually, shoal):
    agents = sealed("one", "two", "three")
    for agent in agents:
        eventually(lambda agent=agent: installed(agent) == {ID[OLD]: (3, 3)}, "reports of all three")
        assert agent.status()["encryption"] == f"key {ID[OLD]}"
    listed = shoal("keys", agent=agents[2])
    assert listed.stdout.splitlines()[1].split() == [ID[OLD], "3/3", "3/3", "in", "use"]
    assert all(OLD not in agent.output() for agent in agents)


def test_what_has_another_key_or_none_is_kept_out_counted_and_logged(sealed, agents, key_file, eventually, shoal):
    (one,) = sealed("one")
    other = agents("other", gossip={"key_file": str(key_file("other.key", OTHER)), "seeds": [one.address]})
    plain = agents("plain", gossip={"seeds": [one.address]})
    elsewhere = agents("elsewhere", gossip={"key_file": str(key_file("c.key", OLD)), "cluster": "reef"})
    elsewhere.configure(
        {"gossip": {"key_file": str(key_file("c.key", OLD)), "cluster": "reef", "seeds": [one.address]}}
    )

    def refused():
        return one.status()["gossip"].get("refused: wrong key or cluster", 0)

    for stranger in (other, plain, elsewhere):
        before = refused()
        stranger.start().ready()
        eventually(lambda before=before: refused() > before, "a refusal")
        assert stranger.states() == {stranger.name: "alive"}
    assert one.states() == {"one": "alive"}
    assert one.output().count("packet.refused") == 1, "once a minute"
    assert "source=127.0.0.1:" in one.output()
    done = shoal("doctor", "-o", "json", agent=one)
    found = [finding for finding in json.loads(done.stdout)["findings"] if finding["check"] == "packets"]
    assert (done.returncode, found[0]["level"]) == (1, "problem")
    assert "127.0.0.1:" in found[0]["what"]
    assert "gossip.key_file" in found[0]["todo"]


@pytest.mark.parametrize(
    ("mode", "text", "says"),
    [
        (0o640, OLD, "can be used by others: its mode is 0640"),
        (0o604, OLD, "can be used by others: its mode is 0604"),
        (0o600, "AAAA" + OLD[4:30], "line 1: a key is base64"),
        (0o600, f"{OLD}\n\n# two\nsesame", "line 4: a key is base64 of 32 bytes"),
        (0o600, f"{OLD}\n{OLD}", "a key is given twice"),
        (0o600, "# nothing\n", "holds no key"),
        (0o600, OLD + "x" * 5000, "has more than 4096 bytes"),
        (None, "", "is not a regular file"),
    ],
)
def test_a_key_file_that_cannot_be_trusted_stops_the_start(directory, shoal, mode, text, says):
    path = directory / "bad.key"
    if mode is None:
        os.mkfifo(path, 0o600)
    else:
        path.write_text(text)
        path.chmod(mode)
    for command in ("run", "config check"):
        done = shoal(*command.split(), "--socket", directory / "x.sock", "--bind", "127.0.0.1:0", "--key-file", path)
        assert (done.returncode, done.stdout) == (78, ""), done.stderr
        assert done.stderr.startswith(f"shoal: --key-file: gossip.key_file: the key file {path}")
        assert says in done.stderr
        assert OLD[:20] not in done.stderr
        assert "sesame" not in done.stderr
    assert not (directory / "x.sock").exists()


def test_a_key_file_of_somebody_else(directory, shoal, key_file):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = key_file("theirs.key", OLD)
    os.chown(path, 12345, 12345)
    done = shoal("run", "--bind", "127.0.0.1:0", "--socket", directory / "x.sock", "--key-file", path)
    assert done.returncode == 78
    assert f"the key file {path} belongs to user 12345" in done.stderr


def test_the_credential_of_the_service_manager_is_the_key_file(agents, directory, eventually, shoal):
    credentials = directory / "credentials"
    credentials.mkdir()
    (credentials / "gossip.key").write_text(OLD)
    (credentials / "gossip.key").chmod(0o440)  # the mask of an ACL shows so
    agent = agents("one").start(CREDENTIALS_DIRECTORY=str(credentials)).ready()
    assert agent.status()["encryption"] == f"key {ID[OLD]}"
    shown = shoal("config", "show", "--origin", CREDENTIALS_DIRECTORY=str(credentials)).stdout
    assert "$CREDENTIALS_DIRECTORY/gossip.key" in shown
    (credentials / "gossip.key").chmod(0o444)
    done = shoal("run", "--bind", "127.0.0.1:0", CREDENTIALS_DIRECTORY=str(credentials))
    assert done.returncode == 78


def test_an_address_of_others_needs_a_key_or_a_word(shoal, directory, key_file):
    flags = ("--bind", "192.0.2.1:7931", "--socket", directory / "x.sock")
    done = shoal("run", *flags)
    assert done.returncode == 78
    assert "set gossip.key_file, or gossip.allow_plaintext = true" in done.stderr
    for allowed in (("--allow-plaintext",), ("--key-file", key_file("k", OLD))):
        assert "192.0.2.1:7931 cannot be used" in shoal("run", *flags, *allowed).stderr


class Load:
    """Label changes and queries all the time; what failed, and the last change of each agent."""

    def __init__(self, agents):
        self.failures, self.last, self.rounds = [], {}, 0
        self._agents, self._stop = agents, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.01):
            agent = self._agents[self.rounds % len(self._agents)]
            self.rounds += 1
            try:
                agent.call("labels_set", {"labels": {"mark": self.rounds}})
                self.last[agent.name] = self.rounds
                agent.call("find", {"requirement": "has(mark)"})
            except ShoalError as error:
                self.failures.append(f"{agent.name}: {error}")

    def end(self):
        self._stop.set()
        self._thread.join()


def marks(agent):
    return {name: row.get("labels", {}).get("mark") for name, row in agent.rows().items()}


def test_a_key_is_rotated_under_load_and_nobody_notices(sealed, eventually, shoal, watch, key_file):
    agents = sealed("one", "two", "three", "four", "five")
    watching = [watch(agent) for agent in agents]
    load = Load(agents)
    eventually(lambda: load.rounds > 20, "load")
    done = shoal("keys", "rotate", key_file("new.key", NEW), agent=agents[1])
    eventually(lambda until=load.rounds + 20: load.rounds > until, "load")
    load.end()
    assert (done.returncode, done.stdout) == (0, f"key {ID[NEW]} is the only key of all 5 nodes\n"), done.stderr
    assert [f"{step} {ID[NEW]}: 5/5" in done.stderr for step in ("install", "use")] == [True, True]
    assert load.failures == []
    for agent in agents:
        eventually(lambda agent=agent: installed(agent) == {ID[NEW]: (5, 5)}, "one key")
        eventually(lambda agent=agent: marks(agent) == load.last, "the last labels of all")
    kinds = {event["event"] for seen in watching for event in seen.events}
    assert kinds.isdisjoint({"suspected", "failed", "left", "replaced"}), kinds
    for agent in agents:
        assert (agent.state / "keys.json").stat().st_mode & 0o777 == 0o600
        assert agent.status()["gossip"].get("refused: wrong key or cluster", 0) == 0
        assert NEW not in agent.output()
    assert NEW not in done.stderr


def test_a_node_that_slept_through_a_rotation_joins_while_its_old_key_is_installed(sealed, eventually, shoal, key_file):
    agents = one, two, three, _, sleeper = sealed("one", "two", "three", "four", "sleeper")
    eventually((sleeper.state / "peers.json").exists, "the addresses of the others on disk")
    sleeper.kill()
    eventually(lambda: one.states()["sleeper"] == "dead", "the death of the sleeper")
    load = Load(agents[:4])
    stopped = shoal("keys", "rotate", key_file("new.key", NEW), "--timeout", "3s", agent=one)
    assert stopped.returncode == 75, stopped.stderr
    assert f"remove {ID[OLD]}: 1 of the nodes are down without key {ID[NEW]}" in stopped.stderr
    assert "shoal keys rotate goes on with it" in stopped.stderr
    assert installed(two)[ID[NEW]] == (4, 4)
    assert ID[OLD] in installed(two)
    with pytest.raises(Refused, match="could not come back"):
        two.call("keys_remove", {"id": ID[OLD]})
    # Its seed is gone too, so that only what it remembers, and its old key, lead it back.
    one.kill()
    sleeper.start().ready()
    eventually(lambda: two.states()["sleeper"] == "alive" and len(sleeper.states()) > 1, "its return")
    eventually(lambda: installed(two)[ID[NEW]][0] == 4 and installed(two)[ID[NEW]][1] == 4, "the new key there")
    one.configure({"gossip": {"key_file": str(one.config.parent / "cluster.key"), "seeds": [two.address]}})
    one.start().ready()
    load.end()
    resumed = shoal("keys", "rotate", agent=three)
    assert resumed.returncode == 0, resumed.stderr
    for agent in agents:
        eventually(lambda agent=agent: installed(agent) == {ID[NEW]: (5, 5)}, "one key")
    sleeper.kill()
    sleeper.start().ready()  # its key file still has the old key, its state directory the new one
    eventually(lambda: sleeper.states() == dict.fromkeys(("one", "two", "three", "four", "sleeper"), "alive"))
    finding = next(f for f in sleeper.call("doctor", {}, 60)["findings"] if f["check"] == "encryption")
    assert f"the key file does not hold key {ID[NEW]}" in finding["what"]


def test_keys_one_by_one_are_refused_where_nodes_would_be_cut_off(sealed, eventually, shoal, key_file):
    one, two = sealed("one", "two")
    assert shoal("keys", "remove", ID[OLD], agent=one).returncode == 5
    assert shoal("keys", "use", ID[NEW], agent=one).returncode == 5
    here = shoal("keys", "install", "--here", key_file("new.key", NEW), agent=one)
    assert here.returncode == 0, here.stderr
    eventually(lambda: installed(two).get(ID[NEW]) == (1, 0), "the report of one")
    refused = shoal("keys", "use", ID[NEW], agent=one)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert f"1 of the nodes do not have key {ID[NEW]} yet" in refused.stderr
    shoal("keys", "install", "--here", key_file("new.key", NEW), agent=two)
    eventually(lambda: installed(one).get(ID[NEW]) == (2, 0), "the report of two")
    rotated = shoal("keys", "rotate", "--to", ID[NEW], agent=two)
    assert rotated.returncode == 0, rotated.stderr
    for agent in (one, two):
        eventually(lambda agent=agent: installed(agent) == {ID[NEW]: (2, 2)}, "one key")
        stored = json.loads((agent.state / "keys.json").read_text())["value"]
        assert stored["carried"] == [], "a key that was installed by hand never travels"
    for agent in (one, two):
        assert agent.stop() == 0
    one.start().ready()
    assert one.status()["encryption"] == f"key {ID[NEW]}"


def test_an_agent_with_stored_keys_does_not_go_on_in_plaintext(sealed, shoal, agents):
    (one,) = sealed("one")
    assert one.stop() == 0
    one.configure({})
    done = shoal("run", "--config", one.config)
    assert done.returncode == 78
    assert "keys.json holds the keys of this agent, and gossip.key_file is not set" in done.stderr


def test_an_agent_without_a_key_says_so(agents, shoal, key_file):
    one = agents("one").start().ready()
    done = shoal("keys", "list", agent=one)
    assert done.returncode == 5
    assert "this agent gossips without a key" in done.stderr
    assert one.status().get("encryption") is None


def test_a_key_is_made_without_an_agent(shoal, directory):
    made = shoal("keys", "gen").stdout
    assert len(base64.b64decode(made.strip(), validate=True)) == 32
    path = directory / "made.key"
    assert shoal("keys", "gen", "--out", path).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(parse_key(path.read_text())) == 32
    assert shoal("keys", "gen", "--out", path).returncode == 5
    refused = shoal("keys", "install", made.strip())
    assert refused.returncode == 78, "a key on the command line is no file"


def test_an_agent_without_a_key_does_not_load_the_cipher(directory):
    program = (
        "import sys; from shoal.agent import daemon; from shoal.agent.config import Config; "
        f"settings = {{'gossip': {{'bind': '127.0.0.1:0'}}, 'api': {{'socket': '{directory}/x'}}}}; "
        "agent = daemon.Agent(Config.of(settings)); "
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
