"""A label set by text is the value that the requirement language takes the same text for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal.agent.label_text import NoLabelText, label_from_text
from shoal.capabilities import Equals, RequirementSyntaxError, parse_requirement

NUMBERS = st.integers().map(str) | st.from_regex(r"[-+]?0*[0-9]{1,25}", fullmatch=True)
QUOTED = st.text("ab\"'\\\\nutU01 ", max_size=8).flatmap(
    lambda inner: st.sampled_from([f'"{inner}"', f"'{inner}'", f'"{inner}', f"'{inner}\""]).map(str.strip)
)
# Bare words that the language has no other meaning for: `int(5)` is one of its own.
WORDS = st.from_regex(r"[A-Za-z0-9_.:+@/-][A-Za-z0-9_.:+@/-]{0,10}", fullmatch=True) | st.sampled_from(
    ["true", "false"]
)


def found(read, refusal):
    try:
        value = read()
    except refusal:
        return None
    return type(value), value


@given(NUMBERS | QUOTED | WORDS)
def test_set_and_asked_are_the_same_value(text):
    def asked():
        # The blank parts the operator from a word that starts with a character of operators, as `:` is one.
        (term,) = parse_requirement(f"zz_label= {text}").constraints
        assert isinstance(term, Equals)
        return term.value

    assert found(lambda: label_from_text(text), NoLabelText) == found(asked, RequirementSyntaxError)


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_refused(text):
    try:
        value = label_from_text(text)
    except NoLabelText:
        return
    assert type(value) in (bool, int, str)


@pytest.mark.parametrize("text", ["007", "-0", '"a\\"b"', "99999999999999999999999", "-9223372036854775808", "v1", ":"])
def test_examples(text):
    test_set_and_asked_are_the_same_value.hypothesis.inner_test(text)
