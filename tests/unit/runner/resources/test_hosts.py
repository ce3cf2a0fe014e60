"""What is known of the other machines of a run follows what their engine says."""

from __future__ import annotations

from benchfleet.engines.base import HostLost, HostReady
from benchfleet.runner.resources.hosts import Hosts


def ready(name: str) -> HostReady:
    return HostReady(host=name, devices=(), slots=1, threads=1, provenance={"python": "3.12"})


def test_a_host_not_reached_yet_is_away_and_expected() -> None:
    hosts = Hosts(["lab1"])
    assert hosts.is_away("lab1")
    assert hosts.expecting
    assert hosts.why == "lab1: not reached yet"


def test_without_any_host_nothing_is_expected() -> None:
    assert not Hosts([]).expecting
    assert not Hosts([]).is_away("")


def test_a_host_that_is_here_is_not_waited_for_and_its_results_say_where_they_were_made() -> None:
    hosts = Hosts(["lab1"])
    hosts.ready(ready("lab1"))
    assert not hosts.is_away("lab1")
    assert not hosts.expecting
    assert hosts.provenance("lab1") == {"python": "3.12"}
    assert hosts.provenance("") == {}


def test_a_lost_host_is_expected_unless_it_is_hopeless() -> None:
    hosts = Hosts(["lab1"])
    hosts.ready(ready("lab1"))
    hosts.lost(HostLost(host="lab1", reason="it is off"))
    assert (hosts.expecting, hosts.why) == (True, "lab1: it is off")
    hosts.lost(HostLost(host="lab1", reason="another key", hopeless=True))
    assert not hosts.expecting
    assert hosts.is_away("lab1")


def test_one_hopeless_host_hides_no_other_that_may_come() -> None:
    hosts = Hosts(["lab1", "lab2"])
    hosts.lost(HostLost(host="lab1", reason="another key", hopeless=True))
    assert (hosts.expecting, hosts.is_away("lab2")) == (True, True)
    hosts.ready(ready("lab2"))
    assert (hosts.expecting, hosts.why) == (False, "lab1: another key")


def test_a_host_in_doubt_is_away_until_it_answers() -> None:
    hosts = Hosts(["lab1"])
    hosts.ready(ready("lab1"))
    hosts.doubt("lab1", "its connection broke")
    assert hosts.is_away("lab1")
    assert hosts.is_doubted("lab1")
    assert hosts.expecting
    hosts.ready(ready("lab1"))
    assert not hosts.is_away("lab1")
    assert not hosts.is_doubted("lab1")


def test_a_host_lost_after_a_doubt_is_lost_and_doubted_no_more() -> None:
    hosts = Hosts(["lab1"])
    hosts.ready(ready("lab1"))
    hosts.doubt("lab1", "its connection broke")
    hosts.lost(HostLost(host="lab1", reason="it is off"))
    assert not hosts.is_doubted("lab1")
    assert hosts.why == "lab1: it is off"


def test_a_doubt_of_a_host_that_is_lost_already_changes_nothing() -> None:
    hosts = Hosts(["lab1"])
    hosts.lost(HostLost(host="lab1", reason="another key", hopeless=True))
    hosts.doubt("lab1", "its connection broke")
    assert not hosts.expecting
    assert not hosts.is_doubted("lab1")
