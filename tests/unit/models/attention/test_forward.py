"""The attention function that transformers calls, on tensors alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from benchfleet.models.attention import sdpa
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.local import Local
from benchfleet.models.attention.oracle_top_k import OracleTopK
from benchfleet.models.attention.sdpa import dense_attention
from benchfleet.models.attention.sink import Sink
from benchfleet.models.attention.tally import Tally

from .conftest import Scene

ROWS = ("kkkkkkkk.qqqq", "..kkkkkk...qq", "....kkkk.qqqq")


def dense_of(scene: Scene, mask: torch.Tensor | None) -> torch.Tensor:
    call = (scene.module, scene.query, scene.key, scene.value, mask)
    return dense_attention(*call, scaling=scene.scaling, softcap=scene.softcap)


def sparse_of(
    scene: Scene, mask: torch.Tensor | None, *steps: AttentionConfig, block: int = 2**26
) -> tuple[torch.Tensor, list[tuple[float, float] | None]]:
    """The output, and the mean density and error of each row."""
    attention = SparseAttention(block=block)
    attention.steps = steps
    tally = Tally(scene.query.shape[0], "cpu")
    with attention.counting(tally, scene.counted):
        call = (scene.module, scene.query, scene.key, scene.value, mask)
        output, _ = attention(*call, scaling=scene.scaling, softcap=scene.softcap)
    return output, tally.means()


def present(means: list[tuple[float, float] | None]) -> list[tuple[float, float]]:
    """Those of rows of which something was counted."""
    return [mean for mean in means if mean is not None]


def slow_output(scene: Scene, selected: torch.Tensor) -> torch.Tensor:
    """Attention with loops, over the kept keys [batch, heads, queries, keys] only."""
    batch, heads, queries, dim = scene.query.shape
    output = torch.zeros(batch, queries, heads, dim)
    for row in range(batch):
        for head in range(heads):
            key_head = head // (heads // scene.key.shape[1])
            for query in range(queries):
                columns = torch.nonzero(selected[row, head, query]).flatten().tolist()
                scores = [
                    float(scene.query[row, head, query] @ scene.key[row, key_head, column])
                    * scene.scaling
                    for column in columns
                ]
                if cap := scene.softcap:
                    scores = [cap * math.tanh(score / cap) for score in scores]
                weights = torch.tensor(scores).softmax(0)
                for weight, column in zip(weights, columns, strict=True):
                    output[row, query, head] += weight * scene.value[row, key_head, column]
    return output


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [2, 4, 6])
@pytest.mark.parametrize("queries", [1, 3])
def test_dense_attention_is_that_of_transformers(
    scene: Callable[..., Scene], heads: int, queries: int, dtype: torch.dtype
) -> None:
    given = scene("kkkkkkkkkk", queries=queries, heads=heads)
    query, key, value = (each.to(dtype) for each in (given.query, given.key, given.value))
    call = (given.module, query, key, value, None)
    stock, _ = sdpa_attention_forward(*call, scaling=given.scaling)
    ours = dense_attention(*call, scaling=given.scaling)
    assert ours.shape == stock.shape
    close = {torch.float32: 1e-6, torch.bfloat16: 0.02}[dtype]
    assert torch.allclose(ours.float(), stock.float(), atol=close)


@pytest.mark.parametrize("rows", [("k" * 9,), ROWS])
def test_capped_attention_in_blocks_is_that_of_loops(
    scene: Callable[..., Scene], rows: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdpa, "_BLOCK_SCORES", 1)
    given = scene(*rows, queries=5, heads=6, softcap=0.5)
    output = dense_of(given, None if len(rows) == 1 else given.visible)
    expected = slow_output(given, given.visible.expand(-1, 6, -1, -1))
    seen = given.visible.any(-1)[:, 0]
    assert torch.allclose(output[seen], expected[seen], atol=1e-5)
    assert not output.isnan().any()


@pytest.mark.parametrize("everything", [Local(window_size=13), OracleTopK(heavy_size=99)])
@pytest.mark.parametrize(
    ("rows", "queries"), [(ROWS, 5), (("kkkkkkqqq",), 9), (("kkkk",), 1), (ROWS, 1)]
)
def test_what_keeps_everything_is_dense_bit_for_bit(
    scene: Callable[..., Scene], rows: tuple[str, ...], queries: int, everything: Local | OracleTopK
) -> None:
    given = scene(*rows, queries=queries)
    mask = None if len(rows) == 1 else given.visible
    output, means = sparse_of(given, mask, everything)
    assert torch.equal(output, dense_of(given, mask))
    assert means == [(1.0, 0.0)] * len(rows)


def test_a_query_that_keeps_all_it_sees_is_dense_bit_for_bit_beside_others(
    scene: Callable[..., Scene],
) -> None:
    given = scene("kkkkkkkk", queries=8)
    output, _ = sparse_of(given, None, Local(window_size=3))
    dense = dense_of(given, None)
    assert torch.equal(output[:, :3], dense[:, :3])
    assert not torch.allclose(output[:, 3:], dense[:, 3:])


@pytest.mark.parametrize("softcap", [None, 0.5])
def test_the_output_is_that_of_slow_attention_over_the_kept_keys(
    scene: Callable[..., Scene], softcap: float | None
) -> None:
    given = scene(*ROWS, queries=5, heads=6, softcap=softcap)
    rank = given.visible.cumsum(-1)
    selected = given.visible & ((rank <= 1) | (rank > given.visible.sum(-1, keepdim=True) - 2))
    output, _ = sparse_of(given, given.visible, Sink(sink_size=1), Local(window_size=2))
    expected = slow_output(given, selected.expand(-1, 6, -1, -1))
    counted = given.counted
    assert torch.allclose(output[counted], expected[counted], atol=1e-6)


def test_density_and_error_are_those_of_the_mask_averaged_over_real_queries(
    scene: Callable[..., Scene],
) -> None:
    given = scene(*ROWS, queries=5)
    output, means = sparse_of(given, given.visible, Local(window_size=3))
    dense = dense_of(given, given.visible)
    for row, (density, error) in enumerate(present(means)):
        densities, errors = [], []
        for query in range(5):
            if not given.counted[row, query]:
                continue
            seen = int(given.visible[row, 0, query].sum())
            for head in range(4):
                densities.append(min(3, seen) / seen)
                off = (output[row, query, head] - dense[row, query, head]).norm()
                errors.append(float(off / dense[row, query, head].norm()))
        assert density == pytest.approx(sum(densities) / len(densities), rel=1e-6)
        assert error == pytest.approx(sum(errors) / len(errors), rel=1e-5)


def test_the_oracle_errs_less_the_more_it_keeps(scene: Callable[..., Scene]) -> None:
    given = scene(*("k" * 60 + "qqqq",) * 3, queries=4)
    errors = []
    for heavy in (1, 2, 4, 8, 16, 32, 64):
        _, means = sparse_of(given, given.visible, OracleTopK(heavy_size=heavy))
        errors.append(sum(error for _, error in present(means)))
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == len(errors)
    assert errors[-1] == 0


def test_blocks_of_queries_change_nothing(scene: Callable[..., Scene]) -> None:
    given = scene(*ROWS, queries=5)
    steps = (Sink(sink_size=1), OracleTopK(heavy_size=2))
    whole, means = sparse_of(given, given.visible, *steps)
    pieces, piece_means = sparse_of(given, given.visible, *steps, block=1)
    assert torch.allclose(pieces, whole, atol=1e-6)
    densities = [density for density, _ in present(piece_means)]
    assert densities == pytest.approx([density for density, _ in present(means)])


@pytest.mark.parametrize(
    "step", [Sink(sink_size=0), Local(window_size=0), OracleTopK(heavy_size=0)]
)
def test_nothing_kept_is_no_nan_and_gives_each_query_its_own_value(
    scene: Callable[..., Scene], step: AttentionConfig
) -> None:
    given = scene("....", "kkqq", queries=4)
    output, means = sparse_of(given, given.visible, step)
    assert not bool(output.isnan().any())
    own = given.value[1].transpose(0, 1).repeat_interleave(2, dim=1)
    assert torch.allclose(output[1], own, atol=1e-6)
    assert means[0] is None


def test_it_is_dense_outside_of_counting_and_without_steps(scene: Callable[..., Scene]) -> None:
    given = scene(*ROWS, queries=5)
    attention = SparseAttention()
    call = (given.module, given.query, given.key, given.value, given.visible)
    with attention.counting(Tally(3, "cpu"), given.counted):
        without_steps, _ = attention(*call, scaling=given.scaling)
    attention.steps = (Local(window_size=1),)
    with attention.counting(None, given.counted):
        without_tally, _ = attention(*call, scaling=given.scaling)
    outside, _ = attention(*call, scaling=given.scaling)
    for output in (without_steps, without_tally, outside):
        assert torch.equal(output, dense_of(given, given.visible))


def test_a_chosen_tally_starts_from_its_rows_and_goes_its_own_way() -> None:
    tally = Tally(2, "cpu")
    ones = torch.ones(2, 1)
    tally.add(torch.tensor([[True], [False]]), ones * 0.5, ones * 0.25)
    twin = tally.chosen([0, 0, 1])
    assert twin.means() == [(0.5, 0.25), (0.5, 0.25), None]
    twin.add(torch.ones(3, 1, dtype=torch.bool), torch.ones(3, 1), torch.zeros(3, 1))
    assert twin.means() == [(0.75, 0.125), (0.75, 0.125), (1.0, 0.0)]
    assert tally.means() == [(0.5, 0.25), None]


def test_counting_all_counts_each_query_that_sees_a_key_and_no_padding(
    scene: Callable[..., Scene],
) -> None:
    given = scene("....kkkk", "kkkkkkkk", queries=8)
    attention = SparseAttention()
    attention.steps = (Local(window_size=2),)
    tally = Tally(1, "cpu")
    arguments = (given.module, given.query, given.key, given.value, given.visible)
    with attention.counting_all(tally):
        sparse, _ = attention(*arguments, scaling=given.scaling)
    seen = [*range(1, 5), *range(1, 9)]
    (mean,) = tally.means()
    assert mean is not None
    density, error = mean
    assert density == pytest.approx(sum(min(n, 2) / n for n in seen) / len(seen))
    assert error > 0
    tally.clear()
    assert tally.means() == [None]
    dense, _ = attention(*arguments, scaling=given.scaling)
    assert torch.equal(dense, dense_of(given, given.visible))
    assert not torch.equal(sparse, dense)
