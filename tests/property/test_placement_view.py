"""The index against the naive scan: the same answer in the same order, for random views, updates and requirements."""

import random
from types import SimpleNamespace

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal.capabilities import DeviceGroup, NodeCapabilities
from shoal.capabilities.constraints import (
    AnyOf,
    Devices,
    Equals,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
)
from shoal.capabilities.requirement import PlacementRequirement
from shoal.placement import (
    AntiAffinity,
    ClusterState,
    FailureClass,
    FailureRecord,
    Failures,
    FailureScope,
    FilterPolicy,
    NodeRecord,
    NodeState,
    NodeVitals,
    Observation,
    Observations,
    Options,
    Pick,
    PickWay,
    Policy,
    Preference,
    RankPolicy,
    ReasonKind,
    ResidentModel,
    Schedulable,
    ScorePolicy,
    Situation,
    Spread,
    Task,
    View,
    explain_find,
    explain_placement,
    facts_of,
    filter_candidates,
    find_suitable_nodes,
    place,
    rank_candidates,
    recording_scope,
    select_best_node,
)
from shoal.placement.facets import Facet
from shoal.placement.index import load_order
from shoal.placement.nodes import Engines, Tier
from shoal.placement.order import Order
from shoal.placement.rank import Ranking

NOW = 1000.0
IDS = [f"{number:032x}" for number in range(12)]

KEYS = (
    "zone",
    "ram_mb",
    "gpu",
    "kernel",
    "cpu_usable_milli",
    "ram_limit_mb",
    "tool_git",
    "tool_llama_server",
    "turboquant",
)
values = st.one_of(
    st.booleans(),
    st.integers(-2, 4),
    st.sampled_from(["", "a", "b", "5.15", "v6.1.2", "junk"]),
)
labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": values,
        "ram_mb": st.sampled_from([2048, 8192, 65536]),
        "gpu": values,
        "kernel": values,
        "cpu_usable_milli": st.sampled_from([500, 4000, 16000]),
        "ram_limit_mb": st.sampled_from([2048, 4096, 32768]),
        "tool_git": st.booleans(),
        "tool_llama_server": st.just(True),
        "tool_ollama": st.just(True),
        "turboquant": st.just(True),
        "turboquant_verified": st.just(True),
        "turboquant_backends": st.just("mlx, llama.cpp"),
        "gpu_memory_unified": st.just(True),
        "memory_class": st.integers(0, 5),
        "disk_root_class": st.sampled_from(["hdd", "nvme"]),
    },
)
devices = st.lists(
    st.builds(
        DeviceGroup,
        kind=st.sampled_from(["gpu", "npu"]),
        vendor=st.sampled_from(["nvidia", "amd", None]),
        vram_mb=st.sampled_from([8192, 24564, None]),
        count=st.integers(1, 3),
    ),
    max_size=2,
)
records = st.one_of(st.none(), st.builds(NodeCapabilities, labels=labels, devices=devices))
maybe = lambda amounts: st.one_of(st.none(), st.sampled_from(amounts))  # noqa: E731
vitals = st.one_of(
    st.none(),
    st.builds(
        NodeVitals,
        ram_available_mb=maybe([0, 900, 1500, 3000, 7000, 30000]),
        load1_centi=maybe([0, 40, 700, 3000]),
        psi_memory_some_avg10_centi=maybe([0, 300, 1400, 1500, 4000]),
        psi_memory_full_avg10_centi=maybe([0, 7000, 7001]),
        battery_percent=maybe([5, 80]),
        power_source=maybe(["ac", "battery"]),
        thermal_state=maybe(["nominal", "serious"]),
        reserved_mb=maybe([0, 0, 512, 4096]),
    ),
)
engines = st.one_of(
    st.none(),
    st.builds(
        Engines,
        ollama_running=st.booleans(),
        llama_server_running=st.booleans(),
        models=st.lists(
            st.builds(
                ResidentModel,
                name=st.just("m"),
                engine=st.sampled_from(["ollama", "mlx", "llama.cpp"]),
                expires_at=maybe([NOW + 10, NOW + 200, NOW + 290]),
            ),
            max_size=2,
        ).map(tuple),
    ),
)


