"""``./run gate``: runs the program of the tag ``before-subtraction`` and this one over the same inputs."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import click

from tests.gate.compare import Result, Rule, differences, has_only_old_documents, read_rules
from tests.gate.programs import old_results, prepare_inputs, run_cases
from tests.services.kafka import cluster

RULES = Path(__file__).with_name("intended.toml")
MOST_SHOWN = 12
_RANDOM = "test_what_if"
"""In names of cases whose views give other values whenever they are read."""
_PLAIN_GROUPS = frozenset({"golden", "fuzz", "classes", "keys", "children", "field"})


@dataclass
class Verdict:
    """The comparison of all cases."""

    equal: int = 0
    used: Counter[str] = field(default_factory=Counter)
    """Cases by the reason why they may differ."""
    failed: list[tuple[str, list[str]]] = field(default_factory=list)
    """Cases that differ without a rule, with their differences."""


@click.command()
@click.option("--group", "groups", multiple=True, help="Only cases of this group, such as golden.")
@click.option("--format", "formats", multiple=True, help="Only cases with this format.")
@click.option("--name", help="Only cases whose name contains this.")
@click.option("--every", default=1, help="Only each Nth case.")
@click.option("--spark/--no-spark", "on_spark", default=True, help="Run a tenth on Spark as well.")
@click.option("--kafka/--no-kafka", "to_kafka", default=True, help="Replay some to topics as well.")
@click.option("--seconds", is_flag=True, help="Show the slowest cases.")
def main(
    groups: tuple[str, ...],
    formats: tuple[str, ...],
    name: str | None,
    every: int,
    *,
    on_spark: bool,
    to_kafka: bool,
    seconds: bool,
) -> None:
    """Compare documents, outcomes by reason, rejects and exit codes of both programs."""
    begun = time.monotonic()
    corpus = prepare_inputs()
    cases = {
        path.name: json.loads(path.read_text("utf-8"))
        for path in sorted(corpus.glob("cases/*.json"))
    }
    chosen = [
        key
        for number, (key, case) in enumerate(cases.items())
        if (not groups or case["group"] in groups)
        and (not formats or {*formats} & {*case["formats"]})
        and (name is None or name in case["name"])
        and can_repeat(case)
        and number % every == 0
    ]
    (rules, dropped), verdict, times = read_rules(RULES), Verdict(), list[tuple[float, str]]()
    count = 0
    with ExitStack() as stack:
        ways = {"local": chosen}
        if on_spark:
            ways["spark"] = [key for key in chosen if is_tenth(key, cases[key], 0)]
        replays = [key for key in chosen if is_tenth(key, cases[key], 1) and can_replay(cases[key])]
        if to_kafka and replays:
            ways[stack.enter_context(cluster()).bootstrap] = replays
        for way, names in ways.items():
            old = old_results(corpus, names, way)

            def judge_case(key: str, new: Result) -> None:
                times.append((new["seconds"], cases[key]["name"]))
                judge(cases[key], old[key], new, rules, verdict)  # noqa: B023 - used in this turn only

            run_cases(Path(sys.executable), corpus, names, judge_case, way, dropped)
            count += len(names)
    is_full = not (groups or formats or name or every > 1)
    ok = report(verdict, rules, count, is_full=is_full)
    if seconds:
        for took, key in sorted(times, reverse=True)[:20]:
            click.echo(f"{took:8.2f} s  {key}")
    click.echo(f"{time.monotonic() - begun:.0f} s")
    sys.exit(0 if ok else 1)


def can_repeat(case: Result) -> bool:
    """False if rows differ whenever they are read, or if a test copied what the old program stored."""
    files = [name for step in case["steps"] for name in step["write"]]
    return _RANDOM not in case["name"] and not any(".xds-publisher/" in name for name in files)


def is_tenth(key: str, case: Result, rest: int) -> bool:
    """True for a tenth of the cases of one command, another tenth for each ``rest``."""
    return bool(
        case["group"] in _PLAIN_GROUPS
        and len(case["steps"]) == 1
        and crc32(key.encode()) % 10 == rest
    )


def can_replay(case: Result) -> bool:
    """True if the command of a case can replay its files to a topic."""
    words = case["steps"][0]["words"]
    return words[0] == "replay" or (words[0] == "publish" and "triggerless" not in case["formats"])


def judge(case: Result, old: Result, new: Result, rules: list[Rule], verdict: Verdict) -> None:
    """Compares one case."""
    found = differences(case, old, new)
    if not found:
        verdict.equal += 1
        return
    fewer = has_only_old_documents(old, new)
    for rule in rules:
        if rule.explains(case, new, found, fewer=fewer):
            verdict.used[rule.why] += 1
            return
    title = f"{case['group']}: {case['name']} ({', '.join(case['formats'])})"
    verdict.failed.append(
        (title, [*found, *(f"says: {text[-400:]}" for text in new["messages"][-1:])])
    )


def report(verdict: Verdict, rules: list[Rule], count: int, *, is_full: bool) -> bool:
    """Prints what came of the cases; returns whether the gate is open."""
    click.echo(
        f"{count} cases: {verdict.equal} equal, {sum(verdict.used.values())} differ as intended, "
        f"{len(verdict.failed)} differ"
    )
    for why, number in verdict.used.most_common():
        click.echo(f"{number:6}  {why}")
    for title, found in verdict.failed[:MOST_SHOWN]:
        click.echo(f"\n{title}")
        for line in found[:MOST_SHOWN]:
            click.echo(f"  {line}")
    unused = [rule.why for rule in rules if not verdict.used[rule.why]]
    if is_full and unused:
        click.echo("rules that explain nothing, so remove them: " + "; ".join(unused))
    return not verdict.failed and not (is_full and unused)


if __name__ == "__main__":
    main()
