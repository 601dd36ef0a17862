from __future__ import annotations

import pytest
from shoal.gossip.errors import FrameRefused
from shoal.gossip.frames import PlainFrames


def test_round_trip():
    frames = PlainFrames("blue")
    assert frames.unwrap(frames.wrap(b"news")) == b"news"
    assert frames.unwrap(frames.wrap(b"")) == b""
    assert len(frames.wrap(b"")) == 8


def test_another_cluster_does_not_open_it():
    with pytest.raises(FrameRefused, match="wrong key or cluster"):
        PlainFrames("green").unwrap(PlainFrames("blue").wrap(b"news"))


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        (b"", "frame magic"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame magic"),
        (b"\xb6\x5a\x02\x00news1234", "frame version"),
        (b"\xb6\x5a\x01\x07news1234", "wrong key or cluster"),
        (b"\xb6\x5a\x01\x00", "wrong key or cluster"),
        (b"\xb6\x5a\x01\x00abc", "wrong key or cluster"),
    ],
)
def test_what_is_no_frame_of_ours_says_why(frame, place):
    with pytest.raises(FrameRefused) as refused:
        PlainFrames("blue").unwrap(frame)
    assert refused.value.place == place


def test_every_single_bit_flip_is_refused():
    frames = PlainFrames("blue")
    frame = frames.wrap(bytes(range(100)))
    for bit in range(len(frame) * 8):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameRefused):
            frames.unwrap(bytes(flipped))
