"""Whatever stands on the command line: an exit code that DESIGN.md names, a message, and never a traceback."""

import io
from importlib import import_module

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shoal.agent import cli

# Those that start processes, wait, or work for seconds when the arguments happen to be right.
BUSY = {"run", "demo", "simulate", "detect", "wait"}
NAMES = [name for name in cli.COMMANDS if name not in BUSY]
CODES = {0, 1, 2, 3, 4, 5, 69, 75, 77, 78}


def words_of(name):
    module, about = cli.COMMANDS[name]
    return import_module(f"shoal.agent.{module}").COMMANDS[name].parser(name, about).option_words()


OPTIONS = {name: [word for word in words_of(name) if word != "--socket"] for name in NAMES}
# What argparse and our own checks read apart, and what nobody would write; a real argument holds no NUL.
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "-",
            "--",
            "-1",
            "0",
            "1" * 5000,
            "9" * 25,
            "=",
            "x=",
            "=x",
            "x=1",
            "a=b=c",
            ":",
            ":2",
            "zone:2",
            "5:a",
            "-5:a",
            "1e400",
            "nan",
            "4GiB",
            "30s",
            "(a",
            "gpu[]*2",
            "json",
            "none.toml",
            ".",
            "\udcff",
            "é",
            "a\nb",
        ]
    ),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=()), max_size=12),
)


@st.composite
def command_lines(draw):
    name = draw(st.sampled_from(NAMES))
    line = name.split()
    for _ in range(draw(st.integers(0, 5))):
        option, value = draw(st.sampled_from(OPTIONS[name])), draw(VALUES)
        line += draw(st.sampled_from([[option], [value], [f"{option}={value}"], [option, value]]))
    return line


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory to be in, for keys gen writes files; without an agent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_API_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setattr("sys.stdin", io.StringIO())


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=command_lines())
def test_every_command_line_ends_with_a_known_code_and_says_why(here, capsys, line):
    try:
        code = cli.main(line)
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert code in CODES
    assert out or err or code == 0, line
