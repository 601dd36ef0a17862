import io
import json

import pytest
import structlog
from shoal.agent.logs import configure, configure_unless_host_did


@pytest.fixture(autouse=True)
def _as_before():
    before = structlog.get_config()
    yield
    structlog.configure(**before)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


def line(style, stream=None, *, level="info", environ=()):
    stream = stream or io.StringIO()
    configure(level, style, stream=stream, environ=dict(environ))
    log = structlog.get_logger("shoal.test")
    log.debug("too.small")
    log.info("member.joined", node="n1", count=3)
    return stream.getvalue()


def test_json_is_one_object_a_line():
    fields = json.loads(line("json"))
    assert list(fields) == ["timestamp", "level", "event", "node", "count"]
    assert (fields["event"], fields["node"], fields["count"], fields["level"]) == ("member.joined", "n1", 3, "info")


def test_people_read_plain_text_unless_on_a_terminal():
    assert "member.joined" in line("auto")
    assert "\x1b[" not in line("auto")
    assert "\x1b[" in line("auto", Terminal())
    assert "\x1b[" not in line("auto", Terminal(), environ={"NO_COLOR": "1"}.items())


def test_the_journal_stamps_lines_itself():
    assert line("auto", environ={"JOURNAL_STREAM": "8:1"}.items()).startswith("[info")
    assert not line("human", environ={"JOURNAL_STREAM": "8:1"}.items()).startswith("[info")


def test_the_level_is_a_floor():
    assert line("json", level="warning") == ""


def test_an_exception_is_one_json_line_too():
    stream = io.StringIO()
    configure("info", "json", stream=stream)
    try:
        int("odd\nthing")
    except ValueError:
        structlog.get_logger().exception("call.failed")
    assert "ValueError: invalid" in json.loads(stream.getvalue())["exception"]


def test_a_stream_that_takes_nothing_stops_nobody():
    line("json", Full())


def test_in_a_program_that_says_nothing_of_logs_standard_output_stays_its_own(capsys):
    structlog.reset_defaults()
    log = structlog.get_logger("shoal.test")
    configure_unless_host_did("info", "json")
    log.info("agent.ready")
    out, err = capsys.readouterr()
    assert (out, json.loads(err)["event"]) == ("", "agent.ready")
    host = io.StringIO()
    configure("info", "json", stream=host)
    log.info("agent.stopped")
    assert "agent.stopped" in host.getvalue()


def test_a_program_that_configured_its_logs_keeps_them():
    host = io.StringIO()
    configure("warning", "json", stream=host)
    configure_unless_host_did("debug", "human")
    structlog.get_logger().warning("agent.isolated")
    assert "agent.isolated" in host.getvalue()
