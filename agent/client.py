"""A blocking client of the local socket: standard library and msgpack only, so that any program can hold one.

    with Client() as shoal:
        for node in shoal.find_suitable_nodes("gpu_nvidia, gpu_vram_mb>=8000", limit=3):
            print(node["name"], node["addr"])

Answers are plain dicts and lists, as they come off the wire. A `Client` belongs to one thread at a time.
"""

from __future__ import annotations

import os

from .connection import PROTOCOL, Connection, Gone, field
from .errors import BadFrame, Unreachable
from .socket_path import asking_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Self

__all__ = ["PROTOCOL", "Client"]

# Calls that change nothing, so that asking them twice is as good as once.
_READING = frozenset(
    {
        "hello", "version", "status", "members", "show", "find", "place", "explain", "history", "wait", "labels_list",
        "doctor", "keys_list",
    }
)  # fmt: skip


class Client:
    """One connection to the agent, made at the first call and again after it was lost.

    A call that only reads is asked again, once, when a kept connection turns out to be closed: the agent was restarted.

    `timeout` is in seconds and bounds every call that does not bring its own.

    Raises (every method that asks the agent):
        Unreachable: no agent answers there; the message names the socket.
        NoPermission: the socket, or this call, is not for this user.
        BadArgument: an argument cannot be sent, or the agent does not take it.
        BadFrame: what answers does not speak as an agent does.
        ShoalError: what the agent answered; see `errors`.
    """

    def __init__(self, socket_path: str | None = None, timeout: float = 10.0) -> None:
        self.socket_path = socket_path or asking_path(os.environ, os.getuid())
        self.timeout = timeout
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, call: str, args: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, Any]:
        """The answer to one call. The lists of a paged answer come joined."""
        within = self.timeout if timeout is None else timeout
        kept = self._connection is not None
        try:
            return self._ask(call, args or {}, within)
        except Gone:
            if not kept or call not in _READING:
                raise
            return self._ask(call, args or {}, within)

    def _ask(self, call: str, args: Mapping[str, Any], within: float) -> dict[str, Any]:
        if self._connection is None:
            self._connection = Connection(self.socket_path, within)
        try:
            return self._connection.ask(call, args, within)
        except (Unreachable, BadFrame):
            self.close()
            raise

    def hello(self) -> dict[str, Any]:
        """What the agent said of itself: protocol range, features, version, node id, and the level of this user."""
        return self.call("hello")

    def version(self) -> str:
        return field(self.call("version"), "version", str)

    def status(self) -> dict[str, Any]:
        return self.call("status")

    def members(
        self, *, labels: bool | Iterable[str] = True, states: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """All known nodes, by name. `labels` picks label keys; `states` are of alive, suspect, dead, left."""
        args: dict[str, Any] = {"labels": labels if isinstance(labels, bool) else list(labels)}
        if states is not None:
            args["states"] = list(states)
        return field(self.call("members", args), "nodes", list)

    def show(self, node: str) -> dict[str, Any]:
        """One node by its name, or by its id or the beginning of it."""
        return field(self.call("show", {"node": node}), "node", dict)

    def find_suitable_nodes(self, requirement: object = "", limit: int | None = None) -> list[dict[str, Any]]:
        """The nodes that satisfy a requirement (its text form, or an object that prints it), best first."""
        return field(self.find(requirement, limit), "nodes", list)

    def find(
        self,
        requirement: object = "",
        limit: int | None = None,
        *,
        labels: bool | Iterable[str] = True,
        options: Mapping[str, Any] | None = None,
        explain: bool = False,
    ) -> dict[str, Any]:
        """The whole answer: `nodes`, `total` matching, `known` nodes, `view` with its age, and why there are none.

        `options` are count, strict, avoid, anti_affinity, spread, prefer, prefer_local and fallbacks; see the README.
        """
        args = _given(requirement=str(requirement), limit=limit, options=options, explain=explain)
        args["labels"] = labels if isinstance(labels, bool) else list(labels)
        return self.call("find", args)

    def place(
        self,
        task: str | Mapping[str, Any],
        *,
        options: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        explain: str = "never",
    ) -> dict[str, Any]:
        """The node, or nodes, for a task: `ok`, `nodes`, `fit_score`, `tool`, `runner_up`, `seed`, `view`, `task`.

        The task is a description, or a map with description, workload_class, required_tools, min_free_ram_mb,
        memory_request_mb, context_tokens, prefers_turboquant, preferred_backends and requirement. `options` are those
        of `find` and seed and pick. With `explain` "failure" an answer that is not `ok` holds an `explanation`, with
        "always" each does. Nothing that fits is no error.
        """
        return self.call("place", _given(task=task, options=options, policy=policy, explain=explain))

    def explain(
        self,
        requirement: object = "",
        *,
        task: str | Mapping[str, Any] | None = None,
        node: str | None = None,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Why a find, or with a `task` a placement, comes out as it does; of a `node`, its place or what is against it.

        `limit` bounds the lists; the counts are of all nodes.
        """
        args = _given(requirement=str(requirement), task=task, node=node, options=options, limit=limit)
        return field(self.call("explain", args), "explanation", dict)

    def observe(
        self, node: str, task: str | Mapping[str, Any], *, success: bool = True, **measures: int
    ) -> dict[str, Any]:
        """Record how a run of the task on the node went: later placements of such tasks, on any node, read it.

        `measures` are wall_ms, peak_ram_mb, peak_vram_mb and samples.
        """
        return field(
            self.call("observe", _given(node=node, task=task, success=success, **measures)), "observation", dict
        )

    def fail(
        self, node: str, failure: str, task: str | Mapping[str, Any] | None = None, **scope: str
    ) -> dict[str, Any]:
        """Record that the node failed at such tasks, or at any; `failure` is a failure class such as exec-crash.

        `scope` may name a tool, backend or surface.
        """
        return field(self.call("fail", _given(node=node, failure=failure, task=task, **scope)), "failure", dict)

    def override(self, node: str, task: str | Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Set aside what is held against the node, for such tasks or for all; answers what was."""
        return field(self.call("override", _given(node=node, task=task)), "lifted", list)

    def history(self, node: str | None = None) -> list[dict[str, Any]]:
        """The failures and runs that count now, of one node or all."""
        return field(self.call("history", _given(node=node)), "history", list)

    def cordon(self) -> None:
        """This node takes no new work until `uncordon`."""
        self.call("cordon")

    def drain(self) -> None:
        """As `cordon`, and what runs here should go elsewhere."""
        self.call("drain")

    def uncordon(self) -> None:
        self.call("uncordon")

    def wait(self, members: int, timeout: float = 60.0, *, requirement: object = "") -> dict[str, Any]:
        """Return when so many nodes are alive here and satisfy the requirement; `DeadlinePassed` after `timeout` s."""
        return self.call("wait", {"members": members, "requirement": str(requirement)}, timeout)

    def join(self, addresses: Iterable[str], timeout: float | None = None) -> dict[str, Any]:
        return self.call("join", {"addresses": list(addresses)}, timeout)

    def leave(self, timeout: float | None = None) -> None:
        """The agent leaves the cluster and stops."""
        self.call("leave", {}, timeout)

    def forget(self, node: str) -> dict[str, Any]:
        return self.call("forget", {"node": node})

    def labels_list(self) -> dict[str, bool | int | str]:
        return field(self.call("labels_list"), "labels", dict)

    def labels_set(self, labels: Mapping[str, bool | int | str]) -> None:
        self.call("labels_set", {"labels": dict(labels)})

    def labels_unset(self, keys: Iterable[str]) -> list[str]:
        """The keys that were set and now are not."""
        return field(self.call("labels_unset", {"keys": list(keys)}), "unset", list)

    def reload(self, timeout: float = 60.0) -> dict[str, Any]:
        """Make the agent detect again, which takes seconds where hardware is broken.

        Answers `added`, `removed` and `changed` labels, `devices_changed`, `needs_restart`, `warnings`.
        """
        return self.call("reload", {}, timeout)

    def doctor(self, timeout: float = 60.0) -> dict[str, Any]:
        """`well`, and `findings` with check, level (ok, warning, problem), what and todo each."""
        return self.call("doctor", {}, timeout)

    def keys_list(self) -> dict[str, Any]:
        """The cluster's keys by id: `keys` with how many of `members` have and use each, `in_use`, `target`."""
        return self.call("keys_list")

    def keys_install(self, key: str, *, here: bool = False) -> str:
        """Also open frames of this key (base64), on all nodes or only `here`; its id."""
        return field(self.call("keys_install", {"key": key, "here": here}), "id", str)

    def keys_use(self, key: str, *, force: bool = False) -> None:
        """Seal with the installed key of this id, on all nodes."""
        self.call("keys_use", {"id": key, "force": force})

    def keys_remove(self, key: str, *, force: bool = False) -> None:
        """Open frames of the key of this id no longer, on any node."""
        self.call("keys_remove", {"id": key, "force": force})

    def watch(self, *, labels: bool | Iterable[str] = True, vitals: bool = False) -> Iterator[dict[str, Any]]:
        """Changes as they come, for ever, on a connection of their own.

        First `{"event": "snapshot", "nodes": [...]}`, then one dict per change with the node as it is afterwards.
        `{"event": "resync", "nodes": [...]}` replaces all that came before: this reader was too slow to be sent
        every change.
        """
        args = {"labels": labels if isinstance(labels, bool) else list(labels), "vitals": vitals}
        connection = Connection(self.socket_path, self.timeout)
        try:
            yield from connection.stream("watch", args, self.timeout)
        finally:
            connection.close()


def _given(**arguments: Any) -> dict[str, Any]:
    """The arguments that have a value; maps as plain ones."""
    plain = {name: dict(value) if hasattr(value, "keys") else value for name, value in arguments.items()}
    return {name: value for name, value in plain.items() if value is not None}
