"""Builders for small clusters."""

import pytest
from shoal.capabilities import NodeCapabilities
from shoal.placement import NodeRecord, NodeVitals

NOW = 1000.0


def make_node(name, labels=None, *, free=8000, load=0, age=1.0, devices=(), **fields):
    """A node, its id its name, with a record (`labels` None: without) and vitals (`free` None: without)."""
    fields.setdefault("node_id", name)
    known = {"ram_mb": 16000, "ram_limit_mb": 16000, "cpu_usable_milli": 4000, **(labels or {})}
    return NodeRecord(
        name=name,
        addr=f"{name}:7931",
        capabilities=None if labels is None else NodeCapabilities(known, devices),
        vitals=None if free is None else NodeVitals(ram_available_mb=free, load1_centi=load),
        vitals_at=None if free is None else NOW - age,
        **fields,
    )


@pytest.fixture
def node():
    return make_node


@pytest.fixture
def now():
    return NOW
