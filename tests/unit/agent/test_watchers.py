from shoal.agent.watchers import Missed, NodeEvent, Watchers
from shoal.placement.nodes import NodeRecord


def event(kind, node="n1"):
    return NodeEvent(kind=kind, node_id=node, record=NodeRecord(node_id=node), at=1.0)


def taken(subscription):
    changes = []
    while (change := subscription.take()) is not None:
        changes.append("missed" if isinstance(change, Missed) else change.kind)
    return changes


def test_a_subscriber_gets_every_change_in_order():
    watchers = Watchers()
    with watchers.subscribe() as one, watchers.subscribe() as two:
        for kind in ("joined", "record", "failed"):
            watchers.publish(event(kind))
        assert taken(one) == taken(two) == ["joined", "record", "failed"]


def test_a_subscriber_that_falls_behind_is_told_once_and_goes_on():
    watchers = Watchers()
    with watchers.subscribe(limit=3) as slow:
        for _ in range(100):
            watchers.publish(event("record"))
        assert len(slow._queue) == 0
        assert taken(slow) == ["missed"]
        watchers.publish(event("left"))
        assert taken(slow) == ["left"]


def test_vitals_are_only_for_those_who_ask():
    watchers = Watchers()
    with watchers.subscribe() as plain, watchers.subscribe(vitals=True) as all_of_it:
        watchers.publish(event("vitals"))
        assert taken(plain) == []
        assert taken(all_of_it) == ["vitals"]


def test_a_subscription_ends_with_its_block():
    watchers = Watchers()
    with watchers.subscribe() as gone:
        pass
    watchers.publish(event("joined"))
    assert taken(gone) == []
    assert len(watchers) == 0
