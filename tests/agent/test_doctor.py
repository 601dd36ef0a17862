"""The doctor of a real agent whose neighbours do not belong to its cluster."""

import pytest
from shoal.agent import Config
from shoal.agent.addresses import address_text
from shoal.agent.doctor import PROBLEM, diagnose
from shoal.agent.embed import open_agent
from shoal.gossip import key_text

OURS, THEIRS = (key_text(bytes([number]) * 32) for number in (1, 2))


@pytest.fixture
def config(tmp_path):
    """The configuration of an agent that pretends its hardware; `key` goes into a key file."""

    def config(name, key=None, **gossip):
        if key is not None:
            file = tmp_path / f"{name}.key"
            file.write_text(f"{key}\n")
            file.chmod(0o600)
            gossip["key_file"] = str(file)
        return Config.of(
            {
                "node": {"name": name, "leave_on_stop": False},
                "gossip": {"bind": "127.0.0.1:0", "profile": "local", **gossip},
                "api": {"socket": str(tmp_path / f"{name}.sock")},
                "detect": {"enabled": False},
            }
        )

    return config


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {"cluster": "reef"}),
        ({"key": OURS}, {"key": THEIRS}),
        ({"key": OURS}, {}),
        ({}, {"key": THEIRS}),
    ],
    ids=["another cluster", "another key", "no key", "a key where we have none"],
)
async def test_who_sends_what_we_refuse_is_told_with_address_and_likely_reason(config, eventually, ours, theirs):
    async with open_agent(config("one", **ours)) as one:
        seeds = [address_text(one.address)]
        async with open_agent(config("two", seeds=seeds, **theirs)):
            driver = one._agent.parts.driver
            await eventually(lambda: [note for _, note in driver.notes if note.event == "packet.refused"])
            findings = {finding.check: finding for finding in diagnose(await one._agent.backend.examine())}
    packets = findings["packets"]
    assert packets.level == PROBLEM
    assert "packets are refused, last from 127.0.0.1:" in packets.what
    assert "another key, none, or another cluster name" in packets.todo
