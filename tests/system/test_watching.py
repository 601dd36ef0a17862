"""A watching command that is stopped in the middle: it costs the agent nothing, and sees a whole picture afterwards."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

# More than the agent keeps for a reader, the frames on their way and the reader's own pipe together.
CHANGES = 3000


@pytest.fixture
def watching(directory, clean_environment):
    """Start `shoal watch -o jsonl` on an agent; what it printed is read from a file."""
    started = []

    def watching(agent):
        out = directory / f"watch-{len(started)}"
        with out.open("wb") as file:
            command = [sys.executable, "-m", "shoal.agent.cli", "--socket", str(agent.socket), "watch", "-o", "jsonl"]
            process = subprocess.Popen(command, stdout=file, stderr=file, env=clean_environment())
        started.append(process)
        return process, lambda: [
            json.loads(line) for line in out.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]

    yield watching
    for process in started:
        process.kill()
        process.wait()


def test_a_stopped_watcher_gets_one_whole_picture_instead_of_all_it_missed(agents, watching, eventually):
    one = agents("one", node={"state_dir": ""}).start().ready()
    watcher, printed = watching(one)
    eventually(lambda: [event["event"] for event in printed()] == ["snapshot"])
    memory = psutil.Process(one.process.pid).memory_info().rss
    os.kill(watcher.pid, signal.SIGSTOP)
    with one.client() as client:
        for number in range(CHANGES):
            client.labels_set({"number": number})
        grown = psutil.Process(one.process.pid).memory_info().rss - memory
        os.kill(watcher.pid, signal.SIGCONT)
        eventually(lambda: one.status()["calls"].get("resync") == 1)
        client.labels_set({"number": -1})
    eventually(lambda: printed()[-1].get("node", {}).get("labels", {}).get("number") == -1)
    events = printed()
    kinds = [event["event"] for event in events]
    assert kinds.count("resync") == 1
    assert kinds.count("record") < CHANGES
    at = kinds.index("resync")
    numbers = [event["node"]["labels"]["number"] for event in events[1:at]]
    assert numbers == list(range(len(numbers))), "what came before the loss came whole and in order"
    assert events[at]["nodes"][0]["labels"]["number"] == CHANGES - 1, "the picture is of now"
    assert grown < 16 << 20, f"a reader that stands still cost {grown} bytes"


def test_a_watcher_sees_its_agent_go(agents, watching):
    one = agents("one").start().ready()
    watcher, printed = watching(one)
    assert one.stop() == 0
    assert watcher.wait(10) == 69
    assert printed
