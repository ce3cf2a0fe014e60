from __future__ import annotations

from benchfleet.campaign.defaults import read_defaults
from benchfleet.domain.limits import Limits

from .reading import mistakes_of, read


def test_without_defaults_benchfleets_own_hold() -> None:
    defaults = read_defaults(read("~"))
    assert defaults.adapter.absent
    assert defaults.generation == defaults.model_kwargs == defaults.tokenizer_kwargs == {}
    assert (defaults.batch_size, defaults.repeats, defaults.everywhere) == (1, 1, False)
    assert defaults.limits == Limits(cell=None, tries=3)


def test_every_default_is_read() -> None:
    entry = read(
        """\
        adapter: mock
        model_kwargs: {dtype: bfloat16}
        tokenizer_kwargs: {use_fast: true}
        generation: {max_new_tokens: 256, temperature: 0}
        batch_size: 8
        repeats: 2
        limits: {cell: 6h, tries: 5, generation: 10m, stuck: 15m, ram: 16GB, disk: 5GiB}
        everywhere: true
        """
    )
    defaults = read_defaults(entry)
    assert mistakes_of(entry) == {}
    assert defaults.adapter.text() == "mock"
    assert defaults.model_kwargs == {"dtype": "bfloat16"}
    assert defaults.tokenizer_kwargs == {"use_fast": True}
    assert defaults.generation == {"max_new_tokens": 256, "temperature": 0}
    assert (defaults.batch_size, defaults.repeats, defaults.everywhere) == (8, 2, True)
    assert defaults.limits == Limits(
        cell=21_600, tries=5, generation=600, stuck=900, ram=16 * 10**9, disk=5 * 2**30
    )


def test_every_wrong_default_is_reported_at_its_key() -> None:
    entry = read(
        """\
        model_kwargs: [a]
        generation: 3
        batch_size: 0
        repeats: 20000
        limits: {cell: 90, tries: 0, generations: 1m, stuck: soon, ram: 16}
        everywhere: yes
        batchsize: 2
        """
    )
    read_defaults(entry)
    assert mistakes_of(entry) == {
        "model_kwargs": "must be a mapping of names to values, not a list",
        "generation": "must be a mapping of names to values, not 3",
        "batch_size": "must be a whole number, 1 or more, or auto, not 0",
        "repeats": "must be at most 10000, not 20000",
        "limits.cell": "90 is not a time; write 90h, 90m or 90s",
        "limits.tries": "must be a whole number, 1 or more, not 0",
        "limits.generations": "no key 'generations' here; did you mean 'generation'?",
        "limits.ram": "16 is not a size; write 16GB",
        "limits.stuck": "'soon' is not a time; write 6h, 6m or 6s",
        "everywhere": "must be true or false, not 'yes'",
        "batchsize": "no key 'batchsize' here; did you mean 'batch_size'?",
    }
