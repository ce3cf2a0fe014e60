"""The ``eligibility`` of a campaign: what a machine must have, for which cells, and its tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchfleet.domain.conditions import Condition, parse_condition
from benchfleet.domain.eligibility import KINDS, Eligibility, Rule, Tier, default_eligibility

from .entry import Entry
from .schema_types import (
    NAME,
    TEXT,
    TRUTH,
    Shape,
    doc,
    either,
    listing,
    mapping,
    one_or_list,
    whole,
)

TIERS = "tiers"
RULE_KEYS: Mapping[str, Shape] = {
    "when": doc(TEXT, "such as ram_available >= 8GB and disk_free >= 10GB"),
    "phases": doc(
        one_or_list(NAME),
        "names or globs, ! negates: such cells run only where it holds",
    ),
    "models": doc(one_or_list(NAME), "the same for cells of these models"),
    "variants": doc(TRUTH, "the same for cells that are run with a variant; false: with none"),
}
TIER_KEYS: Mapping[str, Shape] = {
    "tier": doc(whole(0), "its number; larger is stronger"),
    "when": doc(TEXT, "a condition, also over the rules by name; the first tier that holds is it"),
    "role": doc(TEXT, "what such a machine is for"),
}
_RULE = either(TEXT, mapping(RULE_KEYS, required=("when",)))
SHAPE: Shape = doc(
    {
        "type": "object",
        "properties": {TIERS: listing(mapping(TIER_KEYS, required=("tier", "when")))},
        "additionalProperties": _RULE,
    },
    "rules by name that machines are held against, and their tiers",
)


def read_eligibility(entry: Entry) -> Eligibility:
    """The rules and tiers; the usual ones where the campaign states none. A condition that can
    never hold, and a tier that is never reached behind earlier ones, are mistakes."""
    usual = default_eligibility()
    usual_by_name = {rule.name: rule for rule in usual.rules}
    rules: list[Rule] = []
    tiers: Entry | None = None
    for name, item in entry.pairs("a mapping of rules by name"):
        if name == TIERS:
            tiers = item
        elif not name.isidentifier() or name in KINDS:
            why = "is a fact" if name in KINDS else "may hold only letters, digits and _"
            item.wrong(f"{name!r} {why}; call the rule otherwise")
        elif rule := _rule(name, item, usual_by_name.get(name)):
            rules.append(rule)
    declared = tuple(rules) if any(key != TIERS for key in _keys(entry)) else usual.rules
    named = {rule.name: rule.when for rule in declared}
    if tiers is not None and not tiers.absent:
        return Eligibility(rules=declared, tiers=_tiers(tiers, named))
    return Eligibility(rules=declared, tiers=usual.tiers if declared is usual.rules else ())


def _keys(entry: Entry) -> list[str]:
    return list(entry.value) if isinstance(entry.value, dict) else []


def _rule(name: str, entry: Entry, usual: Rule | None) -> Rule | None:
    """A rule that does not say what it is about is about the phase of its name, or what the usual
    rule of its name is about."""
    if entry.absent:
        entry.wrong("says nothing; write a condition, such as ram_available >= 8GB")
        return None
    alone = isinstance(entry.value, str)
    fields = entry.like({}).fields(RULE_KEYS) if alone else entry.fields(RULE_KEYS)
    when = _condition(entry if alone else fields["when"], {})
    if when is None:
        return None
    if all(fields[key].absent for key in ("phases", "models", "variants")):
        return replace(usual, when=when) if usual else Rule(name=name, when=when, phases=(name,))
    variants = fields["variants"]
    return Rule(
        name=name,
        when=when,
        phases=_patterns(fields["phases"]),
        models=_patterns(fields["models"]),
        variants=None if variants.absent else variants.truth(True),
    )


def _patterns(entry: Entry) -> tuple[str, ...]:
    return tuple(item.text() for item in entry.items(single=True))


def _condition(entry: Entry, named: Mapping[str, Condition]) -> Condition | None:
    """What stands there, or None with a mistake."""
    if entry.absent:
        entry.wrong("is missing; write a condition, such as ram_available >= 8GB")
        return None
    text = entry.text()
    if not entry.right:
        return None
    try:
        condition = parse_condition(text, KINDS, named)
    except ValueError as error:
        entry.wrong(str(error))
        return None
    if not condition.is_possible():
        entry.wrong(f"no machine can ever satisfy {condition}")
        return None
    return condition


def _tiers(entry: Entry, named: Mapping[str, Condition]) -> tuple[Tier, ...]:
    tiers: list[Tier] = []
    for item in entry.items():
        fields = item.fields(TIER_KEYS)
        if fields["tier"].absent and item.right:
            item.wrong("has no number; write {tier: 2, when: …}")
        number = fields["tier"].whole(0, least=0)
        when = _condition(fields["when"], named)
        if when is None:
            continue
        if tiers and not when.is_possible(*(one.when for one in tiers)):
            fields["when"].wrong(
                "is never reached: an earlier tier takes every machine that satisfies it; put the "
                "tier that asks for more first"
            )
        tiers.append(Tier(tier=number, when=when, role=fields["role"].text()))
    return tuple(tiers)
