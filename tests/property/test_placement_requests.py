"""Whatever a caller or another node sends, a decoder gives a value or its package's error, nothing else."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st
from shoal.placement import (
    FailureClass,
    Failures,
    FailureScope,
    History,
    Observation,
    Observations,
    ObservationScope,
    PlacementError,
    Task,
    extract_model_name,
    history_from_plain,
    history_to_plain,
    infer_requirements,
)
from shoal.placement.requests import options_from_map, policy_from_map, task_from_map
from shoal.placement.text import canonical
from shoal.placement.wording import gib

FIELDS = (
    *("description", "required_tools", "min_free_ram_mb", "requirement", "preferred_backends", "infer"),
    *("count", "spread", "label", "max_skew", "prefer", "weight", "fallbacks", "pick", "seed", "anti_affinity"),
    *("rank", "score", "without"),
)
texts = st.one_of(st.text(max_size=20), st.sampled_from(["gpu_nvidia", "4GiB", "zone=a", "best", "sticky:x", "exact"]))
junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(FIELDS), texts), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(junk)
def test_junk_requests_are_refused_with_one_kind_of_error(value):
    for decode in (task_from_map, options_from_map, policy_from_map, history_from_plain):
        with contextlib.suppress(PlacementError):
            decode(value)


@given(
    st.one_of(
        st.tuples(st.just(1), st.lists(st.lists(junk, max_size=12), max_size=2), junk),
        st.tuples(st.just(1), junk, st.lists(st.lists(junk, max_size=10), max_size=2)),
    )
)
def test_junk_histories_are_refused_with_one_kind_of_error(value):
    with contextlib.suppress(PlacementError):
        history_from_plain(value)


scopes = st.builds(ObservationScope, node=texts, workload_class=texts, backend=texts, tool=texts, model_name=texts)
runs = st.builds(
    Observation,
    scope=scopes,
    observed_at=st.integers(1, 1 << 40).map(float),
    success=st.booleans(),
    wall_ms=st.integers(1, 1 << 40),
    peak_ram_mb=st.integers(0, 1 << 30),
    samples=st.integers(1, 1000),
)
failed = st.lists(st.tuples(texts, st.sampled_from(FailureClass), st.integers(0, 1 << 30)), max_size=5)


@given(st.lists(runs, max_size=5), failed, st.integers(0, 2000))
def test_histories_round_trip_and_keep_to_their_budget(observations, failures, budget):
    held = Failures()
    for node, failure_class, at in failures:
        held = held.recorded(FailureScope(node=node, workload_class="x"), failure_class, float(at))
    history = History(observations=Observations(observations), failures=held)
    plain = history_to_plain(history)
    back = history_from_plain(plain)
    assert set(back.observations) == set(history.observations)
    assert set(back.failures) == set(history.failures)
    bounded = history_to_plain(history, most_bytes=budget)
    assert len(json.dumps(bounded[1:], ensure_ascii=False).encode("utf-8", "replace")) <= 3 * budget + 20
    assert history_from_plain(bounded) is not None


@given(st.text())
def test_inference_takes_any_text(text):
    task = infer_requirements(text).task
    assert task.description == text
    assert canonical(canonical(text)) == canonical(text)
    assert extract_model_name(text) == "" or extract_model_name(text) in text
    assert isinstance(task, Task)


@given(st.integers(-(1 << 40), 1 << 40))
def test_amounts_are_always_written(amount):
    assert gib(amount).endswith(("MiB", "GiB"))
