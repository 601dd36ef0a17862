import msgpack
import pytest
from shoal.agent.payloads import HISTORY_BYTES, HistoryPayload, PayloadError
from shoal.placement import Failures, FailureScope, History, Observation, Observations, ObservationScope

NODE = "0123456789abcdef" * 2
UNIX = 1_700_000_000.0


def history(count=1, **scope):
    runs = [
        Observation(
            scope=ObservationScope(**{"node": f"{number:032x}", "workload_class": "go-build", **scope}),
            observed_at=UNIX + number,
            wall_ms=5,
        )
        for number in range(count)
    ]
    failures = Failures().recorded(FailureScope(node=NODE, workload_class="go-build"), "timeout", UNIX)
    return History(observations=Observations(runs), failures=failures)


def same(one, other):
    return list(one.observations) == list(other.observations) and list(one.failures) == list(other.failures)


@pytest.mark.parametrize("node", [NODE, "by-name", ""])
def test_a_history_survives_gossip(node):
    told = history(node=node)
    assert same(HistoryPayload.decode(HistoryPayload(told).encode()).history, told)


def test_ids_travel_as_sixteen_bytes():
    packed = HistoryPayload(history(node=NODE)).encode()
    assert packed.count(bytes.fromhex(NODE)) == 2
    assert NODE.encode() not in packed


@pytest.mark.parametrize("count", [10, 100, 2000])
@pytest.mark.parametrize("length", [1, 128])
def test_the_section_never_grows_past_its_bound(count, length):
    packed = HistoryPayload(history(count, model_name="\N{SNOWMAN}" * (length // 3), backend="b" * length)).encode()
    assert len(packed) <= HISTORY_BYTES


def test_what_a_later_version_appends_is_passed_over():
    version, runs, failures = msgpack.unpackb(HistoryPayload(history()).encode())
    longer = [version, [[*row, "new"] for row in runs], [[*row, {"new": 1}] for row in failures], "more"]
    assert same(HistoryPayload.decode(msgpack.packb(longer)).history, history())


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xc1",
        msgpack.packb(5),
        msgpack.packb([1, []]),
        msgpack.packb([2, [], []]),
        msgpack.packb([1, {}, []]),
        msgpack.packb([1, [], 5]),
        msgpack.packb([1, [5], []]),
        msgpack.packb([1, [[]], []]),
        msgpack.packb([1, [[b"id", "", "", "", "", 1, True, 1, 1, 1]], []]),
        msgpack.packb([1, [[5, "", "", "", "", 1, True, 1, 1, 1, 1]], []]),
        msgpack.packb([1, [], [["a", "", "", "", "", "timeout", 1.5, 1, False]]]),
    ],
)
def test_what_is_no_history_is_refused(junk):
    with pytest.raises(PayloadError, match="history"):
        HistoryPayload.decode(junk)
