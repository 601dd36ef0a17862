import msgpack
import pytest
from shoal.agent.errors import BadFrame, Refused
from shoal.agent.frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode


def frame(value):
    payload = msgpack.packb(value)
    return len(payload).to_bytes(4, "little") + payload


def test_a_frame_is_a_little_endian_length_and_a_msgpack_map():
    data = encode({"id": 1, "call": "members"}, REQUEST_BYTES)
    assert data[:4] == (len(data) - 4).to_bytes(4, "little")
    assert msgpack.unpackb(data[4:]) == {"id": 1, "call": "members"}


def test_pipelined_frames_come_out_in_order():
    reader = FrameReader(REQUEST_BYTES)
    reader.feed(b"".join(encode({"id": number}, REQUEST_BYTES) for number in range(3)))
    assert [reader.next_message() for _ in range(4)] == [{"id": 0}, {"id": 1}, {"id": 2}, None]
    assert reader.pending == 0


def test_a_long_burst_is_cut_off_the_buffer():
    reader = FrameReader(REPLY_BYTES)
    reader.feed(encode({"text": "x" * 100_000}, REPLY_BYTES) + encode({"id": 1}, REPLY_BYTES)[:-1])
    assert reader.next_message() is not None
    assert len(reader._buffer) == reader.pending < 20


def test_too_much_is_refused_before_it_is_sent():
    with pytest.raises(Refused, match="at most 1048576"):
        encode({"text": "x" * REQUEST_BYTES}, REQUEST_BYTES)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xff\xff\xff", "4294967295 bytes"),
        ((REQUEST_BYTES + 1).to_bytes(4, "little"), "at most 1048576"),
        (b"\x01\x00\x00\x00\xc1", "not msgpack"),
        (b"\x00\x00\x00\x00", "not msgpack"),
        (frame([1, 2]), "holding list"),
        (frame(7), "holding int"),
        (frame({1: 2}), "not msgpack"),
        (frame({b"id": 2}), "keys are strings"),
        (frame({"id": msgpack.ExtType(5, b"x")}), "extension type 5"),
        (frame({"id": 1})[:-1].replace(b"\x05", b"\x04", 1), "not msgpack"),
        (b"\x03\x00\x00\x00\x81\xa1\xff", "not msgpack"),
        (b"GET / HTTP/1.1\r\n\r\n", "bytes, where at most"),
    ],
)
def test_what_is_no_frame_is_one_typed_error(data, says):
    reader = FrameReader(REQUEST_BYTES)
    reader.feed(data)
    with pytest.raises(BadFrame, match=says):
        reader.next_message()


def test_a_broken_stream_stays_broken_and_holds_no_memory():
    reader = FrameReader(REQUEST_BYTES)
    reader.feed(encode({"id": 1}, REQUEST_BYTES) + b"\xff" * 100)
    assert reader.next_message() == {"id": 1}
    for _ in range(2):
        with pytest.raises(BadFrame, match="4294967295"):
            reader.next_message()
    reader.feed(encode({"id": 2}, REQUEST_BYTES))
    assert reader.pending == 0


def test_deep_nesting_is_a_typed_error():
    payload = b"\x81\xa1a" + b"\x91" * 100_000 + b"\x00"
    reader = FrameReader(REQUEST_BYTES)
    reader.feed(len(payload).to_bytes(4, "little") + payload)
    with pytest.raises(BadFrame):
        reader.next_message()