def nodes_with(node_id):
    return st.builds(
        NodeRecord,
        node_id=node_id,
        name=st.sampled_from(["n1", "n2", "n3", ""]),
        state=st.sampled_from([*NodeState, NodeState.ALIVE, NodeState.ALIVE, NodeState.ALIVE]),
        capabilities=records,
        error=maybe(["broken"]),
        vitals=vitals,
        vitals_at=maybe([NOW, NOW - 119.5, NOW - 120, NOW - 121, NOW - 5000]),
        schedulable=st.sampled_from([*Schedulable, Schedulable.YES, Schedulable.YES, Schedulable.YES]),
        engines=engines,
        reserved_mb=maybe([0, 256, 2048]),
        network_class=st.sampled_from(["", "direct-lan", "vpn"]),
        fast_link=st.booleans(),
    )


nodes = nodes_with(st.sampled_from(IDS))
clusters = st.lists(nodes, max_size=10, unique_by=lambda record: record.node_id)

keys = st.sampled_from(KEYS)
scalars = st.one_of(
    st.builds(Equals, keys, values),
    st.builds(NotEquals, keys, values),
    st.builds(MinInt, keys, st.integers(-1, 40000)),
    st.builds(MaxInt, keys, st.integers(-1, 40000)),
    st.builds(HasLabel, keys),
    st.builds(LacksLabel, keys),
    st.builds(IsTrue, keys),
    st.builds(IsFalse, keys),
    st.builds(OneOf, keys, st.lists(values, min_size=1, max_size=3)),
    st.builds(MinVersion, keys, st.sampled_from(["5", "5.15", "6.1"])),
)
device_terms = st.builds(
    Devices,
    st.sampled_from(["gpu", "npu"]),
    st.integers(1, 4),
    st.lists(st.builds(MinInt, st.just("vram_mb"), st.sampled_from([8000, 20000])), max_size=1),
)
alternatives = st.lists(st.lists(st.one_of(scalars, device_terms), min_size=1, max_size=2), min_size=1, max_size=3)
terms = st.one_of(scalars, scalars, scalars, device_terms, st.builds(AnyOf, alternatives))
requirements = st.lists(terms, max_size=3).map(PlacementRequirement)

tasks = st.builds(
    Task,
    workload_class=st.sampled_from(["", "go-build", "local-llm-inference"]),
    required_tools=st.lists(st.sampled_from(["git", "ollama", "llama-server", "GIT"]), max_size=2).map(tuple),
    min_free_ram_mb=st.sampled_from([0, 0, 600, 3000, 6000]),
    memory_request_mb=st.sampled_from([0, 0, 0, 2000]),
    context_tokens=st.sampled_from([0, 0, 300_000]),
    prefers_turboquant=st.booleans(),
    preferred_backends=st.lists(
        st.sampled_from(["cuda", "mlx", "llama.cpp", "apple-foundation-models"]), max_size=2
    ).map(tuple),
    requirement=st.one_of(st.none(), requirements),
)
policies = st.sampled_from(
    [
        Policy.agent,
        Policy.agent,
        Policy.contract,
        Policy(rank=RankPolicy.banded, score=ScorePolicy.documented),
        Policy(rank=RankPolicy.banded, filter=FilterPolicy(thermal_guard=False, empirical_peak=False)),
    ]
)


@st.composite
def states(draw, task):
    where = st.sampled_from(IDS)
    observed = draw(st.lists(st.tuples(where, st.sampled_from([0, 1000, 5000]), st.booleans()), max_size=4))
    failed = draw(
        st.lists(
            st.builds(
                FailureRecord,
                scope=st.builds(
                    FailureScope,
                    node=st.one_of(where, where, st.just("")),
                    workload_class=st.sampled_from(["", task.workload_class, "other"]),
                ),
                failure_class=st.sampled_from([FailureClass.EXEC_CRASH, FailureClass.TIMEOUT]),
                count=st.integers(1, 3),
                expires_at=st.sampled_from([NOW - 1, NOW + 1]),
            ),
            max_size=3,
        )
    )
    return ClusterState(
        reservations=draw(st.dictionaries(where, st.sampled_from([0, 512, 4096]), max_size=4)),
        observations=Observations(
            Observation(scope=recording_scope(node, task), observed_at=NOW - 5, peak_ram_mb=peak, success=success)
            for node, peak, success in observed
        ),
        failures=Failures(failed),
    )


