"""Inventories of machines: every form of them, every mistake, and the choice of hosts."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.base import Machine
from benchfleet.campaign.inventory import (
    Inventory,
    choose_hosts,
    inventory_schema,
    known_hosts_of,
    read_inventory,
    same_machines,
)
from benchfleet.campaign.toml_reader import read_toml
from benchfleet.campaign.yaml_reader import read_yaml
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.usage import Price
from benchfleet.errors import CampaignError

from .inventories import FOLDER, inventory, mistakes

WHOLE = """\
    here: {cpu_slots: 2}
    defaults: {user: lab, python: ~/venv/bin/python, gpus: [0]}
    hosts:
      lab1:
        address: 192.168.1.20
        port: 2222
        user: me
        gpus: [0, 1]
        slots_per_gpu: 2
        labels: [big, fast]
        jump: "me@gate.example.org:22, inner"
      lab2:
      lab4: {slots_per_gpu: auto}
      lab5: {cpu_slots: auto}
      lab3: {cpu_slots: 4, paths: {models: /data/models, /data: ~/data}, folder: /scratch/fleet}
"""


def test_hosts_are_what_they_say_over_what_the_defaults_say() -> None:
    found = inventory(WHOLE)
    assert found.local == Machine(cpu_slots=2)
    assert found.hosts == (
        Host(
            name="lab1",
            address="192.168.1.20",
            port=2222,
            user="me",
            python="~/venv/bin/python",
            gpus=(0, 1),
            slots_per_gpu=2,
            labels=frozenset({"big", "fast"}),
            jump="me@gate.example.org:22,inner",
        ),
        Host(name="lab2", user="lab", python="~/venv/bin/python", gpus=(0,)),
        Host(name="lab4", user="lab", python="~/venv/bin/python", gpus=(0,), slots_per_gpu=AUTO),
        Host(name="lab5", user="lab", python="~/venv/bin/python", cpu_slots=AUTO),
        Host(
            name="lab3",
            user="lab",
            python="~/venv/bin/python",
            cpu_slots=4,
            folder="/scratch/fleet",
            paths={"/inventories/models": "/data/models", "/data": "~/data"},
        ),
    )


def test_toml_says_the_same() -> None:
    text = '[hosts.lab1]\naddress = "10.0.0.1"\n[hosts.lab2]\n[here]\n'
    found = read_inventory(read_toml(text), folder=FOLDER, file_label="machines.toml")
    assert [host.name for host in found.hosts] == ["lab1", "lab2"]
    assert found.local == Machine()


@pytest.mark.parametrize(
    "text",
    [
        '[{"hostname": "m1.example.org", "user": "me"}, {"hostname": "m2"}]',
        '{"m1.example.org": {"user": "me"}, "m2": {}}',
        "hosts: [{hostname: m1.example.org, user: me}, m2]",
        "{m1.example.org: {user: me}, m2: }",
    ],
)
def test_the_hosts_may_stand_alone_by_name_or_listed(text: str) -> None:
    assert inventory(text).hosts == (Host(name="m1.example.org", user="me"), Host(name="m2"))


def test_a_listed_host_may_be_called_otherwise_than_its_hostname() -> None:
    (host,) = inventory("[{name: big, hostname: 10.0.0.1}]").hosts
    assert (host.name, host.address) == ("big", "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[fe80::1%eth0]", "fe80::1%eth0"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("lab1.example.org", "lab1.example.org"),
    ],
)
def test_an_address_is_what_ssh_takes_without_brackets(text: str, address: str) -> None:
    (host,) = inventory(f"hosts: {{a: {{address: '{text}'}}}}").hosts
    assert host.address == address


@pytest.mark.parametrize("text", ["[::1", "::1]", "[]", "[[::1]]", "[-oX]", "[::1]:22"])
def test_brackets_around_no_address_are_refused(text: str) -> None:
    assert list(mistakes(f"hosts: {{a: {{address: '{text}'}}}}")) == ["hosts.a.address"]


def test_this_machine_takes_part_when_it_is_named_at_all() -> None:
    assert inventory("{here: , hosts: {a: }}").local == Machine()
    assert inventory("hosts: {a: }").local is None
    assert inventory("here: {gpus: [1]}") == Inventory(local=Machine(gpus=(1,)))


def test_slots_on_a_gpu_have_one_name_everywhere() -> None:
    hosts = "{a: , b: {slots_per_gpu: auto}}"
    text = f"{{here: {{slots_per_gpu: 2}}, defaults: {{slots_per_gpu: 3}}, hosts: {hosts}}}"
    found = inventory(text)
    assert found.local == Machine(slots_per_gpu=2)
    assert [host.slots_per_gpu for host in found.hosts] == [3, AUTO]
    (output,) = mistakes("hosts: {a: {slots_per_device: 2}}").values()
    assert output == "no key 'slots_per_device' here; did you mean 'slots_per_gpu'?"


def test_every_mistake_is_named_at_once_with_its_line() -> None:
    text = "hosts:\n  lab1: {adress: x, port: 70000}\n  lab2:\n    gpus: 1\n"
    with pytest.raises(CampaignError) as caught:
        inventory(text)
    found = [(m.line, m.key, m.message) for m in caught.value.mistakes]
    assert found == [
        (2, "hosts.lab1.adress", "no key 'adress' here; did you mean 'address'?"),
        (2, "hosts.lab1.port", "must be at most 65535, not 70000"),
        (4, "hosts.lab2.gpus", "must be a list, not 1; write [ ] around it"),
    ]


@pytest.mark.parametrize(
    "name",
    ["-oProxyCommand=x", "a b", "a/b", "..", "a@b", "a\nb", "a;b", "here", "HERE", "$(x)", "*"],
)
def test_a_name_that_options_or_folders_could_not_bear_is_refused(name: str) -> None:
    quoted = name.replace("\n", "\\n")
    assert len(mistakes(f'hosts: {{"{quoted}": {{}}}}')) == 1
    assert len(mistakes(f'[{{"hostname": "{quoted}"}}]')) == 1


@pytest.mark.parametrize("value", ["-oProxyCommand=touch x", "a b", "a\\nb", "$(x)", "`x`", "a;b"])
@pytest.mark.parametrize("key", ["address", "user", "jump"])
def test_what_ssh_or_a_shell_could_take_for_more_is_refused(key: str, value: str) -> None:
    assert list(mistakes(f'hosts: {{lab1: {{{key}: "{value}"}}}}')) == [f"hosts.lab1.{key}"]
    assert f"defaults.{key}" in mistakes(f'{{defaults: {{{key}: "{value}"}}, hosts: {{a: }}}}')


def test_an_option_behind_a_comma_of_jump_hosts_is_refused() -> None:
    assert list(mistakes("hosts: {a: {jump: 'gate,-oX=y'}}")) == ["hosts.a.jump"]


@pytest.mark.parametrize(
    "output",
    [
        "python: -c",
        "python: ~other/bin/python",
        "folder: relative",
        "folder: -x",
        "labels: ['a,b']",
        "labels: ['!a']",
        "gpus: []",
        "gpus: [0, 0]",
        "identity: no-such-key",
        "paths: {models: here}",
        "user: ''",
        "address: me@host",
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(output: str) -> None:
    (key,) = mistakes(f"hosts: {{a: {{{output}}}}}")
    assert key.startswith(f"hosts.a.{output.partition(':')[0]}")


def test_slots_are_on_gpus_or_on_the_cpu() -> None:
    both = "{gpus: [0], cpu_slots: 1}"
    found = mistakes(f"{{here: {both}, defaults: {both}, hosts: {{a: {both}}}}}")
    assert set(found) == {"here.cpu_slots", "defaults.cpu_slots", "hosts.a.cpu_slots"}


def test_names_that_a_file_system_could_take_as_one_are_refused() -> None:
    assert "case alone" in mistakes("hosts: {lab1: , LAB1: }")["hosts.LAB1"]
    assert "stands twice" in mistakes("[{hostname: a}, {hostname: a}]")["[1].hostname"]


@pytest.mark.parametrize("text", ["", "[]", "hosts: {}", "defaults: {user: a}"])
def test_an_inventory_of_nothing_says_what_to_write(text: str) -> None:
    assert "under 'hosts:'" in mistakes(text)[""]


@pytest.mark.parametrize("text", ["just text", "hosts: 3", "[[]]", "[{user: me}]"])
def test_what_is_no_inventory_is_refused(text: str) -> None:
    assert mistakes(text)


CHOSEN = """\
    here:
    hosts: {lab1: {labels: [big]}, lab2: {labels: [big, spare]}, other: }
