"""The state of a consumer as the third side: read from a file, and compared with the documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from publisher.errors import FatalError
from publisher.verify.compare import ObjectEvidence, ResultKind
from publisher.verify.results import AttributeValues, ConsumerResult, Example, first_of_kinds

ObjectTexts = Mapping[str, Mapping[str, set[str]]]
"""The texts of the values of objects, by attribute."""

_ADVICE = 'write {"object": ASSOCIATION, "attribute": NAME, "values": [TEXT, …]}'
_AT_ONCE = 10_000


class DumpRow(NamedTuple):
    """The values of an attribute; an object without attributes has a row without a name."""

    association: str
    attribute: str | None
    values: tuple[str, ...]


def read_dump(path: Path) -> Iterator[Sequence[DumpRow]]:
    """Reads the file of a consumer's state in batches.  Raises ``FatalError`` if it is something else."""
    with path.open("rb") as file:
        rows = (_parse(line, f"{path}:{n}") for n, line in enumerate(file, 1) if line.strip())
        while batch := [*islice(rows, _AT_ONCE)]:
            yield batch


def _parse(line: bytes, place: str) -> DumpRow:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise FatalError(f"{place}: not JSON ({error}): {_ADVICE}") from error
    if not isinstance(content, dict):
        raise FatalError(f"{place}: not an object of JSON: {_ADVICE}")
    return _row(content, place)


def _row(content: Mapping[str, Any], place: str) -> DumpRow:
    association, attribute = content.get("object"), content.get("attribute")
    values = content.get("values")
    is_list = values is None or isinstance(values, list)
    if not (isinstance(association, str) and isinstance(attribute, str | None) and is_list):
        raise FatalError(f"{place}: {str(content)[:80]} is no row of a state: {_ADVICE}")
    return DumpRow(association, attribute, tuple(map(_text, values or ())))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class ConsumerState:
    """The objects of a consumer in one bucket: the texts of values by attribute."""

    objects: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def add(self, row: DumpRow) -> None:
        """Adds a row of the consumer's state."""
        attributes = self.objects.setdefault(row.association, {})
        if row.attribute is not None and row.values:
            attributes.setdefault(row.attribute, set()).update(row.values)

    def compare(
        self, published: ObjectTexts, examples: int, evidence: ObjectEvidence | None = None
    ) -> ConsumerResult:
        """Compares the consumer's objects with those that the documents lead to.

        ``evidence`` is about the consumer's objects, if documents have expired."""
        found: list[Example] = []
        equal = 0
        for name in published.keys() | self.objects.keys():
            example = self._compare_object(name, published, evidence)
            if example is None:
                equal += 1
            else:
                found.append(example)
        counts: dict[str, int] = {}
        for example in found:
            counts[example.kind] = counts.get(example.kind, 0) + 1
        return ConsumerResult(equal, counts, first_of_kinds(found, examples))

    def _compare_object(
        self, name: str, published: ObjectTexts, evidence: ObjectEvidence | None
    ) -> Example | None:
        if name not in self.objects:
            return Example(str(ResultKind.MISSING), name)
        if name not in published:
            has_expired = evidence is not None and not evidence.origins(name)
            return Example(str(ResultKind.EXPIRED if has_expired else ResultKind.SURPLUS), name)
        theirs, ours = self.objects[name], published[name]
        differing = [a for a in sorted(ours.keys() | theirs.keys()) if ours.get(a) != theirs.get(a)]
        if not differing:
            return None
        kind = ResultKind.DIFFERENT
        if evidence is not None:
            known = [a for a in differing if _proves_difference(name, a, theirs, ours, evidence)]
            kind = ResultKind.DIFFERENT if known else ResultKind.EXPIRED
            differing = known or differing
        values = (
            AttributeValues(a, tuple(sorted(theirs.get(a, ()))), tuple(sorted(ours.get(a, ()))))
            for a in differing
        )
        return Example(str(kind), name, tuple(values))


def _proves_difference(
    name: str,
    attribute: str,
    theirs: Mapping[str, set[str]],
    ours: Mapping[str, set[str]],
    evidence: ObjectEvidence,
) -> bool:
    """Tests whether documents show that the consumer's values are wrong.

    Documents that have expired may have added values to those that the others lead to."""
    if not ours.get(attribute, set()) <= theirs.get(attribute, set()):
        return True
    return evidence.knows(name, attribute, is_multiple=True)
