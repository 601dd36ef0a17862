"""The keys of this agent: where they come from, how they change while it runs, and how all nodes follow.

**Where from.** The key file, or the systemd credential, at the start. A ring changed at run time is kept in the state
directory and goes before the file, whose other keys still open frames unless they were removed at run time. When the
file holds other keys than at the last start, an operator gave this node new keys: the file then goes first, until
the cluster tells its ring.

**How it spreads.** An operator changes the ring on one node; the document travels as a gossip section, sealed under the
key in use like all gossip, and every node follows the latest (see `key_document`). So a key that others may have is
no cover for its successor: whoever recorded the traffic reads the new key. After a leak install the new key on each
machine (`keys install --here`, or the key file), from where it never travels; then `keys rotate --to ID` moves ids.

**Why nobody is cut off.** A key is used only when every live member is known to open it, and removed only when every
member, the dead too, is known to have the one in use: who slept joins while its old key is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import structlog
import trio

from ..gossip.errors import KeyRefused
from ..gossip.member import Member, SectionKind, State
from ..gossip.seal import KeyRing, Seal, key_id, parse_key
from .errors import Refused, StateUnusable
from .key_document import MOST_REMOVED, Document, Report
from .key_facts import KeyFacts, RingFacts, ring_facts
from .key_store import KEYS, Stored, stored_keys
from .payloads import PayloadError
from .state import StateDirectory

log = structlog.get_logger("shoal.agent")


# A removed key opens frames this much longer, and is reported until then: who spoke it of late is answered in it until
# the removal has arrived there too. Gossip needs a few seconds, in the profile wan.
LINGER_SECONDS = 10.0
# Who carries the document changes only with members: looking again this often is soon enough.
CARRIER_SECONDS = 1.0
_LIVE = (State.ALIVE, State.SUSPECT)


class Keys:
    """The ring in force and the changes to it; everything in trio's thread.

    `members` are all that gossip shows, `here` is our node id, and `publish` tells our report. Commands raise
    Refused, and StateUnusable when the ring cannot be stored; then nothing changed.
    """

    def __init__(  # noqa: PLR0913 - what it is made of, and its four ways out
        self,
        file: KeyRing,
        cluster: str,
        chance: Any,
        *,
        state: StateDirectory | None,
        here: Callable[[], bytes],
        members: Callable[[], Iterable[Member]],
        publish: Callable[[bytes], None],
    ) -> None:
        self._file = file
        self._state = state
        self._here = here
        self._members = members
        self._publish = publish
        self._reports: dict[bytes, tuple[tuple[int, int, bytes], Report | None]] = {}
        self._stir = trio.Event()
        self._removals = trio.Event()
        self._leaving: tuple[bytes, ...] = ()
        stored = stored_keys(state)
        ring = file
        if stored is not None and stored.file == file.ids:
            self._held = stored
            ring = stored.document.ring(file, self._own)
        else:
            self._held = Stored(file=file.ids)
            if stored is not None:
                log.warning("keys.file_changed", keys=", ".join(file.ids))
                ring = _with(file, stored.document.ring(file, stored.own).keys)
            elif state is not None:
                self._save(self._held)
        self._wanted = ring
        self.seal = Seal(ring, cluster, chance)

    @property
    def ring(self) -> KeyRing:
        """In force, with the keys that were removed a moment ago."""
        return self.seal.ring

    @property
    def file_ids(self) -> tuple[str, ...]:
        """Ids of the keys in the key file at the start."""
        return self._file.ids

    @property
    def _own(self) -> tuple[bytes, ...]:
        return (*self._file.keys, *self._held.own)

    # Telling and hearing

    def tell(self) -> None:
        """Publish our report; the same again does nothing."""
        document = self._held.document
        carried = document if document.epoch and self._carrier() == self._here() else None
        self._publish(Report(order=document.order, ids=self.ring.ids, document=carried).encode())

    def heard(self, member: Member) -> None:
        """A member's keys section is new. A document later than ours is followed at once."""
        report = self._report(member)
        if report is not None and report.document is not None and member.node_id != self._here():
            order = report.document.order
            if order > self._held.document.order:
                self._follow(report.document)
        self.stir()

    def stir(self) -> None:
        """Members changed: perhaps somebody else has to carry the document."""
        self._stir.set()

    async def run(self) -> None:
        while True:
            await self._stir.wait()
            self._stir = trio.Event()
            self._note_holders()
            self.tell()
            await trio.sleep(CARRIER_SECONDS)

    async def run_removals(self) -> None:
        while True:
            await self._removals.wait()
            self._removals = trio.Event()
            leaving = self._leaving
            await trio.sleep(LINGER_SECONDS)
            self.drop(leaving)

    def drop(self, leaving: Iterable[bytes] | None = None) -> None:
        """The time of these removed keys, or of all, is over."""
        gone = set(self._leaving if leaving is None else leaving)
        self._leaving = tuple(key for key in self._leaving if key not in gone)
        self._apply()

    def _follow(self, document: Document) -> None:
        held = attrs.evolve(self._held, document=document)
        try:
            self._save(held)
        except StateUnusable as error:
            # Staying behind would cut this node off; what it lacks after a restart, the others tell again.
            log.warning("keys.not_stored", error=error.message)
        self._take(held)

    def _take(self, held: Stored) -> None:
        before = self._wanted
        self._held = held
        self._wanted = held.document.ring(before, self._own)
        if left := tuple(key for key in before.keys if key not in self._wanted.keys):
            self._leaving = (*self._leaving, *left)
            self._removals.set()
        self._apply()

    def _apply(self) -> None:
        before = self.ring
        self._leaving = tuple(key for key in self._leaving if key not in self._wanted.keys)
        ring = _with(self._wanted, self._leaving)
        # Also when it is the same: it forgets who was answered in a key that leaves now.
        self.seal.ring = ring
        self._note_holders()
        if ring != before:
            log.info("keys.changed", in_use=ring.in_use, installed=", ".join(ring.ids), was=", ".join(before.ids))
        self.tell()

    def _note_holders(self) -> None:
        """Tell the seal who has the key in use. With one key there is no other to answer in."""
        if len(self.ring.keys) == 1:
            self.seal.holders = frozenset()
            return
        used = self.ring.in_use
        shown = ((m.address, self._report(m)) for m in self._members() if m.state in _LIVE)
        self.seal.holders = frozenset(a for a, report in shown if a is not None and used in _ids(report))

    def _carrier(self) -> bytes:
        """Who has the document in its report: its issuer, or else the first by id of those that follow it."""
        order, issuer, here = self._held.document.order, self._held.document.issuer, self._here()
        first = here
        for member in self._members():
            if member.state not in _LIVE:
                continue
            if member.node_id == issuer:
                return issuer
            report = self._report(member) if member.node_id < first else None
            if report is not None and report.order == order:
                first = member.node_id
        return first

    def _report(self, member: Member) -> Report | None:
        """What a member says it has in its present run."""
        section = member.sections.get(SectionKind.KEYS)
        if section is None or section.generation < member.generation:
            return None
        version = section[:3]
        held = self._reports.get(member.node_id)
        if held is None or held[0] != version:
            try:
                report = Report.decode(section.payload)
            except PayloadError:
                report = None
            held = self._reports[member.node_id] = (version, report)
        return held[1]

    # Commands

    def facts(self) -> RingFacts:
        """Which members have which keys, as far as this node knows.

        A rotation is over when no other key than its target is known: one to the only key there is ends with that.
        """
        shown = [member for member in self._members() if member.state is not State.LEFT]
        self._reports = {m.node_id: r for m in shown if (r := self._reports.get(m.node_id)) is not None}
        here, ring = self._here(), self.ring
        alive = {m.node_id for m in shown if m.state in _LIVE}
        ids = {m.node_id: ring.ids if m.node_id == here else _ids(self._report(m)) for m in shown}
        live = {node: has for node, has in ids.items() if node in alive}
        dead = {node: has for node, has in ids.items() if node not in alive}
        target = self._held.document.target
        over = all(known == target for has in ids.values() for known in has)
        return ring_facts(ring, live, dead, target="" if over else target, stored=self._state is not None)

    def install(self, text: str, *, everywhere: bool = True) -> str:
        """Open frames of this key too, on all nodes or only here; its id. Again does nothing."""
        key = _parsed(text)
        ring = _checked(self._wanted.install, key)
        if everywhere:
            if key not in self._held.document.carried:
                self._issue(ring, install=key)
        elif key not in self._wanted.keys:
            self._change(attrs.evolve(self._held, own=(*self._held.own, key)))
        return key_id(key)

    def rotate(self, text: str | None, wanted: str | None) -> str:
        """Begin or resume a rotation to a new key, or to one that is installed; the id where it leads.

        Raises:
            Refused: a rotation to another key is under way, or none is and no key is given.
        """
        target = self.facts().target
        new = key_id(_parsed(text)) if text is not None else wanted
        if new is None and not target:
            raise Refused("no rotation is under way", hint="give the new key: shoal keys rotate FILE")
        if target and new not in {None, target}:
            raise Refused(
                f"a rotation to key {target} is under way",
                hint=f"shoal keys rotate ends it; shoal keys remove {target} gives it up while it is not in use",
            )
        if new is None or new == target:
            return target
        if text is None:
            _checked(self._wanted.use, new)
            self._issue(self._wanted, target=new)
        else:
            key = _parsed(text)
            self._issue(_checked(self._wanted.install, key), install=key, target=new)
        return new

    def use(self, wanted: str, *, force: bool = False) -> None:
        """Seal with this key on all nodes. Refused while a live member is not known to have it."""
        ring = _checked(self._wanted.use, wanted)
        if not force:
            lacking = self._facts_of(wanted).lacking
            self._refuse(lacking, f"do not have key {wanted} yet: they would be cut off", "wait, or use --force")
        if ring != self._wanted:
            self._issue(ring)

    def remove(self, wanted: str, *, force: bool = False) -> None:
        """Open frames of this key no longer, anywhere. Refused while a member is not known to have the one in use."""
        document = self._held.document
        known = wanted in self._wanted.ids
        if not known and wanted in document.removed:
            return
        # A key that only others hold, as from their key files, is removed there.
        elsewhere = not known and any(facts.id == wanted for facts in self.facts().keys)
        ring = self._wanted if elsewhere else _checked(self._wanted.remove, wanted)
        if not force and wanted != self._held.document.target:
            used = self._facts_of(ring.in_use)
            self._refuse(used.lacking, f"do not have key {used.id} yet: they would be cut off", "wait, or use --force")
            hint = "start them, or shoal forget them; --force removes it all the same"
            self._refuse(used.dead_lacking, f"are down without key {used.id}: they could not come back", hint)
        # A rotation ends with the last key beside its target.
        target = "" if wanted == document.target or ring.ids == (document.target,) else document.target
        self._issue(ring, remove=wanted, target=target)

    def _facts_of(self, wanted: str) -> KeyFacts:
        return next(facts for facts in self.facts().keys if facts.id == wanted)

    def _refuse(self, nodes: tuple[str, ...], what: str, hint: str) -> None:
        if nodes:
            raise Refused(f"{len(nodes)} of the nodes {what}", hint=f"shoal keys list says which; {hint}")

    def _issue(self, ring: KeyRing, *, install: bytes = b"", remove: str = "", target: str | None = None) -> None:
        """Make this ring everybody's. Only keys that were installed for all travel with it."""
        before = self._held.document
        carried = tuple(dict.fromkeys((*before.carried, *([install] if install else []))))
        gone = tuple(i for i in before.removed if i not in ring.ids)
        document = Document(
            epoch=before.epoch + 1,
            issuer=self._here(),
            ids=ring.ids,
            carried=tuple(key for key in carried if key in ring.keys),
            removed=(*gone, remove)[-MOST_REMOVED:] if remove else gone,
            target=self.facts().target if target is None else target,
        )
        self._change(attrs.evolve(self._held, document=document))

    def _change(self, held: Stored) -> None:
        self._save(held)
        self._take(held)

    def _save(self, held: Stored) -> None:
        if self._state is not None:
            self._state.save(KEYS, held.plain(), secret=True)


def _with(ring: KeyRing, others: Iterable[bytes]) -> KeyRing:
    """The ring with further keys, as many as there is room for."""
    for key in others:
        try:
            ring = ring.install(key)
        except KeyRefused:
            break
    return ring


def _ids(report: Report | None) -> tuple[str, ...]:
    return () if report is None else report.ids


def _parsed(text: str) -> bytes:
    return _checked(parse_key, text)


def _checked(change: Callable[[Any], Any], argument: object) -> Any:
    """What a change of the ring answers; its refusal as the agent's."""
    try:
        return change(argument)
    except KeyRefused as error:
        raise Refused(str(error)) from None
