import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from shoal.agent import __version__, cli, cli_output
from shoal.agent.cli_options import FORMATS, seconds
from shoal.agent.label_text import label_from_text

SHOAL = [sys.executable, "-c", "import sys; from shoal.agent.cli import main; sys.exit(main())"]


@pytest.fixture
def shoal(capsys):
    def shoal(*arguments):
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return shoal


def test_without_a_command_the_commands_are_listed(shoal):
    code, out, err = shoal()
    assert (code, out) == (2, "")
    assert "find" in err
    code, out, err = shoal("--help")
    assert (code, err) == (0, "")
    for name in cli.COMMANDS:
        assert name in out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["mebmers"], "did you mean shoal members?"),
        (["label"], "did you mean shoal labels?"),
        (["labels", "sett"], "did you mean shoal labels set?"),
        (["config", "cheek"], "did you mean shoal config check?"),
        (["xyzzy"], "shoal --help names the commands"),
        (["--sokcet", "x", "members"], "shoal --help names the commands"),
    ],
)
def test_a_mistyped_command_gets_the_nearest(shoal, arguments, hint):
    code, out, err = shoal(*arguments)
    assert (code, out) == (2, "")
    assert hint in err


def test_every_command_explains_itself(shoal):
    for name in cli.COMMANDS:
        code, out, _ = shoal(*name.split(), "--help")
        assert code == 0
        assert out.startswith(f"usage: shoal {name}")


def command_of(name):
    module, about = cli.COMMANDS[name]
    return importlib.import_module(f"shoal.agent.{module}").COMMANDS[name], about


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_forms_that_a_command_takes_are_those_of_its_help(shoal, name, monkeypatch):
    command, about = command_of(name)
    told = re.search(r"--output \{([a-z,]+)\}", " ".join(shoal(*name.split(), "--help")[1].split()))
    assert (told[1].split(",") if told else []) == list(command.formats)
    parser = command.parser(name, about)
    # Whatever else it needs is not what this is about.
    parser._positionals._group_actions[:] = []
    for action in parser._actions:
        action.required = False
    for form in (*FORMATS, "yaml"):
        if form in command.formats:
            assert parser.parse_known_args(["-o", form])[0].output == form
        elif command.formats:
            code, _, err = shoal(*name.split(), "-o", form)
            assert (code, f"invalid choice: '{form}'" in err) == (2, True)


def test_two_values_of_a_label_are_refused(shoal):
    for command in (("config", "check"), ("config", "show"), ("run",)):
        code, out, err = shoal(*command, "--label", "x=1", "--label", "y=1", "--label", "x=2")
        assert (code, out, err) == (2, "", "shoal: x is given twice\n")
    code, out, _ = shoal("config", "show", "--label", "x=1", "--label", "x=1", "-o", "json")
    assert (code, json.loads(out)["labels.x"]) == (0, 1)
    assert shoal("labels", "set", "x=1", "x=true") == (2, "", "shoal: x is given twice\n"), "before any agent is asked"


@pytest.mark.parametrize("group", ["labels", "keys", "config"])
def test_a_first_word_alone_explains_what_may_follow(shoal, group):
    code, out, err = shoal(group, "--help")
    assert (code, err) == (0, "")
    assert [name for name in cli.COMMANDS if f"\n  {name} " in out] == [
        name for name in cli.COMMANDS if name.startswith(f"{group} ")
    ]


def test_help_is_a_command_too(shoal):
    assert shoal("help") == shoal("--help")
    assert shoal("help", "members") == shoal("members", "--help")
    assert shoal("help", "keys", "rotate") == shoal("keys", "rotate", "--help")
    assert shoal("help", "keys") == shoal("keys", "--help")
    assert "did you mean shoal members?" in shoal("help", "membrs")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("find", "--spread=--"), ("find", "--prefer=--"), ("members", "-o--"), ("members", "--output=--"),
        ("config", "check", "--label=--"), ("run", "--bind=--"), ("keys", "rotate", "--to=--"),
    ],
)  # fmt: skip
def test_two_hyphens_are_no_value_of_an_option(shoal, arguments):
    code, out, err = shoal(*arguments)
    assert (code, out) == (2, "")
    assert "expected one argument" in err


@pytest.mark.parametrize("option", ["-o", "--output", "--socket"])
def test_an_option_before_the_command_without_its_value_says_so(shoal, option):
    code, out, err = shoal(option)
    assert (code, out) == (2, "")
    assert err.startswith(f"shoal: the option {option} takes a value\n")


