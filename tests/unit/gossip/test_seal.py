from random import Random

import pytest
from shoal.gossip import KeyRefused, KeyRing, Note, Seal, Send, key_id, key_text, parse_key, wire
from shoal.gossip.errors import FrameRefused, FrameReplayed
from shoal.gossip.frames import SEAL_BYTES, PlainFrames
from shoal.gossip.items import pack_row
from shoal.gossip.messages import Gossip
from shoal.gossip.seal import MOST_KEYS, MOST_SALTS, WINDOW, ReplayWindows

OLD, NEW, OTHER = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32
HERE, THERE = ("10.0.0.1", 7931), ("10.0.0.2", 7931)


def seal(*keys, cluster="shoal", seed=1):
    return Seal(KeyRing.of(keys), cluster, Random(seed))


def test_a_payload_comes_back_and_costs_what_the_budget_says():
    one, other = seal(OLD), seal(OLD, seed=2)
    frame = one.wrap(b"news")
    assert other.unwrap(frame) == b"news"
    assert len(frame) - 4 - len(b"news") == SEAL_BYTES == 28


def test_an_idle_ping_and_ack_sealed_fit_the_idle_budget():
    headers = 28
    assert sum(headers + 4 + SEAL_BYTES + size for size in (wire.PING_BYTES, wire.ACK_BYTES)) <= 269


@pytest.mark.parametrize("alien", [seal(OTHER), seal(OLD, cluster="reef")])
def test_another_key_and_another_cluster_are_refused_alike(alien):
    with pytest.raises(FrameRefused, match="wrong key or cluster"):
        seal(OLD).unwrap(alien.wrap(b"news"))


def test_sealed_and_plain_refuse_each_other():
    with pytest.raises(FrameRefused, match="wrong key or cluster"):
        seal(OLD).unwrap(PlainFrames("shoal").wrap(b"news"))
    with pytest.raises(FrameRefused, match="wrong key or cluster"):
        PlainFrames("shoal").unwrap(seal(OLD).wrap(b"news"))


def test_every_flipped_bit_is_refused():
    frame = seal(OLD).wrap(b"news of a node")
    other = seal(OLD, seed=2)
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameRefused):
            other.unwrap(bytes(flipped))


def test_a_repeated_packet_is_refused_and_an_overtaken_one_is_not():
    one, other = seal(OLD), seal(OLD, seed=2)
    first, second = one.wrap(b"first"), one.wrap(b"second")
    assert other.unwrap(second) == b"second"
    assert other.unwrap(first) == b"first"
    for frame in (first, second):
        with pytest.raises(FrameReplayed):
            other.unwrap(frame)


def test_a_forged_counter_moves_no_window():
    one, other = seal(OLD), seal(OLD, seed=2)
    frame = one.wrap(b"news")
    with pytest.raises(FrameRefused):
        other.unwrap(frame[:12] + b"\xff" * 4 + frame[16:])
    assert other.unwrap(frame) == b"news"


def test_the_window_reaches_back_1024_packets():
    windows = ReplayWindows()
    assert windows.fresh(b"salt", 5000)
    assert windows.fresh(b"salt", 5000 - WINDOW + 1)
    assert not windows.fresh(b"salt", 5000 - WINDOW)
    assert not windows.fresh(b"salt", 5000)
    assert windows.fresh(b"salt", 4_000_000_000)
    assert not windows.fresh(b"salt", 5001)


def test_salts_are_bounded_and_the_least_recent_is_forgotten():
    windows = ReplayWindows()
    for number in range(MOST_SALTS + 10):
        windows.fresh(number.to_bytes(8, "big"), 1)
        windows.fresh(b"busy one", number)
    assert len(windows) == MOST_SALTS
    assert not windows.fresh(b"busy one", 1)


def test_nonces_never_repeat_over_renewal_and_wrap(monkeypatch):
    monkeypatch.setattr("shoal.gossip.seal._COUNTER_LIMIT", 3)
    one = seal(OLD)
    nonces = [one.wrap(b"")[4:16] for _ in range(7)]
    one.renew()
    nonces += [one.wrap(b"")[4:16], one.wrap_stream(b"")[4:16]]
    assert len(set(nonces)) == 9
    assert len({nonce[:8] for nonce in nonces}) == 5


