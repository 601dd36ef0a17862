import pytest
import trio
from shoal.agent import engines as engines_module
from shoal.agent.engines import LOOK_SECONDS, EngineWatch, engines
from shoal.agent.payloads import ENGINES_BYTES, EnginesPayload, PayloadError
from shoal.capabilities.probes.findings import ResidentModel as FoundModel
from shoal.capabilities.survey import EngineFacts
from shoal.placement import Engines, ResidentModel


def found(*models, **facts):
    return EngineFacts(facts, tuple(models), ())


QWEN = FoundModel(name="qwen2.5:7b", engine="ollama", vram_mb=5000, expires=1_700_000_300)


def test_what_detection_found_is_published_as_it_is():
    assert engines(found(QWEN, ollama_running=True, llama_server_running=False, llama_server_port=8080)) == Engines(
        ollama_running=True,
        llama_server_running=False,
        llama_server_port=8080,
        models=(ResidentModel(name="qwen2.5:7b", engine="ollama", vram_mb=5000, expires_at=1_700_000_300),),
    )
    assert engines(found(ollama_running=1, llama_server_port="x")) == Engines()


def test_engines_survive_gossip():
    whole = engines(found(QWEN, FoundModel(name="phi", engine="llama-server"), ollama_running=True))
    assert EnginesPayload.decode(EnginesPayload(whole).encode()).engines == whole
    assert EnginesPayload.decode(EnginesPayload(Engines()).encode()).engines == Engines()


def test_many_models_are_cut_to_what_a_section_should_take():
    models = tuple(ResidentModel(name=f"{number:0100}", engine="ollama") for number in range(64))
    packed = EnginesPayload(Engines(models=models)).encode()
    assert len(packed) <= ENGINES_BYTES + 8
    kept = EnginesPayload.decode(packed).engines.models
    assert kept == models[: len(kept)]
    assert len(kept) > 30


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x93\xc0\xc0\xc0",
        b"\x94\x01\xc0\xc0\x90",
        b"\x94\xc0\xc0\xc3\x90",
        b"\x94\xc0\xc0\xc0\xc0",
        b"\x94\xc0\xc0\xc0\x91\x93\xa1a\xa1b\xc0",
        b"\x94\xc0\xc0\xc0\x91\x94\x01\xa1b\xc0\xc0",
        b"\x94\xc0\xc0\xc0\x91\x94\xa1a\xa1b\xa1c\xc0",
    ],
)
def test_what_is_no_engines_section_is_refused(junk):
    with pytest.raises(PayloadError, match="engines"):
        EnginesPayload.decode(junk)


async def test_it_is_told_when_something_changed_and_not_before_an_engine_was_seen(
    nursery, autojump_clock, monkeypatch
):
    told, here = [], [found(ollama_running=False, llama_server_running=False)]
    looks = []

    async def look(work, **_):
        looks.append(trio.current_time())
        return work()

    monkeypatch.setattr(engines_module.trio.to_thread, "run_sync", look)
    monkeypatch.setattr(engines_module.survey, "sample_engines", lambda: here[0])
    nursery.start_soon(EngineWatch(told.append).run)
    await trio.sleep(LOOK_SECONDS / 2)
    assert told == []
    for facts in (found(QWEN, ollama_running=True), found(QWEN, ollama_running=True), found(ollama_running=False)):
        here[0] = facts
        await trio.sleep(LOOK_SECONDS)
    assert [EnginesPayload.decode(payload).engines.ollama_running for payload in told] == [True, False]
    assert len(looks) == 4