def test_a_key_that_is_not_typed_in_is_none(shoal, tmp_path, monkeypatch):
    def ended(_prompt):
        raise EOFError

    monkeypatch.setattr("getpass.getpass", ended)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    code, _, err = shoal("keys", "install", "--socket", str(tmp_path / "none.sock"))
    assert code == 2
    assert err.startswith("shoal: expected one key, found 0\n")


def test_a_key_goes_into_a_new_file_or_nowhere(shoal, tmp_path):
    file = tmp_path / "gossip.key"
    assert shoal("keys", "gen", "--out", str(file)) == (0, "", "")
    kept = file.read_text()
    code, _, err = shoal("keys", "gen", "--out", str(file))
    assert (code, file.read_text()) == (5, kept)
    assert "a key never replaces a file" in err
    code, _, err = shoal("keys", "gen", "--out", str(tmp_path / "none" / "x"))
    assert (code, err) == (1, f"shoal: {tmp_path}/none/x cannot be made: No such file or directory\n")


@pytest.mark.parametrize("command", [["members"], ["find", "a"], ["status"], ["leave"], ["labels"], ["watch"]])
def test_without_an_agent_clients_end_with_69(shoal, tmp_path, command):
    path = str(tmp_path / "none.sock")
    for arguments in (["--socket", path, *command], [*command, "--socket", path], [f"--socket={path}", *command]):
        code, out, err = shoal(*arguments)
        assert (code, out) == (69, "")
        assert path in err
        assert "shoal run" in err