def test_streams_count_apart_so_that_a_slow_one_still_arrives():
    one, other = seal(OLD), seal(OLD, seed=2)
    slow = one.wrap_stream(b"table")
    for _ in range(WINDOW + 1):
        other.unwrap(one.wrap(b"ping"))
    assert other.unwrap(slow) == b"table"


def test_a_ring_is_changed_by_install_use_and_remove():
    ring = KeyRing.of([OLD])
    ring = ring.install(NEW)
    assert ring.ids == (key_id(OLD), key_id(NEW))
    assert ring.install(NEW) is ring
    ring = ring.use(key_id(NEW))
    assert ring.in_use == key_id(NEW)
    ring = ring.remove(key_id(OLD))
    assert ring.keys == (NEW,)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: KeyRing.of([]), "1 to 8 keys"),
        (lambda: KeyRing.of([b"short"]), "32 bytes, not 5"),
        (lambda: KeyRing.of([OLD, OLD]), "twice"),
        (lambda: KeyRing.of([bytes([n]) * 32 for n in range(MOST_KEYS + 1)]), "not 9"),
        (lambda: KeyRing.of([OLD]).use(key_id(NEW)), f"installed: {key_id(OLD)}"),
        (lambda: KeyRing.of([OLD]).remove(key_id(NEW)), f"no key {key_id(NEW)}"),
        (lambda: KeyRing.of([OLD, NEW]).remove(key_id(OLD)), "use another one first"),
    ],
)
def test_what_a_ring_cannot_do_it_says(act, says):
    with pytest.raises(KeyRefused, match=says):
        act()


def test_neither_ring_nor_errors_show_a_key():
    assert "\\x01" not in repr(KeyRing.of([OLD]))
    with pytest.raises(KeyRefused) as refused:
        parse_key(key_text(OLD)[:-8])
    assert key_text(OLD)[:8] not in str(refused.value)


def test_a_key_is_read_back_from_its_text():
    assert parse_key(key_text(OLD) + "\n") == OLD


@pytest.mark.parametrize(
    "text", ["", "é", "AAAA", "not base64!", key_text(OLD)[:-1], key_text(OLD) + "A", "_" + key_text(OLD)[1:]]
)
def test_anything_else_is_no_key(text):
    with pytest.raises(KeyRefused):
        parse_key(text)


def test_two_bits_that_nobody_reads_are_refused_too():
    text = key_text(OLD)
    with pytest.raises(KeyRefused, match="canonical"):
        parse_key(text[:-2] + chr(ord(text[-2]) + 1) + "=")


def test_keys_change_while_it_runs():
    one, other = seal(OLD), seal(OLD, seed=2)
    other.ring = other.ring.install(NEW)
    one.ring = one.ring.install(NEW).use(key_id(NEW))
    assert other.unwrap(one.wrap(b"in the new key")) == b"in the new key"
    one.ring = one.ring.remove(key_id(OLD))
    with pytest.raises(FrameRefused):
        one.unwrap(other.wrap(b"in the old key"))


def test_who_slept_through_a_rotation_is_answered_in_its_old_key():
    sleeper, member = seal(OLD), seal(NEW, OLD, seed=2)
    member.unwrap(sleeper.wrap(b"ping"), HERE)
    assert sleeper.unwrap(member.wrap(b"ack", HERE)) == b"ack"
    assert sleeper.unwrap(member.wrap_stream(b"table", HERE)) == b"table"
    with pytest.raises(FrameRefused):
        sleeper.unwrap(member.wrap(b"ack", THERE))
    awake = seal(NEW, seed=3)
    member.unwrap(awake.wrap(b"ping"), HERE)
    assert awake.unwrap(member.wrap(b"ack", HERE)) == b"ack"


def test_keys_with_one_id_on_the_wire_are_both_tried():
    first = key_id(OLD)[:2]
    twin = next(key for key in (n.to_bytes(32, "big") for n in range(1, 10_000)) if key_id(key)[:2] == first)
    both = seal(OLD, twin)
    assert both.unwrap(seal(twin, seed=2).wrap(b"news")) == b"news"


