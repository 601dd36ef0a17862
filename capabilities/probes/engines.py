"""Inference engines that run here: ollama by its API, llama-server by its process; and the models that they hold."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import cast

from .facades import Facades, is_linux
from .findings import Findings, ResidentModel
from .http import HttpAnswer
from .reader import Look, Reader

OLLAMA_PORT = 11434
LLAMA_SERVER_PORT = 8080
LLAMA_MODELS = f"http://127.0.0.1:{LLAMA_SERVER_PORT}/v1/models"
# Addresses on which a server listens to all; it is asked on the loopback then.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104 - read, not bound
OLLAMA_UNITS = ("/etc/systemd/system/ollama.service.d", "/etc/systemd/system", "/lib/systemd/system")
MIB = 1024 * 1024
# More loaded models than any machine holds.
MODELS = 64

_NAME = re.compile(r"[\w .:/@+\-]{1,128}")


def probe(reader: Reader, facades: Facades) -> Findings:
    """The engine facts, and every resident model."""
    findings = Findings("engines")
    look = Look(reader, findings)
    known = _ollama(look, facades)
    if is_linux(facades):
        _llama_server(look, facades)
    if known:
        names = sorted({model.name for model in findings.models})
        findings.engine("models_resident", joined_names(names), "engines")
    return findings


def joined_names(names: list[str]) -> str:
    """As many of the sorted names, joined by comma, as a Str holds."""
    kept = ""
    for name in names:
        longer = f"{kept},{name}" if kept else name
        if len(longer.encode()) > 256:
            break
        kept = longer
    return kept


def ollama_version(look: Look, facades: Facades) -> tuple[str, str] | None:
    """What a running server says of itself; builds without a version say 0.0.0, or ""."""
    url = f"{ollama_address(look, facades)}/api/version"
    version = _version_answer(facades, url)
    return (version, f"GET {url}") if version is not None else None


def ollama_address(look: Look, facades: Facades) -> str:
    """`http://host:port` where ollama listens: by this environment, its process's, or its unit's."""
    value = facades.environment("OLLAMA_HOST") or _host_of_process(look) or _host_of_unit(look) or ""
    return address_of(value)


def address_of(value: str) -> str:
    """The forms of OLLAMA_HOST: `host`, `host:port`, `:port`, `[v6]:port`, with or without a scheme."""
    text = re.sub(r"^https?://", "", value.strip().strip("\"'")).split("/")[0]
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?", text)
    if match is None:
        bare = re.fullmatch(r"[0-9a-fA-F:]+", text)
        host, port = (f"[{text}]", None) if bare is not None else ("127.0.0.1", None)
    else:
        host, port = match[1], match[2]
    number = int(port) if port and 0 < int(port) < 65536 else OLLAMA_PORT
    if not re.fullmatch(r"[\w.\-]*|\[[0-9a-fA-F:.]+\]", host):
        host = ""
    return f"http://{EVERYWHERE.get(host, host)}:{number}"


def _version_answer(facades: Facades, url: str) -> str | None:
    """The version that a server gives, "" when it is ollama without one, None when there is none of this machine."""
    answer = _answer(facades, url)
    version = field(answer.json, "version") if answer is not None and answer.status == 200 and answer.local else None
    if not isinstance(version, str):
        return None
    return "" if version.strip() in ("", "0.0.0") else version.strip()


def _answer(facades: Facades, url: str) -> HttpAnswer | None:
    try:
        return facades.http(url)
    except (OSError, ValueError):
        return None


def _ollama(look: Look, facades: Facades) -> bool:
    """Whether it is known which models ollama holds (none when it does not run)."""
    address = ollama_address(look, facades)
    running = _version_answer(facades, f"{address}/api/version") is not None
    look.findings.engine("ollama_running", running, f"GET {address}/api/version")
    if not running:
        return True
    answer = _answer(facades, f"{address}/api/ps")
    models = field(answer.json, "models") if answer is not None and answer.status == 200 else None
    if answer is not None and answer.status == 200 and models is None and isinstance(answer.json, dict):
        models = []
    if not isinstance(models, list):
        look.findings.warn(f"GET {address}/api/ps", "no list of loaded models")
        return False
    for model in cast("list[object]", models)[:MODELS]:
        name = field(model, "name") or field(model, "model")
        if isinstance(name, str) and _NAME.fullmatch(name):
            size = field(model, "size_vram")
            look.findings.models.append(
                ResidentModel(
                    name=name,
                    engine="ollama",
                    vram_mb=size // MIB if type(size) is int and 0 <= size < 2**60 else None,
                    expires=_seconds(field(model, "expires_at")),
                )
            )
    return True


def _seconds(moment: object) -> int | None:
    """Seconds since 1970 of an ISO time; None for "never", which ollama writes as a year far away."""
    if not isinstance(moment, str):
        return None
    try:
        seconds = dt.datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return None
    return int(seconds) if 0 < seconds < 2**33 else None


def _llama_server(look: Look, facades: Facades) -> None:
    """The first process counts for the port; all of them for the models."""
    source = "/proc/*/cmdline"
    port: int | None = None
    running = False
    for pid, arguments in _processes(look, "llama-server"):
        environ = _environ(look, pid)
        if not running:
            running = True
            port = _port(_option(arguments, "--port"), environ.get("LLAMA_ARG_PORT"))
        name = model_name(arguments, environ)
        if name is not None and len(look.findings.models) < MODELS:
            look.findings.models.append(ResidentModel(name=name, engine="llama-server", vram_mb=None, expires=None))
    if not running and _llama_server_answers(look, facades):
        running, port, source = True, LLAMA_SERVER_PORT, f"GET {LLAMA_MODELS}"
    look.findings.engine("llama_server_running", running, source)
    look.findings.engine("llama_server_port", port, source)


def _llama_server_answers(look: Look, facades: Facades) -> bool:
    """Whether one runs where its process cannot be seen (another container), at its usual port."""
    answer = _answer(facades, LLAMA_MODELS)
    models = field(answer.json, "data") if answer is not None and answer.status == 200 and answer.local else None
    if not isinstance(models, list):
        return False
    own = [model for model in cast("list[object]", models)[:MODELS] if field(model, "owned_by") == "llamacpp"]
    for model in own:
        path = field(model, "id")
        name = model_name(["", "--model", path], {}) if isinstance(path, str) else None
        if name is not None:
            look.findings.models.append(ResidentModel(name=name, engine="llama-server"))
    return bool(own)


def _port(option: str | None, variable: str | None) -> int | None:
    """What the command line or environment says, else the program's own default; None when they say nonsense."""
    text = option if option is not None else variable
    if text is None:
        return LLAMA_SERVER_PORT
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65536 else None