option_sets = st.builds(
    Options,
    strict=st.booleans(),
    avoid=st.lists(st.sampled_from(["n1", IDS[0], IDS[3]]), max_size=1).map(tuple),
    prefer=st.lists(
        st.builds(Preference, requirement=requirements, weight=st.sampled_from([1, 5, -2])), max_size=1
    ).map(tuple),
    prefer_local=st.one_of(st.none(), st.integers(0, 30)),
    seed=st.integers(0, 3),
    pick=st.sampled_from([Pick(), Pick(), Pick(way=PickWay.TWO_CHOICES), Pick(way=PickWay.SPREAD)])
    | st.just(Pick(way=PickWay.STICKY, key="job")),
)


@st.composite
def changed_views(draw):
    """A view after changes, and the records that it should hold. Facets and fleet are built somewhere on the way."""
    held = {record.node_id: record for record in draw(clusters)}
    here = draw(st.sampled_from(IDS[:3]))
    view = View.of(held.values(), here)
    for change in draw(st.lists(st.one_of(nodes, st.sampled_from(IDS), requirements, st.none(), vitals), max_size=8)):
        if isinstance(change, NodeRecord):
            view, held[change.node_id] = view.replace(change), change
        elif isinstance(change, str):
            view = view.remove(change)
            held.pop(change, None)
        elif isinstance(change, PlacementRequirement):
            find_suitable_nodes(view, change, now=NOW)
        elif change is None:
            place(view, Task(), now=NOW)
        elif held:
            record = attrs.evolve(next(iter(held.values())), vitals=change)
            view, held[record.node_id] = view.replace(record), record
    return SimpleNamespace(view=view, held=held, here=here)


def naive_find(held, requirement, *, strict=False):
    """Section 1 of the contract, word for word."""
    matching = [
        record
        for record in held.values()
        if record.state in (NodeState.ALIVE, NodeState.SUSPECT)
        and not (strict and record.state is NodeState.SUSPECT)
        and record.schedulable is Schedulable.YES
        and requirement.satisfied_by(record.capabilities)
    ]
    return sorted(matching, key=lambda record: (record.tier(NOW), *load_order(record)))


@given(changed_views(), requirements, st.one_of(st.none(), st.integers(1, 4)), st.booleans())
def test_find_answers_as_the_naive_scan_does(cluster, requirement, limit, strict):
    expected = naive_find(cluster.held, requirement, strict=strict)
    found = find_suitable_nodes(cluster.view, requirement, limit, now=NOW, options=Options(strict=strict))
    assert list(found.nodes) == expected[:limit]
    assert found.matching == len(expected)


@given(changed_views(), requirements, option_sets)
def test_find_with_options_lists_exactly_what_the_evaluator_passes(cluster, requirement, options):
    found = find_suitable_nodes(cluster.view, requirement, now=NOW, options=options)
    asked = Situation(Task(requirement=requirement), now=NOW, options=options, query=True)
    facts = [facts_of(record, cluster.here) for record in cluster.held.values()]
    eligible = filter_candidates(facts, asked).eligible
    assert {record.node_id for record in found.nodes} == {node.node_id for node in eligible}
    tiers = [record.tier(NOW) for record in found.nodes]
    assert options.prefer_local is not None or tiers == sorted(tiers)
    assert found.matching == len(found.nodes)


@given(changed_views())
def test_a_view_holds_the_records_it_was_given(cluster):
    assert {record.node_id: record for record in cluster.view} == cluster.held
    assert len(cluster.view) == len(cluster.held)
    for node_id in IDS:
        assert cluster.view.get(node_id) == cluster.held.get(node_id)


@given(changed_views(), nodes, requirements)
def test_an_old_view_is_not_disturbed_by_newer_ones(cluster, record, requirement):
    before = find_suitable_nodes(cluster.view, requirement, now=NOW)
    newer = cluster.view.replace(record).remove(IDS[1])
    find_suitable_nodes(newer, requirement, now=NOW)
    place(newer, Task(), now=NOW)
    assert find_suitable_nodes(cluster.view, requirement, now=NOW) == before
    assert {held.node_id: held for held in cluster.view} == cluster.held


