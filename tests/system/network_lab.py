"""A network of its own for real agents: each host is a network namespace on one switch, itself in another namespace.

No address, route or rule is made outside of them. Packets are lost at the switch, as on a real way between machines:
to the sender they look sent. (A rule on the sender's own way out would make `sendto` fail, which is another fault.)
"""

import contextlib
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

PORT = 7931
NAMESPACES = Path("/run/netns")
PREFIX = "shoal-test"
SWITCH = "switch"
# What finds addresses (ARP, neighbour discovery) gets through: a real switch rarely loses it, and it has no news.
LOSSES = "meta l4proto {{ tcp, udp }} numgen random mod 1000 < {permille} counter drop"
_NUMBERS = itertools.count()


def why_not():
    """Why this machine can have no such network; None where it can."""
    if os.geteuid() != 0:
        return "needs root: network namespaces"
    missing = [tool for tool in ("ip", "nft") if shutil.which(tool) is None]
    if missing:
        return f"needs {' and '.join(missing)}"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"needs network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None


class Host:
    """One machine: a namespace with one interface, `within` it a command runs."""

    def __init__(self, name, namespace, number):
        self.name = name
        self.namespace = namespace
        self.v4, self.v6 = f"10.79.0.{number}", f"fd79::{number:x}"
        self.within = ("ip", "netns", "exec", namespace)

    @property
    def address(self):
        return f"{self.v4}:{PORT}"

    @property
    def address6(self):
        return f"[{self.v6}]:{PORT}"


class Network:
    """Hosts on one switch, and what the switch drops. Use as a context manager: at its end all of it is removed."""

    def __init__(self):
        self.hosts = {}
        self._prefix = f"{PREFIX}-{os.getpid()}-{next(_NUMBERS)}"
        self._made = []

    def __enter__(self):
        _remove_abandoned()
        with contextlib.ExitStack() as undo:
            undo.callback(self.remove)
            switch = self._add_namespace(SWITCH)
            self._ip(switch, "link add bridge0 type bridge mcast_snooping 0", "link set bridge0 up")
            self._nft("add table bridge lab; add chain bridge lab way { type filter hook forward priority 0; }")
            undo.pop_all()
        return self

    def __exit__(self, *_exception):
        self.remove()

    def remove(self):
        """Interfaces and rules go with their namespaces, as soon as the last process in them has ended."""
        for namespace in self._made:
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
        self._made = []

    def host(self, name, *, v4=True, v6=False):
        """Add a machine with its cable in the switch."""
        number = len(self.hosts) + 1
        host = self.hosts[name] = Host(name, self._add_namespace(name), number)
        self._ip(
            self.switch,
            f"link add {name} type veth peer name eth0 netns {host.namespace}",
            f"link set {name} master bridge0",
            f"link set {name} up",
        )
        self._ip(
            host.namespace,
            *([f"address add {host.v4}/16 dev eth0"] if v4 else []),
            *([f"address add {host.v6}/64 dev eth0 nodad"] if v6 else []),
            "link set lo up",
            "link set eth0 up",
        )
        return host

    def move(self, host):
        """Give a host another address; nobody has the old one any more."""
        old = host.v4
        host.v4 = f"10.79.1.{old.rpartition('.')[2]}"
        self._ip(host.namespace, f"address delete {old}/16 dev eth0", f"address add {host.v4}/16 dev eth0")

    def lose(self, share):
        """From now on, this share of all TCP and UDP packets gets lost, each by itself."""
        self.drop_where(LOSSES.format(permille=round(share * 1000)))

    def cut(self, some, others):
        """From now on nothing goes between these hosts, by name."""
        self.cut_one_way((some, others), (others, some))

    def cut_one_way(self, *ways):
        """From now on nothing comes from the first to the second of each pair; the way back is open."""
        self.drop_where(*(_way(some, others, "counter drop") for some, others in ways))

    def cut_udp(self, some, others):
        """From now on no datagram comes from `some` to `others`; TCP goes both ways."""
        self.drop_where(_way(some, others, "meta l4proto udp counter drop"))

    def heal(self):
        self.drop_where()

    @property
    def switch(self):
        """The namespace of the switch, where each host's cable has the host's name."""
        return self._made[0]

    @property
    def dropped(self):
        """Packets dropped by the present rules: a test of a fault that did not happen shows nothing."""
        listed = _run([*self._at_switch, "nft", "list", "chain", "bridge", "lab", "way"])
        return sum(int(count) for count in re.findall(r"counter packets (\d+)", listed))

    def drop_where(self, *rules):
        """Replace all that the switch drops, in one step."""
        self._nft("flush chain bridge lab way\n" + "".join(f"add rule bridge lab way {rule}\n" for rule in rules))

    def _add_namespace(self, name):
        namespace = f"{self._prefix}-{name}"
        _run(["ip", "netns", "add", namespace])
        self._made.append(namespace)
        return namespace

    def _ip(self, namespace, *lines):
        _run(["ip", "-netns", namespace, "-batch", "-"], "\n".join(lines))

    def _nft(self, text):
        _run([*self._at_switch, "nft", "-f", "-"], text)

    @property
    def _at_switch(self):
        return ("ip", "netns", "exec", self.switch)


def _way(some, others, verdict):
    sources, targets = (", ".join(f'"{name}"' for name in names) for names in (some, others))
    return f"iifname {{ {sources} }} oifname {{ {targets} }} {verdict}"


def _run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{text}\n{done.stderr}"
    return done.stdout


def _remove_abandoned():
    """A test run that was killed could not tidy up: what it made is known by its process id."""
    for path in NAMESPACES.glob(f"{PREFIX}-*") if NAMESPACES.is_dir() else ():
        pid = path.name.split("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "delete", path.name], check=False, capture_output=True)