def model_name(arguments: list[str], environ: Mapping[str, str]) -> str | None:
    """A llama-server's model: its alias, else the file's name without its ending and part number."""
    alias = _option(arguments, "--alias", "-a") or environ.get("LLAMA_ARG_ALIAS")
    if alias is None:
        repository = _option(arguments, "--hf-repo", "-hf", "-hfr") or environ.get("LLAMA_ARG_HF_REPO")
        path = _option(arguments, "--model", "-m") or environ.get("LLAMA_ARG_MODEL") or repository
        if path is None:
            return None
        alias = path if path == repository else path.rstrip("/").rpartition("/")[2]
        alias = re.sub(r"(-[0-9]{5}-of-[0-9]{5})?\.gguf$", "", alias)
    return alias if _NAME.fullmatch(alias) else None


def _option(arguments: list[str], *names: str) -> str | None:
    for index, argument in enumerate(arguments):
        name, separator, value = argument.partition("=")
        if name not in names:
            continue
        if separator:
            return value
        if index + 1 < len(arguments):
            return arguments[index + 1]
    return None


def _processes(look: Look, name: str) -> Iterator[tuple[str, list[str]]]:
    """Processes by their name, with their arguments. A zombie has none and does not count."""
    for pid in look.listing("/proc") or ():
        if not pid.isdecimal() or _quiet(look, f"/proc/{pid}/comm").strip() != name:
            continue
        arguments = _quiet(look, f"/proc/{pid}/cmdline").removesuffix("\0").split("\0")
        if arguments[0]:
            yield pid, arguments


def _environ(look: Look, pid: str) -> dict[str, str]:
    entries = (entry.partition("=") for entry in _quiet(look, f"/proc/{pid}/environ").split("\0"))
    return {name: value for name, _, value in entries if name}


def _quiet(look: Look, path: str) -> str:
    """A file of a process: it may end at any moment, and others' may not be read; neither is news."""
    return look.text(path, quiet=range(1, 256)) or ""


def _host_of_process(look: Look) -> str | None:
    for pid, arguments in _processes(look, "ollama"):
        if "serve" in arguments:
            return _environ(look, pid).get("OLLAMA_HOST")
    return None


def _host_of_unit(look: Look) -> str | None:
    """The last setting counts, and drop-ins come after the unit."""
    drop_ins = [f"{OLLAMA_UNITS[0]}/{name}" for name in look.listing(OLLAMA_UNITS[0]) or () if name.endswith(".conf")]
    for path in (*reversed(drop_ins), *(f"{directory}/ollama.service" for directory in OLLAMA_UNITS[1:])):
        found = re.findall(r"^Environment=.*?\bOLLAMA_HOST=([^\s\"']+)", look.text(path) or "", re.MULTILINE)
        if found:
            return found[-1]
    return None


def field(value: object, name: str) -> object:
    """A member of a JSON object; None when it is no object or has none."""
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
