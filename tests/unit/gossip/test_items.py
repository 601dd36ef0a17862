from __future__ import annotations

import pytest
from shoal.gossip import items
from shoal.gossip.errors import WireError
from shoal.gossip.member import Rank, Section
from shoal.gossip.messages import Head, Row, Want


def only_row(data: bytes) -> Row:
    (row,) = items.parse(data, 0).rows
    return row


def test_a_row_with_everything_comes_back(kit):
    heads = (Head(1, 4, b"12345678"), Head(9, 1, b"abcdefgh"))
    row = Row(kit.claim(2, Rank.SUSPECT, incarnation=7, accusers=(3, 4)), heads)
    assert only_row(items.pack_row(row)) == row


def test_a_plain_row_is_small(kit):
    assert len(items.pack_row(kit.row(2, heads=(Head(1, 1, bytes(8)),)))) == 52


def test_an_age_rides_beside_the_row(kit):
    row = kit.row(2, Rank.DEAD)
    found = items.parse(items.pack_row(row, 3600), 0)
    assert found.rows == (row,)
    assert found.ages == ((kit.id(2), 3600),)


def test_a_tombstone_may_have_no_address(kit):
    row = Row(kit.claim(2, Rank.LEFT)._replace(address=None))
    assert only_row(items.pack_row(row)) == row


def test_accusers_are_sorted_and_only_on_suspicions(kit):
    shuffled = kit.claim(2, Rank.SUSPECT)._replace(accusers=(b"b" * 8, b"a" * 8, b"b" * 8))
    assert only_row(items.pack_row(Row(shuffled))).claim.accusers == (b"a" * 8, b"b" * 8)
    dead = kit.claim(2, Rank.DEAD)._replace(accusers=(b"a" * 8,))
    assert only_row(items.pack_row(Row(dead))).claim.accusers == ()


@pytest.mark.parametrize(("generation", "incarnation"), [(0, 0), (1 << 63, 0), ((1 << 64) - 1, 0), (1, (1 << 32) - 1)])
def test_a_version_at_the_end_of_its_type_is_refused(kit, generation, incarnation):
    claim = kit.claim(2, generation=generation, incarnation=incarnation)
    with pytest.raises(WireError):
        items.parse(items.pack_row(Row(claim)), 0)


def test_sections_carry_a_digest_of_their_payload(kit):
    section = Section(1000, 3, items.digest_of(b"payload"), b"payload")
    (found,) = items.parse(items.pack_section(kit.id(2), 5, section), 0).sections
    assert (found.node_id, found.kind, found.section) == (kit.id(2), 5, section)
    with pytest.raises(WireError, match="digest"):
        items.parse(items.pack_section(kit.id(2), 5, section._replace(payload=b"forged!")), 0)


def test_a_section_over_the_limit_is_refused(kit):
    payload = bytes(16 * 1024 + 1)
    section = Section(1000, 3, items.digest_of(payload), payload)
    with pytest.raises(WireError, match="at most 16384"):
        items.parse(items.pack_section(kit.id(2), 5, section), 0)


def test_the_other_items_come_back(kit):
    want = Want(kit.id(3), 1000, 2, 5)
    data = b"".join(
        (
            items.pack_vitals(kit.id(2), 1000, 1.23, bytes(30)),
            items.pack_want(want),
            items.pack_hashes(range(64)),
            items.pack_address(("10.0.0.1", 1)),
            items.pack_boot_id(b"bootboot"),
            items.pack_cursor(17),
        )
    )
    found = items.parse(data, 0)
    assert found.vitals[0].age == 1.2
    assert found.wants == (want,)
    assert found.hashes == tuple(range(64))
    assert (found.address, found.boot_id, found.cursor) == (("10.0.0.1", 1), b"bootboot", 17)


def test_unknown_items_and_longer_bodies_of_a_later_version_are_skipped(kit):
    row = items.pack_row(kit.row(2))
    longer = row[:1] + (len(row) - 3 + 4).to_bytes(2, "big") + row[3:] + b"more"
    found = items.parse(items.pack_item(200, b"future") + longer, 0)
    assert found.unknown == 1
    assert found.rows == (kit.row(2),)


@pytest.mark.parametrize("cut", [1, 2, 10, 38])
def test_a_cut_item_is_refused(kit, cut):
    with pytest.raises(WireError):
        items.parse(items.pack_row(kit.row(2))[:-cut], 0)