def test_the_socket_of_the_environment_is_used(shoal, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_API_SOCKET", str(tmp_path / "mine.sock"))
    assert "mine.sock" in shoal("members")[2]


def test_wait_waits_for_the_agent_too(shoal, tmp_path):
    code, _, err = shoal("wait", "--members", "1", "--timeout", "0.1", "--socket", str(tmp_path / "none.sock"))
    assert code == 69
    assert "no such socket" in err


def test_version(shoal):
    assert __version__ in shoal("version")[1]
    assert shoal("--version")[1] == shoal("version")[1]
    assert '"protocol": 1' in shoal("version", "-o", "json")[1]


def test_a_bad_configuration_ends_with_78_and_names_the_place(shoal, tmp_path):
    file = tmp_path / "shoal.toml"
    file.write_text("[gossip]\nbnd = 1\n")
    code, out, err = shoal("run", "--config", str(file))
    assert (code, out) == (78, "")
    assert err == f"shoal: {file}:2: gossip.bnd: unknown key; did you mean bind?\n"
    assert shoal("config", "check", "--config", str(file))[0] == 78


def test_a_key_file_that_cannot_be_used_ends_with_78_and_names_the_place(shoal, tmp_path):
    file, key = tmp_path / "shoal.toml", tmp_path / "gossip.key"
    file.write_text(f'[gossip]\nkey_file = "{key}"\n')
    said = f"shoal: {file}:2: gossip.key_file: the key file {key} cannot be read: No such file or directory\n"
    said += f"  hint: shoal keys gen --out {key} makes one\n"
    assert shoal("config", "check", "--config", str(file)) == (78, "", said)
    assert "shoal: --key-file: gossip.key_file: " in shoal("config", "check", "--key-file", str(key))[2]
    shoal("keys", "gen", "--out", str(key))
    assert shoal("config", "check", "--config", str(file))[0] == 0


def test_a_directory_without_a_configuration_is_warned_of(shoal, tmp_path, monkeypatch):
    said = f"warning: {tmp_path} holds no shoal.toml and no conf.d/*.toml\nthe configuration is good\n"
    assert shoal("config", "check", "--config", str(tmp_path)) == (0, said, "")
    monkeypatch.setenv("SHOAL_CONFIG", str(tmp_path))
    assert shoal("config", "check") == (0, said, "")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10.toml").write_text("")
    assert shoal("config", "check") == (0, "the configuration is good\n", "")


def test_config_shows_where_values_come_from(shoal, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LOG_LEVEL", "debug")
    file = tmp_path / "shoal.toml"
    file.write_text('[gossip]\nseeds = ["seed.example"]\n')
    out = shoal("config", "show", "--origin", "--config", str(file), "--no-detect", "--label", "rack=7")[1]
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["gossip.seeds"] == ['["seed.example:7931"]', f"{file}:2"]
    assert rows["log.level"] == ["debug", "SHOAL_LOG_LEVEL"]
    assert rows["detect.enabled"] == ["false", "--detect"]
    assert rows["labels.rack"] == ["7", "--label", "rack"]
    assert rows["gossip.profile"] == ["lan", "default"]
    assert shoal("config", "check", "--config", str(file))[:2] == (0, "the configuration is good\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shoal, shell):
    code, out, _ = shoal("completion", shell)
    assert code == 0
    for word in ("members", "forget", "limit", "allow-plaintext", "unset"):
        assert word in out


def test_bash_takes_its_completion():
    script = subprocess.run([*SHOAL, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    ask = 'COMP_WORDS=(shoal labels s); COMP_CWORD=2; _shoal; echo "${COMPREPLY[@]}"'
    ask += '; COMP_WORDS=(shoal find --lim); COMP_CWORD=2; _shoal; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set", "--limit"]


def test_client_commands_import_neither_attrs_nor_trio_nor_structlog(tmp_path):
    program = (
        "import sys; from shoal.agent.cli import main\n"
        f"code = main(['members', '--socket', {str(tmp_path / 'none')!r}])\n"
        "from shoal.agent import cli_changes\n"
        "heavy = {'attr', 'attrs', 'trio', 'structlog', 'dataclasses', 'asyncio', 'json', 'shutil', 'psutil'}\n"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "69 []\n"


def test_a_closed_pipe_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*SHOAL, "completion", "bash"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def run_in_shell(command):
    code = "import sys; from shoal.agent.cli import main; sys.exit(main())"
    script = f"{sys.executable} -c '{code}' {command}"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["version", "completion bash", "--help", "version --help"])
def test_a_full_disk_is_told(command):
    done = run_in_shell(f"{command} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "shoal: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_that_cannot_be_told_keeps_its_code(tmp_path):
    done = run_in_shell(f"members --socket {tmp_path}/none 2>/dev/full")
    assert (done.returncode, done.stderr) == (69, "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("version >&-", 0),
        ("version <&- >&- 2>&-", 0),
        ("members --socket /nowhere 2>&-", 69),
        ("config check 2>&-", 0),
        ("run --config /nowhere 2>&-", 78),
    ],
)
def test_a_closed_stream_is_nowhere(command, code):
    done = run_in_shell(command)
    assert (done.returncode, done.stderr) == (code, "")


def test_ctrl_c_ends_quietly(tmp_path):
    path = str(tmp_path / "api.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        process = subprocess.Popen([*SHOAL, "watch", "--socket", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        listener.settimeout(20)
        with listener.accept()[0] as connection:
            connection.recv(1 << 16)  # it has asked, and waits
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(("text", "value"), [("30", 30), ("1.5", 1.5), ("30s", 30), ("5m", 300), ("1h", 3600)])
def test_times_have_units(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "-1", "0", "25h", "nan", "1d", "five"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Exception, match="expected a time"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", "True"),
        ("7", 7),
        ("-7", -7),
        ("7.5", "7.5"),
        ('"7"', "7"),
        ("", ""),
        ("007", "007"),
        ("+7", "+7"),
        ("0", 0),
        (str(2**63 - 1), 2**63 - 1),
        ('"a\\"b"', 'a"b'),
        ("'it is \\u00e9'", "it is \u00e9"),
        ("a b", "a b"),
        ("\u0667", "\u0667"),
    ],
)
def test_labels_are_typed_by_their_look(text, value):
    found = label_from_text(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", [str(2**63), "9" * 5000, '"', '"a', '"a"b', "'a\"", '"\\x"', '"\\U00110000"'])
def test_what_is_no_value_of_a_label_is_refused(shoal, text):
    code, _, err = shoal("labels", "set", f"x={text}")
    assert code == 2
    assert "x: " in err
    code, _, err = shoal("config", "check", "--label", f"x={text}")
    assert code == 78
    assert "--label x: labels.x: " in err


@pytest.mark.parametrize(
    ("mebibytes", "text"),
    [(512, "512M"), (24564, "24.0G"), (131072, "128G"), (3 << 20, "3.0T"), (None, "-"), (True, "-")],
)
def test_amounts_have_units(mebibytes, text):
    assert cli_output.amount(mebibytes) == text


def test_ages_have_units():
    assert [cli_output.age(1000 * s) for s in (0, 59, 60, 7200, 200_000)] == ["0s", "59s", "1m", "2h", "2d"]


def test_colours_are_for_terminals_and_people_who_want_them(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli_output.colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli_output.colours()


def test_a_single_simulated_node_has_nobody_to_crash(shoal):
    code, out, _ = shoal("simulate", "--nodes", "1", "--seed", "1", "-o", "json")
    assert (code, json.loads(out)["crashed"]) == (0, 0)
    assert shoal("simulate", "--nodes", "1", "--crash", "1")[0] == 2
    code, _, err = shoal("simulate", "--crash", "-1")
    assert code == 2
    assert "expected a whole number from 0 to 1000000" in err
