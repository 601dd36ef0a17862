"""Sealed frames: AES-256-GCM under the keys of a ring, which may change while the node runs.

    magic 2 | version u8 | key id u8 | salt 8 | counter u32 | sealed payload | tag 16

Header and cluster name are associated data. A salt is random, for one boot of one node: with the counter it makes
every nonce unique, and it is renewed when the counter is used up and when time was lost (a restored snapshot of a
machine would repeat itself). Datagrams and streams count separately, because a stream may be long on its way.

A rotation installs the new key everywhere, uses it everywhere, then removes the old one. Whoever slept through the
first two is answered in the key that it speaks, as long as that is installed. Not whoever is known to have ours: two
that change over at different moments would else hear the old key from each other, and answer in it, for ever.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from random import Random
from typing import Protocol

import attrs

from .errors import FrameRefused, FrameReplayed, KeyRefused, KeyUnknown
from .frames import HEADER_BYTES, MAGIC, PLAIN_KEY_ID, SEAL_BYTES, VERSION, WRONG_KEY, check_header
from .member import Address

KEY_BYTES = 32
_SALT_BYTES, _COUNTER_BYTES = 8, 4
_COUNTER_LIMIT = 1 << (8 * _COUNTER_BYTES)
_NONCE_END = HEADER_BYTES + _SALT_BYTES + _COUNTER_BYTES
_OVERHEAD = HEADER_BYTES + SEAL_BYTES
# A rotation needs two; more only accumulate, and each makes junk dearer to refuse.
MOST_KEYS = 8
# Packets of one sender that may overtake each other.
WINDOW = 1024
# Two for each of some thousand peers; a salt that falls out could be replayed, which teaches nothing.
MOST_SALTS = 4096
# Addresses that speak an older key: few, for as long as a rotation lasts.
_MOST_OLD_SPEAKERS = 1024
_KEY_IDS = 255  # on the wire; 0 says unsealed
_FINGERPRINT = b"shoal key id"


class _Cipher(Protocol):
    """What we use of cryptography's AESGCM."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


def key_id(key: bytes) -> str:
    """Eight hex digits that name a key and tell nothing of it."""
    return blake2b(key, digest_size=4, person=_FINGERPRINT).hexdigest()


def key_text(key: bytes) -> str:
    """The written form of a key, as key files hold it."""
    return b64encode(key).decode()


