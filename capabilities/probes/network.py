"""Network links that are up, and RDMA ports."""

import re

from .facades import Facades, is_linux
from .findings import Findings
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader

NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"

# SPEED_UNKNOWN is -1, read as 16, 32 or signed 32 bits; no link of this decade comes near the others (Mbit/s).
UNKNOWN_SPEEDS = frozenset({65535, 4294967295})
FASTEST_MBPS = 10_000_000

# Port states are `number: NAME`.
ACTIVE = "4:"

_RATE = re.compile(r"([0-9]{1,6})(?:\.[0-9]+)?\s*Gb/sec")


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `net_max_mbps`, `rdma_*` and `infiniband`."""
    findings = Findings("network")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    fastest: tuple[int, str] | None = None
    for name in look.listing(NET) or ():
        speed = _speed(look, f"{NET}/{name}")
        if speed is not None and (fastest is None or speed > fastest[0]):
            fastest = speed, f"{NET}/{name}/speed"
    if fastest is not None:
        findings.label("net_max_mbps", *fastest)
    _rdma(look)
    return findings


def _speed(look: Look, base: str) -> int | None:
    """Mbit/s of a link of real hardware that is up; None for bridges, tunnels, and what its driver does not tell.

    Interfaces without a device (veth, tap, bond, loopback) claim speeds that are none.
    """
    if not look.exists(f"{base}/device") and look.link(f"{base}/device") is None:
        return None
    state = look.line(f"{base}/operstate", quiet=NOT_FOR_THIS_DEVICE)
    carrier = look.line(f"{base}/carrier", quiet=NOT_FOR_THIS_DEVICE)
    if state not in ("up", "unknown", None) or (state != "up" and carrier == "0"):
        return None
    speed = look.integer(f"{base}/speed", quiet=NOT_FOR_THIS_DEVICE)
    if speed is None or speed in UNKNOWN_SPEEDS or not 0 < speed <= FASTEST_MBPS:
        return None
    return speed


def _rdma(look: Look) -> None:
    """Everything RDMA is listed as infiniband; the link layer tells InfiniBand from Ethernet."""
    devices = look.listing(RDMA)
    if devices is None:
        return
    active = 0
    layers: set[str | None] = set()
    rates: list[int] = []
    for device in devices:
        for port in look.listing(f"{RDMA}/{device}/ports") or ():
            base = f"{RDMA}/{device}/ports/{port}"
            # A port that is down keeps a default rate.
            if not (look.line(f"{base}/state", quiet=NOT_FOR_THIS_DEVICE) or "").startswith(ACTIVE):
                continue
            active += 1
            layers.add(look.line(f"{base}/link_layer", quiet=NOT_FOR_THIS_DEVICE))
            rate = _RATE.match(look.line(f"{base}/rate", quiet=NOT_FOR_THIS_DEVICE) or "")
            if rate is not None:
                rates.append(int(rate[1]))
    look.findings.label("rdma_devices", len(devices), RDMA)
    look.findings.label("rdma_active_ports", active, RDMA)
    # An active port that does not tell its layer may be either.
    infiniband = "InfiniBand" in layers
    look.findings.label("infiniband", None if None in layers and not infiniband else infiniband, RDMA)
    look.findings.label("rdma_max_gbps", max(rates, default=None), RDMA)
