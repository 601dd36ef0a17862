"""/proc/cpuinfo in all its dialects: processor blocks, the model's name, and features common to all processors."""

import re
from collections.abc import Callable, Iterable

import attrs

from .reader import Look, integer

CPUINFO = "/proc/cpuinfo"
# About thirty lines for each of 8192 processors, the most that a kernel is built for.
LINES = 250_000

# How each label's instruction set is written; any of the words will do. `+` asks for both.
X86_WORDS = {
    "avx": ("avx",), "avx2": ("avx2",), "avx512": ("avx512f",), "amx": ("amx_tile",), "fma": ("fma",),
    "bf16": ("avx512_bf16", "amx_bf16", "avx_bf16"), "sse4_1": ("sse4_1",), "sse4_2": ("sse4_2",), "ssse3": ("ssse3",),
    "aes": ("aes",), "sha": ("sha_ni",), "f16c": ("f16c",), "avx_vnni": ("avx_vnni",), "avx512_vnni": ("avx512_vnni",),
    "avx512_bf16": ("avx512_bf16",), "avx512_fp16": ("avx512_fp16",), "amx_bf16": ("amx_bf16",),
    "amx_int8": ("amx_int8",), "bmi2": ("bmi2",), "popcnt": ("popcnt",), "rdrand": ("rdrand",), "vmx": ("vmx",),
    "svm": ("svm",),
}  # fmt: skip
ARM_WORDS = {
    "neon": ("asimd", "neon"), "sve": ("sve",), "sve2": ("sve2",), "sme": ("sme",), "bf16": ("bf16", "svebf16"),
    "fp16": ("asimdhp",), "dotprod": ("asimddp",), "i8mm": ("i8mm",), "crc32": ("crc32",), "atomics": ("atomics",),
    "aes": ("aes",), "sha": ("sha2",),
}  # fmt: skip
S390_WORDS = {"vx": ("vx",), "sha": ("sha2",)}

