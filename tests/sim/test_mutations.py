"""Cores broken on purpose: each is caught by a checker, which the core as it is passes.

A mutation is one rule of MEMBERSHIP.md taken away by monkeypatching; the checker names the property that it breaks.
"""

from __future__ import annotations

from functools import partial

import pytest
import sim_checks as checks
import sim_churn as churn
import sim_probing as probing
import sim_scenes as scenes
import sim_traffic as traffic
from shoal.gossip import Left, Rank, Settings, State, answer, border, core, liveness, precedence
from shoal.gossip.farewell import Farewell
from shoal.gossip.health import Health
from shoal.gossip.intake import Intake
from shoal.gossip.liveness import Liveness
from shoal.gossip.messages import Flag
from shoal.gossip.node import Node
from shoal.gossip.probe import Prober
from shoal.gossip.selfrules import SelfRules
from shoal.gossip.simulated_base import SharedPopulation
from shoal.gossip.spread import Queue, Spread
from shoal.gossip.strangers import Strangers
from shoal.gossip.sync import Syncer


def no_recheck_at_expiry(patch):
    """The suspicion's timer kills whatever is shown by then."""

    def expire(self, node_id, now):
        entry = self._core.table.get(node_id)
        if entry is not None and entry.live:
            entry = self._core.table.edit(node_id)
            entry.row = entry.row._replace(claim=entry.row.claim._replace(rank=Rank.DEAD, accusers=()))
            was = entry.shown
            self._show(entry, State.DEAD, now)
            self._tell(entry, was)
            self._core.table.touch(entry, now)
            self._spread.row(node_id, now)

    patch(Liveness, "expire", expire)


def equal_alive_accepted(patch):
    """An alive claim of the same version revives."""
    join = precedence.join

    def mutated(held, offered, most_accusers):
        if offered.rank is Rank.ALIVE and precedence.same_version(held, offered) and held.rank is not Rank.ALIVE:
            return offered
        return join(held, offered, most_accusers)

    patch(liveness, "join", mutated)


def tombstones_forgotten(patch):
    """A dead node is dropped at once."""
    expire = Liveness.expire

    def mutated(self, node_id, now):
        expire(self, node_id, now)
        entry = self._core.table.get(node_id)
        if entry is not None and entry.shown is State.DEAD:
            self._core.table.remove(node_id, now)

    patch(Liveness, "expire", mutated)


def no_witness(patch):
    """A failed probe accuses, whether or not anybody heard us."""

    def mutated(self, probe, now):
        entry = self._core.table.get(probe.target)
        return entry is not None and entry.live and now >= self._core.accuse_after

    patch(Prober, "_may_accuse", mutated)


def no_budget(patch):
    """Any number of suspicions that nobody confirmed."""
    patch(Liveness, "may_accuse_unconfirmed", lambda _self: True)


def no_accusers(patch):
    """Suspect rows do not say who accuses, so that nothing is ever confirmed."""
    accept = Liveness.accept

    def mutated(self, row, via, now, age=None):
        if row.claim.accusers:
            row = row._replace(claim=row.claim._replace(accusers=(bytes(8),)))
        return accept(self, row, via, now, age)

    patch(Liveness, "accept", mutated)


def no_refutation(patch):
    """A node lets others say that it is suspect or dead."""
    about_me = SelfRules.about_me

    def mutated(self, claim, *rest):
        return False if claim.rank in {Rank.SUSPECT, Rank.DEAD} else about_me(self, claim, *rest)

    patch(SelfRules, "about_me", mutated)


def no_send_limit(patch):
    """What is queued is sent for ever."""
    take = Queue.take
    patch(Queue, "take", lambda self, packed, budget, _limit: take(self, packed, budget, 1 << 30))


def silence_unnoticed(patch):
    """A node that hears nothing does not see that."""
    patch(Health, "listen", lambda *_: False)


def generations_ignored(patch):
    """A restart is not newer than the life before it."""
    patch(precedence, "standing", lambda claim: (0, claim.rank is Rank.LEFT, claim.incarnation, claim.rank))


def hearsay_kills(patch):
    """A dead claim is shown at once."""
    suspect = Liveness._suspect

    def mutated(self, entry, now):
        if entry.row.claim.rank is Rank.DEAD:
            self._show(entry, State.DEAD, now)
        else:
            suspect(self, entry, now)

    patch(Liveness, "_suspect", mutated)


def no_quiet_bits(patch):
    """Pings and acks never say that a table is quiet."""
    opening = core.Core.opening

    def mutated(self, *args):
        data = opening(self, *args)
        return data[:1] + bytes((data[1] & ~(Flag.QUIET_TABLE | Flag.QUIET_BUCKET),)) + data[2:]

    patch(core.Core, "opening", mutated)


def no_anti_entropy(patch):
    """Hashes are not compared."""
    patch(Syncer, "compare", lambda *_: None)


def the_dead_believed(patch):
    """Rows count whoever brings them."""
    take = Intake.take

    def mutated(self, items, _sender, now):
        return take(self, items, self._core.identity.node_id, now)

    patch(Intake, "take", mutated)


def gaps_ignored(patch):
    """A thawed node goes on as if it had heard everything."""
    patch(Node, "_gap", lambda *_: None)


def boot_ids_ignored(patch):
    """A live twin is taken for an echo."""
    acked = SelfRules.acked

    def mutated(self, ack, now):
        return acked(self, ack._replace(items=ack.items._replace(boot_id=b"")), now)

    patch(SelfRules, "acked", mutated)


