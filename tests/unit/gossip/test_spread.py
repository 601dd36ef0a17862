from __future__ import annotations

from shoal.gossip import Rank
from shoal.gossip.spread import Queue


def sized(size):
    return lambda key: key.to_bytes(1, "big") * size


def test_least_sent_comes_first():
    queue = Queue()
    for key in (1, 2, 3):
        queue.push(key)
    assert queue.take(sized(50), 100, 9) == [b"\x01" * 50, b"\x02" * 50]
    assert queue.take(sized(50), 100, 9) == [b"\x03" * 50, b"\x01" * 50]


def test_after_the_limit_it_is_done():
    queue = Queue()
    queue.push(1)
    for _ in range(3):
        assert queue.take(sized(50), 100, 3)
    assert not len(queue)
    assert queue.take(sized(50), 100, 3) == []


def test_news_about_a_queued_subject_starts_its_count_again():
    queue = Queue()
    queue.push(1)
    queue.take(sized(50), 100, 2)
    queue.push(1)
    queue.take(sized(50), 100, 2)
    assert 1 in queue


def test_urgent_news_overtakes():
    queue = Queue()
    queue.push(1)
    queue.push(2, first=True)
    assert queue.take(sized(50), 50, 9) == [b"\x02" * 50]


def test_packing_is_by_bytes_and_passes_over_what_does_not_fit():
    queue = Queue()
    sizes = {1: 90, 2: 40, 3: 40}
    for key in sizes:
        queue.push(key)
    assert [len(data) for data in queue.take(lambda key: bytes(sizes[key]), 85, 9)] == [40, 40]
    assert 1 in queue


def test_what_has_nothing_to_say_any_more_is_dropped():
    queue = Queue()
    queue.push(1)
    assert queue.take(lambda _: None, 100, 9) == []
    assert not len(queue)


def test_a_refutation_goes_first(kit, told):
    node = kit.node(1)
    told(node, kit.row(2), sender=9)
    told(node, kit.row(2, Rank.SUSPECT, accusers=(5,)), sender=9)
    for number in (3, 4):
        told(node, kit.row(number), sender=9)
    told(node, kit.row(2, incarnation=1), sender=9)
    assert next(iter(node._parts.spread.rows._levels[0])) == kit.id(2)
