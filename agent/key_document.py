"""What nodes tell each other about keys, as values: the ring that all shall have, and what a node has.

Every node with keys publishes a **report**: the ids of the keys that it opens and, first, the one that it seals with.
A ring that was changed at run time is a **document**, which one node at a time adds to its report. Of two documents the
one of the later epoch counts everywhere; of one epoch, as when two operators act at once, that of the greater digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, cast

import attrs
import msgpack  # pyright: ignore[reportMissingTypeStubs]

from ..gossip.seal import KEY_BYTES, MOST_KEYS, KeyRing, key_id
from .payloads import PayloadError

# Whoever slept through more removals than this may bring a removed key back, to be removed once more.
MOST_REMOVED = 16
EPOCH_LIMIT = 1 << 32
_FORMAT = 1
_ID_BYTES = 4
_DIGEST_BYTES = 8
_NODE_BYTES = 16
# msgpack ships no types.
_codec: Any = msgpack

Order = tuple[int, bytes]
"""Epoch and digest: which of two documents counts."""


@attrs.frozen(kw_only=True)
class Document:
    """The ring that all nodes shall have. `ids` are its keys, the sealing one first.

    `carried` are those of its keys that travel with it; of the others each node must have been given the bytes.
    `target` is the key that a rotation under way leads to.
    """

    epoch: int = 0
    issuer: bytes = bytes(_NODE_BYTES)
    ids: tuple[str, ...] = ()
    carried: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    removed: tuple[str, ...] = ()
    target: str = ""

    @property
    def order(self) -> Order:
        return (
            (self.epoch, blake2b(_pack(self.plain()), digest_size=_DIGEST_BYTES).digest()) if self.epoch else (0, b"")
        )

    def plain(self) -> list[object]:
        ids, removed = [bytes.fromhex(i) for i in self.ids], [bytes.fromhex(i) for i in self.removed]
        return [self.epoch, self.issuer, ids, list(self.carried), removed, bytes.fromhex(self.target)]

    @classmethod
    def from_plain(cls, value: object) -> Document:
        """Raises PayloadError."""
        epoch, issuer, ids, carried, removed, target = _array(value, 6, "keys.document")
        if type(epoch) is not int or not 0 < epoch < EPOCH_LIMIT:
            raise PayloadError(f"keys.document.epoch: expected 1 to {EPOCH_LIMIT - 1}")
        found = cls(
            epoch=epoch,
            issuer=_bytes(issuer, _NODE_BYTES, "keys.document.issuer"),
            ids=_ids(ids, MOST_KEYS, "keys.document.ids"),
            carried=tuple(_bytes(key, KEY_BYTES, "keys.document.keys") for key in _list(carried, MOST_KEYS, "keys")),
            removed=_ids(removed, MOST_REMOVED, "keys.document.removed"),
            target="" if target == b"" else _bytes(target, _ID_BYTES, "keys.document.target").hex(),
        )
        if not found.ids or len(set(found.ids)) != len(found.ids):
            raise PayloadError("keys.document.ids: expected at least one, none twice")
        return found

    def ring(self, known: KeyRing, own: tuple[bytes, ...]) -> KeyRing:
        """What a node has of it that holds the keys of `known`, and for itself those of `own`.

        A key that it was never given is left out: what it reports then says so.
        """
        held = {key_id(key): key for key in (*known.keys, *own, *self.carried)}
        wanted = [i for i in self.ids if i in held]
        wanted += [i for i in map(key_id, own) if i not in wanted and i not in self.removed]
        return KeyRing(tuple(held[i] for i in wanted[:MOST_KEYS])) if wanted else known


@attrs.frozen(kw_only=True)
class Report:
    """What a node has: the document that it follows, by order, and its keys, the sealing one first."""

    order: Order = (0, b"")
    ids: tuple[str, ...] = ()
    document: Document | None = None

    def encode(self) -> bytes:
        document = None if self.document is None else self.document.plain()
        return _pack([_FORMAT, *self.order, [bytes.fromhex(i) for i in self.ids], document])

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Raises PayloadError naming the field."""
        try:
            value: object = _codec.unpackb(data, strict_map_key=False)
        except (ValueError, TypeError, _codec.UnpackException, RecursionError) as error:
            raise PayloadError("keys: not msgpack") from error
        version, epoch, digest, ids, document = _array(value, 5, "keys")
        if version != _FORMAT or type(epoch) is not int or not 0 <= epoch < EPOCH_LIMIT or type(digest) is not bytes:
            raise PayloadError("keys: expected a version, an epoch and a digest that this agent knows")
        return cls(
            order=(epoch, digest[:_DIGEST_BYTES]),
            ids=_ids(ids, MOST_KEYS, "keys.ids"),
            document=None if document is None else Document.from_plain(document),
        )


def _ids(value: object, most: int, place: str) -> tuple[str, ...]:
    return tuple(_bytes(item, _ID_BYTES, place).hex() for item in _list(value, most, place))


def _list(value: object, most: int, place: str) -> list[object]:
    if type(value) is not list or len(cast("list[object]", value)) > most:
        raise PayloadError(f"{place}: expected an array of at most {most} items")
    return cast("list[object]", value)


def _array(value: object, count: int, place: str) -> list[Any]:
    """The first fields; a later version may append others."""
    if type(value) is not list or len(cast("list[Any]", value)) < count:
        raise PayloadError(f"{place}: expected an array of at least {count} fields")
    return cast("list[Any]", value)[:count]


def _bytes(value: object, size: int, place: str) -> bytes:
    if type(value) is not bytes or len(value) != size:
        raise PayloadError(f"{place}: expected {size} bytes")
    return value


def _pack(value: object) -> bytes:
    packed: bytes = _codec.packb(value)
    return packed