def test_a_node_takes_sealed_news_and_counts_the_rest_with_the_address_once_a_minute(kit):
    node, sender = kit.node(seal=seal(OLD)), seal(OLD, seed=2)
    node.serve(sender.wrap_stream(kit.greeting(9)), kit.address(9), 1.0)
    frame = sender.wrap(wire.message(wire.GOSSIP, kit.speaker(9), (pack_row(kit.row(3)),)))
    effects = node.receive(frame, kit.address(9), 1.0)
    assert node.member(kit.id(3)) is not None
    assert not node.receive(frame, kit.address(9), 1.0)
    assert node.counters["refused: replayed"] == 1
    effects = [e for at in (1.0, 30.0, 60.0) for e in node.receive(kit.gossip(9), kit.address(8), at)]
    assert node.counters["refused: wrong key or cluster"] == 3
    assert [e.fields["source"] for e in effects if isinstance(e, Note)] == ["10.0.0.8:7931"]
    assert not any(isinstance(e, Send) for e in effects)


def test_a_gap_renews_the_nonces(kit):
    sealed = seal(OLD)
    node = kit.node(seal=sealed)
    salt = sealed.wrap(b"")[4:12]
    node.resumed(60.0, 100.0)
    assert sealed.wrap(b"")[4:12] != salt


def test_sealed_nodes_talk_over_streams(kit):
    one, other = kit.node(1, seal=seal(OLD)), kit.node(2, seal=seal(OLD, seed=2))
    (ask,) = one.resolved([kit.address(2)], 1.0)
    reply, _ = other.serve(ask.payload, ("10.0.0.1", 40_000), 1.0)
    one.answered(ask.token, reply, 1.1)
    assert one.joined
    assert other.member(kit.id(1)) is not None


def test_gossip_between_the_two_is_read(kit):
    reader = seal(OLD, seed=9)
    node = kit.node(seal=seal(OLD))
    node.serve(reader.wrap_stream(kit.greeting(9)), kit.address(9), 1.0)
    sends = [e for e in node.publish(1, b"record", 1.0) if isinstance(e, Send)]
    assert sends
    assert isinstance(wire.decode(reader.unwrap(sends[0].data)), Gossip)


def changed_over_apart():
    """Two nodes that now seal with the new key, the first having answered the second in the old one meanwhile."""
    ring = KeyRing.of([OLD, NEW])
    one, two = Seal(ring, "shoal", Random(1)), Seal(ring, "shoal", Random(2))
    one.ring = ring.use(key_id(NEW))
    one.unwrap(two.wrap(b"ping", HERE), THERE)
    late = one.wrap(b"ack", THERE)
    two.ring = ring.use(key_id(NEW))
    two.unwrap(late, HERE)
    return one, two


def in_new_key(frame):
    return seal(NEW).unwrap(frame) is not None


def test_two_that_are_known_to_have_the_new_key_do_not_keep_each_other_on_the_old_one():
    one, two = changed_over_apart()
    one.holders, two.holders = frozenset([THERE]), frozenset([HERE])
    for _ in range(3):
        ping = two.wrap(b"ping", HERE)
        one.unwrap(ping, THERE)
        ack = one.wrap(b"ack", THERE)
        two.unwrap(ack, HERE)
        assert in_new_key(ping)
        assert in_new_key(ack)


def test_a_late_packet_in_the_old_key_does_not_bring_a_holder_back_to_it():
    one, two = changed_over_apart()
    late = two.wrap(b"late", HERE)
    one.holders = frozenset([THERE])
    assert one.unwrap(late, THERE) == b"late"
    assert in_new_key(one.wrap(b"ack", THERE))


def test_who_is_not_known_to_have_the_new_key_is_answered_in_its_own():
    one = Seal(KeyRing.of([NEW, OLD]), "shoal", Random(1))
    one.holders = frozenset([HERE])
    sleeper = seal(OLD, seed=2)
    one.unwrap(sleeper.wrap(b"ping"), THERE)
    assert sleeper.unwrap(one.wrap(b"ack", THERE)) == b"ack"