def parse_key(text: str) -> bytes:
    """The key that one line of base64 says. Raises KeyRefused; the message never repeats the text."""
    stripped = text.strip()
    try:
        key = b64decode(stripped.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise KeyRefused(f"a key is base64 of {KEY_BYTES} bytes; this is not base64") from error
    if len(key) != KEY_BYTES:
        raise KeyRefused(f"a key is base64 of {KEY_BYTES} bytes; this has {len(key)}")
    if key_text(key) != stripped:
        raise KeyRefused("the base64 of a key must be in its one canonical form; make it with `keys gen`")
    return key


@attrs.frozen
class KeyRing:
    """Keys that open frames, the first of which also seals them. A value: every change gives another ring.

    Any method that cannot do what it says raises KeyRefused.
    """

    keys: tuple[bytes, ...] = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        if not 0 < len(self.keys) <= MOST_KEYS:
            raise KeyRefused(f"a key ring has 1 to {MOST_KEYS} keys, not {len(self.keys)}")
        for key in self.keys:
            if len(key) != KEY_BYTES:
                raise KeyRefused(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        if len(set(self.ids)) != len(self.keys):
            raise KeyRefused(f"a key is given twice: {', '.join(self.ids)}")

    @classmethod
    def of(cls, keys: Iterable[bytes], use: str | None = None) -> KeyRing:
        """A ring of these keys; `use`: id of the one that seals, else the first."""
        ring = cls(tuple(keys))
        return ring if use is None else ring.use(use)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all installed keys, the sealing one first."""
        return tuple(map(key_id, self.keys))

    @property
    def in_use(self) -> str:
        """Id of the key that seals."""
        return key_id(self.keys[0])

    def install(self, key: bytes) -> KeyRing:
        """Also open frames of this key; again does nothing, so that a rotation can be resumed."""
        return self if key in self.keys else KeyRing((*self.keys, key))

    def use(self, wanted: str) -> KeyRing:
        """Seal with an installed key from now on; the one used before still opens."""
        chosen = self._find(wanted)
        return KeyRing((chosen, *(key for key in self.keys if key != chosen)))

    def remove(self, wanted: str) -> KeyRing:
        """Open frames of this key no longer."""
        chosen = self._find(wanted)
        if chosen == self.keys[0]:
            raise KeyRefused(f"key {wanted} seals what this node sends; use another one first")
        return KeyRing(tuple(key for key in self.keys if key != chosen))

    def _find(self, wanted: str) -> bytes:
        for key in self.keys:
            if key_id(key) == wanted:
                return key
        raise KeyRefused(f"no key {wanted} is installed; installed: {', '.join(self.ids)}")


class ReplayWindows:
    """Which counters of which salts were seen. The least recently heard salt is forgotten first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def fresh(self, salt: bytes, counter: int) -> bool:
        """Note an authenticated packet; False when it was seen before, or is too old to tell."""
        seen = self._seen
        highest, marks = seen.get(salt, (counter, 0))
        ahead = counter - highest
        if ahead > 0:
            # Bit i of the marks stands for the counter `highest - i`.
            marks = 1 if ahead >= WINDOW else ((marks << ahead) | 1) & ((1 << WINDOW) - 1)
            seen[salt] = (counter, marks)
        elif ahead <= -WINDOW or marks >> -ahead & 1:
            return False
        else:
            seen[salt] = (highest, marks | 1 << -ahead)
        seen.move_to_end(salt)
        if len(seen) > MOST_SALTS:
            seen.popitem(last=False)
        return True


class _Nonces:
    """Unique nonces: a salt and a counter."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.renew()

    def renew(self) -> None:
        self.salt = self._chance.randbytes(_SALT_BYTES)
        self.counter = 0

    def take(self) -> bytes:
        if self.counter >= _COUNTER_LIMIT:
            self.renew()
        nonce = self.salt + self.counter.to_bytes(_COUNTER_BYTES, "big")
        self.counter += 1
        return nonce


class Seal:
    """Frames of a cluster with keys; give it to `Node(seal=...)`.

    `chance` must be unpredictable and never repeat in production (`random.SystemRandom`): salts come from it.
    """

    overhead = _OVERHEAD

    def __init__(self, ring: KeyRing, cluster: str, chance: Random) -> None:
        # Late, so that an agent without keys does not pay for the library.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._make: type[AESGCM] = AESGCM
        self._wrong: type[Exception] = InvalidTag
        self._cluster = cluster.encode()
        self._windows = ReplayWindows()
        self._datagrams, self._streams = _Nonces(chance), _Nonces(chance)
        self._holders: frozenset[Address] = frozenset()
        self.ring = ring

    @property
    def ring(self) -> KeyRing:
        """The keys; set another ring to change them, effective with the next packet."""
        return self._ring

    @ring.setter
    def ring(self, ring: KeyRing) -> None:
        self._ring = ring
        self._lids = {key: _Lid(self._make(key), _wire_id(key), self._cluster) for key in ring.keys}
        self._mine = self._lids[ring.keys[0]]
        self._by_wire_id: dict[int, list[_Lid]] = {}
        for lid in self._lids.values():
            self._by_wire_id.setdefault(lid.header[-1], []).append(lid)
        self._old_speakers: OrderedDict[Address, _Lid] = OrderedDict()

    @property
    def holders(self) -> frozenset[Address]:
        """Where the nodes are that are known to have the sealing key: they are answered in no other."""
        return self._holders

    @holders.setter
    def holders(self, addresses: frozenset[Address]) -> None:
        self._holders = addresses
        for address in addresses & self._old_speakers.keys():
            del self._old_speakers[address]

    def wrap(self, payload: bytes, to: Address | None = None, /) -> bytes:
        """A datagram's frame, in the key that this address speaks."""
        return self._sealed(payload, to, self._datagrams.take())

    def wrap_stream(self, payload: bytes, to: Address | None = None, /) -> bytes:
        """The same for a stream."""
        return self._sealed(payload, to, self._streams.take())

    def _sealed(self, payload: bytes, to: Address | None, nonce: bytes) -> bytes:
        lid = self._mine
        if self._old_speakers and to is not None:
            lid = self._old_speakers.get(to, lid)
        return lid.header + nonce + lid.cipher.encrypt(nonce, payload, lid.associated)

    def unwrap(self, frame: bytes, source: Address | None = None, /) -> bytes:
        """The payload. Raises FrameRefused, and FrameReplayed for what was opened before."""
        check_header(frame)
        wire_id = frame[HEADER_BYTES - 1]
        if wire_id not in self._by_wire_id and wire_id != PLAIN_KEY_ID:
            raise KeyUnknown(WRONG_KEY, "a frame sealed by an installed key", wire_id)
        if len(frame) >= _OVERHEAD:
            for lid in self._by_wire_id.get(wire_id, ()):
                try:
                    payload = lid.cipher.decrypt(frame[HEADER_BYTES:_NONCE_END], frame[_NONCE_END:], lid.associated)
                except self._wrong:
                    continue
                self._check_fresh(frame)
                if source is not None and (lid is not self._mine or self._old_speakers):
                    self._remember(source, lid)
                return payload
        raise FrameRefused(WRONG_KEY, "a frame sealed by an installed key of this cluster", frame[:HEADER_BYTES])

    def _check_fresh(self, frame: bytes) -> None:
        salt = frame[HEADER_BYTES : HEADER_BYTES + _SALT_BYTES]
        counter = int.from_bytes(frame[HEADER_BYTES + _SALT_BYTES : _NONCE_END], "big")
        if not self._windows.fresh(salt, counter):
            raise FrameReplayed("replayed", "a new packet", counter)

    def _remember(self, source: Address, lid: _Lid) -> None:
        if lid is self._mine or source in self._holders:
            self._old_speakers.pop(source, None)
            return
        self._old_speakers[source] = lid
        self._old_speakers.move_to_end(source)
        if len(self._old_speakers) > _MOST_OLD_SPEAKERS:
            self._old_speakers.popitem(last=False)

    def renew(self) -> None:
        """Time was lost: another copy of this machine may have gone on with our nonces."""
        self._datagrams.renew()
        self._streams.renew()


class _Lid:
    """One key ready for use."""

    __slots__ = ("associated", "cipher", "header")

    def __init__(self, cipher: _Cipher, wire_id: int, cluster: bytes) -> None:
        self.cipher = cipher
        self.header = MAGIC + bytes((VERSION, wire_id))
        self.associated = self.header + cluster


def _wire_id(key: bytes) -> int:
    """One byte of the key's id: which key to try, two may share it."""
    return 1 + bytes.fromhex(key_id(key))[0] % _KEY_IDS
