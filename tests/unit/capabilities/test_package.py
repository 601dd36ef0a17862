import subprocess
import sys

import pytest
import shoal.capabilities
from shoal.capabilities import survey


def test_detect_is_there_when_it_is_named():
    assert shoal.capabilities.detect is survey.detect
    assert shoal.capabilities.Detection is survey.Detection


def test_every_public_name_is_there():
    for name in shoal.capabilities.__all__:
        assert getattr(shoal.capabilities, name) is not None


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'detects'"):
        _ = shoal.capabilities.detects


def test_importing_it_imports_no_probe_and_no_hardware_library():
    loaded = "import sys, shoal.capabilities; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "shoal.capabilities.text" in modules
    assert not {"psutil", "pynvml", "shoal.capabilities.survey", "shoal.capabilities.probes"} & set(modules)
