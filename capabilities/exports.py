"""The record in the forms that other systems take. All of them lose something; none is ever read back as a record.

Each form has its own syntax and limits: what does not fit is changed or left out, and named in `Exported.lossy`. Keys
get the prefix `shoal`, so that nothing collides with what those systems detect on their own.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import attrs

from .devices import DeviceGroup
from .record import NodeCapabilities
from .values import CapValue

# Kubernetes: names and values of labels have at most 63 characters, the prefix before the slash 253.
KUBERNETES_CHARACTERS = 63
KUBERNETES_PREFIX_CHARACTERS = 253
# node-feature-discovery reads no more of a feature file.
FEATURE_FILE_BYTES = 64 * 1024

PREFIX = "shoal"
# Forms that tell what devices there are, beside the labels that sum them up.
WITH_DEVICES = frozenset({"slurm", "prometheus"})

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DNS = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


@attrs.frozen
class Exported:
    """The text, ready to be written, and the labels (or `devices`) that it does not carry whole."""

    text: str
    lossy: tuple[str, ...]


def export(record: NodeCapabilities, form: str, vitals: Mapping[str, CapValue] | None = None) -> Exported:
    """The record as one of `FORMS`; `vitals` go where they are a form's business (prometheus).

    Raises:
        KeyError: there is no such form.
    """
    exported = FORMS[form](record, vitals or {})
    if record.devices and form not in WITH_DEVICES:
        return attrs.evolve(exported, lossy=(*exported.lossy, "devices"))
    return exported


def _nfd(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """A feature file of node-feature-discovery's local source."""
    del vitals
    lines = ["# exported by shoal; not a complete record"]
    size = len(lines[0]) + 1
    lossy: list[str] = []
    for key, line, whole in _kubernetes_pairs(record):
        if line is None or size + len(line) + 1 > FEATURE_FILE_BYTES:
            lossy.append(key)
            continue
        size += len(line) + 1
        lines.append(line)
        if not whole:
            lossy.append(key)
    return Exported("\n".join(lines) + "\n", tuple(lossy))


