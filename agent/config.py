"""The configuration: frozen values, and how flags, environment, files and defaults become them.

    flag  >  SHOAL_SECTION_KEY  >  conf.d/*.toml (last name wins)  >  shoal.toml  >  default

Everything is checked before anything starts, and every message names where the wrong value stands. With nothing given
at all there is a whole configuration: an agent on loopback, in memory.
"""

from __future__ import annotations

import functools
import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import attrs

from ..capabilities.values import CapValue
from ..gossip.member import Address
from . import config_values as kinds
from .addresses import GOSSIP_PORT, NoAddress, advertised_address, bind_address, is_elsewhere
from .config_files import Given, configuration_files, from_environment, from_file
from .errors import BadConfiguration
from .key_file import CREDENTIAL, CREDENTIALS_VARIABLE, credential
from .label_text import NoLabelText, label_from_text
from .nearest import nearest
from .profiles import PROFILES
from .socket_path import LONGEST_PATH_BYTES, serving_path


@attrs.frozen(kw_only=True)
class NodeConfig:
    """`name` "" is the host name; `state_dir` "" keeps nothing: each start is a new node."""

    name: str = ""
    state_dir: str = ""
    leave_on_stop: bool = True


@attrs.frozen(kw_only=True)
class GossipConfig:
    """`bind` port 0 takes any free port; `advertise` None is the bound address; seeds may be host names."""

    bind: Address = ("127.0.0.1", GOSSIP_PORT)
    advertise: Address | None = None
    seeds: tuple[Address, ...] = ()
    profile: str = "lan"
    cluster: str = "shoal"
    key_file: str = ""
    allow_plaintext: bool = False


@attrs.frozen(kw_only=True)
class ApiConfig:
    """`socket` is resolved at load: see `socket_path.serving_path`. `group` owns it when that group exists."""

    socket: str = attrs.field(factory=lambda: serving_path(os.environ, os.getuid()))
    group: str = "shoal"


@attrs.frozen(kw_only=True)
class LogConfig:
    """`format` auto is for people, and leaves the time to the journal: see `logs.configure`."""

    level: str = "info"
    format: str = "auto"


@attrs.frozen(kw_only=True)
class DetectConfig:
    """`enabled` false makes a pretended node: its record is arch, os, the operator's labels and the GPUs they claim.

    The free space of `disk_paths`, and of the state directory, is watched.
    """

    enabled: bool = True
    labels_dir: str = "/etc/shoal/labels.d"
    probes_dir: str = "/etc/shoal/probes.d"
    disk_paths: tuple[str, ...] = ()


def _frozen(labels: Mapping[str, CapValue]) -> Mapping[str, CapValue]:
    return MappingProxyType(dict(sorted(labels.items())))


@attrs.frozen
class Origin:
    """`source` is default, file, environment, credential, flag or code; `where` names the place."""

    source: str
    where: str


@attrs.frozen(kw_only=True)
class Config:
    """All settings of one agent. `origins` has an entry for each value that is no default, as `section.key`."""

    node: NodeConfig = NodeConfig()
    gossip: GossipConfig = GossipConfig()
    api: ApiConfig = attrs.field(factory=ApiConfig)
    log: LogConfig = LogConfig()
    detect: DetectConfig = DetectConfig()
    labels: Mapping[str, CapValue] = attrs.field(factory=dict[str, CapValue], converter=_frozen)
    origins: Mapping[str, Origin] = attrs.field(factory=dict[str, Origin], eq=False)
    warnings: tuple[str, ...] = attrs.field(default=(), eq=False)

    @classmethod
    def of(cls, settings: Mapping[str, Mapping[str, object]]) -> Config:
        """A checked configuration from nested values as TOML has them: `Config.of({"gossip": {"profile": "local"}})`.

        Raises:
            BadConfiguration: as for a file.
        """
        return build(_from_code(settings))

    def origin(self, path: str) -> Origin:
        return self.origins.get(path, Origin("default", ""))

    def rows(self) -> Iterator[tuple[str, object, Origin]]:
        """Every setting as (path, value, origin), in the order of the documentation; labels last, by key."""
        for section, keys in SETTINGS.items():
            for key in keys:
                yield f"{section}.{key}", getattr(getattr(self, section), key), self.origin(f"{section}.{key}")
        for key, value in self.labels.items():
            yield f"labels.{key}", value, self.origin(f"labels.{key}")


