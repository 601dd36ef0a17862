"""Probing: one member each interval, in a shuffled round; then relays and TCP; then, with a witness, an accusation.

    ping ------------------ direct deadline ------------------ round's end
         ack: alive                          relays ping it too, TCP is tried
                                             ack by a relay: alive;   TCP answers: alive, `udp broken`
                                             nack: somebody hears us, and not the target

Rounds overlap: one for each target in flight, so that a dead target never delays the next.
"""

from __future__ import annotations

from . import wire
from .core import Core
from .effects import Change, Outcome, Purpose, Token
from .frames import PAYLOAD_BYTES
from .intake import Intake
from .liveness import Liveness
from .member import Address, Rank, State
from .messages import Ack, Nack, NotMe
from .relay import VitalsRelay
from .spread import Spread
from .strangers import Strangers
from .suspicion import shortest
from .table import NEVER, Entry
from .vitals import PACKED_BYTES as VITALS_BYTES

# Acks this late still teach the round trip: else a slow peer is probed with a deadline that it can never meet.
_LATE_SECONDS = 10.0
# Round trip estimate as in TCP (RFC 6298).
_GAIN, _SPREAD_GAIN = 1 / 8, 1 / 4
# Bounds of an adaptive direct deadline, in probe timeouts; and its largest share of an interval, so that relays
# have time left within the round.
_SHORTEST_DIRECT, _LONGEST_DIRECT, _DIRECT_SHARE = 0.2, 4.0, 0.75
# A relay says no after this share of what is left of the round, so that its nack still arrives in time.
_RELAY_SHARE = 0.8
_RECENT_SECONDS = 10.0  # a relay heard this recently is the better one
_MOST_MISSED = 1024  # silent relays remembered; a forgotten one costs once more
_SKIPPED_DRAWS = 8  # draws of one tick that may fall on targets already in flight


def patience(core: Core, entry: Entry) -> float:
    """Seconds to wait for the direct ack of a member: as its round trips were, within bounds.

    Of one that never answered we expect what others do: too short a wait only asks relays and TCP early.
    """
    settings = core.settings
    wait = settings.probe_timeout
    rtt, spread = (core.rtt, core.rtt_spread) if entry.rtt is None else (entry.rtt, entry.rtt_spread)
    if rtt is not None:
        wait = rtt + 4 * spread
        wait = min(max(wait, _SHORTEST_DIRECT * settings.probe_timeout), _LONGEST_DIRECT * settings.probe_timeout)
    return min(wait, _DIRECT_SHARE * settings.probe_interval) * core.health.stretch


def _estimated(rtt: float | None, spread: float, sample: float) -> tuple[float, float]:
    """The round trip and its deviation after one more sample."""
    if rtt is None:
        return sample, sample / 2
    return rtt + _GAIN * (sample - rtt), spread + _SPREAD_GAIN * (abs(rtt - sample) - spread)


class Probe:
    """One round: what was asked, what was answered."""

    __slots__ = ("done", "generation", "nacks", "relays", "request", "send_failed", "sent_at", "target", "tcp")

    def __init__(self, request: int, target: bytes, generation: int, now: float) -> None:
        self.request = request
        self.target = target
        self.generation = generation
        self.sent_at = now
        self.relays: set[bytes] = set()
        self.nacks: set[bytes] = set()
        self.tcp: Outcome | None = None
        """What the fallback brought: the frame of an ack, a refusal, silence, or nothing yet."""
        self.done = False
        self.send_failed = False
        """The ping never left this machine: no fault of the target."""

    def denied(self, *, tcp_asked: bool) -> bool:
        """Everyone that was asked has said no: waiting longer brings nothing."""
        refused = not tcp_asked or (self.tcp is not None and not isinstance(self.tcp, bytes))
        return bool(self.relays) and self.nacks >= self.relays and refused


