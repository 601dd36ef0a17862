"""Any configuration gives a whole `Config` or one `BadConfiguration` that names places."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shoal.agent.addresses import address_text, bind_address
from shoal.agent.config import SETTINGS, Config, load
from shoal.agent.errors import BadConfiguration

PATHS = [(section, key) for section, keys in SETTINGS.items() for key in keys]
SCALARS = st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=5), SCALARS, max_size=2)
WORDS = st.text("~127.0:[]localhst,/-_ax", max_size=24)


def refused(build):
    """The message of the refusal, or None; any other exception is a failure."""
    try:
        build()
    except BadConfiguration as error:
        return error.message
    return None


@given(st.dictionaries(st.sampled_from([*SETTINGS, "labels", "other"]), st.dictionaries(st.text(max_size=9), VALUES)))
def test_any_values_in_code(tables):
    assert refused(lambda: Config.of(tables)) != ""


@given(st.sampled_from(PATHS), VALUES | WORDS)
def test_any_value_of_a_known_key(path, value):
    section, key = path
    message = refused(lambda: Config.of({section: {key: value}}))
    assert message is None or f"{section}.{key}" in message


@given(st.lists(st.tuples(st.sampled_from(PATHS), WORDS | st.text(max_size=10)), max_size=3))
def test_any_text_of_flags(given_flags):
    flags = {f"{section}.{key}": text for (section, key), text in given_flags}
    message = refused(lambda: load(None, environ={}, flags=flags))
    assert message is None or "--" in message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file(tmp_path, content):
    file = tmp_path / "shoal.toml"
    file.write_bytes(content)
    message = refused(lambda: load(str(file), environ={}))
    assert message is None or str(file) in message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PATHS), st.integers(0, 5), st.integers(0, 5))
def test_a_wrong_value_is_found_on_its_line(tmp_path, path, above, below):
    section, key = path
    file = tmp_path / "shoal.toml"
    file.write_text("\n" * above + f"[{section}]\n" + "# comment\n" * below + f"{key} = {{}}\n")
    message = refused(lambda: load(str(file), environ={}))
    assert f"{file}:{above + below + 2}: {section}.{key}: expected" in message


@given(st.ip_addresses(), st.integers(0, 65535))
def test_addresses_round_trip(address, port):
    text = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    parsed = bind_address(text)
    assert bind_address(address_text(parsed)) == parsed
