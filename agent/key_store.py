"""The ring as the state directory keeps it, under `KEYS` and for the agent's user alone."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import attrs

from ..gossip.errors import KeyRefused
from ..gossip.seal import parse_key
from .key_document import Document
from .key_source import KEYS
from .payloads import PayloadError
from .state import StateDirectory

__all__ = ["KEYS", "Stored", "stored_keys"]


@attrs.frozen(kw_only=True)
class Stored:
    """What the state directory holds. `file` are the ids that the key file had then."""

    document: Document = attrs.field(factory=Document)
    own: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    file: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        document = self.document
        return {
            "epoch": document.epoch,
            "issuer": document.issuer.hex(),
            "ids": list(document.ids),
            "carried": [b64encode(key).decode() for key in document.carried],
            "removed": list(document.removed),
            "target": document.target,
            "own": [b64encode(key).decode() for key in self.own],
            "file": list(self.file),
        }

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> Stored:
        """Raises ValueError, KeyError, TypeError, KeyRefused or PayloadError when it makes no sense."""
        document = Document()
        if value["epoch"]:
            ids, removed = ([bytes.fromhex(i) for i in value[name]] for name in ("ids", "removed"))
            carried = [b64decode(key) for key in value["carried"]]
            fields: list[object] = [value["epoch"], bytes.fromhex(value["issuer"]), ids, carried, removed]
            document = Document.from_plain([*fields, bytes.fromhex(value["target"])])
        own = tuple(parse_key(key) for key in value["own"])
        return cls(document=document, own=own, file=tuple(str(i) for i in value["file"]))


def stored_keys(state: StateDirectory | None) -> Stored | None:
    """What an earlier run kept; what makes no sense is set aside, and the key file holds."""
    value = state.load(KEYS) if state is not None else None
    if state is None or value is None:
        return None
    try:
        return Stored.from_plain(value)
    except (ValueError, KeyError, TypeError, KeyRefused, PayloadError) as error:
        state.set_aside(KEYS, type(error).__name__)
        return None
