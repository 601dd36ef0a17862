import socket

import pytest
import trio
from shoal.agent.seeds import LOOKUP_SECONDS, resolve


class Resolver(trio.abc.HostnameResolver):
    """Answers what a test says; None never answers."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def getaddrinfo(self, host, port, *_how):
        self.asked.append(host.decode() if isinstance(host, bytes) else host)
        answer = self.answers.get(self.asked[-1].partition(".")[0])
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return [self._row(ip, port) for ip in answer]

    @staticmethod
    def _row(ip, port):
        if ":" in ip:
            return socket.AF_INET6, socket.SOCK_DGRAM, 17, "", (ip, port, 0, 0)
        return socket.AF_INET, socket.SOCK_DGRAM, 17, "", (ip, port)

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


@pytest.fixture
def resolver():
    def use(**answers):
        made = Resolver(**answers)
        trio.socket.set_custom_hostname_resolver(made)  # for this run of trio only
        return made

    return use


async def test_an_address_needs_no_lookup(resolver):
    resolver()
    found, failures = await resolve([("10.0.0.7", 7931), ("2001:db8::1", 7000)])
    assert (sorted(found), failures) == ([("10.0.0.7", 7931), ("2001:db8::1", 7000)], {})


async def test_a_name_gives_all_its_addresses_of_both_kinds_once(resolver):
    resolver(a=["10.0.0.7", "2001:db8::7", "::ffff:10.0.0.7"], b=["10.0.0.7", "10.0.0.8"])
    found, failures = await resolve([("a.example", 7931), ("b.example", 7931), ("10.0.0.8", 7931)])
    assert sorted(found) == [("10.0.0.7", 7931), ("10.0.0.8", 7931), ("2001:db8::7", 7931)]
    assert failures == {}


async def test_each_failing_seed_is_named_and_costs_no_other(resolver):
    resolver(
        gone=socket.gaierror(-2, "Name or service not known"), odd=UnicodeError("label too long"), good=["10.0.0.9"]
    )
    found, failures = await resolve([("gone.example", 1), ("odd.example", 2), ("good.example", 3)])
    assert found == [("10.0.0.9", 3)]
    assert set(failures) == {"gone.example:1", "odd.example:2"}
    assert "not known" in failures["gone.example:1"]


async def test_a_resolver_that_hangs_holds_up_nobody_for_long(resolver, autojump_clock):
    resolver(good=["10.0.0.9"])
    started = trio.current_time()
    found, failures = await resolve([("hangs.example", 7931), ("hangs-too.example", 7931), ("good.example", 7931)])
    assert found == [("10.0.0.9", 7931)]
    assert set(failures) == {"hangs.example:7931", "hangs-too.example:7931"}
    assert "did not answer within 5 s" in failures["hangs.example:7931"]
    assert trio.current_time() - started == LOOKUP_SECONDS


async def test_a_name_is_looked_up_at_every_try(resolver):
    """alertmanager#1661: a name that does not resolve at first, then wrongly, then rightly."""
    made = resolver(seed=socket.gaierror(-3, "Temporary failure in name resolution"))
    assert (await resolve([("seed", 7931)]))[0] == []
    made.answers["seed"] = ["10.0.0.1"]
    assert (await resolve([("seed", 7931)]))[0] == [("10.0.0.1", 7931)]
    made.answers["seed"] = ["10.0.0.2"]
    assert (await resolve([("seed", 7931)]))[0] == [("10.0.0.2", 7931)]
    assert made.asked == ["seed"] * 3


async def test_no_seeds_are_no_addresses():
    assert await resolve([]) == ([], {})
