"""A slot's environment binds it before anything is imported."""

from __future__ import annotations

from benchfleet.slot.launch import slot_environment

ORDER = {"slot": "s1", "gpus": "2,3", "threads": 4}


def test_devices_and_threads_are_set_and_nothing_inherited_overrides_them() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "OMP_NUM_THREADS": "64", "HOME": "/home/u"}
    environment = slot_environment(inherited, ORDER)
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "4"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["HOME"] == "/home/u"
    assert inherited["OMP_NUM_THREADS"] == "64"


def test_a_cpu_slot_sees_no_gpu() -> None:
    environment = slot_environment({"CUDA_VISIBLE_DEVICES": "0"}, {**ORDER, "gpus": ""})
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_threads_of_a_cpu_slot_sleep_while_they_wait_unless_the_user_says_otherwise() -> None:
    on_cpu = {**ORDER, "gpus": ""}
    assert slot_environment({}, on_cpu)["OMP_WAIT_POLICY"] == "passive"
    assert slot_environment({}, on_cpu)["GOMP_SPINCOUNT"] == "1000"
    chosen = slot_environment({"OMP_WAIT_POLICY": "active"}, on_cpu)
    assert chosen["OMP_WAIT_POLICY"] == "active"
    assert "OMP_WAIT_POLICY" not in slot_environment({}, ORDER)


def test_leftovers_of_a_launcher_do_not_mislead_libraries() -> None:
    environment = slot_environment({"LOCAL_RANK": "3", "WORLD_SIZE": "8"}, ORDER)
    assert "LOCAL_RANK" not in environment
    assert "WORLD_SIZE" not in environment


def test_the_users_own_python_path_stays_as_it_is() -> None:
    environment = slot_environment({"PYTHONPATH": "/mine"}, {**ORDER, "package": "/benchfleet"})
    assert environment["PYTHONPATH"] == "/mine"
    assert "PYTHONPATH" not in slot_environment({}, {**ORDER, "package": "/benchfleet"})


def test_the_password_of_the_ledger_is_kept_from_slots() -> None:
    environment = slot_environment({"PGPASSWORD": "hush", "PGPASSFILE": "/home/u/.pgpass"}, ORDER)
    assert "PGPASSWORD" not in environment
    assert environment["PGPASSFILE"] == "/home/u/.pgpass"