# Core names by MIDR implementer and part, from the Arm and vendor manuals.
ARM_CORES = {
    (0x41, 0xD03): "Cortex-A53", (0x41, 0xD04): "Cortex-A35", (0x41, 0xD05): "Cortex-A55", (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72", (0x41, 0xD09): "Cortex-A73", (0x41, 0xD0A): "Cortex-A75", (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1", (0x41, 0xD0D): "Cortex-A77", (0x41, 0xD0E): "Cortex-A76AE",
    (0x41, 0xD40): "Neoverse-V1", (0x41, 0xD41): "Cortex-A78", (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD44): "Cortex-X1", (0x41, 0xD46): "Cortex-A510", (0x41, 0xD47): "Cortex-A710", (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2", (0x41, 0xD4A): "Neoverse-E1", (0x41, 0xD4B): "Cortex-A78C",
    (0x41, 0xD4C): "Cortex-X1C", (0x41, 0xD4D): "Cortex-A715", (0x41, 0xD4E): "Cortex-X3", (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD80): "Cortex-A520", (0x41, 0xD81): "Cortex-A720", (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD83): "Neoverse-V3AE", (0x41, 0xD84): "Neoverse-V3", (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725", (0x41, 0xD8E): "Neoverse-N3",
    (0x41, 0xC07): "Cortex-A7", (0x41, 0xC08): "Cortex-A8", (0x41, 0xC09): "Cortex-A9", (0x41, 0xC0D): "Cortex-A17",
    (0x41, 0xC0F): "Cortex-A15", (0x41, 0xB76): "ARM1176",
    (0x42, 0x516): "ThunderX2", (0x43, 0x0A1): "ThunderX", (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX", (0x48, 0xD01): "TaiShan-v110", (0x48, 0xD02): "TaiShan-v120",
    (0x4E, 0x003): "Denver 2", (0x4E, 0x004): "Carmel",
    (0x51, 0x001): "Oryon", (0x51, 0x800): "Kryo-2xx-Gold", (0x51, 0x802): "Kryo-3xx-Gold",
    (0x51, 0x804): "Kryo-4xx-Gold", (0x51, 0xC00): "Falkor", (0x51, 0xC01): "Saphira",
    (0x61, 0x022): "Apple-Icestorm-M1", (0x61, 0x023): "Apple-Firestorm-M1", (0x61, 0x032): "Apple-Blizzard-M2",
    (0x61, 0x033): "Apple-Avalanche-M2", (0x6D, 0xD49): "Azure-Cobalt-100",
    (0xC0, 0xAC3): "Ampere-1", (0xC0, 0xAC4): "Ampere-1a",
}  # fmt: skip
ARM_IMPLEMENTERS = {
    0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA", 0x51: "Qualcomm",
    0x53: "Samsung", 0x56: "Marvell", 0x61: "Apple", 0x69: "Intel", 0x6D: "Microsoft", 0x70: "Phytium", 0xC0: "Ampere",
}  # fmt: skip
# IBM machine types, as /proc/cpuinfo names them.
S390_MACHINES = {
    "2964": "z13", "2965": "z13s", "3906": "z14", "3907": "z14 ZR1", "8561": "z15", "8562": "z15 T02", "3931": "z16",
    "3932": "z16 A02", "9175": "z17", "9176": "z17 ME1",
}  # fmt: skip

# Fields that carry the model's name outright, over all architectures, best first.
MODEL_FIELDS = ("model name", "Model Name", "cpu model", "cpu", "uarch")

_SINGLE_LETTERS = re.compile(r"rv(?:32|64|128)([a-z]*)")


@attrs.frozen
class Processor:
    """One processor's block: its number and its fields by name."""

    number: int
    fields: dict[str, str]


def processors(look: Look) -> list[Processor]:
    """The blocks of /proc/cpuinfo; s390x lists its processors on one line each, others in paragraphs."""
    blocks: list[Processor] = []
    for name, value in _pairs(look):
        if name == "processor":
            number = integer(value)
            if number is not None and number >= 0:
                blocks.append(Processor(number, {}))
        elif name.startswith("processor "):
            number = integer(name[10:])
            if number is not None:
                blocks.append(Processor(number, {"processor": value}))
        elif blocks:
            blocks[-1].fields.setdefault(name, value)
    return blocks


def model(look: Look, blocks: list[Processor], arch: str) -> str | None:
    """The processor's name; of a machine with several kinds of cores all names, joined by a plus sign."""
    if arch == "s390x":
        return _s390_model(blocks)
    if arch.startswith("arm"):
        return _arm_model(blocks) or _first(look, blocks, ("model name", "Processor"))
    name = _first(look, blocks, MODEL_FIELDS)
    if name is not None and arch.startswith("ppc"):
        return name.partition(",")[0].partition(" (")[0]
    return name


def features(look: Look, blocks: list[Processor], arch: str) -> set[str]:
    """Names of the labels (after `cpu_feature_`) of what every processor can do."""
    if arch.startswith("ppc"):
        return _power_features(look, blocks)
    if arch.startswith("riscv"):
        return {"rvv"} if _common(blocks, ("hart isa", "isa"), _riscv_extensions) >= {"v"} else set()
    if arch == "s390x":
        words = next((set(value.split()) for name, value in _pairs(look) if name == "features"), set[str]())
        return _named(S390_WORDS, words)
    fields = ("flags", "Features", "features")
    return _named(ARM_WORDS if arch.startswith("arm") else X86_WORDS, _common(blocks, fields, str.split))


def hypervisor_flag(blocks: Iterable[Processor]) -> bool:
    """Whether x86 processors say that they are virtual."""
    return any("hypervisor" in block.fields.get("flags", "").split() for block in blocks)


def _named(table: dict[str, tuple[str, ...]], words: set[str]) -> set[str]:
    return {name for name, spellings in table.items() if words.intersection(spellings)}


def _common(blocks: list[Processor], fields: tuple[str, ...], parse: Callable[[str], Iterable[str]]) -> set[str]:
    """The words that every processor has; a processor that says nothing is not counted."""
    written = {value for block in blocks for value in [_field(block, fields)] if value is not None}
    sets = [set(parse(value)) for value in written]
    return sets[0].intersection(*sets[1:]) if sets else set()


def _field(block: Processor, fields: tuple[str, ...]) -> str | None:
    return next((block.fields[name] for name in fields if name in block.fields), None)


def _first(look: Look, blocks: list[Processor], fields: tuple[str, ...]) -> str | None:
    for field in fields:
        for block in blocks:
            if block.fields.get(field):
                return " ".join(block.fields[field].split())
    # Some architectures name the model after or before all processors.
    loose = {name: value for name, value in _pairs(look) if name in fields and value}
    return next((" ".join(loose[field].split()) for field in fields if field in loose), None)


def _arm_model(blocks: list[Processor]) -> str | None:
    parts: dict[str, None] = {}
    for block in blocks:
        implementer = _hexadecimal(block.fields.get("CPU implementer"))
        part = _hexadecimal(block.fields.get("CPU part"))
        if implementer is None or part is None:
            continue
        maker = ARM_IMPLEMENTERS.get(implementer, f"0x{implementer:02x}")
        parts[ARM_CORES.get((implementer, part), f"{maker}-0x{part:03x}")] = None
    return " + ".join(sorted(parts)) or None


def _s390_model(blocks: list[Processor]) -> str | None:
    for block in blocks:
        match = re.search(r"machine\s*=\s*([0-9A-Fa-f]{4})", block.fields.get("processor", ""))
        if match is not None:
            return f"IBM {S390_MACHINES.get(match[1], match[1])}"
    return None


def _power_features(look: Look, blocks: list[Processor]) -> set[str]:
    """POWER names its vector unit in the model field; VSX came with POWER7."""
    name = _first(look, blocks, ("cpu",)) or ""
    found = {"altivec"} if "altivec" in name.lower() else set[str]()
    generation = re.match(r"POWER([0-9]{1,2})", name)
    return found | ({"vsx"} if generation is not None and int(generation[1]) >= 7 else set[str]())


def _riscv_extensions(isa: str) -> Iterable[str]:
    """`rv64imafdcv_zba_sv39`: single letters run together, longer names follow, each after an underscore."""
    first, *rest = isa.strip().lower().split("_")
    match = _SINGLE_LETTERS.match(first)
    # The run of letters ends where a multi-letter extension begins.
    letters = re.split(r"[szx]", match[1], maxsplit=1)[0] if match is not None else ""
    return [*letters, *rest]


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if text is not None and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _pairs(look: Look) -> Iterable[tuple[str, str]]:
    for line in (look.text(CPUINFO) or "").splitlines()[:LINES]:
        name, separator, value = line.partition(":")
        if separator:
            yield name.strip(), value.strip()
