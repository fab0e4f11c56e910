r"""The grammar of ``table_key``: reading, writing and the canonical form.

The reference defines it as::

    table-key             ::= unique-row-identifier { "+" unique-row-identifier }
    unique-row-identifier ::= primary-key-column-name "=" value

A value with any of ``, ; ' + " = \ < >`` is written in double quotes, where ``"`` becomes ``\"`` and ``\``
becomes ``\\``.  The reference does not define these rules:

* Blanks (space, tab, CR, LF) around an unquoted value are not part of it; inside quotes they are.
  Any other character, line breaks in the middle included, is text.
* An unquoted empty value is a problem (a trigger that concatenates NULL writes it); ``""`` is the
  empty string.
* Column names may be quoted by the same rule, so that any name can be written.
* An unquoted special character is a problem, even if its meaning could be guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from publisher.model.catalogue import Table
from publisher.model.names import equal_in_any_case

BLANKS = " \t\r\n"

_SIMPLE_TEXT = r"""[^,;'+"=\\<>\s]+"""
_SIMPLE_TEXT_RE2 = r"[\pL\pN!#-&(-*\-./:?@\[\]^-`{-~]+"
"""As ``_SIMPLE_TEXT`` in RE2's syntax, but only of letters, numbers and characters of ASCII."""
PLAIN_NUMBER = r"(?:-?[1-9][0-9]*|0)"
"""Integers in canonical form, in the syntax of Python and of RE2."""
_PART = f"({_SIMPLE_TEXT})=({_SIMPLE_TEXT})"
_SIMPLE = re.compile(_PART).fullmatch
_SIMPLE_COMPOUND = re.compile(rf"{_PART}(?:\+{_PART})+").fullmatch
_BLANKS = re.compile(r"[ \t\r\n]*").match
_UNQUOTED = re.compile(r"""[^,;'+"=\\<>]*""").match
_QUOTED = re.compile(r'"([^"\\]*(?:\\["\\][^"\\]*)*)"').match
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""[,;'+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\Z|\A\Z""").search
# Atomic groups: otherwise matching a text of zeros takes quadratic time.
_INTEGER = re.compile(r"([+-]?)(?>0*(?=[0-9]))([0-9]++)(?:\.0*)?").fullmatch
_PLAIN_INTEGER = re.compile(PLAIN_NUMBER).fullmatch
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?").fullmatch
_LARGEST_EXPONENT = 1000
_REMEMBERED_COLUMNS = 1000


class KeyProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A key that cannot be used.  ``offset`` counts characters from 0; the message says what to do.

    The offset is 0 if the key follows the grammar, but a value does not fit its column."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return f"key, character {self.offset}: {self.message}"


class KeyPart(NamedTuple):
    """One column of a key; ``value`` is without quotes, escapes and surrounding blanks."""

    column: str
    value: str
    quoted: bool = False


class IdentifierCase(StrEnum):
    """Case of column, table and schema names in keys and associations."""

    AS_WRITTEN = "as written"
    LOWER = "lower"
    UPPER = "upper"
    DATABASE = "database"
    """The database's spelling; as written if the database does not know the name."""

    def apply(self, name: str, database_name: str | None = None) -> str:
        """Converts ``name``; ``database_name`` is its name in the database, or as attribute of a class."""
        if self is IdentifierCase.LOWER:
            return (database_name or name).lower()
        if self is IdentifierCase.UPPER:
            return (database_name or name).upper()
        if database_name is None:
            return name
        is_kept = self is IdentifierCase.AS_WRITTEN and equal_in_any_case(name, database_name)
        return name if is_kept else database_name


def merged_names(table: Table, case: IdentifierCase) -> str | None:
    """Describes two tables, or two columns of one, that would have one name in this case."""
    if case not in (IdentifierCase.LOWER, IdentifierCase.UPPER):
        return None
    folded = {column.casefold(): column for column in table.columns}
    pairs = [("columns of " + table.name, c, folded[c.casefold()]) for c in table.columns]
    pairs += [("tables", table.name, twin) for twin in table.twins]
    return next(
        (
            f'{first!r} and {second!r} are two {what}, and identifier_case = "{case}" would make them one:'
            ' set identifier_case = "database", or rename one of them'
            for what, first, second in pairs
            if first != second
        ),
        None,
    )


def parse(text: str) -> tuple[KeyPart, ...]:
    """Parses a key into its parts in order.  Raises ``KeyProblem``, never another error."""
    simple = _SIMPLE(text)
    if simple is not None:
        return (KeyPart(simple[1], simple[2]),)
    if _SIMPLE_COMPOUND(text) is not None:
        pairs = dict(part.split("=") for part in text.split("+"))
        if len(pairs) == text.count("="):  # otherwise a column is repeated
            return tuple(KeyPart(column, value) for column, value in pairs.items())
    return parse_grammar(text)


def parse_grammar(text: str) -> tuple[KeyPart, ...]:
    """Parses a key by the complete grammar, without the shortcuts of ``parse`` for simple keys."""
    parts: dict[str, KeyPart] = {}
    at = 0
    while True:
        start = at
        column, _, at = _token(text, at)
        if not column:
            raise KeyProblem("a column name is missing: write COLUMN=VALUE", start)
        if column in parts:
            raise KeyProblem(f"column {column!r} appears twice: name each column once", start)
        if not text.startswith("=", at):
            _raise_unexpected(text, at, '"=" is missing after the column name: write COLUMN=VALUE')
        start = at + 1
        value, quoted, at = _token(text, start)
        if at < len(text) and text[at] != "+":
            _raise_unexpected(text, at, "only + may follow a value: put the value in double quotes")
        if not value and not quoted:
            raise KeyProblem('a value is missing: write "" for the empty string', start)
        parts[column] = KeyPart(column, value, quoted)
        if at == len(text):
            return tuple(parts.values())
        at += 1


def _token(text: str, at: int) -> tuple[str, bool, int]:
    """Reads a name or value at ``at``; returns its text, whether it is quoted, the offset after it."""
    at = _end(_BLANKS(text, at))
    if not text.startswith('"', at):
        end = _end(_UNQUOTED(text, at))
        return text[at:end].strip(BLANKS), False, end
    quoted = _QUOTED(text, at)
    if quoted is None:
        _raise_broken_quotes(text, at)
    inner = quoted[1]
    if "\\" in inner:
        inner = _ESCAPE.sub(r"\1", inner)
    return inner, True, _end(_BLANKS(text, quoted.end()))


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # the pattern matches the empty text
    return match.end()


def _raise_unexpected(text: str, at: int, instruction: str) -> NoReturn:
    character = f"{text[at]!r} found, " if at < len(text) else ""
    raise KeyProblem(character + instruction, at)


def _raise_broken_quotes(text: str, start: int) -> NoReturn:
    at = start + 1
    while at < len(text):
        if text[at] == "\\":
            if text[at + 1 : at + 2] not in ('"', "\\"):
                raise KeyProblem(r'inside quotes \ may only precede " or \: write \\', at)
            at += 1
        at += 1
    raise KeyProblem('the closing double quote is missing: add it, write \\" for a quote', start)


def quote(text: str) -> str:
    """Quotes ``text`` if the grammar requires it."""
    if _NEEDS_QUOTES(text) is None:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def format_key(pairs: Iterable[tuple[str, str]]) -> str:
    """Writes the key with these columns and values in the given order.

    Raises ``KeyProblem`` without any column, and for an empty or repeated column name.
    """
    columns: set[str] = set()
    parts: list[str] = []
    for column, value in pairs:
        if not column or column in columns:
            raise KeyProblem(f"column {column!r} is empty or appears twice: name each column once")
        columns.add(column)
        parts.append(f"{quote(column)}={quote(value)}")
    if not parts:
        raise KeyProblem("the key has no column: give the key columns of the table")
    return "+".join(parts)


def integer_text(text: str) -> str | None:
    """The canonical decimal text of an integer (``+01`` and ``1.0`` are ``1``), else ``None``."""
    if _PLAIN_INTEGER(text) is not None:
        return text
    match = _INTEGER(text.strip(BLANKS))
    if match is None:
        return None
    return match[2] if match[1] != "-" or match[2] == "0" else "-" + match[2]


def decimal_text(text: str) -> str | None:
    """The canonical text of a decimal number (``+1.50`` and ``15e-1`` are ``1.5``), else ``None``.

    Works on the text, so that no digit is lost.  Powers of ten beyond 1000 are not accepted.
    """
    match = _DECIMAL(text.strip(BLANKS))
    if match is None or not (match[2] or match[3]):
        return None
    whole, fraction, exponent = match[2], match[3] or "", int(match[4] or 0)
    if abs(exponent) > _LARGEST_EXPONENT:
        return None
    if exponent > 0:
        fraction = fraction.ljust(exponent, "0")
        whole, fraction = whole + fraction[:exponent], fraction[exponent:]
    elif exponent < 0:
        whole = whole.rjust(-exponent, "0")
        whole, fraction = whole[:exponent], whole[exponent:] + fraction
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return "-" + number if match[1] == "-" and number != "0" else number


class KeyForm:
    """The canonical form of the keys of one table: equal text means the same row.

    ``kinds`` has the kind of each known column (the values of ``catalogue.ColumnKind``): numbers are
    normalised.  ``names`` are the database's column names, by default those of ``kinds``.
    A column is found by its exact name, then in any case if that is unambiguous, then by ``find``.
    """

    __slots__ = ("_case", "_find", "_folded", "_kinds", "_names", "_remembered")

    def __init__(
        self,
        kinds: Mapping[str, str] = MappingProxyType({}),
        case: IdentifierCase = IdentifierCase.AS_WRITTEN,
        names: Iterable[str] = (),
        find: Callable[[str], str | None] | None = None,
    ) -> None:
        self._case = case
        self._find = find
        self._kinds = kinds
        self._names = {*names, *kinds}
        self._folded: dict[str, str | None] = {}
        for name in self._names:
            folded = name.casefold()
            self._folded[folded] = None if folded in self._folded else name
        self._remembered: dict[str, tuple[str, str | None]] = {}

    def text(self, key: str) -> str:
        """Converts a key of a source to canonical text.  Raises ``KeyProblem``."""
        simple = _SIMPLE(key)
        if simple is None:
            return self.canonical(parse(key))
        column, value = simple.groups()
        name, kind = self._remembered.get(column) or self.column(column)
        number = value if kind is None else _number(name, kind, value)
        return key if name == column and number == value else self._join({name: number})

    def canonical_pattern(self, column: str) -> str | None:
        """Returns a pattern in RE2's syntax that only keys of this one column in canonical form match.

        ``column`` is a canonical name without special characters.  Some canonical keys do not match;
        ``None`` if none does.
        """
        name, kind = self.column(column)
        value = {None: _SIMPLE_TEXT_RE2, "int": PLAIN_NUMBER}.get(kind)
        if name != column or value is None:
            return None
        return rf"\A{re.escape(column)}={value}\z"

    def canonical(self, parts: Iterable[KeyPart]) -> str:
        """Writes canonical text: columns in code-point order, necessary quotes, plain numbers."""
        values: dict[str, str] = {}
        for part in parts:
            name, kind = self.column(part.column)
            if name in values:
                raise KeyProblem(f"column {name!r} appears twice: name each column once")
            values[name] = part.value if kind is None else _number(name, kind, part.value)
        return self._join(values)

    def _join(self, values: dict[str, str]) -> str:
        return format_key(sorted(values.items()))

    def column(self, written: str) -> tuple[str, str | None]:
        """The canonical name of a column, and its kind if the kind is numeric."""
        remembered = self._remembered.get(written)
        if remembered is not None:
            return remembered
        database_name = written if written in self._names else self._folded.get(written.casefold())
        if database_name is None and self._find is not None:
            database_name = self._find(written)
        name = self._case.apply(written, database_name)
        kind = self._kinds.get(database_name) if database_name is not None else None
        column = name, (kind if kind in _NUMBERS else None)
        if len(self._remembered) < _REMEMBERED_COLUMNS:
            self._remembered[written] = column
        return column


_NUMBERS = MappingProxyType({"int": integer_text, "decimal": decimal_text})


def _number(column: str, kind: str, value: str) -> str:
    number = _NUMBERS[kind](value)
    if number is None:
        shown = value if len(value) <= 40 else value[:40] + "..."
        raise KeyProblem(
            f"{shown!r} is not a number, column {column!r} is of kind {kind}: "
            "fix the key, or declare the column's type in [tables]"
        )
    return number


def canonical(
    parts: Iterable[KeyPart],
    kinds: Mapping[str, str] = MappingProxyType({}),
    case: IdentifierCase = IdentifierCase.AS_WRITTEN,
    names: Iterable[str] = (),
) -> str:
    """Writes one key as canonical text.  For many keys of a table, create one ``KeyForm``."""
    return KeyForm(kinds, case, names).canonical(parts)
