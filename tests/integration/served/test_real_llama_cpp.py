"""The real server of llama.cpp with a tiny GGUF. It takes minutes to build, so these tests are
collected only where it is installed; `make soak` builds it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from benchfleet.benchmarks.serving.benchmark import Serving
from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Prompt, adapter_class
from benchfleet.models.llama_cpp_offline import LlamaCppOfflineAdapter
from benchfleet.models.served.managed import LlamaCppAdapter
from benchfleet.models.served.recipes import find_program
from gguf_models import saved_gguf
from kept_sessions import KeptSession

HAS_SERVER = find_program("llama-server") or all(map(find_spec, ("llama_cpp", "uvicorn")))
PROMPTS = [Prompt(context=text) for text in ("ab ab ab", "one two", "the a b c")]
GREEDY = {"max_new_tokens": 8, "temperature": 0.0}


class TestRealLlamaCpp:
    __test__: ClassVar[bool] = bool(HAS_SERVER and find_spec("gguf"))

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Model:
        file = saved_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
        kwargs = {"api": "completions", "requests_at_once": 1}
        return Model(
            name="tiny",
            adapter="llama_cpp",
            source=str(file),
            digest=LlamaCppAdapter.digest(str(file)),
            model_kwargs=kwargs,
        )

    @pytest.fixture(scope="class")
    @classmethod
    def adapter(cls, model: Model) -> Iterator[LlamaCppAdapter]:
        adapter = LlamaCppAdapter(model)
        adapter.load()
        try:
            yield adapter
        finally:
            server = adapter._server
            assert server
            pid = server.pid
            adapter.unload()
            assert pid
            assert not psutil.pid_exists(pid)

    def test_it_answers_with_counts_and_tells_its_command(self, adapter: LlamaCppAdapter) -> None:
        adapter.configure(Config(name="dense"))
        answers = adapter.answer(PROMPTS, GREEDY)
        assert all(0 < one.completion_tokens <= 8 for one in answers)
        assert all(one.prompt_tokens > 0 for one in answers)
        assert adapter.abilities["usage"]
        provenance = adapter.provenance()
        assert provenance["load_seconds"] > 0
        assert provenance["server_ram"] > 10**6
        assert adapter.model.source in provenance["command"]

    def test_prompts_are_those_of_llama_cpp_without_a_server(
        self, adapter: LlamaCppAdapter
    ) -> None:
        """By the first token of greedy answers. Later ones may differ in close calls: the server
        keeps the prefix of the prompt before, and so computes in other batches."""
        kind = adapter_class("llama_cpp_offline")
        if not find_spec("llama_cpp"):
            return
        model = Model(
            name="tiny",
            adapter="llama_cpp_offline",
            source=adapter.model.source,
            digest=adapter.model.digest,
        )
        offline = kind(model)
        assert isinstance(offline, LlamaCppOfflineAdapter)
        offline.load()
        try:
            direct = offline.answer(PROMPTS, GREEDY)
        finally:
            offline.unload()
        served = adapter.answer(PROMPTS, GREEDY)
        assert [one.text[:1] for one in served] == [one.text[:1] for one in direct]
        assert [one.prompt_tokens for one in served] == [one.prompt_tokens for one in direct]

    def test_a_load_point_is_measured(self, adapter: LlamaCppAdapter, tmp_path: Path) -> None:
        params = {"requests": 12, "concurrency": 2, "input_tokens": 20, "output_tokens": 6}
        session = KeptSession(
            adapter=adapter, model=adapter.model, subset="c2", scratch=tmp_path, generation={}
        )
        score = Serving({**params, "calibrate": False}).run(session)
        assert score.summary["successful_requests"] == 12, session.samples[-1]
        assert score.summary["ttft_ms_p50"] > 0
        assert score.summary["total_tokens"] == sum(one.completion_tokens for one in session.kept)
