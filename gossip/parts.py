"""The parts of a node, built over one core, each knowing only those before it; and which part a timer is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .absence import Absence
from .answer import Answers
from .core import Core
from .echo import Echoes
from .effects import Outcome, Purpose, Token
from .farewell import Farewell
from .intake import Intake
from .join import Joiner
from .liveness import Liveness
from .member import Address
from .pages import Pager, Session
from .probe import Prober
from .relay import VitalsRelay
from .sections import Sections
from .selfrules import SelfRules
from .spread import Spread
from .strangers import Strangers
from .sync import Syncer
from .upkeep import Upkeep


class Parts:
    """One of each."""

    def __init__(self, core: Core, remembered: Iterable[Address]) -> None:
        self.core = core
        self.absence = Absence(core)
        self.echoes = Echoes(core)
        self.strangers = Strangers(core)
        self.spread = Spread(core)
        self.sections = Sections(core, self.spread)
        self.selfrules = SelfRules(core, self.spread)
        self.relay = VitalsRelay(core)
        self.liveness = Liveness(core, self.spread, self.sections, self.selfrules)
        self.intake = Intake(core, self.liveness, self.sections, self.relay)
        self.prober = Prober(core, self.spread, self.relay, self.liveness, self.intake, strangers=self.strangers)
        self.answers = Answers(core, self.spread, self.relay, self.selfrules)
        self.pager = Pager(core, self.spread, self.intake)
        self.syncer = Syncer(core, self.intake, self.sections, self.pager, self.absence)
        self.joiner = Joiner(core, self.spread, self.syncer, self.strangers)
        self.joiner.remembered = list(remembered)
        self.farewell = Farewell(core, self.spread)
        self.upkeep = Upkeep(core, self.liveness, self.prober, self.joiner, self.syncer)
        self._timers: dict[Purpose, Callable[[Token, float], None]] = {
            Purpose.PROBE: lambda _, now: self.upkeep.tick(now),
            Purpose.DIRECT: lambda token, now: self.prober.direct_over(token.number, now),
            Purpose.ROUND: lambda token, now: self.prober.round_over(token.number, now),
            Purpose.RELAY: lambda token, now: self.answers.relay_over(token.number, now),
            Purpose.SUSPICION: lambda token, now: self.liveness.expire(token.key, now),
            Purpose.GOSSIP: lambda token, now: self.spread.tick(token.number, now),
            Purpose.PULL: lambda _, now: self.sections.pull_due(now),
            Purpose.SYNC: lambda token, _: self.syncer.begin(token.number),
            Purpose.PAGE: lambda token, now: self.paged(self.pager.due(token.number, now), now),
            Purpose.EXTRA: lambda _, __: self.syncer.with_anyone(),
            Purpose.JOIN: lambda token, _: self.joiner.retry(token.number),
            Purpose.SELF: lambda token, now: self.selfrules.unanswered(token.number, now),
            Purpose.LEAVE: lambda token, _: self.farewell.again(token.number),
        }

    def wake(self, token: Token, now: float) -> None:
        """A timer fired."""
        self._timers[token.purpose](token, now)

    def answered(self, token: Token, outcome: Outcome, now: float) -> None:
        """A stream brought this."""
        match token.purpose:
            case Purpose.JOIN:
                self.joiner.answered(token.number, outcome, now)
            case Purpose.SYNC:
                self.syncer.answered(token.number, outcome, now)
            case Purpose.PULL:
                self.sections.answered(token.number, outcome, now)
            case Purpose.FALLBACK:
                ack = self.prober.fallback_answered(token.number, outcome, now)
                if ack is not None:
                    self.syncer.compare(ack.sender, ack.flags, ack.summary, now)
            case _:
                """A push: whatever came of it, the next hashes tell."""

    def paged(self, ended: Session | None, now: float) -> None:
        """An exchange by pages may have ended; whoever began it goes on."""
        if ended is not None:
            self.syncer.paged(ended, now)
            self.joiner.paged(ended, now)
