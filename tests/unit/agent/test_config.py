import pytest
from shoal.agent.config import Config, GossipConfig, load
from shoal.agent.config_files import FILE_BYTES, line_of
from shoal.agent.errors import BadConfiguration

ENVIRON = {"XDG_RUNTIME_DIR": "/run/user/7"}


@pytest.fixture
def write(tmp_path):
    def write(text, name="shoal.toml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(tmp_path)

    return write


@pytest.fixture
def refused(write):
    """The message about one wrong file, without the directory's name."""

    def refused(text, **more):
        directory = write(text)
        with pytest.raises(BadConfiguration) as caught:
            load(directory, environ=more.pop("environ", {}), **more)
        return caught.value.message.replace(directory + "/", "")

    return refused


def test_with_nothing_given_an_agent_runs_on_loopback_in_memory(tmp_path):
    config = load(str(tmp_path), environ=ENVIRON)
    assert config.gossip == GossipConfig()
    assert config.gossip.bind == ("127.0.0.1", 7931)
    assert config.node.state_dir == ""
    assert config.origins == {}
    assert config.api.socket.endswith("/api.sock")


def test_flag_beats_environment_beats_later_file_beats_file_beats_default(write):
    write('[gossip]\nprofile = "local"\ncluster = "a"\nadvertise = "10.0.0.1"\n[log]\nlevel = "debug"\n')
    directory = write('[gossip]\ncluster = "b"\nadvertise = "10.0.0.2"\n', "conf.d/50-site.toml")
    config = load(
        directory,
        environ={"SHOAL_GOSSIP_ADVERTISE": "10.0.0.3", "SHOAL_LOG_LEVEL": "error"},
        flags={"log.level": "warning"},
    )
    assert config.gossip.profile == "local"
    assert config.gossip.cluster == "b"
    assert config.gossip.advertise == ("10.0.0.3", 7931)
    assert config.log.level == "warning"
    assert config.origin("gossip.profile").where == f"{directory}/shoal.toml:2"
    assert config.origin("gossip.cluster").where == f"{directory}/conf.d/50-site.toml:2"
    assert config.origin("gossip.advertise").where == "SHOAL_GOSSIP_ADVERTISE"
    assert (config.origin("log.level").source, config.origin("log.level").where) == ("flag", "--log-level")
    assert config.origin("log.format").source == "default"


def test_labels_are_typed_by_toml_and_keep_dots(write):
    config = load(write('[labels]\nrack = 7\ngpu = true\nregion = "us"\n"a.b/c" = "true"\nzone.row = 1\n'), environ={})
    assert dict(config.labels) == {"a.b/c": "true", "gpu": True, "rack": 7, "region": "us", "zone.row": 1}
    assert type(config.labels["gpu"]) is bool


def test_labels_from_flags_and_environment_are_typed_by_their_look(tmp_path):
    flags = {"labels.rack": "7", "labels.ssd": "true", "labels.name": "a b", "labels.code": '"7"'}
    config = load(str(tmp_path), environ={"SHOAL_LABELS_ZONE": "b"}, flags=flags)
    assert dict(config.labels) == {"code": "7", "name": "a b", "rack": 7, "ssd": True, "zone": "b"}


def test_a_configuration_can_be_written_in_code():
    config = Config.of({"gossip": {"bind": "127.0.0.1:0", "seeds": ["seed.example:99"]}, "labels": {"rack": 7}})
    assert config.gossip.bind == ("127.0.0.1", 0)
    assert config.gossip.seeds == (("seed.example", 99),)
    assert config.origin("gossip.bind").source == "code"
    with pytest.raises(BadConfiguration, match=r"^gossip\.bnd: unknown key; did you mean bind\?$"):
        Config.of({"gossip": {"bnd": "127.0.0.1:0"}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[gossip]\n\nbnid = 1\n", "shoal.toml:3: gossip.bnid: unknown key; did you mean bind?"),
        ("[gosip]\nbind = 1\nseeds = 2\n", "shoal.toml:1: unknown section [gosip]; did you mean gossip?"),
        ("node = 7\n", "shoal.toml:1: node: expected a section [node], not a value"),
        ('[log]\nlevel = "infos"\n', "expected one of debug, info, warning, error; did you mean info?"),
        (f'[node]\nname = "{"n" * 254}"\n', "node.name: expected a name of at most 253 characters, not 254"),
        ('[log]\nlevel = "loud"\n', "shoal.toml:2: log.level: expected one of debug, info, warning, error"),
        ("log.level = 3\n", "shoal.toml:1: log.level: expected one of debug, info, warning, error"),
        ("log = {level = 3}\n", "shoal.toml:1: log.level: expected one of debug, info, warning, error"),
        ("[node]\nleave_on_stop = 1\n", "shoal.toml:2: node.leave_on_stop: expected true or false"),
        ('[node]\nname = "a b"\n', "shoal.toml:2: node.name: expected a name that begins with a letter or digit, then"),
        ('[gossip]\nbind = "127.0.0.1:70000"\n', "gossip.bind: expected a port between 0 and 65535, not '70000'"),
        ('[gossip]\nbind = "localhost:1"\n', "gossip.bind: expected an IP address with a port, not 'localhost'"),
        ('[gossip]\nseeds = "10.0.0.1"\n', 'gossip.seeds: expected a list of addresses, such as ["10.0.0.7:7931"]'),
        ('[gossip]\nseeds = ["10.0.0.256"]\n', "gossip.seeds: expected a host name or an IP address with a port"),
        ('[gossip]\nseeds = ["10.0.0.1:0"]\n', "gossip.seeds: expected a port between 1 and 65535, not '0'"),
        ("[labels]\nrack = 1.5\n", "shoal.toml:2: labels.rack: expected a Bool, an Int or a Str, for the value"),
        ("[labels]\nrack = 9223372036854775808\n", "labels.rack: expected an Int of 64 bits, for the value"),
        ('[labels]\n"7up" = 1\n', "shoal.toml:2: labels.7up: expected at most 128 letters"),
        ("[gossip\n", "shoal.toml:1: is not TOML"),
        ('[gossip]\nbind = "0.0.0.0"\n', "gossip.bind: 0.0.0.0 is reached by other machines: set gossip.key_file, or"),
        (f'[api]\nsocket = "/{"x" * 100}"\n', "shoal.toml:2: api.socket: expected a path of at most 95 bytes"),
    ],
)
def test_what_is_wrong_names_file_line_and_the_nearest_right_thing(refused, text, says):
    assert says in refused(text)


def test_every_problem_is_named_at_once(refused):
    message = refused("[log]\nlevel = 1\nformat = 2\n[gossip]\nprofile = 3\n")
    assert [line.split(": ")[1] for line in message.splitlines()] == ["log.level", "log.format", "gossip.profile"]


def test_variables_are_checked_like_keys(refused):
    assert refused("", environ={"SHOAL_GOSSIP_PROFIL": "lan"}) == (
        "SHOAL_GOSSIP_PROFIL: gossip.profil: unknown key; did you mean profile?"
    )
    assert "SHOAL_NODE_LEAVE_ON_STOP: node.leave_on_stop: expected true or false" in refused(
        "", environ={"SHOAL_NODE_LEAVE_ON_STOP": "maybe"}
    )


def test_variables_that_others_set_stop_nothing(tmp_path):
    environ = {
        "SHOAL_PORT": "tcp://10.0.0.1:80",
        "SHOAL_API_SERVICE_HOST": "10.0.0.1",
        "SHOAL_API_PORT_7931_TCP_ADDR": "10.0.0.1",
        "SHOAL_GOSIP_BIND": "127.0.0.1",
    }
    config = load(str(tmp_path), environ=environ)
    assert config.warnings == ("the variable SHOAL_GOSIP_BIND names no section of the configuration",)


def test_text_of_flags_becomes_typed_values(tmp_path):
    flags = {"gossip.seeds": "10.0.0.1, [::1]:99,::2", "node.leave_on_stop": "No", "gossip.bind": "::1"}
    config = load(str(tmp_path), environ={}, flags=flags)
    assert config.gossip.seeds == (("10.0.0.1", 7931), ("::1", 99), ("::2", 7931))
    assert config.node.leave_on_stop is False
    assert config.gossip.bind == ("::1", 7931)


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/she")
    assert Config.of({"node": {"state_dir": "~/shoal"}}).node.state_dir == "/home/she/shoal"


def test_a_named_file_stands_alone_and_must_exist(write, tmp_path):
    write("[log]\nlevel = 'error'\n", "conf.d/a.toml")
    write("", "one.toml")
    assert load(str(tmp_path / "one.toml"), environ={}).log.level == "info"
    with pytest.raises(BadConfiguration, match="no such configuration"):
        load(str(tmp_path / "none.toml"), environ={})


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "shoal.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfiguration, match=r"shoal.toml: is not UTF-8 text \(byte 0\)"):
        load(str(tmp_path), environ={})


def test_rows_show_every_setting_with_its_origin(write):
    rows = {path: (value, origin.source) for path, value, origin in load(write("[labels]\nb = 1\n"), environ={}).rows()}
    assert rows["labels.b"] == (1, "file")
    assert rows["gossip.profile"] == ("lan", "default")


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("a", "b"), 2),
        (("a", "c", "d"), 3),
        (("a", "x y"), 4),
        (("e", "f"), 6),
        (("z", "z"), None),
        (("a", "none"), 1),
    ],
)
def test_the_line_of_a_key(keys, line):
    content = "[a]\nb = 1\nc.d = 2\n'x y' = 3\n# e.f = 0\n[ e . f ] # here\ng = 1\n"
    assert line_of(content, keys) == line