def strangers_believed(patch):
    """Whoever sends a datagram is a member."""
    patch(Strangers, "believed", lambda *_: True)


def answers_without_proof(patch):
    """Whoever asks gets a full packet back, wherever it says it is."""
    for module in (answer, border):
        patch(module, "room_for", lambda _bytes, **_: 1100)


def no_bounds_on_claims(patch):
    """Any generation and incarnation is taken."""
    from shoal.gossip import items

    patch(items, "generation", lambda value, _place: value)
    patch(items, "incarnation", lambda value, _place: value)


def dead_never_retried(patch):
    """Nobody pings the dead."""
    patch(Prober, "heal", lambda *_: None)


def relays_never_asked(patch):
    """A failed direct ping is the whole round."""
    patch(Prober, "_relays_for", lambda *_: [])


def nobody_heard(patch):
    """Who hears nobody accuses, and who is accused says nothing."""
    no_witness(patch)
    no_refutation(patch)


def drawn_by_lot(patch):
    """Whom to probe next is chance, whoever was probed before."""
    patch(SharedPopulation, "draw", lambda self, chance: next(iter(self.sample(chance, 1)), None))


def one_receiver(patch):
    """Each tick tells one member."""
    receivers = Spread._receivers
    patch(Spread, "_receivers", lambda self, _count: receivers(self, 1))


def goodbye_unsaid(patch):
    """Who leaves just goes."""
    patch(Farewell, "begin", lambda self, _now: self._core.emit(Left()))


def never_reaped(patch):
    """Tombstones are kept for ever."""
    patch(Liveness, "reap", lambda *_: None)


QUICK = partial(checks.crash_is_noticed, count=16, within=16.0)

SEEDS = 3  # a mutation is to be caught in one of them; the core passes in all
CAUGHT = [
    (no_recheck_at_expiry, scenes.refuted_is_no_death),
    (equal_alive_accepted, scenes.dead_stay_dead),
    (tombstones_forgotten, scenes.dead_stay_dead),
    (no_witness, scenes.deaf_node_accuses_nobody),
    (no_budget, scenes.deaf_node_keeps_to_its_budget),
    (no_accusers, QUICK),
    (no_refutation, scenes.refuted_is_no_death),
    (no_send_limit, scenes.news_stops),
    (silence_unnoticed, scenes.deaf_node_keeps_to_its_budget),
    (generations_ignored, scenes.restart_is_one_replacement),
    (hearsay_kills, scenes.second_hand_death_is_refuted),
    (no_quiet_bits, scenes.hole_is_filled),
    (no_anti_entropy, partial(scenes.hole_is_filled, within=120.0)),
    (the_dead_believed, scenes.the_dead_are_not_believed),
    (gaps_ignored, scenes.thawed_judges_nobody),
    (boot_ids_ignored, scenes.twin_takes_a_new_id),
    (answers_without_proof, scenes.spoofed_flood_is_not_amplified),
    (strangers_believed, partial(scenes.spoofed_flood_is_not_amplified, strangers=True)),
    (no_bounds_on_claims, scenes.limits_are_refused),
    (dead_never_retried, partial(checks.partition_heals, seconds=60.0)),
    (relays_never_asked, QUICK),
]
WITHOUT_TCP = Settings.lan(tcp_fallback=False)
# The properties themselves, as small as shows it; P13 and P14 are above.
PROPERTIES = [
    (drawn_by_lot, probing.first_ping_comes_soon),
    (drawn_by_lot, probing.everybody_is_probed),
    (one_receiver, partial(checks.spread_is_quick, count=64, news=4)),
    (no_anti_entropy, checks.no_hole_stays),
    (no_refutation, partial(checks.loss_kills_nobody, count=24, seconds=60.0, settings=WITHOUT_TCP)),
    (no_send_limit, partial(traffic.is_bounded, fault=traffic.half_dead)),
    (tombstones_forgotten, checks.no_hole_stays),
    (
        nobody_heard,
        partial(checks.stalls_kill_nobody, count=32, stalled=8, seconds=60.0, noticed=False, settings=WITHOUT_TCP),
    ),
    (generations_ignored, partial(checks.stopped_and_odd_clocks, count=16)),
    (never_reaped, churn.stays_flat),
    (generations_ignored, partial(checks.all_restart, count=24)),
    (goodbye_unsaid, partial(checks.leave_is_known, count=24, loss=0.0)),
]


def breaks(checker, seed):
    try:
        checker(seed)
    except checks.Broken:
        return True
    return False


def name_of(checker):
    return getattr(checker, "func", checker).__name__


@pytest.mark.parametrize(
    ("mutation", "checker"),
    [*CAUGHT, *PROPERTIES],
    ids=[f"{m.__name__}-{name_of(c)}" for m, c in [*CAUGHT, *PROPERTIES]],
)
def test_a_mutated_core_is_caught(mutation, checker, monkeypatch):
    mutation(monkeypatch.setattr)
    assert any(breaks(checker, seed) for seed in range(SEEDS)), f"{mutation.__name__} passes {name_of(checker)}"


@pytest.mark.parametrize("checker", dict.fromkeys(c for _, c in CAUGHT), ids=name_of)
def test_the_core_as_it_is_passes(checker):
    for seed in range(SEEDS):
        checker(seed)


@pytest.mark.parametrize("checker", dict.fromkeys(c for _, c in PROPERTIES), ids=name_of)
def test_the_core_as_it_is_has_the_properties_at_these_sizes_too(checker):
    checker(0)