def _kubernetes(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """Arguments of `kubectl label node NAME`, one on a line."""
    del vitals
    pairs = list(_kubernetes_pairs(record))
    text = "".join(f"{pair}\n" for _, pair, _ in pairs if pair is not None)
    return Exported(text, tuple(key for key, _, whole in pairs if not whole))


def _ray(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """The argument of `ray start --labels`; Ray's label syntax is that of Kubernetes."""
    del vitals
    pairs = list(_kubernetes_pairs(record))
    text = ",".join(pair for _, pair, _ in pairs if pair is not None and not pair.endswith("="))
    return Exported(text + "\n", tuple(key for key, _, whole in pairs if not whole))


def _kubernetes_pairs(record: NodeCapabilities) -> Iterator[tuple[str, str | None, bool]]:
    """(our key, `name=value`, whether both are whole); of two keys that become one name the second has no pair."""
    seen: set[str] = set()
    for key, value in record.labels.items():
        name = kubernetes_name(key)
        plain = _plain(value)
        fitted = kubernetes_value(plain)
        if name in seen:
            yield key, None, False
            continue
        seen.add(name)
        yield key, f"{name}={fitted}", fitted == plain and name.endswith(key)


def kubernetes_name(key: str) -> str:
    """A qualified name: `shoal/key`, or the key's own prefix when it has a legal one."""
    prefix, slash, rest = key.rpartition("/")
    if not slash or len(prefix) > KUBERNETES_PREFIX_CHARACTERS or _DNS.fullmatch(prefix) is None:
        prefix, rest = PREFIX, key
    return f"{prefix}/{kubernetes_value(rest) or 'label'}"


def kubernetes_value(text: str) -> str:
    """At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends; "" when nothing is left."""
    fitted = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:KUBERNETES_CHARACTERS].strip("-_.")
    return fitted if not fitted or _NAME.fullmatch(fitted) else ""


def _nomad(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """A client configuration in HCL; jobs ask for `${meta.shoal_cpu_count}`. All values are strings there."""
    del vitals
    names: dict[str, str] = {}
    lossy: list[str] = []
    for key, value in record.labels.items():
        name = f"{PREFIX}_{_identifier(key)}"
        plain = _plain(value)
        if name in names or "${" in plain or "%{" in plain:
            lossy.append(key)
            continue
        names[name] = plain
        if not name.endswith(key):
            lossy.append(key)
    lines = [f"    {name} = {_quoted(value)}" for name, value in names.items()]
    return Exported("\n".join(["client {", "  meta {", *lines, "  }", "}"]) + "\n", tuple(lossy))


def _slurm(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """A node's line of slurm.conf: sizes in Slurm's own fields, GPUs as generic resources, the rest as features."""
    del vitals
    sockets, cores, cpus = (_int(record, key) for key in ("cpu_sockets", "cpu_physical", "cpu_count"))
    fields = [f"NodeName={_word(_plain(record.get('hostname', 'localhost') or 'localhost'))}"]
    if cpus is not None:
        fields.append(f"CPUs={cpus}")
    if sockets and cores and cpus and cores % sockets == 0 and cpus % cores == 0:
        fields += [f"Sockets={sockets}", f"CoresPerSocket={cores // sockets}", f"ThreadsPerCore={cpus // cores}"]
    memory = _int(record, "ram_limit_mb") or _int(record, "ram_mb")
    if memory is not None:
        fields.append(f"RealMemory={memory}")
    gpus = _slurm_resources(record)
    if gpus:
        fields.append("Gres=" + ",".join(gpus))
    features: list[str] = []
    lossy: list[str] = []
    for key, value in record.labels.items():
        if key in SLURM_FIELDS or value is False:
            continue
        name, text = _word(key), _word(_plain(value))
        features.append(name if value is True else f"{name}={text}")
        if name != key or text != _plain(value):
            lossy.append(key)
    if features:
        fields.append("Features=" + ",".join(features))
    return Exported(" ".join(fields) + "\n", tuple(lossy))


SLURM_FIELDS = frozenset({"hostname", "cpu_sockets", "cpu_physical", "cpu_count", "ram_limit_mb", "ram_mb"})


def _slurm_resources(record: NodeCapabilities) -> list[str]:
    """GPUs by model: Slurm finds out by itself where they hang."""
    counts: Counter[str] = Counter()
    for group in record.devices:
        if group.kind == "gpu":
            counts[f"gpu:{_word(group.model)}" if group.model else "gpu"] += group.count
    return [f"{resource}:{count}" for resource, count in sorted(counts.items())]


def _htcondor(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """Attributes of a machine ClassAd, as a cron hook of the startd prints them. Names there have no case."""
    del vitals
    lines: list[str] = []
    lossy: list[str] = []
    seen: set[str] = set()
    for key, value in record.labels.items():
        name = f"Shoal_{_identifier(key)}"
        if name.lower() in seen:
            lossy.append(key)
            continue
        seen.add(name.lower())
        text = _quoted(value) if isinstance(value, str) else _plain(value)
        lines.append(f"{name} = {text}")
        if not name.endswith(key):
            lossy.append(key)
    return Exported("".join(line + "\n" for line in lines), tuple(lossy))


def _prometheus(record: NodeCapabilities, vitals: Mapping[str, CapValue]) -> Exported:
    """The text format, for a textfile collector: numbers as gauges, texts as the label of a constant."""
    numbers = [(key, value) for key, value in record.labels.items() if not isinstance(value, str)]
    texts = [(key, value) for key, value in record.labels.items() if isinstance(value, str)]
    current = [(key, value) for key, value in sorted(vitals.items()) if not isinstance(value, str)]
    lines = [
        *_family("shoal_capability", "Number or truth of a capability label."),
        *(f"shoal_capability{_tags({'label': key})} {int(value)}" for key, value in numbers),
        *_family("shoal_capability_info", "Text of a capability label."),
        *(f"shoal_capability_info{_tags({'label': key, 'value': value})} 1" for key, value in texts),
        *_family("shoal_devices", "Identical accelerators."),
        *(f"shoal_devices{_tags(_device_tags(group))} {group.count}" for group in record.devices),
        *_family("shoal_vital", "What changes: memory, load, pressure, temperature, power."),
        *(f"shoal_vital{_tags({'vital': key})} {int(value)}" for key, value in current),
    ]
    return Exported("\n".join(lines) + "\n", ())


def _family(name: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} gauge"


def _device_tags(group: DeviceGroup) -> dict[str, str]:
    return {"kind": group.kind, **{name: _plain(value) for name, value in group.facts.items()}}


def _tags(tags: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in tags.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _plain(value: CapValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _int(record: NodeCapabilities, key: str) -> int | None:
    value = record.get(key)
    return value if type(value) is int else None


def _identifier(key: str) -> str:
    """Letters, digits and underscores, as names of attributes and of HCL keys want."""
    return re.sub(r"[^A-Za-z0-9_]", "_", key)


def _word(text: str) -> str:
    """Letters, digits, `.`, `_` and `-`: everything else means something in slurm.conf."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-") or "unknown"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if letter.isprintable() else " " for letter in escaped) + '"'


FORMS: Mapping[str, Callable[[NodeCapabilities, Mapping[str, CapValue]], Exported]] = {
    "nfd": _nfd,
    "k8s-labels": _kubernetes,
    "nomad-meta": _nomad,
    "ray-labels": _ray,
    "slurm": _slurm,
    "htcondor": _htcondor,
    "prometheus": _prometheus,
}
