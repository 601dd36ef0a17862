import argparse
import io
import json
from pathlib import Path

import pytest
from shoal.agent import cli_tasks
from shoal.agent.cli_options import Parser
from shoal.agent.cli_tasks import (
    declare_options,
    declare_task,
    declare_work,
    option_arguments,
    task_arguments,
    work_argument,
)
from shoal.agent.errors import UsageError
from shoal.placement.backends import BACKENDS
from shoal.placement.options import MAX_WEIGHT
from shoal.placement.requests import MAX_LIST


@pytest.fixture
def placing():
    parser = Parser("shoal place", "place")
    declare_task(parser)
    declare_options(parser, placing=True)
    return lambda *words: task_arguments(parser.parse(words))


@pytest.fixture
def finding():
    parser = Parser("shoal find", "find")
    declare_options(parser, placing=False)
    return lambda *words: option_arguments(parser.parse(words))


def test_words_and_flags_make_a_task(placing):
    asked = placing(
        *("--tool", "git", "--min-free-ram", "4GiB", "--prefer", "mlx", "run a 7b model", "--tool", "go"),
        *("--memory", "2GiB", "--context", "128000", "--turboquant", "--class", "go-build", "--require", "gpu_nvidia"),
    )
    assert asked == {
        "task": {
            "description": "run a 7b model",
            "workload_class": "go-build",
            "required_tools": ["git", "go"],
            "min_free_ram_mb": "4GiB",
            "memory_request_mb": "2GiB",
            "context_tokens": 128000,
            "prefers_turboquant": True,
            "preferred_backends": ["mlx"],
            "requirement": "gpu_nvidia",
        },
        "options": {},
        "policy": {},
    }
    assert placing("x", "--literally")["task"] == {"description": "x", "infer": False}


def test_options_of_a_choice(placing):
    asked = placing(
        *("x", "--count", "3", "--strict", "--avoid", "a", "--avoid", "b", "--spread", "zone:2"),
        *("--anti-affinity", "rack", "--placed", "c", "--prefer", "gpu_nvidia", "--prefer", "5:zone=a"),
        *("--prefer=-2:disk_root_class=hdd", "--prefer-local", "10", "--fallback", "a", "--fallback", "b"),
        *("--pick", "sticky:job", "--seed", "0", "--rank", "exact", "--score", "documented", "--without", "skew"),
    )
    assert asked["options"] == {
        "count": 3,
        "strict": True,
        "avoid": ["a", "b"],
        "spread": {"label": "zone", "max_skew": 2, "placed": ["c"]},
        "anti_affinity": {"label": "rack", "apart_from": ["c"]},
        "prefer": [
            {"requirement": "gpu_nvidia"},
            {"requirement": "zone=a", "weight": 5},
            {"requirement": "disk_root_class=hdd", "weight": -2},
        ],
        "prefer_local": 10,
        "fallbacks": ["a", "b"],
        "pick": "sticky:job",
        "seed": 0,
    }
    assert asked["policy"] == {"rank": "exact", "score": "documented", "without": ["skew"]}


def test_a_find_prefers_requirements_only(finding):
    assert finding("--prefer", "mlx") == {"prefer": [{"requirement": "mlx"}]}
    assert finding() == {}


TASK = {"description": "x", "required_tools": ["git"], "options": {"count": 2, "seed": 3}, "policy": {"rank": "exact"}}


@pytest.mark.parametrize("form", ["json", "toml", "-"])
def test_a_file_is_read_and_flags_stand_over_it(placing, tmp_path, monkeypatch, form):
    file = tmp_path / f"task.{form}"
    text = json.dumps(TASK)
    if form == "toml":
        text = 'description = "x"\nrequired_tools = ["git"]\n[options]\ncount = 2\nseed = 3\n[policy]\nrank = "exact"\n'
    file.write_text(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    asked = placing("-" if form == "-" else str(file), "--tool", "go", "--count", "4", "--class", "go-build")
    assert asked == {
        "task": {"description": "x", "required_tools": ["git", "go"], "workload_class": "go-build"},
        "options": {"count": 4, "seed": 3},
        "policy": {"rank": "exact"},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "task.toml is no JSON"),
        (b"a = ", "task.toml is no TOML"),
        (b"[options]\ncount == 1\n", r"task.toml is no TOML: .*line 2, column 8"),
        (b"[1, 2]", "task.toml is no TOML"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep"),
        (b"a = " + b"[" * 100_000, "nested too deep"),
        (b"\xff\xfe", "is no text"),
        (b'options = 3\na = "x"\n', "options: expected a table"),
        (b"#" * (1 << 20) + b"##", "longer than 1 MiB"),
    ],
)
def test_a_file_that_is_no_task_is_refused(placing, tmp_path, content, message):
    file = tmp_path / "task.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        placing(str(file))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.toml", "min_free_ram_mb = 18446744073709551616", "min_free_ram_mb: a number of more than 64 bits"),
        ("t.toml", "[options]\nseed = -9223372036854775809", "options.seed: a number of more than 64 bits"),
        (
            "t.toml",
            'description = "x"\n[options]\nspread = {label = "a", max_skew = 1979-05-27}',
            "max_skew: a date or",
        ),
        ("t.toml", "required_tools = ['git', 1979-05-27T07:32:00Z]", r"required_tools\[1\]: a date or time"),
        ("t.toml", "[policy]\nrank = 07:32:00", "policy.rank: a date or time"),
        ("t.json", '{"a": [{"b": 99999999999999999999}]}', r"a\[0\].b: a number of more than 64 bits"),
        ("t.json", '{"description": "\\ud800"}', "description: text that is not valid Unicode"),
        ("t.json", '{"options": {"\\udfff": 1}}', "options: text that is not valid Unicode"),
        ("t.json", '{"\\udfff": 1}', "a key: text that is not valid Unicode"),
    ],
)
def test_a_value_that_no_message_carries_is_named(placing, tmp_path, name, content, message):
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(UsageError, match=f"{name}: .*{message}"):
        placing(str(file))


