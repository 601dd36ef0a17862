"""What is installed: the wheel, built from the tracked files, holds the four packages and nothing else."""

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
PACKAGES = ("agent", "gossip", "capabilities", "placement")


@pytest.fixture(scope="module")
def tracked():
    """Every file that git tracks, by its path from the top."""
    if shutil.which("git") is None or not (TREE / ".git").exists():
        pytest.skip("this is no clone: what belongs to the tree is known to git only")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name and (TREE / name).exists()]


@pytest.fixture(scope="module")
def wheel(tracked, tmp_path_factory):
    """The path of the wheel, built from a copy, with the tools of this environment only."""
    place = tmp_path_factory.mktemp("wheel")
    for name in tracked:
        target = place / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TREE / name, target)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(place / "tree")],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = place.glob("*.whl")
    return found


@pytest.fixture
def unpacked(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def dist_info(wheel):
    return f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"


def test_it_holds_every_file_of_the_four_packages_and_nothing_else(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
    wanted = {f"shoal/{name}" for name in tracked if name.partition("/")[0] in PACKAGES}
    assert {f"shoal/{package}/py.typed" for package in PACKAGES} <= wanted
    outside = {name for name in held if not name.startswith(dist_info(wheel))}
    assert sorted(outside - wanted) == [], "it would put strangers beside users' modules"
    assert sorted(wanted - outside) == [], "these were left out; a new package is listed in pyproject.toml"


def test_what_it_holds_is_what_is_tracked(unpacked, wheel, tracked):
    for name in tracked:
        if name.partition("/")[0] in PACKAGES:
            assert (unpacked / "shoal" / name).read_bytes() == (wheel.parent / "tree" / name).read_bytes(), name


def test_it_runs_by_itself_and_says_its_version(unpacked, wheel):
    code = "import shoal.agent.cli, sys; print(shoal.agent.cli.__file__); sys.exit(shoal.agent.cli.main(['version']))"
    variables = os.environ | {"PYTHONPATH": str(unpacked)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, cwd=unpacked
    )
    where, version = done.stdout.splitlines()
    assert where == str(unpacked / "shoal" / "agent" / "cli.py")
    assert version.startswith(f"shoal {wheel.name.split('-')[1]} ")


def test_its_metadata_says_how_to_run_it_and_on_what(unpacked, wheel):
    info = unpacked / dist_info(wheel)
    assert "shoal = shoal.agent.cli:main" in (info / "entry_points.txt").read_text()
    metadata = email.message_from_string((info / "METADATA").read_text())
    assert (metadata["Name"], metadata["License-Expression"]) == ("shoal", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert [name.name for name in (info / "licenses").iterdir()] == ["LICENSE"]
