from shoal.gossip import Send
from shoal.gossip.frames import DATAGRAM_BYTES, SEAL_BYTES


def met(kit, told):
    one, two = kit.node(1), kit.node(2)
    told(one, kit.row(2), now=1.0)
    told(two, kit.row(1), now=1.0)
    return one, two


def test_an_echo_of_either_size_is_answered_and_seen_once(kit, told):
    one, two = met(kit, told)
    for full in (False, True):
        number, (ping,) = one.echo(kit.id(2), 2.0, full=full)
        assert ping.to == kit.address(2)
        assert (len(ping.data) + SEAL_BYTES - 4 == DATAGRAM_BYTES) is full
        assert one.echoed(number) is False
        ack = next(e for e in two.receive(ping.data, kit.address(1), 2.0) if isinstance(e, Send))
        assert len(ack.data) <= len(ping.data)
        one.receive(ack.data, kit.address(2), 2.1)
        assert (one.echoed(number), one.echoed(number)) == (True, False)


def test_an_unanswered_echo_accuses_nobody(kit, told):
    one, _two = met(kit, told)
    number, _effects = one.echo(kit.id(2), 2.0, full=False)
    one.echo(kit.id(2), 600.0, full=True)
    assert one.suspected == 0
    assert one.echoed(number) is False


def test_a_stranger_and_oneself_are_not_asked(kit):
    one = kit.node(1)
    assert one.echo(kit.id(7), 1.0, full=False) == (None, [])
    assert one.echo(kit.id(1), 1.0, full=False) == (None, [])
