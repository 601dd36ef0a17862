import itertools

from hypothesis import given
from hypothesis import strategies as st
from shoal.agent.errors import BadFrame
from shoal.agent.frames import REQUEST_BYTES, FrameReader, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)


def read(pieces):
    """The messages of a stream and how it ended: None, or the error's text."""
    reader = FrameReader(REQUEST_BYTES)
    messages = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (message := reader.next_message()) is not None:
                messages.append(message)
        except BadFrame as error:
            return messages, error.message
    return messages, None


def split(data, cuts):
    points = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[left:right] for left, right in itertools.pairwise(points)]


@given(st.lists(MESSAGES, max_size=4))
def test_messages_round_trip(messages):
    assert read([b"".join(encode(message, REQUEST_BYTES) for message in messages)]) == (messages, None)


@given(st.lists(MESSAGES, max_size=3), st.binary(max_size=40), st.lists(st.integers(0, 10_000), max_size=8))
def test_split_feeding_equals_whole(messages, junk, cuts):
    data = b"".join(encode(message, REQUEST_BYTES) for message in messages) + junk
    assert read(split(data, cuts)) == read([data])


@given(st.lists(MESSAGES, min_size=1, max_size=2))
def test_byte_at_a_time_equals_whole(messages):
    data = b"".join(encode(message, REQUEST_BYTES) for message in messages)
    assert read([bytes([byte]) for byte in data]) == (messages, None)


@given(st.binary(max_size=200))
def test_junk_gives_messages_or_the_one_error(payload):
    messages, ended = read([len(payload).to_bytes(4, "little") + payload])
    assert ended is not None or all(type(message) is dict for message in messages)
    read([payload])
