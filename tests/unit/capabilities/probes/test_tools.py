import pytest
from shoal.capabilities.probes.engines import address_of, joined_names, model_name
from shoal.capabilities.survey import detect

OLLAMA = "http:GET http://127.0.0.1:11434/api/version"
PS = "http:GET http://127.0.0.1:11434/api/ps"


@pytest.mark.parametrize(
    ("given", "label", "version"),
    [
        ({"cmd:docker --version": "Docker version 27.1.1, build 6312585\n"}, "tool_docker", "27.1.1"),
        ({"cmd:podman --version": "podman version 4.9.4-rhel\n"}, "tool_podman", "4.9.4-rhel"),
        ({"cmd:git --version": "git version 2.39.5 (Apple Git-154)\n"}, "tool_git", "2.39.5"),
        ({"cmd:go version": "go version go1.22.3 linux/amd64\n"}, "tool_go", "1.22.3"),
        ({"cmd:go version": "go version devel go1.23-1234 linux/amd64\n"}, "tool_go", None),
        ({"/usr/local/go/bin/go": "", "/usr/local/go/VERSION": "go1.21.5\ntime 2023\n"}, "tool_go", "1.21.5"),
        ({"cmd:python3 --version": "Python 3.11.2\n"}, "tool_python", "3.11.2"),
        ({"cmd:python --version": {"output": "", "stderr": "Python 2.7.18\n"}}, "tool_python", "2.7.18"),
        (
            {"cmd:llama-server --version": {"stderr": "ggml: x\nversion: 4589 (eb7cf15a)\n"}},
            "tool_llama_server",
            "4589",
        ),
        ({"cmd:ollama --version": "ollama version is 0.6.2\n"}, "tool_ollama", "0.6.2"),
        ({"cmd:ollama --version": {"timeout": True}}, "tool_ollama", None),
        ({"cmd:git --version": {"errno": "EACCES"}}, "tool_git", None),
        ({"cmd:git --version": "\x00\xff" * 1000}, "tool_git", None),
        ({"/usr/bin/kubectl": ""}, "tool_kubectl", None),
        ({"env:PATH": "/opt/x/bin:relative::/opt/y", "/opt/y/nvcc": ""}, "tool_nvcc", None),
        ({"/usr/bin/qemu-system-x86_64": ""}, "tool_qemu", None),
        ({"/usr/bin/llama-cli": ""}, "tool_llama_cli", None),
    ],
)
def test_tool(detected, given, label, version):
    facts = detected(given)
    assert facts[label] is True
    assert facts.get(f"{label}_version") == version


def test_no_tool_is_no_label(detected):
    assert not [key for key in detected({}) if key.startswith("tool_")]


def test_docker_is_asked_over_its_socket(detected):
    given = {
        "/var/run/docker.sock": "",
        "http:GET unix:/var/run/docker.sock:/version": {"status": 200, "json": {"Version": "28.0.1"}},
    }
    assert detected(given | {"/usr/bin/docker": ""})["tool_docker_version"] == "28.0.1"


@pytest.mark.parametrize(("uid", "mode"), [(0, 0o100777), (0, 0o100775), (4242, 0o100755)])
def test_a_program_that_others_may_change_is_not_run(detected, uid, mode):
    given = {"cmd:git --version": "git version 2.39.5\n", "call:os.stat(/usr/bin/git)": {"uid": uid, "mode": mode}}
    facts = detected(given)
    assert facts["tool_git"] is True
    assert "tool_git_version" not in facts


def test_models_that_ollama_holds(pretend):
    models = [
        {"name": "qwen2.5:7b", "size_vram": 5 * 2**30, "expires_at": "2025-10-09T08:53:20.12345Z"},
        {"name": "llama3.1:8b", "size_vram": 0, "expires_at": "2318-01-01T00:00:00Z"},
        {"name": "bad\x00name"}, {"name": 5}, "x", None,
    ]  # fmt: skip
    machine = pretend(
        {OLLAMA: {"status": 200, "json": {"version": "0.5.7"}}, PS: {"status": 200, "json": {"models": models}}}
    )
    found = detect(machine.reader, machine.facades)
    assert found.engines["models_resident"] == "llama3.1:8b,qwen2.5:7b"
    assert found.engines["ollama_running"] is True
    assert found.record.get("tool_ollama_version") == "0.5.7"
    by_name = {model.name: model for model in found.models}
    assert by_name["qwen2.5:7b"].vram_mb == 5120
    assert by_name["qwen2.5:7b"].expires == 1_760_000_000
    assert by_name["llama3.1:8b"].expires is None


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 404, "json": None},
        {"status": 200, "json": []},
        {"status": 200, "json": {"version": 5}},
        {"error": "EPIPE"},
    ],
)
def test_another_server_at_the_port_is_no_ollama(detected, answer):
    facts = detected({OLLAMA: answer})
    assert facts["ollama_running"] is False
    assert facts["models_resident"] == ""


