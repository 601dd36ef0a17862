"""Scenes with a forger, a deaf node, a twin or a hole: each runs and raises `Broken` with the reason.

They use only what a neighbour could send: rows in frames of the cluster, from any source.
"""

from __future__ import annotations

from shoal.gossip import Change, Rank, SectionKind, State, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.items import pack_row
from shoal.gossip.member import Claim
from shoal.gossip.messages import Row, Speaker
from shoal.gossip.simulation import Network
from shoal.gossip.suspicion import most_unconfirmed, shortest
from sim_checks import demand, equal_tables, false_deaths, meshed, rest

FRAMES = PlainFrames("shoal")
FOREIGN = ("10.9.9.9", 7931)


def claim_of(cluster, index):
    return cluster.machines[index].node._core.me.claim


def forged(sender, *claims, frames=FRAMES):
    """A gossip packet in the name of a node, with rows about anybody."""
    speaker = Speaker(sender.node_id, sender.generation, sender.incarnation)
    return frames.wrap(wire.message(wire.GOSSIP, speaker, [pack_row(Row(claim)) for claim in claims]))


def inject(cluster, to, sender, *claims, source=None):
    """Let one node receive rows as if from another."""
    cluster.inject(to, forged(claim_of(cluster, sender), *claims), source or cluster.machines[sender].address)


def second_hand_death_is_refuted(seed, *, count=16):
    """A death heard from others is no death before its time: the accused refutes, nobody shows it dead."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    inject(cluster, 2, 3, claim_of(cluster, 5)._replace(rank=Rank.DEAD))
    cluster.run(30.0)
    demand(not cluster.of(Change.FAILED), "P7 shown dead by hearsay", cluster.of(Change.FAILED)[:3])
    demand(claim_of(cluster, 5).incarnation == 1, "the accused refutes", claim_of(cluster, 5))


def the_dead_are_not_believed(seed, *, count=16):
    """daos#15894: a node that all show dead says that everyone is dead."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    cluster.crash(1)
    cluster.run(40.0)
    cluster.happenings.clear()
    for observer in range(2, count):
        dead = [claim_of(cluster, i)._replace(rank=Rank.DEAD) for i in range(2, count) if i != observer]
        inject(cluster, observer, 1, *dead)
    cluster.run(20.0)
    accused = [h for h in cluster.of(Change.SUSPECTED, Change.FAILED) if cluster.index_of(h.subject) != 1]
    demand(not accused, "daos#15894 the dead are believed", accused[:3])


def deaf_node_accuses_nobody(seed, *, count=16, seconds=8.0):
    """Nothing comes in at one node, for less than two shortest suspicions: it has no witness, so it accuses nobody."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    cluster.cuts.deafen([3])
    cluster.run(seconds)
    accused = [h for h in cluster.of(Change.SUSPECTED) if cluster.index_of(h.subject) != 3]
    demand(not accused, "witness: a deaf node accuses", accused[:3])


def deaf_node_keeps_to_its_budget(seed, *, count=32, seconds=60.0):
    """Deaf for long it accuses, but only so many at a time, and nobody dies of it elsewhere."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    cluster.cuts.deafen([3])
    node = cluster.machines[3].node
    low = shortest(cluster.settings, count)
    cluster.run(low + 2.0)
    demand(node.isolated, "isolated after the shortest suspicion")
    end = cluster.now + seconds
    while cluster.now < end:
        cluster.run(0.5)
        allowed = most_unconfirmed(node._core.table.size)
        demand(node.suspected <= allowed, "budget of unconfirmed suspicions", node.suspected, allowed)
    wrong = false_deaths(cluster, [3])
    demand(not wrong, "a deaf node kills", wrong[:3])