def _from_code(settings: Mapping[str, object]) -> Iterator[Given]:
    for section, table in settings.items():
        if section not in _ALL_SECTIONS or not isinstance(table, Mapping):
            yield Given(section, None, table, "code", str(section))
            continue
        for key, value in cast("Mapping[object, object]", table).items():
            yield Given(section, str(key), value, "code", f"{section}.{key}")


def _as_text(text: str) -> object:
    return text


@attrs.frozen
class Setting:
    """How one key is checked, and how text from a flag or variable becomes what TOML would have given."""

    check: Callable[[Any], object]
    from_text: Callable[[str], object] = _as_text
    help: str = ""
    flag: str = ""
    """Of `shoal run`, where it is not the key with hyphens."""

    @property
    def is_switch(self) -> bool:
        return self.check is kinds.boolean


def _switch(about: str, flag: str = "") -> Setting:
    return Setting(kinds.boolean, kinds.boolean_from_text, about, flag)


def _text(about: str) -> Setting:
    return Setting(kinds.text, help=about)


def _path(about: str) -> Setting:
    return Setting(kinds.path, help=about)


SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "node": {
        "name": Setting(kinds.name_or_empty, help="name of this node; the host name when empty"),
        "state_dir": _path("where identity and labels are kept; nothing is kept when empty"),
        "leave_on_stop": _switch("leave the cluster when stopped"),
    },
    "gossip": {
        "bind": Setting(bind_address, help="address and port for gossip, UDP and TCP"),
        "advertise": Setting(advertised_address, help="address that others are told; the bound one when empty"),
        "seeds": Setting(kinds.seeds, kinds.list_from_text, "address of a node to join; may be repeated", "--join"),
        "profile": Setting(kinds.one_of(*PROFILES), help=f"timings: {', '.join(PROFILES)}"),
        "cluster": Setting(kinds.name, help="name of the cluster; others are ignored"),
        "key_file": _path(
            "file with the cluster's keys; by default the systemd credential gossip.key; no encryption without"
        ),
        "allow_plaintext": _switch("gossip without a key on an address that others reach"),
    },
    "api": {
        "socket": _path("path of the local socket"),
        "group": _text("group that may use the local socket"),
    },
    "log": {
        "level": Setting(
            kinds.one_of("debug", "info", "warning", "error"), help="debug, info, warning or error", flag="--log-level"
        ),
        "format": Setting(
            kinds.one_of("auto", "human", "json"),
            help="human, json, or auto: human, in colour on a terminal",
            flag="--log-format",
        ),
    },
    "detect": {
        "enabled": _switch("detect this machine; else the record is only arch, os and the labels given", "--detect"),
        "labels_dir": _path("directory of files with further labels"),
        "probes_dir": _path("directory of programs that print further labels"),
        "disk_paths": Setting(
            kinds.absolute_paths, kinds.list_from_text, "paths whose free space is watched beside the state directory"
        ),
    },
}
_ALL_SECTIONS = (*SETTINGS, "labels")


