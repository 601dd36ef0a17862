from __future__ import annotations

import pytest
from shoal.gossip import items, wire
from shoal.gossip.errors import WireError
from shoal.gossip.member import Rank
from shoal.gossip.messages import Ack, Flag, Gossip, Nack, NotMe, Ping, PingRequest, Summary, Sync

SUMMARY = Summary(4, b"12345678", 0xDEADBEEF, 63, 0xFFFFFFFF)


def test_a_ping_has_88_bytes_and_an_ack_59(kit):
    opening = wire.opening(wire.PING, 1, kit.speaker(1), 0, SUMMARY)
    ping = opening + wire.aim(kit.id(2), 1000, Rank.SUSPECT, 3)
    assert len(ping) == wire.PING_BYTES == 88
    assert len(wire.opening(wire.ACK, 1, kit.speaker(1), 0, SUMMARY)) == wire.ACK_BYTES == 59
    found = wire.decode(ping)
    assert isinstance(found, Ping)
    assert (found.sender, found.summary) == (kit.speaker(1), SUMMARY)
    assert (found.target, found.target_generation) == (kit.id(2), 1000)
    assert (found.view_rank, found.view_incarnation) == (Rank.SUSPECT, 3)


def test_vitals_and_news_ride_behind(kit):
    opening = wire.opening(wire.ACK, 9, kit.speaker(1), Flag.VITALS, SUMMARY)
    found = wire.decode(opening + bytes(30) + items.pack_row(kit.row(3)))
    assert isinstance(found, Ack)
    assert found.vitals == bytes(30)
    assert found.items.rows == (kit.row(3),)


def test_a_ping_request_names_its_target(kit):
    data = wire.ping_request(5, kit.speaker(1), (kit.id(2), 1000, 400), kit.address(2))
    found = wire.decode(data)
    assert isinstance(found, PingRequest)
    assert (found.target, found.to, found.wait_ms) == (kit.id(2), kit.address(2), 400)
    with pytest.raises(WireError, match="address"):
        wire.decode(data[: wire.REQUEST_BYTES] + items.pack_padding(200))


def test_a_ping_request_pays_for_all_that_it_makes_a_relay_send(kit):
    data = wire.ping_request(5, kit.speaker(1), (kit.id(2), 1000, 400), kit.address(2))
    headers, frame = 28, 8
    sent = wire.PING_BYTES + frame + headers + wire.ACK_BYTES + frame + headers
    assert len(data) + frame + headers >= sent
    with pytest.raises(WireError, match="ping request"):
        wire.decode(data[:-1])


@pytest.mark.parametrize(
    ("kind", "expected"), [(wire.NACK, Nack), (wire.NOT_ME, NotMe), (wire.GOSSIP, Gossip), (wire.SYNC, Sync)]
)
def test_the_others_are_header_and_items(kit, kind, expected):
    found = wire.decode(wire.message(kind, kit.speaker(1), (items.pack_hashes(range(64)),), request=77))
    assert isinstance(found, expected)
    assert getattr(found, "request", 77) == 77


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda data: data[:37],
        lambda data: data[:87],
        lambda data: b"\xee" + data[1:],
        lambda data: data[:10] + bytes(16) + data[26:],
        lambda data: data[:26] + bytes(8) + data[34:],
        lambda data: data[:54] + b"\x40" + data[55:],
        lambda data: data[:83] + b"\x04" + data[84:],
        lambda data: data + b"\x01\xff\xff",
    ],
)
def test_what_is_out_of_range_is_refused(kit, spoiled):
    opening = wire.opening(wire.PING, 1, kit.speaker(1), 0, SUMMARY)
    data = opening + wire.aim(kit.id(2), 1000, Rank.ALIVE, 0)
    wire.decode(data)
    with pytest.raises(WireError):
        wire.decode(spoiled(data))
