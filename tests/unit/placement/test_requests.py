import pytest
from shoal.capabilities.requirement import PlacementRequirement
from shoal.placement import (
    AntiAffinity,
    OptionRefused,
    Pick,
    PickWay,
    Policy,
    RankPolicy,
    ScorePolicy,
    Spread,
    Task,
    TaskRefused,
)
from shoal.placement.failures import FailureClass
from shoal.placement.requests import (
    failure_class_of,
    failure_scope_from_map,
    observation_from_map,
    options_from_map,
    policy_from_map,
    task_from_map,
)

GPU = PlacementRequirement().is_true("gpu_nvidia")


def test_a_task_from_a_map_adds_what_the_description_asks_for():
    task = task_from_map(
        {
            "description": "run a 7b model",
            "required_tools": ["git"],
            "min_free_ram_mb": "4.5GiB",
            "preferred_backends": ["mlx"],
            "requirement": "gpu_nvidia",
        }
    )
    assert task == Task(
        description="run a 7b model",
        workload_class="local-llm-inference",
        required_tools=("git",),
        min_free_ram_mb=4608,
        preferred_backends=("mlx",),
        requirement=GPU,
    )


def test_a_class_that_is_given_wins_and_inference_can_be_left_out():
    assert task_from_map({"description": "go test", "workload_class": "batch-script"}).workload_class == "batch-script"
    literal = task_from_map({"description": "go test", "infer": False})
    assert literal == Task(description="go test")


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ([], "the argument", "a map"),
        ({"required_tool": ["git"]}, "required_tool", "did you mean required_tools?"),
        ({"required_tools": "git"}, "required_tools", "a list"),
        ({"required_tools": ["git", 3]}, "required_tools[1]", "a name"),
        ({"required_tools": ["git", " "]}, "required_tools[1]", "a name of at most"),
        ({"preferred_backends": [""]}, "preferred_backends[0]", "a name of at most"),
        ({"required_tools": ["x" * 1025]}, "required_tools[0]", "a name of at most 1024"),
        ({"min_free_ram_mb": -1}, "min_free_ram_mb", "a whole number"),
        ({"min_free_ram_mb": True}, "min_free_ram_mb", "a whole number"),
        ({"min_free_ram_mb": "4 apples"}, "min_free_ram_mb", "an amount such as"),
        ({"context_tokens": 1.5}, "context_tokens", "a whole number"),
        ({"prefers_turboquant": 1}, "prefers_turboquant", "true or false"),
        ({"requirement": "gpu_nvidia,,"}, "requirement", "a requirement"),
        ({"requirement": [["nonsense"]]}, "requirement", "a requirement"),
        ({7: "x"}, "7", "one of description"),
    ],
)
def test_a_bad_task_names_the_field(given, field, message):
    with pytest.raises(TaskRefused, match="wanted") as refused:
        task_from_map(given)
    assert refused.value.field == field
    assert message in str(refused.value)


@pytest.mark.parametrize("option", [Spread, AntiAffinity])
def test_only_a_label_is_placed_by(option):
    with pytest.raises(OptionRefused, match="for the label a key of at most"):
        option(label="")


def test_options_from_a_map():
    options = options_from_map(
        {
            "count": 3,
            "strict": True,
            "avoid": ["a"],
            "anti_affinity": {"label": "rack", "apart_from": ["b"]},
            "spread": {"label": "zone", "max_skew": 2, "placed": ["c"]},
            "prefer": [{"requirement": "gpu_nvidia", "weight": -3}, {"requirement": "zone=a"}],
            "prefer_local": 10,
            "fallbacks": ["gpu_nvidia", GPU.to_wire()],
            "seed": 1 << 63,
            "pick": "sticky:job-1",
        }
    )
    assert (options.count, options.strict, options.avoid, options.prefer_local) == (3, True, ("a",), 10)
    assert (options.spread.max_skew, options.spread.placed, options.anti_affinity.apart_from) == (2, ("c",), ("b",))
    assert [wish.weight for wish in options.prefer] == [-3, 1]
    assert options.fallbacks == (GPU, GPU)
    assert (options.seed, options.pick) == (1 << 63, Pick(way=PickWay.STICKY, key="job-1"))
    assert options_from_map({"count": None}).count == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"count": 0}, "count"),
        ({"spread": {}}, "spread.label"),
        ({"spread": {"label": ""}}, "spread.label"),
        ({"anti_affinity": {"label": "a b"}}, "anti_affinity.label"),
        ({"anti_affinity": {"label": "zone", "apart_from": [""]}}, "anti_affinity.apart_from[0]"),
        ({"avoid": ["a", ""]}, "avoid[1]"),
        ({"spread": {"label": "zone", "skew": 1}}, "spread.skew"),
        ({"prefer": [{"weight": 1}]}, "prefer[0].requirement"),
        ({"prefer": [{"requirement": "a", "weight": 0}]}, "prefer"),
        ({"pick": "worst"}, "pick"),
        ({"pick": "sticky"}, "pick"),
        ({"fallbacks": ["a"] * 9}, "fallbacks"),
    ],
)
def test_bad_options_name_the_field(given, field):
    with pytest.raises(TaskRefused) as refused:
        options_from_map(given)
    assert refused.value.field == field
    assert isinstance(refused.value, OptionRefused) or type(refused.value) is TaskRefused


def test_a_policy_is_named_and_its_rules_can_be_switched_off():
    assert policy_from_map({}) == Policy.agent
    policy = policy_from_map({"rank": "exact", "score": "documented", "without": ["thermal_guard", "warmth"]})
    assert policy.score == ScorePolicy.documented
    assert policy.rank == RankPolicy(warmth=False)
    assert not policy.filter.thermal_guard
    with pytest.raises(TaskRefused, match="did you mean skew"):
        policy_from_map({"without": ["skews"]})
    with pytest.raises(TaskRefused, match="exact or banded"):
        policy_from_map({"rank": "other"})


def test_runs_and_failures_from_maps():
    task = Task(workload_class="go-build", required_tools=("go", "git"))
    seen = observation_from_map({"wall_ms": 900, "peak_ram_mb": "2GiB"}, "n1", task, 77.0)
    assert (seen.observed_at, seen.wall_ms, seen.peak_ram_mb, seen.success) == (77.0, 900, 2048, True)
    # What is recorded is found: several tools are remembered as none.
    assert (seen.scope.node, seen.scope.tool) == ("n1", "")
    scope = failure_scope_from_map({"workload_class": "go-build"}, "n1")
    assert (scope.node, scope.workload_class, scope.tool) == ("n1", "go-build", "")
    assert failure_class_of("timeout") is FailureClass.TIMEOUT
    with pytest.raises(TaskRefused, match="did you mean timeout"):
        failure_class_of("time-out")
