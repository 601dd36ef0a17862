import subprocess
import sys

import pytest
import shoal.agent


def test_public_names_come_when_they_are_named():
    from shoal.agent import Client, Config, open_agent

    assert {Client.__name__, Config.__name__, open_agent.__name__} < set(shoal.agent.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = shoal.agent.Clinet


def test_the_package_alone_imports_nothing_of_weight():
    program = "import sys; before = set(sys.modules); import shoal.agent; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("['shoal', 'shoal.agent']", "['__future__', 'shoal', 'shoal.agent']")
