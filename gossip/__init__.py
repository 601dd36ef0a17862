"""shoal.gossip: SWIM membership as a sans-IO core. Start reading at `member`, `precedence`, `effects`, `node`."""

from .effects import (
    Ask,
    Change,
    Changed,
    Conflict,
    Effect,
    Isolation,
    Left,
    Note,
    Outcome,
    Persist,
    Refused,
    ResolveSeeds,
    Send,
    TimedOut,
    Token,
    Wake,
)
from .errors import GossipError, KeyRefused, SectionTooLarge, SettingsRefused, UnknownNode, WireError
from .member import Address, Identity, Member, Rank, Section, SectionKind, State
from .node import Node
from .seal import KeyRing, Seal, key_id, key_text, parse_key
from .settings import Settings
from .vitals import Vitals

__all__ = [
    "Address",
    "Ask",
    "Change",
    "Changed",
    "Conflict",
    "Effect",
    "GossipError",
    "Identity",
    "Isolation",
    "KeyRefused",
    "KeyRing",
    "Left",
    "Member",
    "Node",
    "Note",
    "Outcome",
    "Persist",
    "Rank",
    "Refused",
    "ResolveSeeds",
    "Seal",
    "Section",
    "SectionKind",
    "SectionTooLarge",
    "Send",
    "Settings",
    "SettingsRefused",
    "State",
    "TimedOut",
    "Token",
    "UnknownNode",
    "Vitals",
    "Wake",
    "WireError",
    "key_id",
    "key_text",
    "parse_key",
]
