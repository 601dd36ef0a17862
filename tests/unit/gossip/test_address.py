from __future__ import annotations

import pytest
from shoal.gossip import address
from shoal.gossip.errors import WireError


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FE80:0:0::0001", "fe80::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_one_text_for_one_address(written, canonical):
    assert address.canonical(written) == canonical


def test_a_name_is_no_address():
    with pytest.raises(ValueError, match="seed"):
        address.canonical("seed.example")


@pytest.mark.parametrize("place", [("127.0.0.1", 1), ("192.0.2.7", 65535), ("2001:db8::7", 7931)])
def test_round_trip(place):
    family, data = address.pack(place)
    assert len(data) == address.SIZES[family]
    assert address.unpack(data) == place


def test_a_mapped_address_arrives_as_ipv4():
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1]) + (7931).to_bytes(2, "big")
    assert address.unpack(mapped) == ("10.0.0.1", 7931)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(5),
        bytes([10, 0, 0, 1, 0, 0]),
        bytes([0, 0, 0, 0, 1, 1]),
        bytes([224, 0, 0, 1, 1, 1]),
        bytes([255, 255, 255, 255, 1, 1]),
        bytes(16) + b"\x01\x01",
        b"\xff\x02" + bytes(14) + b"\x01\x01",
    ],
)
def test_where_no_node_can_be_is_refused(data):
    with pytest.raises(WireError):
        address.unpack(data)
