import pytest
from shoal.agent import advertise
from shoal.agent.advertise import advertised, is_found
from shoal.agent.errors import BadConfiguration


@pytest.fixture
def routes(monkeypatch):
    """The local address on the way to each target."""
    known = {}
    monkeypatch.setattr(advertise, "_source_towards", known.get)
    return known


def test_the_configured_address_wins(routes):
    assert advertised(("203.0.113.5", 17931), ("0.0.0.0", 7931), []) == ("203.0.113.5", 17931)


@pytest.mark.parametrize("host", ["10.0.0.7", "127.0.0.1", "2001:db8::7"])
def test_a_bound_address_is_what_others_are_told(routes, host):
    assert advertised(None, (host, 7931), [("10.0.0.8", 7931)]) == (host, 7931)


@pytest.mark.parametrize("everything", ["0.0.0.0", "::"])
def test_of_all_addresses_the_one_on_the_way_to_the_seeds(routes, everything):
    routes |= {"10.0.0.8": "10.0.0.7", "192.0.2.1": "198.51.100.2"}
    assert advertised(None, (everything, 7931), [("seed.example", 1), ("10.0.0.8", 2)]) == ("10.0.0.7", 7931)
    assert advertised(None, (everything, 7931), [("seed.example", 1)]) == ("198.51.100.2", 7931)


def test_without_any_route_it_must_be_said(routes):
    with pytest.raises(BadConfiguration, match=r"bound to 0\.0\.0\.0") as caught:
        advertised(None, ("0.0.0.0", 7931), [("10.0.0.8", 7931)])
    assert "gossip.advertise" in caught.value.hint


def test_loopback_seeds_lead_to_loopback():
    assert advertised(None, ("0.0.0.0", 7931), [("127.0.0.1", 7932)]) == ("127.0.0.1", 7931)


@pytest.mark.parametrize(
    ("configured", "bound", "found"),
    [(None, "0.0.0.0", True), (None, "::", True), (None, "10.0.0.7", False), (("203.0.113.5", 1), "0.0.0.0", False)],
)
def test_only_what_the_routing_table_said_can_change(configured, bound, found):
    assert is_found(configured, (bound, 7931)) is found
