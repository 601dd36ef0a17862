"""What others claim about this node, and what it does about that.

suspect or dead, of our version or a newer incarnation     refute: incarnation = claimed + 1, told at once
a greater generation; left while we are not leaving;       somebody else may be using our id: pause our gossip and
alive with an incarnation or address that is not ours      ping the claimed address. Its boot id tells:
    another process answers                                the lower (generation, boot id) takes a new node id
    nobody, or ourselves                                   an echo of our past: outdo it
"""

from __future__ import annotations

import attrs

from . import wire
from .core import Core
from .effects import Change, Conflict, Persist, Purpose
from .limits import Allowance
from .member import BOOT_ID_BYTES, GENERATION_LIMIT, INCARNATION_RENEWAL, NODE_ID_BYTES, Claim, Identity, Rank
from .messages import Ack, Row
from .spread import Spread

# Beyond it refutations wait for the tick: a forger of accusations must not make us a cannon.
_BURSTS_A_SECOND = 4


class SelfRules:
    """Defends this node's identity."""

    def __init__(self, core: Core, spread: Spread) -> None:
        self._core = core
        self._spread = spread
        self._bursts = Allowance(_BURSTS_A_SECOND)
        self._doubted: Claim | None = None
        self._check = 0

    def about_me(self, claim: Claim, now: float) -> bool:
        """Judge a claim about this node. True when it made us change or doubt our own."""
        core, mine = self._core, self._core.me.claim
        if core.leaving or claim.generation < mine.generation:
            return False
        if claim.generation > mine.generation or claim.rank is Rank.LEFT:
            return self._doubt(claim, now)
        if claim.incarnation < mine.incarnation:
            return False
        if claim.rank is not Rank.ALIVE:
            core.health.worsen()
            core.count("refuted")
            self._outdo(claim, now)
            return True
        if claim.incarnation > mine.incarnation or claim.address not in {mine.address, None}:
            return self._doubt(claim, now)
        return False

    def _doubt(self, claim: Claim, now: float) -> bool:
        """Find out who is behind a claim that only an owner of our id can have made."""
        core = self._core
        if self._doubted is not None:
            return False
        core.note("identity.doubted", generation=claim.generation, incarnation=claim.incarnation)
        if claim.address is None:
            self._outdo(claim, now)
            return True
        self._doubted = claim
        core.paused = True
        self._check = core.request_id()
        opening = core.opening(wire.PING, self._check, now)
        aim = wire.aim(core.identity.node_id, claim.generation, Rank.ALIVE, claim.incarnation)
        core.send(b"".join((opening, aim, core.me.vitals or b"", core.origin())), claim.address)
        core.wake(Purpose.SELF, 2 * core.settings.probe_timeout, number=self._check)
        return True

    def acked(self, ack: Ack, now: float) -> bool:
        """Whether this ack answered the check."""
        claim = self._doubted
        if claim is None or ack.request != self._check:
            return False
        mine = self._core.identity
        theirs = ack.items.boot_id
        if not theirs or theirs == mine.boot_id or ack.sender.node_id != mine.node_id:
            self._resolve(now)
        elif (mine.generation, mine.boot_id) < (ack.sender.generation, theirs):
            self._doubted = None
            self._core.paused = False
            self._take_new_id(now)
        else:
            self._core.emit(Conflict(mine.node_id, None, claim.address))
            self._resolve(now)
        return True

    def unanswered(self, number: int, now: float) -> None:
        """The check's time is over, or another id answered there."""
        if self._doubted is not None and number == self._check:
            self._resolve(now)

    def _resolve(self, now: float) -> None:
        claim, self._doubted = self._doubted, None
        self._core.paused = False
        if claim is None:
            return
        mine = self._core.me.claim
        if claim.rank is Rank.ALIVE and claim.generation == mine.generation and claim.address != mine.address:
            # Somebody took us for where our packets come from (another family, a router): say it in each from now on,
            # else the next incarnation is misunderstood as this one was, and so for ever.
            self._core.elsewhere = True
        self._outdo(claim, now)

    def _outdo(self, claim: Claim, now: float) -> None:
        """Make our claim greater than that one."""
        mine = self._core.me.claim
        if claim.generation > mine.generation or claim.rank is Rank.LEFT:
            self.renew(claim.generation + 1, now)
        elif claim.generation == mine.generation and claim.incarnation >= mine.incarnation:
            if claim.incarnation + 1 >= INCARNATION_RENEWAL:
                self.renew(mine.generation + 1, now)
            else:
                self._restate(mine._replace(incarnation=claim.incarnation + 1), now)

    def move(self, address: tuple[str, int], now: float) -> None:
        """Our address changed: a new incarnation carries the new one."""
        mine = self._core.me.claim
        if address != mine.address:
            self._core.elsewhere = False
            self._restate(mine._replace(address=address, incarnation=mine.incarnation + 1), now)

    def renew(self, generation: int, now: float) -> None:
        """Become a new generation; at the end of the range, another node."""
        if generation >= GENERATION_LIMIT:
            self._take_new_id(now)
            return
        core = self._core
        core.identity = attrs.evolve(core.identity, generation=generation)
        core.emit(Persist(core.identity))
        self._date_sections(generation)
        self._restate(core.me.claim._replace(generation=generation, incarnation=0, rank=Rank.ALIVE), now)

    def _take_new_id(self, now: float) -> None:
        core = self._core
        old = core.identity
        node_id = core.chance.randbytes(NODE_ID_BYTES)
        core.identity = Identity(node_id=node_id, generation=1, boot_id=core.chance.randbytes(BOOT_ID_BYTES))
        if old.generation + 1 < GENERATION_LIMIT:
            core.identity = attrs.evolve(core.identity, generation=old.generation)
        # A clone of this machine would also have gone on with our nonces.
        core.frames.renew()
        core.emit(Persist(core.identity))
        core.emit(Conflict(old.node_id, node_id, core.me.claim.address))
        core.table.remove(old.node_id, now)
        self._spread.rows.discard(old.node_id)
        core.me.row = core.me.row._replace(claim=core.me.claim._replace(node_id=node_id))
        core.table.add(core.me, now)
        self._date_sections(core.identity.generation)
        self._restate(core.me.claim._replace(generation=core.identity.generation, incarnation=0, rank=Rank.ALIVE), now)

    def _date_sections(self, generation: int) -> None:
        """Our sections belong to our new generation, with the versions that they have."""
        me = self._core.me
        me.sections = {kind: section._replace(generation=generation) for kind, section in me.sections.items()}

    def _restate(self, claim: Claim, now: float) -> None:
        """Hold and tell a new claim about ourselves; the first packets go out with this very input."""
        core, before = self._core, self._core.me.claim
        core.me.row = Row(claim, core.me.row.heads)
        if claim.generation == before.generation and claim.incarnation > before.incarnation:
            core.changed(claim.node_id, Change.REFUTED if claim.address == before.address else Change.ADDRESS)
        core.table.touch(core.me, now)
        self._spread.row(claim.node_id, now, first=True)
        if self._bursts.take(now):
            self._spread.burst(core.settings.fanout, now)
