from __future__ import annotations

from random import Random

from shoal.gossip import State
from shoal.gossip.member import Rank, Section
from shoal.gossip.table import Entry, Population, Table


def test_a_round_has_everyone_once_and_a_newcomer_in_what_is_left():
    chance, live = Random(1), Population()
    for number in range(10):
        live.add(bytes([number]))
    first = [live.draw(chance) for _ in range(5)]
    live.add(b"new")
    rest = [live.draw(chance) for _ in range(6)]
    assert len(set(first + rest)) == 11
    assert b"new" in rest
    second = [live.draw(chance) for _ in range(11)]
    assert set(second) == set(first + rest)
    assert second != first + rest


def test_one_that_went_is_not_drawn():
    chance, live = Random(1), Population()
    for number in range(4):
        live.add(bytes([number]))
    live.discard(b"\x02")
    assert {live.draw(chance) for _ in range(9)} == {b"\x00", b"\x01", b"\x03"}
    assert sorted(live) == sorted(live.sample(chance, 9)) == [b"\x00", b"\x01", b"\x03"]


def test_an_empty_population_gives_nothing():
    assert Population().draw(Random(1)) is None


def filled(kit, order) -> Table:
    table = Table(3600)
    for number in order:
        table.add(Entry(kit.row(number), State.ALIVE, 0.0), float(number))
    return table


def test_equal_tables_have_equal_hashes_whatever_the_order(kit):
    one, other = filled(kit, [1, 2, 3]), filled(kit, [3, 1, 2])
    assert one.hash == other.hash
    assert one.buckets == other.buckets
    assert one.hash != filled(kit, [1, 2]).hash


def test_the_hash_sees_versions_death_and_sections_but_not_suspicion(kit):
    table = filled(kit, [1, 2])
    start = table.hash
    entry = table.edit(kit.id(2))

    def changed() -> bool:
        table.touch(entry, 5.0)
        return table.hash != start

    entry.row, entry.shown = kit.row(2, Rank.SUSPECT, accusers=(1,)), State.SUSPECT
    assert not changed()
    entry.shown = State.DEAD
    assert changed()
    entry.row, entry.shown = kit.row(2, incarnation=1), State.ALIVE
    assert changed()
    entry.row = kit.row(2)
    assert not changed()
    entry.sections = {1: Section(1000, 1, bytes(8), b"x")}
    assert changed()


def test_only_a_change_ends_quiet(kit):
    table = filled(kit, [1, 2])
    table.touch(table.edit(kit.id(2)), 9.0)
    assert table.changed_at == 2.0
    table.remove(kit.id(2), 10.0)
    assert table.changed_at == table.bucket_changed_at[2] == 10.0
    assert table.hash == filled(kit, [1]).hash
