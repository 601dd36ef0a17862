"""The variable part of messages: a run of items `type u8 | length u16 | body`, each of one kind of value.

Unknown types, and unknown bytes at the end of a known body, are skipped: they are how later versions add things.
Every length is checked before it is used, so that parsing takes time and memory linear in the input.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from . import address as addresses
from .errors import WireError
from .member import (
    ACCUSER_BYTES,
    BOOT_ID_BYTES,
    DIGEST_BYTES,
    GENERATION_LIMIT,
    INCARNATION_LIMIT,
    SECTION_LIMIT,
    Address,
    Claim,
    Rank,
    Section,
)
from .messages import NO_ITEMS, Head, Items, Place, Row, SectionItem, VitalsItem, Want
from .vitals import PACKED_BYTES as VITALS_BYTES

BUCKETS = 64
ROW, SECTION, VITALS, WANT, HASHES, ADDRESS, BOOT, CURSOR, PLACE, OBSERVED, PADDING = range(1, 12)
ITEM_HEADER = 3
_AGE_FLAG = 16
_AGE_LIMIT = (1 << 32) - 1
_VITALS_AGE_LIMIT = 0xFFFF  # tenths of a second
_RANKS = tuple(Rank)
# The same few rows arrive over and over within seconds: parsing them once is most of the speed. A row costs 0.7 KiB.
_CACHED_ROWS = 512

_ROW = struct.Struct(">16sQIBB")
_HEAD = struct.Struct(">BI8s")
_SECTION = struct.Struct(">16sQBI8s")
_VITALS = struct.Struct(">16sQH")
_WANT = struct.Struct(">16sQBI")
_HASHES = struct.Struct(f">{BUCKETS}I")
_AGE = struct.Struct(">I")
_PLACE = struct.Struct(">B16sB")
HASHES_BYTES = ITEM_HEADER + _HASHES.size
PLACE_BYTES = ITEM_HEADER + _PLACE.size
SECTION_OVERHEAD = ITEM_HEADER + _SECTION.size


def digest_of(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=DIGEST_BYTES).digest()


def pack_item(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(1, "big") + len(body).to_bytes(2, "big") + body


def pack_row(row: Row, age: int | None = None) -> bytes:
    """One row item. `age`: seconds since a dead or left node's end."""
    claim, heads = row
    family, place = addresses.pack(claim.address)
    flags = claim.rank | family << 2 | (0 if age is None else _AGE_FLAG)
    parts = [
        _ROW.pack(claim.node_id, claim.generation, claim.incarnation, flags, len(heads) << 4 | len(claim.accusers)),
        place,
        *claim.accusers,
        *(_HEAD.pack(*head) for head in heads),
    ]
    if age is not None:
        parts.append(_AGE.pack(min(max(age, 0), _AGE_LIMIT)))
    return pack_item(ROW, b"".join(parts))


def pack_section(node_id: bytes, kind: int, section: Section) -> bytes:
    head = _SECTION.pack(node_id, section.generation, kind, section.version, section.digest)
    return pack_item(SECTION, head + section.payload)


def pack_vitals(node_id: bytes, generation: int, age: float, packed: bytes) -> bytes:
    tenths = min(max(round(age * 10), 0), _VITALS_AGE_LIMIT)
    return pack_item(VITALS, _VITALS.pack(node_id, generation, tenths) + packed)


def pack_want(want: Want) -> bytes:
    return pack_item(WANT, _WANT.pack(*want))


def pack_hashes(hashes: Iterable[int]) -> bytes:
    return pack_item(HASHES, _HASHES.pack(*hashes))


def pack_address(address: Address) -> bytes:
    return pack_item(ADDRESS, addresses.pack(address)[1])


def pack_observed(address: Address) -> bytes:
    return pack_item(OBSERVED, addresses.pack(address)[1])


def pack_place(place: Place) -> bytes:
    return pack_item(PLACE, _PLACE.pack(*place))


def pack_padding(size: int) -> bytes:
    """An item of `size` bytes that says nothing; nothing when there is no room for its header."""
    return pack_item(PADDING, bytes(size - ITEM_HEADER)) if size >= ITEM_HEADER else b""


def pack_boot_id(boot_id: bytes) -> bytes:
    return pack_item(BOOT, boot_id)


def pack_cursor(bucket: int) -> bytes:
    return pack_item(CURSOR, bucket.to_bytes(1, "big"))


def generation(value: int, place: str) -> int:
    """The value, refused when out of range whatever is held: no rule depends on how far it jumps."""
    if not 0 < value < GENERATION_LIMIT:
        raise WireError(place, "a generation between 1 and 2^63", value)
    return value


def incarnation(value: int, place: str) -> int:
    if value >= INCARNATION_LIMIT:
        raise WireError(place, "an incarnation below 2^32 - 1", value)
    return value


def parse(data: bytes, start: int) -> Items:
    """All items from `start` to the end. Raises WireError."""
    end = len(data)
    if start == end:
        return NO_ITEMS
    found = _Found()
    while start < end:
        if end - start < ITEM_HEADER:
            raise WireError("item", f"{ITEM_HEADER} bytes of header", end - start)
        stop = start + ITEM_HEADER + (data[start + 1] << 8 | data[start + 2])
        if stop > end:
            raise WireError("item length", f"at most {end - start - ITEM_HEADER}", stop - start - ITEM_HEADER)
        found.add(data[start], data[start + ITEM_HEADER : stop])
        start = stop
    return found.items()


