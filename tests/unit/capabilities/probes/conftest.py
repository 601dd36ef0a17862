import importlib.util
from pathlib import Path

import pytest

MACHINE = Path(__file__).parents[3] / "vectors" / "machine.py"


def _pretend():
    spec = importlib.util.spec_from_file_location("machine", MACHINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Pretend


PRETEND = _pretend()


@pytest.fixture(scope="session")
def pretend():
    """A machine made of the input form of the detection vectors: `.reader` and `.facades`."""
    return PRETEND


@pytest.fixture(scope="session")
def detected():
    """Everything by name that is detected on such a machine; one probe after the other, which is quicker in a test."""
    from shoal.capabilities.probes.deadline import Outcome
    from shoal.capabilities.survey import PROBES, joined

    def facts(given):
        machine = PRETEND(given)
        found = joined(
            {name: Outcome(probe(machine.reader, machine.facades), None, 0.0) for name, probe in PROBES.items()}
        )
        return {**found.vitals, **found.engines, **found.record.labels}

    return facts