"""


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["lab1", "lab2", "other", "here"]),
        (["lab1"], ["lab1"]),
        (["lab*"], ["lab1", "lab2"]),
        (["big"], ["lab1", "lab2"]),
        (["big,!spare"], ["lab1"]),
        (["!big"], ["other", "here"]),
        (["other", "lab1"], ["lab1", "other"]),
        (["here,other"], ["other", "here"]),
    ],
)
def test_hosts_are_chosen_by_name_label_and_glob(patterns: list[str], names: list[str]) -> None:
    chosen = choose_hosts(inventory(CHOSEN), patterns)
    here = ["here"] if chosen.local else []
    assert [host.name for host in chosen.hosts] + here == names


def test_a_pattern_that_nothing_answers_to_names_the_near_ones() -> None:
    with pytest.raises(CampaignError, match=r"--hosts lab9 .* lab2, lab1"):
        choose_hosts(inventory(CHOSEN), ["lab9"])
    with pytest.raises(CampaignError, match=r"leaves none of lab1, lab2, other, here"):
        choose_hosts(inventory(CHOSEN), ["lab1,!big"])


def test_keys_of_hosts_are_kept_beside_the_inventory() -> None:
    assert known_hosts_of("/a/machines.yaml") == Path("/a/.benchfleet/known_hosts")


def test_the_schema_takes_every_form_and_no_unknown_key() -> None:
    from jsonschema import Draft202012Validator

    schema = Draft202012Validator(inventory_schema())
    for text in (WHOLE, CHOSEN, "[{hostname: a, user: b}, c]", "{a: {user: b}, c: }"):
        assert list(schema.iter_errors(read_yaml(dedent(text)).data)) == []
    assert list(schema.iter_errors({"hosts": {"a": {"adress": "b"}}}))


def test_a_price_is_of_the_machine_or_of_its_gpus_and_stands_in_the_defaults_too() -> None:
    found = inventory(
        """\
        here: {price: 0.10 EUR/h}
        defaults: {price: $2/gpu/h}
        hosts: {lab1: null, lab2: {price: 0.5}}
        """
    )
    assert found.local == Machine(price=Price(amount=0.1, currency="EUR"))
    assert [host.price for host in found.hosts] == [
        Price(amount=2, currency="$", per_gpu=True),
        Price(amount=0.5),
    ]


def test_hosts_with_the_same_address_port_and_user_are_named_as_one_machine() -> None:
    found = inventory(
        """\
        defaults: {user: me}
        hosts:
          a: {address: lab, folder: /a}
          b: {address: lab, port: 22, identity: /etc/hostname}
          lab:
          other: {address: lab, port: 2222}
          friend: {address: lab, user: you}
          far: {address: lab, jump: gate}
        """
    )
    (message,) = same_machines(found.hosts)
    assert message.startswith("a, b and lab are one machine: its results count as those of 3, ")