@pytest.mark.parametrize(
    "answer", [{"status": 500}, {"error": "ECONNREFUSED"}, {"status": 200, "json": {"models": "x"}}]
)
def test_models_are_unknown_when_the_list_fails(detected, answer):
    facts = detected({OLLAMA: {"status": 200, "json": {"version": "0.5.7"}}, PS: answer})
    assert facts["ollama_running"] is True
    assert "models_resident" not in facts


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"), (":9000", "http://127.0.0.1:9000"),
        ("10.1.2.3", "http://10.1.2.3:11434"), ("10.1.2.3:8000", "http://10.1.2.3:8000"), ("[::]:8000", "http://[::1]:8000"),
        ("http://gpu.lan:8000/", "http://gpu.lan:8000"), ("https://x", "http://x:11434"), ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"), ("host:99999", "http://host:11434"), ("a b\r\nc", "http://127.0.0.1:11434"),
        ('"127.0.0.1:8080"', "http://127.0.0.1:8080"), ("::", "http://[::1]:11434"),
    ],
)  # fmt: skip
def test_address_of_ollama(value, address):
    assert address_of(value) == address


@pytest.mark.parametrize(
    "given",
    [
        {"env:OLLAMA_HOST": "127.0.0.1:8000"},
        {
            "/proc/77/comm": "ollama\n",
            "/proc/77/cmdline": "ollama\0serve\0",
            "/proc/77/environ": "A=b\0OLLAMA_HOST=:8000\0",
        },
        {"/etc/systemd/system/ollama.service": '[Service]\nEnvironment="PATH=/bin" "OLLAMA_HOST=0.0.0.0:8000"\n'},
        {
            "/etc/systemd/system/ollama.service": "Environment=OLLAMA_HOST=:1\n",
            "/etc/systemd/system/ollama.service.d/override.conf": 'Environment="OLLAMA_HOST=127.0.0.1:8000"\n',
        },
    ],
)
def test_ollama_is_asked_where_its_service_listens(detected, given):
    url = "http:GET http://127.0.0.1:8000/api/version"
    assert detected(given | {url: {"status": 200, "json": {"version": "0.5.7"}}})["ollama_running"] is True


def llama(*arguments, pid=100, environ=""):
    return {
        f"/proc/{pid}/comm": "llama-server\n",
        f"/proc/{pid}/cmdline": "\0".join(("llama-server", *arguments)) + "\0",
        f"/proc/{pid}/environ": environ,
    }


@pytest.mark.parametrize(
    ("given", "port", "models"),
    [
        (llama("-m", "/m/a.gguf"), 8080, "a"),
        (llama("--port=9000", "--model=/m/b-00001-of-00003.gguf"), 9000, "b"),
        (llama("--port", "0", "-m", "x.gguf"), None, "x"),
        (llama("--port"), 8080, ""),
        (llama("-m", "/m/a.gguf", "--alias", "gpt-oss"), 8080, "gpt-oss"),
        (llama("-hf", "ggml-org/gemma-3:Q4"), 8080, "ggml-org/gemma-3:Q4"),
        (llama(environ="LLAMA_ARG_PORT=7000\0LLAMA_ARG_MODEL=/m/c.gguf\0"), 7000, "c"),
        (llama("-m", "z.gguf", pid=900) | llama("--port", "1234", "-m", "y.gguf", pid=20), 1234, "y,z"),
    ],
)
def test_llama_server(detected, given, port, models):
    facts = detected(given)
    assert facts["llama_server_running"] is True
    assert facts.get("llama_server_port") == port
    assert facts["models_resident"] == models


@pytest.mark.parametrize(
    "given",
    [
        {"/proc/5/comm": "llama-server\n", "/proc/5/cmdline": ""},
        {"/proc/5/comm": "bash\n", "/proc/5/cmdline": "bash\0llama-server\0"},
        {"/proc/5/comm": {"errno": "ESRCH"}},
    ],
)
def test_no_llama_server(detected, given):
    facts = detected(given)
    assert facts["llama_server_running"] is False
    assert "llama_server_port" not in facts


def test_names_that_do_not_fit_are_left_out_whole():
    names = [f"model-{number:03}-{'x' * 60}" for number in range(10)]
    assert joined_names(names).split(",") == names[:3]
    assert model_name(["llama-server"], {}) is None


def test_a_llama_server_whose_process_is_hidden(detected):
    url = "http:GET http://127.0.0.1:8080/v1/models"
    models = {"object": "list", "data": [{"id": "/models/qwen3-8b.gguf", "owned_by": "llamacpp"}]}
    facts = detected({url: {"status": 200, "json": models}})
    assert (facts["llama_server_running"], facts["llama_server_port"]) == (True, 8080)
    assert facts["models_resident"] == "qwen3-8b"
    other = {"data": [{"id": "gpt", "owned_by": "vllm"}]}
    assert detected({url: {"status": 200, "json": other}})["llama_server_running"] is False


def test_engines_are_sampled_on_their_own(pretend):
    from shoal.capabilities.survey import sample_engines

    machine = pretend(llama("-m", "/m/a.gguf"))
    found = sample_engines(machine.reader, machine.facades)
    assert found.facts["llama_server_running"] is True
    assert [(model.name, model.engine) for model in found.models] == [("a", "llama-server")]