def load(
    path: str | None = None, *, environ: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> Config:
    """The configuration of `shoal run`. `flags` holds each flag's text by `section.key`; `path` is a file or directory.

    Raises:
        BadConfiguration: every problem found, one a line, each with its place and the nearest right name.
    """
    variables = os.environ if environ is None else environ
    given = [item for file in configuration_files(path) for item in from_file(file, _ALL_SECTIONS)]
    found, strangers = from_environment(variables, dict.fromkeys(_ALL_SECTIONS))
    given += found
    for name, text in (flags or {}).items():
        section, _, key = name.partition(".")
        shown = f"--label {key}" if section == "labels" else flag_of(section, key)
        given.append(Given(section, key, text, "flag", shown, is_text=True))
    warnings = tuple(f"the variable {name} names no section of the configuration" for name in strangers)
    return build(given, environ=variables, warnings=warnings)


def flag_of(section: str, key: str) -> str:
    return SETTINGS[section][key].flag or "--" + key.replace("_", "-")


def build(
    given: Iterable[Given], *, environ: Mapping[str, str] | None = None, warnings: tuple[str, ...] = ()
) -> Config:
    """Check values in rising precedence and put them together."""
    values: dict[str, dict[str, Any]] = {section: {} for section in _ALL_SECTIONS}
    origins: dict[str, Origin] = {}
    problems: dict[str, str] = {}
    for item in given:
        try:
            key, value = _checked(item)
        except kinds.UnfitValue as error:
            problems.setdefault(str(error), item.where)
            continue
        values[item.section][key] = value
        origins[f"{item.section}.{key}"] = Origin(item.source, item.where)
    if environ is not None and "key_file" not in values["gossip"] and (keys := credential(environ)):
        values["gossip"]["key_file"] = keys
        origins["gossip.key_file"] = Origin("credential", f"${CREDENTIALS_VARIABLE}/{CREDENTIAL}")
    values["api"]["socket"] = values["api"].get("socket") or serving_path(
        os.environ if environ is None else environ, os.getuid()
    )
    config = Config(
        node=NodeConfig(**values["node"]),
        gossip=GossipConfig(**values["gossip"]),
        api=ApiConfig(**values["api"]),
        log=LogConfig(**values["log"]),
        detect=DetectConfig(**values["detect"]),
        labels=values["labels"],
        origins=MappingProxyType(origins),
        warnings=warnings,
    )
    config = attrs.evolve(config, warnings=(*warnings, *_vain(config)))
    for path, problem in _contradictions(config):
        problems.setdefault(f"{path}: {problem}", config.origin(path).where or "default")
    if problems:
        lines = (p if p.startswith(f"{where}:") else f"{where}: {p}" for p, where in problems.items())
        raise BadConfiguration("\n".join(lines))
    return config


def _vain(config: Config) -> Iterator[str]:
    """What may be meant, but cannot work as it is."""
    if not ipaddress.ip_address(config.gossip.bind[0]).is_loopback:
        return
    for host, _ in config.gossip.seeds:
        if is_elsewhere(host):
            yield f"the seed {host} cannot be reached from the loopback address of gossip.bind: set gossip.bind"


def _contradictions(config: Config) -> Iterator[tuple[str, str]]:
    """What is wrong with values that are right one by one, as (path, problem)."""
    longest = LONGEST_PATH_BYTES - len(".4194304")  # it is bound beside, under our pid, and then renamed
    if len(os.fsencode(config.api.socket)) > longest:
        yield "api.socket", f"expected a path of at most {longest} bytes, not {config.api.socket!r}"
    host = config.gossip.bind[0]
    if not ipaddress.ip_address(host).is_loopback and not config.gossip.key_file and not config.gossip.allow_plaintext:
        yield (
            "gossip.bind",
            f"{host} is reached by other machines: set gossip.key_file, or gossip.allow_plaintext = true",
        )


def _checked(item: Given) -> tuple[str, object]:
    if item.section not in _ALL_SECTIONS:
        raise kinds.UnfitValue(f"unknown section [{item.section}]{_did_you_mean(str(item.section), _ALL_SECTIONS)}")
    if item.key is None:
        raise kinds.UnfitValue(f"{item.section}: expected a section [{item.section}], not a value")
    path = f"{item.section}.{item.key}"
    setting = _label(item.key) if item.section == "labels" else SETTINGS[item.section].get(item.key)
    if setting is None:
        raise kinds.UnfitValue(f"{path}: unknown key{_did_you_mean(item.key, SETTINGS[item.section])}")
    try:
        value = setting.from_text(item.value) if item.is_text and isinstance(item.value, str) else item.value
        return item.key, setting.check(value)
    except (kinds.UnfitValue, NoAddress, NoLabelText) as error:
        raise kinds.UnfitValue(f"{path}: {error}") from None


def _label(key: str) -> Setting:
    return Setting(functools.partial(kinds.label, key), label_from_text)


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    close = nearest(name, names)
    return f"; did you mean {close}?" if close else f"; known are {', '.join(names)}"
