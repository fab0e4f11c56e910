"""References to other objects as ``<value>`` elements, which carry the association of their target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from publisher.model.catalogue import ColumnKind
from publisher.model.change import Object, Reason
from publisher.model.keys import KeyForm, KeyPart, KeyProblem
from publisher.xds.association import association
from publisher.xds.escape import ValueProblem, attribute_text, escape_permitted
from publisher.xds.values import Converter, ValueOptions


class ReferenceTarget(NamedTuple):
    """The class that a column refers to, as associations name it."""

    schema: str | None
    table: str
    key: str
    """Column of its key."""
    kind: ColumnKind | None


@dataclass(frozen=True, slots=True)
class ReferenceConverter(Converter):
    """Converts the text form of a foreign key to a reference; ``content`` is the whole element."""

    def __call__(self, text: str) -> str:
        """Converts a text to the element.  Raises ``ValueProblem``."""
        return self.content(text)

    def around(self, content: str) -> str:
        """Returns the content, which is an element already."""
        return content


def reference_converter(
    target: ReferenceTarget,
    options: ValueOptions,
    padded: bool = False,
) -> Converter:
    """Returns the converter of a column that refers to ``target``."""
    kinds = {} if target.kind is None else {target.key: str(target.kind)}
    form = KeyForm(kinds, names=[target.key])
    shown = _SHOWN[options.reference_text]
    trim = padded and options.trim_padding

    @lru_cache(maxsize=_REMEMBERED)  # many objects refer to the same managers and groups
    def content(value: str) -> str:
        part = KeyPart(target.key, value.rstrip(" ") if trim else value, quoted=True)
        try:
            key = form.canonical([part])
        except KeyProblem as problem:
            raise ValueProblem(
                Reason.VALUE, f"reference to {target.table}: {problem.message}"
            ) from None
        name = association(Object(target.schema, target.table, key))
        escaped = attribute_text(name, "the reference")
        return f'<value type="dn" association-ref="{escaped}">{shown(name, key)}</value>'

    return ReferenceConverter("dn", content, None)


_REMEMBERED = 4096
_SHOWN: Mapping[str, Callable[[str, str], str]] = {
    "association": lambda name, _key: escape_permitted(name),
    "key": lambda _name, key: escape_permitted(key),
    "empty": lambda _name, _key: "",
}
