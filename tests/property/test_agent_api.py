"""Any value as the arguments of any call gives a request or one typed error, never another exception."""

from hypothesis import given
from hypothesis import strategies as st
from shoal.agent.calls import CALLS, api_for
from shoal.agent.errors import BadArgument, BadRequirement, UnknownCall
from shoal.agent.in_flight import CONTROLS, request_id, scope, take_credit
from shoal.agent.peer import Level
from shoal.agent.task_arguments import parse

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=30)
    | st.binary(max_size=9)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | SCALARS, inner, max_size=4),
    max_leaves=10,
)
NAMES = sorted({argument.name for call in CALLS for argument in call.arguments})
ARGUMENTS = VALUES | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=6), VALUES, max_size=4)
API = api_for(None)


def refused(kind, check):
    """The error of this kind that a check raised, or None; any other exception is a failure."""
    try:
        check()
    except kind as error:
        return error
    return None


@given(st.sampled_from([call.name for call in CALLS]), ARGUMENTS)
def test_any_arguments_are_checked_or_refused(name, arguments):
    call = API.call(name)
    error = refused((BadArgument, BadRequirement), lambda: API.request(call, arguments, Level.ADMIN))
    if error is None:
        request = API.request(call, arguments, Level.ADMIN)
        assert set(request.arguments) == {argument.name for argument in call.arguments}


@given(VALUES)
def test_any_name_is_a_call_or_unknown(name):
    error = refused(UnknownCall, lambda: API.call(name))
    assert error is None or error.hint


@given(VALUES, VALUES, st.sampled_from(sorted(CONTROLS)))
def test_the_fields_around_a_call_are_checked_too(value, arguments, control):
    refused(BadArgument, lambda: request_id({"id": value}))
    refused(BadArgument, lambda: take_credit({"credit": value}))
    refused(BadArgument, lambda: take_credit(arguments))
    refused(BadArgument, lambda: CONTROLS[control]({}, arguments))
    if type(value) is not int and value is not None:
        assert refused(BadArgument, lambda: scope({"deadline_ms": value}))


@given(st.text(max_size=60) | st.text("gpu_nvidiaram mb>=<!,()|[]*\"'0123456789GiB ", max_size=40))
def test_any_text_is_a_requirement_or_one_typed_error(text):
    error = refused(BadRequirement, lambda: parse(text))
    assert error is None or error.details.get("column", 1) in range(1, len(text) + 2)
