"""Every case of detection.json: what a machine of a public report looks like, and what must be detected on it."""

import importlib.util
import json
from pathlib import Path

import pytest
from shoal.capabilities import parse_requirement
from shoal.capabilities.probes.smi import import_query
from shoal.capabilities.survey import detect

HERE = Path(__file__).parent
CASES = json.loads((HERE / "data" / "detection.json").read_text())
SMI_QUERY = "cmd:nvidia-smi --query-gpu="


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Pretend = load("machine").Pretend


def facts_of(given):
    """The record, and everything by name: labels, vitals, engine facts, and all warnings as one text."""
    imports = [key for key in given if key.startswith(SMI_QUERY)]
    if imports:
        columns = imports[0].removeprefix(SMI_QUERY).split()[0].split(",")
        findings = import_query(given[imports[0]], columns)
        return None, {**findings.labels, "detect_warnings": "\n".join(map(str, findings.warnings))}
    machine = Pretend(given)
    found = detect(machine.reader, machine.facades)
    warnings = "\n".join(map(str, found.warnings))
    return found.record, {**found.vitals, **found.engines, **found.record.labels, "detect_warnings": warnings}


def problem(wanted, actual):
    """Why a fact is not what a case wants; None when it is."""
    if isinstance(wanted, dict):
        if "contains" in wanted:
            good = isinstance(actual, str) and wanted["contains"] in actual
        else:
            good = type(actual) is int and wanted.get("min", actual) <= actual <= wanted.get("max", actual)
    else:
        good = type(wanted) is type(actual) and wanted == actual
    return None if good else f"wanted {wanted!r}, got {actual!r}"


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case):
    record, facts = facts_of(case["input"])
    problems = {}
    for key, wanted in case["expect"].items():
        if key.startswith("matches:"):
            actual = record.satisfies(parse_requirement(key.removeprefix("matches:")))
        else:
            actual = facts.get(key)
        if (found := problem(wanted, actual)) is not None:
            problems[key] = found
    assert problems == {}, f"{case['title']}: {case['why']}\n{facts['detect_warnings']}"


def test_cases_are_there():
    assert len(CASES) >= 53
    assert len({case["id"] for case in CASES}) == len(CASES)
