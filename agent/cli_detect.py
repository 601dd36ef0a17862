"""`shoal detect`: what this machine has, without an agent; and the same in the forms of other systems."""

from __future__ import annotations

import argparse
import sys

from . import cli_output as output
from .cli_options import FORMATS, Command, Parser
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..capabilities.survey import Detection
    from .config import Config

# As `capabilities.exports.FORMS`, which a command that only prints its help does not import.
EXPORTS = ("nfd", "k8s-labels", "nomad-meta", "ray-labels", "slurm", "htcondor", "prometheus")

# Labels by the beginning of their keys, in the order in which they are shown.
GROUPS = (
    ("system", ("arch", "os", "hostname", "kernel", "distro")),
    ("processor", ("cpu_", "numa_")),
    ("memory", ("ram_", "swap_", "hugepages_", "cgroup_", "psi_")),
    ("accelerators", ("gpu_", "nvidia_", "cuda", "tpu_", "npu_", "accelerator_")),
    ("disks", ("disk_",)),
    ("network", ("net_", "rdma_", "infiniband")),
    ("platform", ("virt", "container", "cloud", "wsl", "kvm", "tpm")),
    ("tools", ("tool_",)),
)


def detect(options: argparse.Namespace) -> int:
    if options.form is not None and (options.output_given or options.explain):
        raise UsageError(f"{'-o' if options.output_given else '--explain'} says nothing with --as: its form is fixed")
    found, operator = _survey(options.config)
    if options.form is not None:
        return _export(options.form, found)
    explain = options.explain or options.output == "wide"
    if options.output == "json":
        output.write_json(_whole(found, explain=explain))
    elif options.output == "jsonl":
        for _, row in _rows(found, operator):
            output.write_json(row if explain else {"name": row["name"], "value": row["value"]}, indent=None)
    elif options.output == "name":
        for _, row in _rows(found, operator):
            output.write(row["name"])
    else:
        _write_groups(list(_rows(found, operator)), explain=explain)
    for warning in found.warnings:
        print(f"warning: {output.plain(warning)}", file=sys.stderr)
    return 0


def _survey(path: str | None) -> tuple[Detection, frozenset[str]]:
    """The record that an agent with this configuration would publish, and the keys of the labels in its files.

    Labels that are set while an agent runs are known to that agent only.
    """
    import attrs

    from ..capabilities import survey

    config = _configuration(path)
    found = survey.detect(
        directories=survey.Directories(config.detect.labels_dir or None, config.detect.probes_dir or None)
    )
    sources = {key: config.origin(f"labels.{key}").where for key in config.labels}
    whole = attrs.evolve(found, record=found.record.with_labels(config.labels), sources={**found.sources, **sources})
    return whole, frozenset(config.labels)


def _configuration(path: str | None) -> Config:
    """The agent's configuration. A bad one that nobody named must not hide what the machine has.

    Raises:
        BadConfiguration: `path` names it.
    """
    from .config import Config, load
    from .config_files import configuration_path
    from .errors import BadConfiguration

    chosen = configuration_path(path)
    try:
        return load(chosen)
    except BadConfiguration as error:
        if chosen is not None:
            raise
        for line in error.message.splitlines():
            print(f"warning: configuration not used: {output.plain(line)}", file=sys.stderr)
        return Config()


def _export(form: str, found: Detection) -> int:
    """Write another system's form; what it does not carry whole is told beside it."""
    from ..capabilities.exports import export

    exported = export(found.record, form, found.vitals)
    sys.stdout.write(exported.text)
    if exported.lossy:
        print(f"warning: {form} does not carry these whole: {', '.join(exported.lossy)}", file=sys.stderr)
    for warning in found.warnings:
        print(f"warning: {output.plain(warning)}", file=sys.stderr)
    return 0


def _rows(found: Detection, operator: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(group, row): labels group by group, then devices, then what changes."""
    labels = found.record.labels
    groups = {key: "operator" if key in operator else _group(key) for key in labels}
    names = [name for name, _ in GROUPS] + ["operator", "other"]
    for name in names:
        for key, value in labels.items():
            if groups[key] == name:
                yield name, {"name": key, "value": value, "source": found.sources.get(key, "")}
    for device in _devices(found):
        facts = ", ".join(f"{key}={output.plain(value)}" for key, value in device.items() if key != "kind")
        told = "gpu_count" if device["kind"] == "gpu" else f"accelerator_{device.get('vendor')}"
        source = found.sources.get(told, "")
        yield "devices", {"name": f"device {device['kind']}", "value": facts, "source": source}
    for group, facts in (("vitals", found.vitals), ("engines", found.engines)):
        for key, value in sorted(facts.items()):
            yield group, {"name": key, "value": value, "source": found.sources.get(key, "")}
    for model in found.models:
        memory = f", {output.amount(model.vram_mb)} of GPU memory" if model.vram_mb is not None else ""
        yield "engines", {"name": f"model {model.name}", "value": f"{model.engine}{memory}", "source": ""}


def _group(key: str) -> str:
    return next((name for name, starts in GROUPS if key.startswith(starts)), "other")


def _write_groups(rows: list[tuple[str, dict[str, Any]]], *, explain: bool) -> None:
    """A block for each group, its facts indented under its name and all columns aligned."""
    name_width = max(len(row["name"]) for _, row in rows)
    value_width = max(len(output.plain(row["value"])) for _, row in rows) if explain else 0
    before = None
    for group, row in rows:
        if group != before:
            output.write(f"\n{group}" if before is not None else group)
            before = group
        line = f"  {row['name']:<{name_width}}  {output.plain(row['value']):<{value_width}}"
        output.write(f"{line}  {output.plain(row['source'])}".rstrip() if explain else line.rstrip())


def _whole(found: Detection, *, explain: bool) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "labels": dict(found.record.labels),
        "devices": _devices(found),
        "vitals": dict(found.vitals),
        "engines": dict(found.engines),
        "warnings": [str(warning) for warning in found.warnings],
    }
    if found.models:
        import attrs

        whole["models"] = [attrs.asdict(model) for model in found.models]
    if explain:
        whole["sources"] = dict(found.sources)
        whole["seconds"] = {probe: round(seconds, 4) for probe, seconds in found.seconds.items()}
    return whole


def _devices(found: Detection) -> list[dict[str, Any]]:
    return [{"kind": group.kind, **group.facts, "count": group.count} for group in found.record.devices]


def _arguments(parser: Parser) -> None:
    parser.add_argument("--explain", action="store_true", help="show where each fact comes from")
    parser.add_argument(
        "--as", dest="form", choices=EXPORTS, help="write the record as another system takes it; never a whole record"
    )
    parser.add_argument("--config", metavar="PATH", help="the agent's configuration; /etc/shoal")


COMMANDS = {"detect": Command(_arguments, detect, formats=FORMATS, asks_agent=False)}
