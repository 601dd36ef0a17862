"""Starts that must not happen end at once, with the right code and one clear line."""

import pytest


def refused(done, code):
    """The one line that says why, after checking that nothing else was said."""
    assert (done.returncode, done.stdout) == (code, "")
    line, *more = done.stderr.splitlines()
    assert line.startswith("shoal: ")
    assert all(rest.startswith("  hint: ") for rest in more), done.stderr
    return line


@pytest.fixture
def one(agents):
    return agents("one").start().ready()


def undisturbed(one):
    return one.process.poll() is None and one.status()["members"]["alive"] == 1


def test_a_second_agent_on_the_same_socket(one, shoal, directory):
    line = refused(shoal("run", "--socket", one.socket, "--bind", "127.0.0.1:0"), 75)
    assert f"another agent (pid {one.process.pid})" in line
    assert str(one.socket) in line
    assert undisturbed(one)


def test_a_second_agent_on_the_same_port(one, shoal, directory):
    done = shoal("run", "--socket", directory / "two.sock", "--bind", one.address)
    assert f"the gossip address {one.address} is in use" in refused(done, 75)
    assert not (directory / "two.sock").exists()
    assert undisturbed(one)


def test_a_second_agent_on_the_same_state(one, shoal, directory):
    generation = one.status()["generation"]
    done = shoal("run", "--socket", directory / "two.sock", "--bind", "127.0.0.1:0", "--state-dir", one.state)
    assert f"another agent runs on the state directory {one.state}" in refused(done, 75)
    assert undisturbed(one)
    assert one.status()["generation"] == generation


def test_an_address_of_another_machine(shoal, directory):
    done = shoal("run", "--socket", directory / "two.sock", "--bind", "198.51.100.77:7931", "--allow-plaintext")
    assert "the gossip address 198.51.100.77:7931 cannot be used" in refused(done, 78)


def test_a_state_directory_that_cannot_be(shoal, directory):
    (directory / "file").write_text("precious")
    done = shoal("run", "--socket", directory / "two.sock", "--bind", "127.0.0.1:0", "--state-dir", directory / "file")
    assert f"the state directory {directory / 'file'} cannot be used" in refused(done, 78)


def test_a_bad_configuration_names_file_line_and_nearest_key(shoal, directory):
    config = directory / "shoal.toml"
    config.write_text('# ours\n[gossip]\nbind = "127.0.0.1:0"\nsedes = ["10.0.0.7"]\n')
    line = refused(shoal("run", "--config", config), 78)
    assert line == f"shoal: {config}:4: gossip.sedes: unknown key; did you mean seeds?"


def test_every_problem_of_a_configuration_is_told_at_once(shoal, directory):
    config = directory / "shoal.toml"
    config.write_text('[gossip]\nprofile = "metro"\n[nodes]\nname = "x"\n[log]\nlevel = 7\n')
    done = shoal("run", "--config", config)
    assert (done.returncode, done.stdout) == (78, "")
    profile, section, level = done.stderr.splitlines()
    assert f"{config}:2: gossip.profile: expected one of lan, wan, local" in profile
    assert f"{config}:" in section
    assert "unknown section [nodes]; did you mean node?" in section
    assert f"{config}:6: log.level: " in level


def test_a_configuration_that_is_no_toml_names_the_line(shoal, directory):
    config = directory / "shoal.toml"
    config.write_text("[gossip]\nbind = \n")
    assert f"{config}:2: is not TOML" in refused(shoal("run", "--config", config), 78)


def test_a_record_too_big_to_spread(shoal, directory):
    config = directory / "shoal.toml"
    labels = "".join(f'label-{number} = "{"x" * 200}"\n' for number in range(100))
    config.write_text(f'[gossip]\nbind = "127.0.0.1:0"\n[api]\nsocket = "{directory}/x.sock"\n[labels]\n{labels}')
    done = shoal("run", "--config", config)
    assert done.returncode == 78
    assert "this node's record: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (directory / "x.sock").exists()