class Prober:
    """Runs the rounds of this node."""

    def __init__(  # noqa: PLR0913 - the parts that a round touches
        self,
        core: Core,
        spread: Spread,
        relay: VitalsRelay,
        liveness: Liveness,
        intake: Intake,
        *,
        strangers: Strangers,
    ) -> None:
        self._core = core
        self._strangers = strangers
        self._spread = spread
        self._relay = relay
        self._liveness = liveness
        self._intake = intake
        self._probes: dict[int, Probe] = {}
        self._in_flight: dict[bytes, Probe] = {}
        self._missed: dict[bytes, float] = {}
        """When relays last owed us a nack."""

    def tick(self, now: float) -> None:
        """The probe timer: begin the next round."""
        self._drop_old(now)
        for _ in range(_SKIPPED_DRAWS):
            target = self._core.table.live.draw(self._core.chance)
            if target is None:
                return
            if target not in self._in_flight:
                self._begin(target, now)
                return

    def _drop_old(self, now: float) -> None:
        limit = now - _LATE_SECONDS * self._core.health.stretch
        for request, probe in list(self._probes.items()):
            if probe.sent_at > limit:
                return
            del self._probes[request]

    def _begin(self, target: bytes, now: float) -> None:
        core = self._core
        entry = core.table.get(target)
        if entry is None or entry.claim.address is None:
            return
        probe = Probe(core.request_id(), target, entry.claim.generation, now)
        self._strangers.expect(probe.request, entry.claim.address)
        self._probes[probe.request] = self._in_flight[target] = probe
        core.send(self.ping(entry, probe.request, now), entry.claim.address)
        core.wake(Purpose.DIRECT, patience(core, entry), number=probe.request)

    def ping(self, entry: Entry, request: int, now: float) -> bytes:
        """A ping to a member, with news and others' vitals in what is left of the packet."""
        core = self._core
        claim = entry.claim
        aim = wire.aim(claim.node_id, claim.generation, claim.rank, claim.incarnation)
        opening = core.opening(wire.PING, request, now)
        return b"".join((opening, aim, core.me.vitals or b"", *self._rest(wire.PING_BYTES, now)))

    def _rest(self, used: int, now: float) -> list[bytes]:
        origin = self._core.origin()
        room = PAYLOAD_BYTES - used - VITALS_BYTES - len(origin)
        news = self._spread.fill(room)
        return [origin, *news, *self._relay.fill(room - sum(map(len, news)), now)]

    def over(self, request: int) -> bool:
        """Whether that round has ended."""
        probe = self._probes.get(request)
        return probe is None or probe.done

    def direct_over(self, request: int, now: float) -> None:
        """No direct ack yet: ask others, and TCP."""
        if self.over(request):
            return
        probe = self._probes[request]
        core, settings = self._core, self._core.settings
        entry = core.table.get(probe.target)
        if entry is None or entry.claim.address is None:
            self._close(probe)
            return
        stretch = core.health.stretch
        end = min(probe.sent_at + settings.probe_interval * stretch, now + settings.probe_timeout * stretch)
        left = max(end - now, 0.0)
        wait_ms = min(int(left * _RELAY_SHARE * 1000), 0xFFFF)
        for relay in self._relays_for(probe.target, now):
            probe.relays.add(relay.node_id)
            ask = (probe.target, entry.claim.generation, wait_ms)
            if relay.claim.address is not None:
                asking = wire.ping_request(request, core.speaker, ask, entry.claim.address)
                news = self._spread.fill(PAYLOAD_BYTES - len(asking))
                core.send(b"".join((asking, *news)), relay.claim.address)
        if settings.tcp_fallback:
            token = Token(Purpose.FALLBACK, number=request)
            core.ask(token, entry.claim.address, self.ping(entry, request, now), left)
        core.wake(Purpose.ROUND, left, number=request)

    def _relays_for(self, target: bytes, now: float) -> list[Entry]:
        """Members shown alive, those heard of late first: where many died at once, they are the ones who can answer."""
        core, wanted = self._core, self._core.settings.relays
        recent = [node_id for node_id in core.recent if node_id != target]
        drawn = core.chance.sample(recent, len(recent)) + core.table.live.sample(core.chance, wanted + 1)
        entries = [core.table.get(node_id) for node_id in dict.fromkeys(drawn) if node_id != target]
        usable = [entry for entry in entries if entry is not None and entry.shown is State.ALIVE]
        usable.sort(key=lambda entry: (self._silent(entry), now - entry.heard_at > _RECENT_SECONDS))
        return usable[:wanted]

    def _silent(self, entry: Entry) -> bool:
        """Whether it owed us a nack and was not heard since."""
        return entry.heard_at < self._missed.get(entry.node_id, NEVER)

    def acked(self, ack: Ack, source: Address | None, now: float) -> None:
        """An ack came. `source`: where from, None when a relay passed it on."""
        probe = self._probes.get(ack.request)
        if probe is None or ack.sender.node_id != probe.target or ack.sender.generation < probe.generation:
            return
        entry = self._core.table.edit(probe.target)
        if source is not None:
            self._measure(entry, now - probe.sent_at)
            entry.validated = source
            if ack.items.observed not in {None, self._core.address}:
                self._core.elsewhere = True
            if entry.udp_broken:
                entry.udp_broken = False
                self._core.changed(probe.target, Change.UDP_WORKS)
        if not probe.done:
            self._close(probe)
            self._core.health.improve()

    def _measure(self, entry: Entry, sample: float) -> None:
        core = self._core
        entry.rtt, entry.rtt_spread = _estimated(entry.rtt, entry.rtt_spread, sample)
        core.rtt, core.rtt_spread = _estimated(core.rtt, core.rtt_spread, sample)

    def nacked(self, nack: Nack, now: float) -> None:
        """A relay could not reach the target: it is a witness that we are heard."""
        probe = self._probes.get(nack.request)
        if probe is None or nack.sender.node_id not in probe.relays:
            return
        probe.nacks.add(nack.sender.node_id)
        self._end_early(probe, now)

    def not_me(self, message: NotMe, now: float) -> None:
        """Another node lives at the target's address: no direct ack will come."""
        probe = self._probes.get(message.request)
        if probe is not None and not probe.relays:
            self.direct_over(message.request, now)

    def fallback_answered(self, request: int, outcome: Outcome, now: float) -> Ack | None:
        """What TCP brought; the ack, if it was one."""
        probe = self._probes.get(request)
        if probe is None or probe.done:
            return None
        ack = self._acked_by_stream(outcome, probe, now) if isinstance(outcome, bytes) else None
        if ack is not None or not isinstance(outcome, bytes):
            probe.tcp = outcome
            self._end_early(probe, now)
        return ack

    def _acked_by_stream(self, frame: bytes, probe: Probe, now: float) -> Ack | None:
        ack = self._core.reply(frame)
        if not isinstance(ack, Ack) or ack.sender.node_id != probe.target or ack.request != probe.request:
            return None
        self._intake.hear(ack.sender, ack.items.address, ack.items, now)
        self._intake.report(ack, now)
        return ack

    def _end_early(self, probe: Probe, now: float) -> None:
        if not probe.done and probe.denied(tcp_asked=self._core.settings.tcp_fallback):
            self.round_over(probe.request, now)

    def round_over(self, request: int, now: float) -> None:
        """The end of a round that no ack ended."""
        probe = self._probes.get(request)
        if probe is None or probe.done:
            return
        self._close(probe)
        core = self._core
        if isinstance(probe.tcp, bytes):
            core.health.improve()
            entry = core.table.edit(probe.target)
            if not entry.udp_broken:
                entry.udp_broken = True
                core.changed(probe.target, Change.UDP_BROKEN)
            return
        core.count("probes failed")
        self._judge_ourselves(probe, now)
        if not probe.send_failed and self._may_accuse(probe, now):
            self._liveness.accuse(probe.target, now)

    def _judge_ourselves(self, probe: Probe, now: float) -> None:
        """Nacks that did not come from relays still shown alive: perhaps it is us. Those that came speak for us.

        A silent relay counts once until it is heard again: where many died at once, each would cost again and again.
        Where nothing at all was heard since the ping it is silence, which isolation judges, and not slowness.
        """
        core, missing = self._core, 0
        for relay in probe.relays - probe.nacks:
            entry = core.table.get(relay)
            if entry is not None and entry.shown is State.ALIVE and not self._silent(entry):
                missing += 1
                self._missed[relay] = now
        if len(self._missed) > _MOST_MISSED:
            del self._missed[next(iter(self._missed))]
        heard = (core.health.heard_at or NEVER) > probe.sent_at
        if probe.nacks or heard:
            core.health.worsen(missing - len(probe.nacks))

    def _may_accuse(self, probe: Probe, now: float) -> bool:
        core = self._core
        entry = core.table.get(probe.target)
        if entry is None or not entry.live or now < core.accuse_after:
            return False
        if entry.claim.generation != probe.generation:
            return False  # it restarted meanwhile: the silence was of the run before
        silence = core.health.silence(now)
        low = shortest(core.settings, core.table.size)
        if silence < 2 * low:
            if core.health.isolated:
                return False
            others = len(core.table.live) - len(core.table.suspects) - (entry.shown is State.ALIVE)
            if not probe.nacks and others > 0:
                core.count("accusations without witness withheld")
                return False
        confirming = entry.claim.rank is not Rank.ALIVE
        return confirming or self._liveness.may_accuse_unconfirmed()

    def _close(self, probe: Probe) -> None:
        probe.done = True
        if self._in_flight.get(probe.target) is probe:
            del self._in_flight[probe.target]

    def send_failed(self, to: Address) -> None:
        """The shell could not send to that address: rounds whose ping this was accuse nobody, nor owe relays a nack."""
        for probe in self._in_flight.values():
            if self._lives_at(probe.target, to):
                probe.send_failed = True
            probe.relays = {relay for relay in probe.relays if not self._lives_at(relay, to)}

    def _lives_at(self, node_id: bytes, address: Address) -> bool:
        entry = self._core.table.get(node_id)
        return entry is not None and entry.claim.address == address

    def heal(self, entry: Entry, now: float) -> None:
        """Ping a dead member once more, outside of any round: it may have come back."""
        if entry.claim.address is not None:
            number = self._core.request_id()
            self._strangers.expect(number, entry.claim.address)
            self._core.send(self.ping(entry, number, now), entry.claim.address)