@settings(max_examples=300)
@given(st.data(), changed_views(), tasks, policies, option_sets)
def test_place_answers_as_select_over_all_facts_does(data, cluster, task, policy, options):
    state = data.draw(states(task))
    facts = [facts_of(record, cluster.here) for record in cluster.held.values()]
    decision = place(cluster.view, task, state, policy, now=NOW, options=options)
    expected = select_best_node(facts, Situation(task, state, policy, now=NOW, options=options))
    assert {node.node_id for node in decision.ranking.candidates} == {
        node.node_id for node in expected.ranking.candidates
    }
    assert [node.node_id for node in decision.chosen] == [node.node_id for node in expected.chosen]
    other, expected_other = decision.runner_up, expected.runner_up
    assert (other and other.node_id) == (expected_other and expected_other.node_id)
    assert [node.node_id for node in decision.eligible] == [node.node_id for node in expected.eligible]
    assert decision.ok is expected.ok


@given(st.data(), changed_views(), tasks, policies, option_sets)
def test_explanations_and_answers_never_disagree(data, cluster, task, policy, options):
    state = data.draw(states(task))
    told = explain_placement(cluster.view, task, state, policy, now=NOW, options=options, cap=1000)
    decision = place(cluster.view, task, state, policy, now=NOW, options=options)
    assert [node.node_id for node in told.chosen] == [node.node_id for node in decision.chosen]
    assert [held.node.node_id for held in told.eligible] == [node.node_id for node in decision.eligible]
    assert (told.verdict == "fits") is decision.ok
    gone = sum(1 for record in cluster.held.values() if record.state in (NodeState.DEAD, NodeState.LEFT))
    assert told.eligible_count + told.excluded_count == len(cluster.held)
    assert len(told.excluded) == told.excluded_count - gone
    assert all(reasons for _, reasons in told.excluded)


@given(changed_views(), requirements, st.sampled_from(IDS))
def test_why_not_says_what_find_does(cluster, requirement, node_id):
    found = [record.node_id for record in find_suitable_nodes(cluster.view, requirement, now=NOW).nodes]
    if node_id not in cluster.held:
        return
    told = explain_find(cluster.view, requirement, now=NOW, node=node_id).why_not
    assert (told.rank is not None) is (node_id in found)
    assert bool(told.reasons) is (node_id not in found)
    if told.rank is not None:
        assert found[told.rank - 1] == node_id


@given(changed_views(), requirements, terms)
def test_one_more_term_never_adds_a_node(cluster, requirement, term):
    wide = find_suitable_nodes(cluster.view, requirement, now=NOW).nodes
    narrow = find_suitable_nodes(cluster.view, requirement.with_terms(term), now=NOW).nodes
    assert {record.node_id for record in narrow} <= {record.node_id for record in wide}


sets_of_nodes = st.builds(
    attrs.evolve,
    option_sets,
    count=st.sampled_from([1, 1, 2, 3]),
    spread=st.one_of(st.none(), st.none(), st.builds(Spread, label=st.just("zone"), max_skew=st.integers(1, 2))),
    anti_affinity=st.one_of(st.none(), st.none(), st.just(AntiAffinity(label="gpu"))),
)


@given(st.data(), clusters, tasks, policies, sets_of_nodes)
def test_when_a_node_came_into_the_view_decides_nothing(data, cluster, task, policy, options):
    state = data.draw(states(task))
    later = data.draw(st.permutations(cluster))
    grown = View.of([], IDS[0])
    for record in later:
        grown = grown.replace(record)
    view = View.of(cluster, IDS[0])
    told, other = (explain_placement(one, task, state, policy, now=NOW, options=options) for one in (view, grown))
    assert told == other
    wanted = task.requirement or PlacementRequirement()
    found, other = (explain_find(one, wanted, now=NOW, options=options) for one in (view, grown))
    assert found == other


@given(changed_views(), requirements, sets_of_nodes)
def test_a_query_for_a_set_is_explained_in_its_order(cluster, requirement, options):
    told = explain_find(cluster.view, requirement, now=NOW, options=options, cap=1000)
    alone = attrs.evolve(options, count=1, spread=None)
    every = [record.node_id for record in find_suitable_nodes(cluster.view, requirement, now=NOW, options=alone).nodes]
    listed = [held.node.node_id for held in told.eligible]
    assert listed == [node_id for node_id in every if node_id in set(listed)] or options.prefer_local is not None
    assert len(listed) == told.eligible_count
    chosen = {node.node_id for node in told.chosen}
    assert chosen <= set(listed)
    if told.chosen and options.count > 1 and options.spread is None and options.anti_affinity is None:
        assert listed[: options.count] == [node.node_id for node in told.chosen]


