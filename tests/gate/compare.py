"""Compares what two programs made of the same cases, and tells intended differences from others."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

MOST_RULES = 40
Result = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """One intended difference."""

    why: str
    format: str
    reason: str = "*"
    """Part of what differs: an outcome with its reason, an object, an exit code."""
    cause: str = ""
    """Pattern of what the new program says."""
    fewer: bool = False
    """True if all documents of the new program must be documents of the old one."""

    def explains(
        self, case: Result, new: Result, differences: Sequence[str], *, fewer: bool
    ) -> bool:
        """Tells whether the differences of a case are those of the rule."""
        return (
            any(fnmatchcase(name, self.format) for name in case["formats"])
            and any(fnmatchcase(text, f"*{self.reason}*") for text in differences)
            and re.search(self.cause, "\n".join(new["messages"])) is not None
            and (fewer or not self.fewer)
        )


def read_rules(path: Path) -> tuple[list[Rule], list[str]]:
    """Reads the intended differences, and the settings that job files no longer have."""
    content = tomllib.loads(path.read_text("utf-8"))
    rules = [Rule(**rule) for rule in content["rule"]]
    if len(rules) > MOST_RULES:
        raise SystemExit(f"{path} has {len(rules)} rules, more than {MOST_RULES}: join some")
    return rules, content["settings_that_went"]


def differences(case: Result, old: Result, new: Result) -> list[str]:
    """The differences of one case, a line each."""
    return [
        *_codes(case, old["codes"], new["codes"]),
        *_counts("", old["outcomes"], new["outcomes"]),
        *_counts("reject ", old["rejects"], new["rejects"]),
        *_counts("header ", old.get("headers", {}), new.get("headers", {})),
        *_documents(old["documents"], new["documents"]),
    ]


def _codes(case: Result, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    """Exit codes that differ; a command after a killed one may have had more or less to do."""
    after_kill = False
    for number, (step, before, now) in enumerate(zip(case["steps"], old, new, strict=True), 1):
        killed = step["kill_after"] is not None
        if before != now and not killed and not after_kill:
            yield f"exit code of {step['words'][0]} (command {number}): {before}, now {now}"
        after_kill = killed


def _counts(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        if old.get(key, 0) != new.get(key, 0):
            yield f"{name}{key}: {old.get(key, 0)}, now {new.get(key, 0)}"


def _documents(old: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        before, now = old.get(name, []), new.get(name, [])
        if before != now:
            at = next(
                (n for n, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]),
                min(len(before), len(now)),
            )
            shown = [
                documents[at] if at < len(documents) else "none" for documents in (before, now)
            ]
            yield f"document {at + 1} of {name}:\n    {shown[0][:1500]}\n    {shown[1][:1500]}"


def has_only_old_documents(old: Result, new: Result) -> bool:
    """True if the new program published nothing that the old one did not publish."""
    return all(
        not Counter(documents) - Counter(old["documents"].get(name, []))
        for name, documents in new["documents"].items()
    )