def refuted_is_no_death(seed, *, count=12):
    """One node is stopped until it is suspected, then goes on: it refutes, and is not shown dead by anybody."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    for _ in range(6):
        cluster.freeze(4, 3.4)
        cluster.run(30.0)
        demand(not cluster.of(Change.FAILED), "P9 refuted in time, and dead", cluster.of(Change.FAILED)[:3])
    demand(cluster.of(Change.SUSPECTED), "the scene suspects somebody")
    demand(meshed(cluster), "all alive at the end")


def restart_is_one_replacement(seed, *, count=16):
    """A restarted node is one replacement for everybody, and nothing else."""
    cluster = rest(count, seed)
    cluster.seeds = [0]
    cluster.run(5.0)
    cluster.crash(5)
    cluster.run(0.1)
    cluster.restart(5, moved=True)
    at = cluster.now
    cluster.run(20.0)
    events = sorted((h.observer, h.what.value) for h in cluster.happenings if h.observer != 5)
    expected = sorted((i, what) for i in range(count) if i != 5 for what in ("address", "replaced"))
    demand(events == expected, "consul#733 one replacement for everybody", events[:4])
    return max(cluster.first_seen(Change.REPLACED, 5).values()) - at


def news_stops(seed, *, count=16):
    """What is queued is sent so often, and then no more; equal tables at rest say nothing."""
    cluster = rest(count, seed)
    cluster.run(2.0)
    for index in range(4):
        cluster.publish(index, bytes(100), SectionKind.SCHEDULE)
    cluster.run(10.0)
    queued = [len(m.node._parts.spread) for m in cluster.machines]
    demand(not any(queued), "queues drain to 0", queued)


def hole_is_filled(seed, *, count=16, within=10.0):
    """News that gossip lost comes by a sync as soon as the bucket is quiet, long before a sync interval is over."""
    cluster = rest(count, seed)
    cluster.run(40.0)
    cluster.network = Network(loss=1.0)
    cluster.publish(7, b"changed", SectionKind.SCHEDULE)
    queue = cluster.machines[7].node._parts.spread
    queue.clear()
    cluster.network = Network()
    demand(not equal_tables(cluster), "the scene makes a hole")
    filled = cluster.run_until(lambda: equal_tables(cluster), within)
    demand(filled, "P4 quiet tables sync", cluster.now)


def twin_takes_a_new_id(seed, *, count=12):
    """A copied state directory: one of the two takes a new id within seconds, once, with a conflict told."""
    cluster = rest(count, seed)
    cluster.seeds = [0]
    cluster.run(5.0)
    twin = cluster.clone(4)
    cluster.start([twin.index])
    cluster.run(15.0)
    ids = {m.identity.node_id for m in cluster.running()}
    demand(len(ids) == count + 1, "twin: two ids", len(ids))
    demand(cluster.conflicts, "twin: conflict is told")
    cluster.happenings.clear()
    conflicts = len(cluster.conflicts)
    cluster.run(60.0)
    flapping = [h for h in cluster.happenings if h.what in {Change.SUSPECTED, Change.REPLACED, Change.ADDRESS}]
    demand(not flapping and len(cluster.conflicts) == conflicts, "twin: no flapping", flapping[:3])
    demand(meshed(cluster), "twin: full mesh", [m.node.alive for m in cluster.running()])


def spoofed_flood_is_not_amplified(seed, *, count=8, packets=200, strangers=False):
    """memberlist#371: packets with a forged source get no more bytes back than they brought, then or later.

    They are pings in a member's name, or whatever anybody can say who knows no member.
    """
    cluster = rest(count, seed, record=bytes(440))
    cluster.run(5.0)
    for index in range(count):
        cluster.publish(index, bytes(400), SectionKind.SCHEDULE)
    received, sent = 0, 0

    def tap(_machine, data, to):
        nonlocal sent
        if to == FOREIGN:
            sent += len(data)

    cluster.tap = tap
    claim = claim_of(cluster, 5)
    for number in range(packets):
        speaker = Speaker(cluster.chance.randbytes(16), claim.generation, 0) if strangers else Speaker(*claim[:3])
        aim = wire.aim(claim_of(cluster, 1).node_id, claim_of(cluster, 1).generation, Rank.ALIVE, 0)
        opening = wire.opening(wire.PING, number, speaker, 0, (0, bytes(8), 1, 0, 1))
        data = FRAMES.wrap(opening + aim)
        if strangers and number % 2:
            rows = [pack_row(Row(Claim(cluster.chance.randbytes(16), 1, 0, Rank.ALIVE, FOREIGN))) for _ in range(15)]
            data = FRAMES.wrap(wire.message(wire.GOSSIP, speaker, rows))
        received += len(data)
        cluster.inject(1, data, FOREIGN)
        cluster.run(0.01)
    cluster.run(60.0)
    demand(sent <= received, "memberlist#371 amplified", sent, received)
    return sent / received


def dead_stay_dead(seed, *, count=24):
    """After a crash nobody shows the dead alive again, however late the old rows come."""
    cluster = rest(count, seed, network=Network(held=0.3, hold=20.0))
    cluster.run(5.0)
    stale = claim_of(cluster, 6)
    cluster.crash(6)
    cluster.run(60.0)
    cluster.happenings.clear()
    for observer in (1, 2, 3):
        inject(cluster, observer, 9, stale, stale._replace(rank=Rank.SUSPECT, accusers=(bytes(8),)))
    cluster.run(30.0)
    back = [h for h in cluster.of(Change.JOINED, Change.REFUTED) if cluster.index_of(h.subject) == 6]
    demand(not back, "P7 resurrection", back[:3])
    shown = {m.node._core.table.get(stale.node_id) for m in cluster.running()}
    demand(all(e is not None and e.shown is State.DEAD for e in shown), "P7 tombstones are kept")


def limits_are_refused(seed, *, count=12):
    """memberlist#358: rows with values at or beyond their type's end change nothing."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    target = claim_of(cluster, 4)
    for rank in (Rank.ALIVE, Rank.DEAD, Rank.LEFT):
        for generation, incarnation in (((1 << 63), 0), ((1 << 64) - 1, 0), (target.generation, (1 << 32) - 1)):
            claim = Claim(target.node_id, generation, incarnation, rank, target.address)
            for observer in range(count):
                inject(cluster, observer, 9, claim)
    cluster.run(30.0)
    demand(not cluster.happenings, "memberlist#358 refused", cluster.happenings[:3])
    refused = sum(v for m in cluster.machines for k, v in m.node.counters.items() if k.startswith("malformed"))
    demand(refused >= 9 * count, "counted", refused)
    # The greatest values that are valid: the owner outdoes them or takes another id, and is alive everywhere.
    inject(cluster, 2, 9, target._replace(generation=(1 << 63) - 1, rank=Rank.DEAD))
    inject(cluster, 3, 9, target._replace(incarnation=(1 << 32) - 2, rank=Rank.DEAD))
    cluster.run(60.0)
    alive = [m.node.alive for m in cluster.running()]
    demand(alive == [count] * count, "memberlist#358 alive everywhere", alive)


def thawed_judges_nobody(seed, *, count=12):
    """A process stopped over the end of a suspicion that was refuted meanwhile does not kill when it goes on."""
    cluster = rest(count, seed)
    cluster.run(5.0)
    cluster.cuts.block([4], range(count))
    suspected = cluster.run_until(lambda: cluster.shown(7, 4) is State.SUSPECT, 30.0, every=0.02)
    demand(suspected, "the scene suspects somebody")
    cluster.freeze(7, 40.0)
    cluster.heal()
    cluster.run(60.0)
    killed = [h for h in cluster.of(Change.FAILED) if h.observer == 7]
    demand(not killed, "P9 a thawed node kills", [(h.at, cluster.index_of(h.subject)) for h in killed[:3]])
