"""Readings become means, peaks and an energy that is reported only where it is known."""

from __future__ import annotations

import pytest

from benchfleet.domain.telemetry import GpuReading, Reading, Telemetry

GB = 10**9


def reading(at: float, power: float | None = 100.0, **more: float) -> Reading:
    gpu = GpuReading(index=0, memory=int(10 * GB + at * GB), total=80 * GB, power=power)
    return Reading(at=at, cpu=more.get("cpu", at), ram=int(more.get("ram", GB)), gpus=(gpu,))


def summed(*readings: Reading, beside: int = 0) -> Telemetry:
    telemetry = Telemetry()
    for one in readings:
        telemetry.add(one, beside=beside)
    return telemetry


def test_energy_is_the_area_under_the_power() -> None:
    output = summed(reading(0, 100), reading(1, 300), reading(3, 300)).summary()
    assert output["energy"] == {"valid": True, "reason": "", "joules": 200 + 600}
    assert output["gpus"][0]["power_watts"] == {"mean": round(800 / 3, 3), "peak": 300}
    assert (output["readings"], output["seconds"]) == (3, 3)


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        ([reading(0)], "there is one reading alone"),
        ([reading(0), reading(1, None), reading(2)], "gpu:0 did not report its power at 1.0 s"),
        (
            [reading(0), reading(1), reading(8.5), reading(9.5)],
            "no reading for 7.5 s at 1.0 s; 3 s are the most",
        ),
    ],
)
def test_the_energy_is_unknown_where_readings_lack_and_the_reason_is_reported(
    readings: list[Reading], reason: str
) -> None:
    output = summed(*readings)
    assert output.joules is None
    assert output.summary()["energy"] == {"valid": False, "reason": reason, "joules": None}


def test_slots_that_share_a_gpu_bear_their_parts_of_its_energy() -> None:
    telemetry = Telemetry()
    for at, beside in ((0, 0), (1, 0), (2, 1), (3, 1)):
        telemetry.add(reading(at, 100), beside=beside)
    energy = telemetry.summary()["energy"]
    assert (energy["joules"], energy["gpu_joules"]) == (100 + 50 + 50, 300)
    assert "another slot of this run computed on the same GPU" in energy["shared"]


def test_other_peoples_processes_on_the_gpu_are_reported() -> None:
    gpu = GpuReading(index=0, power=50.0, others=True)
    output = summed(Reading(at=0, gpus=(gpu,)), Reading(at=1, gpus=(gpu,))).summary()
    assert output["energy"]["joules"] == 50
    assert "not this run's" in output["energy"]["shared"]


def test_a_value_without_a_reading_is_absent_and_not_zero() -> None:
    output = summed(Reading(at=0), Reading(at=2)).summary()
    assert output == {"readings": 2, "seconds": 2, "every": 1.0}
    silent = summed(Reading(at=0, gpus=(GpuReading(index=0),))).summary()
    assert silent["gpus"] == [{"index": 0}]
    assert Telemetry().summary() == {}


def test_cpu_is_reported_in_cores_with_a_peak_over_no_less_than_half_a_second() -> None:
    output = summed(*(reading(at, cpu=cpu) for at, cpu in ((0, 0), (1, 4), (2, 5), (2.001, 5.01))))
    assert output.summary()["cpu_cores"] == {
        "mean": round(5.01 / 2.001, 3),
        "peak": 4,
        "seconds": 5.01,
    }


def test_peaks_are_of_all_gpus_and_of_the_slots_own_memory_where_that_is_known() -> None:
    one = GpuReading(index=0, memory=60 * GB, own=20 * GB)
    other = GpuReading(index=1, memory=30 * GB)
    telemetry = summed(Reading(at=0, ram=3 * GB, gpus=(one, other)))
    assert (telemetry.ram, telemetry.gpu_memory) == (3 * GB, 30 * GB)


def test_a_reading_goes_over_the_wire_unchanged() -> None:
    whole = reading(1.5)
    assert Reading.from_dict(whole.to_dict()) == whole
    assert Reading.from_dict(Reading(at=0.0).to_dict()) == Reading(at=0.0)


@pytest.mark.parametrize(
    "output",
    [
        {"at": -1.0, "gpus": []},
        {"at": float("nan"), "gpus": []},
        {"at": 0.0, "gpus": [{"index": 0, "power": "hot"}]},
        {"at": 0.0, "gpus": [{"index": 0, "colour": 3}]},
        {"gpus": []},
        {"at": 0.0},
    ],
)
def test_what_is_no_reading_is_refused(output: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Reading.from_dict(output)
