"""Takes what a message carries: rows first, then sections and vitals, each by its own rule."""

from __future__ import annotations

from typing import NamedTuple

from .core import Core
from .liveness import Liveness, Verdict
from .member import Address, Rank, SectionKind
from .messages import Ack, Head, Items, Ping, Row, Speaker, VitalsItem
from .relay import VitalsRelay
from .sections import Sections


class Taken(NamedTuple):
    """What a message did."""

    taught: bool
    outdated: tuple[bytes, ...]
    """Ids of nodes about which the sender knows less than we do."""


NOTHING_TAKEN = Taken(taught=False, outdated=())


class Intake:
    """The one door for what others say."""

    def __init__(self, core: Core, liveness: Liveness, sections: Sections, relay: VitalsRelay) -> None:
        self._core = core
        self._liveness = liveness
        self._sections = sections
        self._relay = relay

    def hear(self, speaker: Speaker, address: Address | None, items: Items, now: float) -> Taken:
        """A message came: who sent it, where that one can be reached if it is known, and what else it says."""
        verdict = self._liveness.hear(speaker, address, now)
        if items.unknown:
            self._core.counters["items of unknown type"] += items.unknown
        taken = self.take(items, speaker.node_id, now) if items else NOTHING_TAKEN
        if verdict is Verdict.OUTDATED:
            return Taken(taken.taught, (speaker.node_id, *taken.outdated))
        return taken

    def take(self, items: Items, sender: bytes, now: float) -> Taken:
        """Merge everything in `items`."""
        taught = False
        outdated: list[bytes] = []
        ages = dict(items.ages)
        known = self._core.table.get(sender)
        trusted = known is None or known.live
        mine = self._core.identity.node_id
        for row in items.rows:
            node_id = row.claim.node_id
            # A sender that we show dead speaks only of itself and of us: else two that hold each other dead never heal.
            if not trusted and node_id not in {sender, mine}:
                self._core.count("rows of the dead ignored")
                continue
            verdict = self._liveness.accept(row, sender, now, ages.get(node_id))
            taught = taught or verdict is Verdict.NEWER
            if verdict is Verdict.OUTDATED and (node_id == mine or not self._core.stale):
                outdated.append(node_id)
        if trusted:
            for item in items.sections:
                taught = self._sections.take(item, now, relay=True) or taught
            for vitals in items.vitals:
                self._relay.take(vitals, now)
        return Taken(taught, tuple(outdated))

    def report(self, message: Ping | Ack, now: float) -> None:
        """What a ping or an ack says of its sender beside the claim: the version of its record, and its vitals."""
        speaker, summary = message.sender, message.summary
        entry = self._core.table.get(speaker.node_id)
        if entry is None or entry.claim.generation != speaker.generation:
            return
        if summary.record_version:
            head = entry.head(SectionKind.RECORD)
            if head is None or head.version < summary.record_version:
                news = Head(SectionKind.RECORD, summary.record_version, summary.record_digest)
                claim = entry.claim._replace(rank=Rank.ALIVE, accusers=())
                self._liveness.accept(Row(claim, (news,)), speaker.node_id, now)
        if message.vitals:
            self._relay.take(VitalsItem(speaker.node_id, speaker.generation, 0.0, message.vitals), now)