@given(st.data(), clusters, tasks, policies, option_sets)
def test_ranking_is_a_total_order_whatever_the_input_order(data, cluster, task, policy, options):
    asked = Situation(task, data.draw(states(task)), policy, now=NOW, options=options)
    facts = [facts_of(record, IDS[0]) for record in cluster]
    ranked = rank_candidates(facts, asked)
    shuffled = facts[:]
    random.Random(data.draw(st.integers(0, 9))).shuffle(shuffled)
    assert rank_candidates(shuffled, asked) == ranked
    ranking = Ranking(facts, asked)
    values = [[key.of(node) for key in ranking.keys] for node in ranked]
    assert values == sorted(values)
    assert len({tuple(value) for value in values}) == len(values)
    assert not facts or ranking.best(shuffled) is ranked[0]


@given(st.data(), clusters, tasks, st.sampled_from([ScorePolicy.weighted, ScorePolicy.documented]), st.integers(0, 3))
def test_banded_never_puts_a_lower_score_first(data, cluster, task, score, seed):
    policy = Policy(rank=RankPolicy.banded, score=score)
    asked = Situation(task, data.draw(states(task)), policy, now=NOW, options=Options(seed=seed))
    ranking = Ranking([facts_of(record, IDS[0]) for record in cluster], asked)
    by_tier: dict[Tier, int] = {}
    for node in ranking.sorted():
        tier = node.record.tier(NOW)
        assert ranking.scorer.score(node) <= by_tier.get(tier, 100)
        by_tier[tier] = ranking.scorer.score(node)


@given(clusters, tasks)
def test_unknown_vitals_are_never_a_reason(cluster, task):
    for record in cluster:
        silent = attrs.evolve(record, vitals=None, reserved_mb=0)
        knowing = attrs.evolve(silent, vitals=NodeVitals(ram_available_mb=1 << 40), reserved_mb=0)
        reasons = filter_candidates([facts_of(silent, IDS[0])], Situation(task, now=NOW)).excluded
        expected = filter_candidates([facts_of(knowing, IDS[0])], Situation(task, now=NOW)).excluded
        kinds = [{reason.kind for reason in held[0][1]} if held else set() for held in (reasons, expected)]
        assert kinds[0] == kinds[1]
        assert ReasonKind.PRESSURE_LINUX_STALL not in kinds[0]


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3)), max_size=300), st.integers(-1, 5), st.integers(-1, 5)
)
def test_an_order_keeps_what_it_was_given(moves, low, high):
    order, held = Order.of(()), {}
    for slot, value in moves:
        old = held.get(slot)
        new = None if value == 3 else (value, slot)
        order = order.moved(old, new)
        held[slot] = new
    expected = sorted(entry for entry in held.values() if entry is not None)
    assert list(order) == expected
    mask = sum(1 << slot for value, slot in expected if low <= value < high) if low <= high else 0
    assert order.between((low,), (high,)) == mask or low > high


@given(
    st.lists(st.one_of(st.none(), values, st.integers(0, 200)), min_size=1, max_size=250),
    st.lists(st.tuples(st.integers(0, 249), st.one_of(st.none(), values, st.integers(0, 400))), max_size=40),
    scalars,
)
def test_a_facet_of_many_values_answers_as_the_term_does(held, moves, term):
    key = "k"
    asked = attrs.evolve(term, key=key)
    current = dict(enumerate(held))
    everyone = (1 << len(held)) - 1
    facet = Facet.of(key, labelled(current))
    for slot, value in moves:
        if slot in current:
            facet = facet.moved(slot, current[slot], value)
            current[slot] = value
            if facet.is_crowded:
                facet = Facet.of(key, labelled(current))
    expected = sum(
        1 << slot for slot, value in current.items() if asked.fault({} if value is None else {key: value}) is None
    )
    assert facet.satisfying(asked, everyone) == expected
    assert facet.satisfying(asked, everyone) == expected


def labelled(current):
    return [(slot, NodeCapabilities({} if value is None else {"k": value})) for slot, value in current.items()]