def test_numbers_up_to_64_bits_are_left_to_the_agent(placing, tmp_path):
    file = tmp_path / "t.toml"
    file.write_text(f"a = {-(2**63)}\n[options]\nseed = {2**64 - 1}\n")
    assert placing(str(file)) == {"task": {"a": -(2**63)}, "options": {"seed": 2**64 - 1}, "policy": {}}


def test_a_list_is_no_task(placing, tmp_path):
    file = tmp_path / "task.json"
    file.write_text("[1, 2]")
    with pytest.raises(UsageError, match="expected a map of fields"):
        placing(str(file))


def test_a_file_of_toml_may_begin_with_a_table(placing, tmp_path):
    file = tmp_path / "task.toml"
    file.write_text("[options]\ncount = 2\n")
    assert placing(str(file), "--class", "go-build")["options"] == {"count": 2}


def test_what_cannot_be_meant_is_refused(placing, finding, tmp_path):
    with pytest.raises(UsageError, match="there is no task"):
        placing("--count", "2")
    with pytest.raises(UsageError, match="cannot be read"):
        placing(str(tmp_path / "none.json"))
    for skew in ("two", "65", "1" * 23, "1" * 5000, "²"):
        with pytest.raises(UsageError, match="--spread: expected LABEL:SKEW with a whole number up to 64"):
            finding("--spread", f"zone:{skew}")
    for weight in ("1001", "-1001", "1" * 23, "-" + "1" * 5000):
        with pytest.raises(UsageError, match="--prefer: expected a weight from -1000 to 1000"):
            finding(f"--prefer={weight}:zone=a")
    assert finding("--spread", "", "--placed", "a")["spread"] == {"label": "", "max_skew": 1, "placed": ["a"]}
    assert finding("--anti-affinity", "")["anti_affinity"] == {"label": "", "apart_from": []}, "the agent refuses them"
    with pytest.raises(UsageError, match="says nothing without"):
        finding("--placed", "a")
    for words in (["x", "--seed", "-1"], ["x", "--seed", "1" * 30], ["x", "--count", "0"]):
        with pytest.raises(SystemExit):
            placing(*words)


@pytest.mark.parametrize("command", [declare_task, declare_work])
@pytest.mark.parametrize("given", ["", " ", "-", "task.toml", "task.json"])
def test_an_empty_task_is_not_all_work(tmp_path, monkeypatch, command, given):
    """As of a variable that is not set, or a file that another program did not write."""
    parser = Parser("shoal fail", "fail")
    command(parser)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    if "." in given:
        given = str(tmp_path / given)
        Path(given).write_text("{}" if given.endswith("json") else "# nothing\n")
    with pytest.raises(UsageError, match="is empty"):
        work_argument(parser.parse([given]))


def test_options_alone_are_no_work(tmp_path):
    file = tmp_path / "task.toml"
    file.write_text("[options]\ncount = 2\n")
    parser = Parser("shoal fail", "fail")
    declare_work(parser)
    with pytest.raises(UsageError, match="says nothing of the work"):
        work_argument(parser.parse([str(file)]))


def test_standard_input_that_is_no_text_is_refused(placing, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    with pytest.raises(UsageError, match="standard input is no text"):
        placing("-")


def test_work_is_told_by_what_distinguishes_it(tmp_path):
    parser = Parser("shoal fail", "fail")
    declare_work(parser)
    file = tmp_path / "task.json"
    file.write_text(json.dumps(TASK))
    assert work_argument(parser.parse([])) == {}
    assert work_argument(parser.parse(["--class", "go-build"])) == {"workload_class": "go-build"}
    assert work_argument(parser.parse([str(file)])) == {"description": "x", "required_tools": ["git"]}
    assert isinstance(parser.parse([]), argparse.Namespace)


def test_what_a_command_repeats_of_placement_is_what_stands_there():
    """It does not import it, to start fast."""
    repeated = (cli_tasks.BACKENDS, cli_tasks._MOST_WEIGHT, cli_tasks._MOST_SKEW)
    assert repeated == (BACKENDS, MAX_WEIGHT, MAX_LIST)
