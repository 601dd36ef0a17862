"""Who is at the other end of the local socket, as the kernel says it, and what that user may do.

Users and groups decide, never the pid: a pid is taken over by another process as soon as its own ends.
"""

from __future__ import annotations

import enum
import grp
import os
import pwd
import socket
import struct
import sys

import attrs

# Linux asm-generic/socket.h; the socket module has no name for it.
_SO_PEERGROUPS = 59
# The most that Python's getsockopt takes; a user with more groups than fit is looked up by name instead.
_OPTION_BYTES = 1024
# macOS sys/un.h: SOL_LOCAL, LOCAL_PEERCRED, and struct xucred {version, uid, ngroups, groups[16]}.
_SOL_LOCAL = 0
_LOCAL_PEERCRED = 1
_XUCRED = struct.Struct("=IIhxx16I")


class Level(enum.IntEnum):
    """What a caller may do; each level holds those below it."""

    READ = 0
    WRITE = 1
    ADMIN = 2


@attrs.frozen
class Caller:
    """One user at the other end. `groups` holds the primary group too."""

    uid: int
    groups: frozenset[int]
    level: Level


def identify(connection: socket.socket, *, agent_uid: int, group: int | None) -> Caller:
    """The caller of a connected Unix socket; raises OSError when the system does not say.

    Root and the agent's own user are admins, members of the socket's `group` may write, anyone else that the file
    mode let in may read.
    """
    uid, groups = _darwin_peer(connection) if sys.platform == "darwin" else _linux_peer(connection)
    return Caller(uid, groups, level_of(uid, groups, agent_uid=agent_uid, group=group))


def level_of(uid: int, groups: frozenset[int], *, agent_uid: int, group: int | None) -> Level:
    if uid in (0, agent_uid):
        return Level.ADMIN
    return Level.WRITE if group is not None and group in groups else Level.READ


def group_id(name: str) -> int | None:
    """The id of a group of this machine, None when there is none of that name."""
    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        return None


def _linux_peer(connection: socket.socket) -> tuple[int, frozenset[int]]:
    option = getattr(socket, "SO_PEERCRED", 17)
    _pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _OPTION_BYTES)
        groups = struct.unpack(f"{len(found) // 4}I", found)
    except OSError:
        groups = _groups_by_name(uid, gid)
    return uid, frozenset((gid, *groups))


def _groups_by_name(uid: int, gid: int) -> tuple[int, ...]:
    try:
        return tuple(os.getgrouplist(pwd.getpwuid(uid).pw_name, gid))
    except KeyError:
        return ()


def _darwin_peer(connection: socket.socket) -> tuple[int, frozenset[int]]:
    _version, uid, count, *groups = _XUCRED.unpack(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
    return uid, frozenset(groups[:count])
