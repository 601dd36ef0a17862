"""Completion of commands, options and node names, as a script for the shell that asks; made from the parsers."""

from __future__ import annotations

import argparse
from importlib import import_module

from . import cli_output as output
from .cli import COMMANDS as ALL
from .cli_options import FORMATS, Command, Parser

# Commands whose argument is a node: its names come from the agent while completing.
_NODE_COMMANDS = ("show", "forget", "observe", "fail", "override", "history")
_FILE_OPTIONS = "--socket|--config|--state-dir|--key-file|--labels-dir|--probes-dir"

_BASH = """\
_shoal() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" first="" second="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in
            -*) ;;
            *) if [[ -z "$first" ]]; then first="$word"; elif [[ -z "$second" ]]; then second="$word"; fi ;;
        esac
    done
    case "$before" in
        -o|--output) COMPREPLY=($(compgen -W "{formats}" -- "$current")); return ;;
        {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    case "$first $second" in
{cases}
    esac
    case "$first" in
        {nodes}) words="$words $(shoal members -o name 2>/dev/null)" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _shoal shoal
"""


def completion(options: argparse.Namespace) -> int:
    output.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]().rstrip())
    return 0


def _bash() -> str:
    cases = [f'        "{name} "*) words="{" ".join(_options(name))}" ;;' for name in ALL if " " not in name]
    cases += [f'        "{name}"*) words="{" ".join(_options(name))}" ;;' for name in ALL if " " in name]
    for group, actions in _groups().items():
        cases.append(f'        "{group} "*) words="{" ".join(actions)}" ;;')
    cases.append(f'        " ") words="{" ".join(_first_words())} --socket --output --help" ;;')
    return _BASH.format(
        formats=" ".join(FORMATS), files=_FILE_OPTIONS, cases="\n".join(cases), nodes="|".join(_NODE_COMMANDS)
    )


def _zsh() -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash()


def _fish() -> str:
    lines = ["complete -c shoal -f"]
    for name, (_, about) in ALL.items():
        group, _, action = name.partition(" ")
        alone = f"not __fish_seen_subcommand_from {' '.join(_first_words())}"
        if action:
            lines.append(f"complete -c shoal -n '{alone}' -a {group}")
            lines.append(f"complete -c shoal -n '__fish_seen_subcommand_from {group}' -a {action} -d {_quoted(about)}")
        else:
            lines.append(f"complete -c shoal -n '{alone}' -a {group} -d {_quoted(about)}")
        seen = f"__fish_seen_subcommand_from {action or group}"
        lines += [f"complete -c shoal -n '{seen}' -l {option[2:]}" for option in _options(name) if option[:2] == "--"]
    lines += [
        f"complete -c shoal -n '__fish_seen_subcommand_from {name}' -a '(shoal members -o name 2>/dev/null)'"
        for name in _NODE_COMMANDS
    ]
    lines.append(f"complete -c shoal -s o -l output -x -a '{' '.join(FORMATS)}'")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _parser(name: str) -> Parser:
    module, about = ALL[name]
    command: Command = import_module(f".{module}", __package__).COMMANDS[name]
    return command.parser(name, about)


def _options(name: str) -> list[str]:
    words = list(_parser(name).option_words())
    return words + (["bash", "zsh", "fish"] if name == "completion" else [])


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in ALL:
        group, _, action = name.partition(" ")
        if action:
            groups.setdefault(group, []).append(action)
    return groups


def _first_words() -> list[str]:
    return list(dict.fromkeys(name.partition(" ")[0] for name in ALL))


def _shell(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="source <(shoal completion bash) tries it")


COMMANDS = {"completion": Command(_shell, completion, asks_agent=False)}
