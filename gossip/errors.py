"""Everything that gossip raises. Protocol outcomes are returned values; these are broken input and broken callers."""


class GossipError(Exception):
    """Base of all errors of this package."""


class WireError(GossipError):
    """Bytes from a peer that are not what they should be. No state was changed; the packet is counted and dropped."""

    def __init__(self, place: str, expected: str, found: object) -> None:
        super().__init__(f"{place}: expected {expected}, found {found!r:.80}")
        self.place = place


class FrameRefused(WireError):
    """The frame did not open: another protocol, another version, another key or cluster, or damage on the way."""


class KeyUnknown(FrameRefused):
    """The frame was sealed by a key that is not installed here."""


class FrameReplayed(FrameRefused):
    """The frame opened, and had been opened before, or is too old to tell. Networks repeat packets too."""


class SectionTooLarge(GossipError):
    """`Node.publish` was given a payload over the limit. Nothing was published."""

    def __init__(self, kind: int, size: int, limit: int) -> None:
        super().__init__(f"section {kind} has {size} bytes; at most {limit} can be spread")
        self.size = size
        self.limit = limit


class UnknownNode(GossipError):
    """A command named a node that is not in the table."""

    def __init__(self, node_id: bytes) -> None:
        super().__init__(f"no member has the node id {node_id.hex()}")
        self.node_id = node_id


class KeyRefused(GossipError):
    """A key ring command that cannot be obeyed; the ring is unchanged."""


class SettingsRefused(GossipError):
    """A setting is out of its range; the message names it."""
