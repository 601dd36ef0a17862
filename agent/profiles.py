"""The timings that a cluster may run on, by the names that people write. Light: a command line imports it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..gossip.settings import Settings

PROFILES = ("lan", "wan", "local")


def settings_of(profile: str, *, cluster: str = "shoal") -> Settings:
    """The settings of gossip for one of `PROFILES`."""
    from ..gossip.settings import Settings

    make = {"lan": Settings.lan, "wan": Settings.wan, "local": Settings.local}
    return make[profile](cluster=cluster)