class _Found:
    """Collects the items of one message."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.ages: list[tuple[bytes, int]] = []
        self.sections: list[SectionItem] = []
        self.vitals: list[VitalsItem] = []
        self.wants: list[Want] = []
        self.hashes: tuple[int, ...] = ()
        self.address: Address | None = None
        self.boot_id = b""
        self.cursor = 0
        self.place: Place | None = None
        self.observed: Address | None = None
        self.unknown = 0

    def add(self, kind: int, body: bytes) -> None:
        if kind == ROW:
            self._add_row(body)
        elif kind == SECTION:
            self.sections.append(_parse_section(body))
        elif kind == VITALS:
            self.vitals.append(_parse_vitals(body))
        elif kind == WANT:
            self.wants.append(_parse_want(body))
        elif kind == HASHES:
            _need("hashes", body, _HASHES.size)
            self.hashes = _HASHES.unpack_from(body)
        elif kind == ADDRESS:
            self.address = addresses.unpack(body)
        elif kind == BOOT:
            _need("boot id", body, BOOT_ID_BYTES)
            self.boot_id = body[:BOOT_ID_BYTES]
        elif kind == CURSOR:
            _need("cursor", body, 1)
            self.cursor = body[0] % BUCKETS
        else:
            self._add_rare(kind, body)

    def _add_rare(self, kind: int, body: bytes) -> None:
        if kind == PLACE:
            _need("place", body, _PLACE.size)
            self.place = Place(*_PLACE.unpack_from(body))
        elif kind == OBSERVED:
            self.observed = addresses.unpack(body)
        elif kind != PADDING:
            self.unknown += 1

    def _add_row(self, body: bytes) -> None:
        _need("row", body, _ROW.size)
        if not body[_ROW.size - 2] & _AGE_FLAG:
            self.rows.append(_parse_row(body))
            return
        _need("row with age", body, _ROW.size + _AGE.size)
        row = _parse_row.__wrapped__(body)
        self.rows.append(row)
        (age,) = _AGE.unpack_from(body, _row_size(body))
        self.ages.append((row.claim.node_id, age))

    def items(self) -> Items:
        return Items(
            rows=tuple(self.rows),
            ages=tuple(self.ages),
            sections=tuple(self.sections),
            vitals=tuple(self.vitals),
            wants=tuple(self.wants),
            hashes=self.hashes,
            address=self.address,
            boot_id=self.boot_id,
            cursor=self.cursor,
            place=self.place,
            observed=self.observed,
            unknown=self.unknown,
        )


def _need(place: str, body: bytes, size: int) -> None:
    if len(body) < size:
        raise WireError(place, f"at least {size} bytes", len(body))


def _row_size(body: bytes) -> int:
    """Bytes of the row before its age; needs the fixed part."""
    flags, counts = body[_ROW.size - 2], body[_ROW.size - 1]
    family = flags >> 2 & 3
    if family > addresses.V6:
        raise WireError("row address", "no, an IPv4 or an IPv6 address", family)
    return _ROW.size + addresses.SIZES[family] + (counts & 15) * ACCUSER_BYTES + (counts >> 4) * _HEAD.size


@lru_cache(maxsize=_CACHED_ROWS)
def _parse_row(body: bytes) -> Row:
    size = _row_size(body)
    _need("row", body, size + (_AGE.size if body[_ROW.size - 2] & _AGE_FLAG else 0))
    fixed: tuple[bytes, int, int, int, int] = _ROW.unpack_from(body)
    node_id, claimed_generation, claimed_incarnation, flags, counts = fixed
    at = _ROW.size
    place = None
    if flags >> 2 & 3:
        stop = at + addresses.SIZES[flags >> 2 & 3]
        place = addresses.unpack(body[at:stop])
        at = stop
    heads_at = at + (counts & 15) * ACCUSER_BYTES
    rank = _RANKS[flags & 3]
    accusers: tuple[bytes, ...] = ()
    if rank is Rank.SUSPECT:
        accusers = tuple(sorted({body[i : i + ACCUSER_BYTES] for i in range(at, heads_at, ACCUSER_BYTES)}))
    claim = Claim(
        node_id,
        generation(claimed_generation, "row generation"),
        incarnation(claimed_incarnation, "row incarnation"),
        rank,
        place,
        accusers,
    )
    return Row(claim, _parse_heads(body[heads_at:size]))


def _parse_heads(body: bytes) -> tuple[Head, ...]:
    heads = {kind: Head(kind, version, digest) for kind, version, digest in _HEAD.iter_unpack(body) if version}
    return tuple(heads[kind] for kind in sorted(heads))


def _parse_section(body: bytes) -> SectionItem:
    _need("section", body, _SECTION.size)
    node_id, made, kind, version, digest = _SECTION.unpack_from(body)
    payload = body[_SECTION.size :]
    if len(payload) > SECTION_LIMIT:
        raise WireError("section", f"at most {SECTION_LIMIT} bytes", len(payload))
    if not version:
        raise WireError("section version", "at least 1", version)
    if digest_of(payload) != digest:
        raise WireError("section digest", "that of its payload", digest)
    return SectionItem(node_id, kind, Section(generation(made, "section generation"), version, digest, payload))


def _parse_vitals(body: bytes) -> VitalsItem:
    _need("vitals", body, _VITALS.size + VITALS_BYTES)
    node_id, made, tenths = _VITALS.unpack_from(body)
    packed = body[_VITALS.size : _VITALS.size + VITALS_BYTES]
    return VitalsItem(node_id, generation(made, "vitals generation"), tenths / 10, packed)


def _parse_want(body: bytes) -> Want:
    _need("want", body, _WANT.size)
    node_id, made, kind, version = _WANT.unpack_from(body)
    return Want(node_id, generation(made, "want generation"), kind, version)