def test_a_directory_that_may_not_be_looked_into_is_a_bad_configuration(tmp_path, monkeypatch):
    def denied(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shoal.agent.config_files.Path.exists", denied)
    with pytest.raises(BadConfiguration, match="cannot be read: Permission denied"):
        load(str(tmp_path), environ={})


def test_watched_paths_are_a_list_of_absolute_paths(write, refused):
    config = load(write('[detect]\ndisk_paths = ["/srv", "/var/lib"]\n'), environ={})
    assert config.detect.disk_paths == ("/srv", "/var/lib")
    assert load(write(""), environ={"SHOAL_DETECT_DISK_PATHS": "/a, /b"}).detect.disk_paths == ("/a", "/b")
    assert "expected paths that begin with /, not 'srv'" in refused('[detect]\ndisk_paths = ["srv"]\n')
    assert "expected a list of paths" in refused('[detect]\ndisk_paths = "/srv"\n')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n[gosip]\nbind = 1\nseeds = 2\n", "shoal.toml:3: unknown section [gosip]; did you mean gossip?"),
        ("[detcet]\n", "shoal.toml:1: unknown section [detcet]; did you mean detect?"),
        ("\n[detcet.more]\nx = 1\n", "shoal.toml:2: unknown section [detcet]; did you mean detect?"),
        ("\ngosip.bind = 1\n", "shoal.toml:2: unknown section [gosip]; did you mean gossip?"),
    ],
)
def test_an_unknown_section_is_told_once_at_its_header(refused, text, message):
    assert refused(text) == message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=" + "[" * 100_000, "nested too deep"),
        ("a=" + "9" * 5000, "shoal.toml: "),
        ("#" * (FILE_BYTES + 1), f"longer than {FILE_BYTES} bytes"),
    ],
)
def test_a_file_beyond_all_measure_is_refused(refused, text, says):
    assert says in refused(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gossip": 5}, "gossip: expected a section [gossip], not a value"),
        ({"gosip": {}}, "gosip: unknown section [gosip]; did you mean gossip?"),
        ({"labels": None}, "labels: expected a section [labels], not a value"),
        ({"gossip": {5: 1}}, "gossip.5: unknown key"),
        ({5: {"a": 1}}, "5: unknown section [5]"),
    ],
)
def test_wrong_settings_in_code_are_refused(settings, message):
    with pytest.raises(BadConfiguration) as caught:
        Config.of(settings)
    assert caught.value.message.startswith(message)
