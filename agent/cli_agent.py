"""Commands around the agent's process: run, demo, version, config. Each imports what is heavy when it runs."""

from __future__ import annotations

import argparse
import os
import sys

from . import __version__
from . import cli_output as output
from .cli_options import Command, Parser, by_key, nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .config import Config

_ONE_FORMS = ("table", "json")


def run(options: argparse.Namespace) -> int:
    import functools

    from .process import main

    config = _load(options)
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return main(config, functools.partial(_load, options), lifeline=0 if options.until_eof else None)


def demo(options: argparse.Namespace) -> int:
    from .demo import main

    return main(keep=options.keep)


def version(options: argparse.Namespace) -> int:
    import platform

    from .client import PROTOCOL

    facts = {"version": __version__, "protocol": PROTOCOL, "python": platform.python_version()}
    if options.output == "json":
        output.write_json(facts)
    else:
        output.write(f"shoal {__version__} (protocol {PROTOCOL}, Python {facts['python']})")
    return 0


def config_check(options: argparse.Namespace) -> int:
    from .key_source import ring_of

    config = _load(options)
    ring_of(config.gossip.key_file, None, os.environ, where=config.origin("gossip.key_file").where)
    for warning in config.warnings:
        output.write(f"warning: {warning}")
    output.write("the configuration is good")
    return 0


def config_show(options: argparse.Namespace) -> int:
    config = _load(options)
    rows = [
        {"name": path, "value": _plain(value), "source": origin.source, "where": origin.where}
        for path, value, origin in config.rows()
    ]
    if options.output == "json":
        output.write_json({row["name"]: row["value"] for row in rows} if not options.origin else rows)
        return 0
    columns: list[output.Column] = [("SETTING", lambda row: row["name"]), ("VALUE", lambda row: _text(row["value"]))]
    if options.origin:
        columns.append(("ORIGIN", lambda row: row["where"] or row["source"]))
    output.write_table(rows, columns)
    return 0


def _load(options: argparse.Namespace) -> Config:
    """The configuration that the flags of this command name and change."""
    import attrs

    from .config import load
    from .config_files import configuration_files, configuration_path

    flags = {path: str(value) for path, value in vars(options).items() if "." in path and value is not None}
    if options.join:
        flags["gossip.seeds"] = ",".join(options.join)
    given: list[tuple[str, str]] = options.label or []
    flags |= {f"labels.{key}": value for key, value in by_key(given).items()}
    path = configuration_path(options.config)
    config = load(path, flags=flags)
    if path is not None and not configuration_files(path):
        # Who names a directory means its files; without any there is a whole configuration all the same.
        return attrs.evolve(config, warnings=(*config.warnings, f"{path} holds no shoal.toml and no conf.d/*.toml"))
    return config


def _plain(value: Any) -> object:
    """A setting as JSON has it: addresses as text."""
    from .addresses import address_text

    if type(value).__name__ != "tuple":
        return value
    if len(value) == 2 and type(value[1]) is int:
        return address_text(value)
    return [_plain(item) for item in value]


def _text(value: object) -> str:
    import json

    return "" if value in ("", None) else value if isinstance(value, str) else json.dumps(value)


def _settings(parser: Parser) -> None:
    """A flag for every setting; its destination is the setting's path."""
    from .config import SETTINGS, flag_of

    parser.add_argument(
        "--config", metavar="PATH", help="a file, or a directory with shoal.toml and conf.d; /etc/shoal"
    )
    for section, keys in SETTINGS.items():
        for key, setting in keys.items():
            flag, path = flag_of(section, key), f"{section}.{key}"
            if flag == "--join":
                parser.add_argument(flag, action="append", metavar="ADDRESS", help=setting.help)
            elif setting.is_switch:
                parser.add_argument(flag, dest=path, action=argparse.BooleanOptionalAction, help=setting.help)
            else:
                parser.add_argument(flag, dest=path, metavar=key.upper(), help=setting.help)
    parser.add_argument("--label", action="append", type=_pair, metavar="KEY=VALUE", help="a label of this node")


def _run(parser: Parser) -> None:
    _settings(parser)
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="stop when standard input ends, as with a parent that died; a byte there lets the agent live on",
    )


def _config_show(parser: Parser) -> None:
    _settings(parser)
    parser.add_argument("--origin", action="store_true", help="show where each value comes from")


def _demo(parser: Parser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave the five agents up, and say how to talk to them")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, not {text!r}")
    return key, value


COMMANDS = {
    "run": Command(_run, run, asks_agent=False),
    "demo": Command(_demo, demo, asks_agent=False),
    "version": Command(nothing, version, asks_agent=False, formats=_ONE_FORMS),
    "config check": Command(_settings, config_check, asks_agent=False),
    "config show": Command(_config_show, config_show, asks_agent=False, formats=_ONE_FORMS),
}
