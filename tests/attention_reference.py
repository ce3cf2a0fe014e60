"""Each attention config by slow loops, one query at a time: the weight of each kept key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import torch

from attention_query import Query, best, number
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import KeptKeys, build_steps, kept_keys
from benchfleet.models.attention.state import Shape, State

Weights = dict[int, float]


def built(*steps: tuple[str, Mapping[str, Any]]) -> tuple[AttentionConfig, ...]:
    return build_steps([AttentionStep(name=name, params=params) for name, params in steps])


def states_of(steps: Sequence[AttentionConfig], scene: Any) -> dict[int, State]:
    """The states of the steps in a first pass over all keys."""
    states = {}
    heads, key_heads = scene.query.shape[1], scene.key.shape[1]
    device = scene.key.device
    shape = Shape(layer=0, heads=heads, key_heads=key_heads, dim=8, device=device)
    for place, step in enumerate(steps):
        if (state := step.new_state(shape)) is not None:
            state.fit(scene.key, scene.tokens)
            state.update(scene.key, scene.tokens)
            states[place] = state
    return states


def kept_of(steps: Sequence[AttentionConfig], scene: Any) -> KeptKeys:
    return kept_keys(steps, scene.view, states_of(steps, scene))


def found_weights(kept: KeptKeys, scene: Any, row: int, head: int, query: int) -> Weights:
    selected = kept.selected.expand(-1, scene.query.shape[1], -1, -1)[row, head, query]
    columns = torch.nonzero(selected).flatten().tolist()
    if kept.weight is None:
        return dict.fromkeys(columns, 1.0)
    return {column: float(kept.weight[row, head, query, column]) for column in columns}


def oracle_top_p(q: Query, kept: set[int]) -> Weights:
    open_keys = [column for column in q.seen if column not in kept]
    p = q.softmax(q.seen if q.step.of == "all" else open_keys) if open_keys else {}
    held = sum(p.get(column, 0.0) for column in kept) if q.step.of == "all" else 0.0
    added: Weights = {}
    for column in best({column: p[column] for column in open_keys}, len(open_keys)):
        if held >= q.step.top_p - 1e-6:
            break
        added[column] = 1.0
        held += p[column]
    return added


def quest(q: Query, kept: set[int]) -> Weights:
    size = q.step.page_size
    pages = [q.seen[start : start + size] for start in range(0, len(q.seen), size)]
    bounds: dict[int, float] = {}
    for place, page in enumerate(pages[:-1]):
        keys = torch.stack([q.k(column) for column in page])
        heads = q.heads if q.step.share == "group" else [q.head]
        bounds[place] = max(
            sum(
                max(float(a * low), float(a * high))
                for a, low, high in zip(q.q(head), keys.amin(0), keys.amax(0), strict=True)
            )
            for head in heads
        )
    wanted = math.ceil(number(q.step.heavy_size, len(q.seen)) / size)
    chosen = [len(pages) - 1, *best(bounds, len(bounds))][:wanted]
    return {column: 1.0 for place in chosen for column in pages[place]}


def top(q: Query, kept: set[int], scores: Mapping[int, float]) -> Weights:
    open_scores = {column: scores[column] for column in q.seen if column not in kept}
    return dict.fromkeys(best(open_scores, number(q.step.heavy_size, len(q.seen))), 1.0)


def oracle_top_k(q: Query, kept: set[int]) -> Weights:
    return top(q, kept, {column: q.score(column) for column in q.seen})


def label(vector: torch.Tensor, channels: Sequence[int], bits: int) -> list[float]:
    chosen = [float(vector[channel]) for channel in channels]
    least, step = min(chosen), max(max(chosen) - min(chosen), 1e-8) / (2**bits - 1)
    return [round((value - least) / step) * step + least for value in chosen]


def double_sparsity(q: Query, kept: set[int]) -> Weights:
    lists = q.state._channels.tolist()

    def channels(head: int) -> list[int]:
        chosen: list[int] = lists[
            head if len(lists) == q.scene.query.shape[1] else head // q.groups
        ]
        return chosen

    def score(head: int, column: int) -> float:
        query = label(q.q(head), channels(head), q.step.label_bits)
        key = label(q.k(column), channels(head), q.step.label_bits)
        return sum(a * b for a, b in zip(query, key, strict=True))

    heads = q.heads if q.step.share == "group" else [q.head]
    return top(q, kept, {c: max(score(head, c) for head in heads) for c in q.seen})


def hash_attention(q: Query, kept: set[int]) -> Weights:
    def code(vector: torch.Tensor, of: str) -> list[bool]:
        for layer in range(3):
            name = f"layers.0.{of}.{layer}"
            if layer:
                vector = vector * torch.sigmoid(vector)
            vector = vector @ q.step._tensors[f"{name}.weight"][q.head]
            vector = vector + q.step._tensors[f"{name}.bias"][q.head]
        return [float(value) >= 0 for value in vector]

    asked = code(q.q(), "query")
    return top(
        q,
        kept,
        {
            column: sum(a == b for a, b in zip(asked, code(q.k(column), "key"), strict=True))
            for column in q.seen
        },
    )


def pq_cache(q: Query, kept: set[int]) -> Weights:
    centroids = q.state.centroids[q.row, q.head // q.groups]  # [parts, centroids, sub_dim]
    sub = centroids.shape[-1]

    def score(head: int, column: int) -> float:
        total = 0.0
        for part in range(len(centroids)):
            place = slice(part * sub, (part + 1) * sub)
            distances = (centroids[part] - q.k(column)[place]).norm(dim=1).tolist()
            nearest = centroids[part][distances.index(min(distances))]
            total += float(q.q(head)[place] @ nearest)
        return q.scaled(total)

    if q.step.share == "head":
        return top(q, kept, {column: score(q.head, column) for column in q.seen})
    p = [torch.tensor([score(head, c) for c in q.seen]).softmax(0) for head in q.heads]
    return top(q, kept, dict(zip(q.seen, sum(p).tolist(), strict=True)))


def drawn(q: Query, among: Sequence[int], draws: int) -> Weights:
    if draws >= len(among):
        return dict.fromkeys(among, 1.0)
    random = q.scene.view.uniform(draws, seed=q.step.seed)[q.row, q.head, q.query]
    weights: Weights = {}
    for chance in random.tolist():
        column = among[int(torch.tensor(chance) * len(among))]
        weights[column] = weights.get(column, 0.0) + len(among) / draws
    return weights


def random_sampling(q: Query, kept: set[int]) -> Weights:
    among = [column for column in q.seen if column not in kept]
    return drawn(q, among, number(float(q.step.rate), len(among)))


def adaptive_sampling(q: Query, kept: set[int]) -> Weights:
    first = number(q.step.init_offset, len(q.seen))
    last = len(q.seen) - number(q.step.local_offset, len(q.seen))
    among = [c for rank, c in enumerate(q.seen) if first <= rank < last and c not in kept]
    base = min(max(2, number(float(q.step.base_rate), len(among))), len(among))
    if not among:
        return {}
    random = q.scene.view.uniform(base, seed=~q.step.seed)[q.row, q.head, q.query]
    values = [math.exp(q.score(among[int(chance * len(among))])) for chance in random]
    mean = sum(values) / base
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(base - 1, 1))
    total = sum(math.exp(q.score(column)) for column in kept) + len(among) * mean
    z = NormalDist().inv_cdf(1 - q.step.delta / 2)
    draws = math.ceil((z * len(among) * deviation / (q.step.epsilon * total)) ** 2 * (1 - 1e-6))
    return drawn(q, among, min(max(draws, base), len(among)))


def magic_pig(q: Query, kept: set[int]) -> Weights:
    planes = q.state._planes.unflatten(1, (q.step.l, q.step.k))
    tokens = [c for c in range(q.scene.key.shape[2]) if q.scene.tokens[q.row, c]]
    mean = sum(q.k(column) for column in tokens) / len(tokens) if q.step.center else 0.0

    def codes(vector: torch.Tensor) -> list[list[bool]]:
        return [
            [float(vector @ planes[:, t, b]) >= 0 for b in range(q.step.k)] for t in range(q.step.l)
        ]

    asked, weights = codes(q.q()), {}
    for column in q.seen:
        key = q.k(column) - mean
        equal = sum(a == b for a, b in zip(asked, codes(key), strict=True))
        if column in kept or equal < q.step.tables:
            continue
        cosine = float(q.q() @ key / (q.q().norm() * key.norm()))
        same = (1 - math.acos(max(-1.0, min(1.0, cosine))) / math.pi) ** q.step.k
        fewer = sum(
            math.comb(q.step.l, hits) * same**hits * (1 - same) ** (q.step.l - hits)
            for hits in range(q.step.tables)
        )
        weights[column] = 1 / max(1 - fewer, 1e-6)
    return weights


def sink(q: Query, kept: set[int]) -> Weights:
    return dict.fromkeys(q.seen[: number(q.step.sink_size, len(q.seen))], 1.0)


def local(q: Query, kept: set[int]) -> Weights:
    first = len(q.seen) - number(q.step.window_size, len(q.seen))
    return dict.fromkeys(q.seen[first:], 1.0)


def sink_local(q: Query, kept: set[int]) -> Weights:
    return {**sink(q, kept), **local(q, kept)}


def dense(q: Query, kept: set[int]) -> Weights:
    return dict.fromkeys(q.seen, 1.0)


REFERENCES: Mapping[str, Callable[[Query, set[int]], Weights]] = {
    "adaptive_sampling": adaptive_sampling,
    "dense": dense,
    "double_sparsity": double_sparsity,
    "hash_attention": hash_attention,
    "local": local,
    "magic_pig": magic_pig,
    "oracle_top_k": oracle_top_k,
    "oracle_top_p": oracle_top_p,
    "pq_cache": pq_cache,
    "quest": quest,
    "random_sampling": random_sampling,
    "sink": sink,
    "sink_local": sink_local,
    "streaming": sink_local,
}


def expected_weights(
    named: Sequence[str], steps: Sequence[AttentionConfig], scene: Any, where: tuple[int, int, int]
) -> Weights:
    """The weights that the steps give together to the keys of one row, head and query."""
    states = states_of(steps, scene)
    row, head, query = where
    weights: Weights = {}
    seen: list[int] = []
    for place, (name, step) in enumerate(zip(named, steps, strict=True)):
        q = Query(scene=scene, step=step, state=states.get(place), row=row, head=head, query=query)
        seen = q.seen
        if seen:
            weights = {**REFERENCES[name](q, set(weights)), **weights}
    return weights or ({seen[-1]: 1.0} if seen else {})
