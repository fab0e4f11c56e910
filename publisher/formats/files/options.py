"""Options for reading files, and the columns that a source expects in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len

from publisher.errors import FatalError, OptionProblem, refuse_options
from publisher.formats.columns.charsets import find_codec
from publisher.formats.files.recognise import format_of, hint


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """Options for reading the files of a snapshot."""

    header: Literal["auto", "yes", "no"] = "auto"
    """Whether CSV files begin with column names; ``auto`` checks whether the first record contains
    an expected name. With ``no``, columns of Parquet files are identified by position, too."""
    delimiter: Annotated[str, Len(1, 16)] = ","
    """ASCII characters between the fields of a CSV record."""
    quote: Annotated[str, Len(0, 1)] = '"'
    """ASCII character around CSV text; empty if nothing is quoted."""
    escape: Annotated[str, Len(0, 1)] = ""
    """ASCII character before a quote in quoted text; empty if quotes are doubled."""
    null_text: str | None = None
    """Unquoted text that marks NULL in CSV, in addition to the unquoted empty field."""
    encoding: str = "utf-8"
    """Character encoding of text files."""
    block_size: Annotated[int, Ge(64), Le(1 << 30)] = 4 << 20
    """Bytes of a text file that are split into records at a time."""
    max_record: Annotated[int, Ge(64), Le(1 << 30)] = 64 << 20
    """Maximum bytes of a text record. A longer record is rejected as broken; a CSV record of more than
    twice as many bytes with the rest of the file, because a quote may be open."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for options that make files unreadable."""
        problems = list(self._mark_problems())
        try:
            find_codec(self.encoding)
        except LookupError:
            text = f"{self.encoding} is not a known character encoding; write utf-8, cp1252 ..."
            problems.append(OptionProblem("encoding", text))
        refuse_options(problems)

    def _mark_problems(self) -> Iterator[OptionProblem]:
        """Reports special characters of CSV that are ambiguous."""
        marks = {"delimiter": self.delimiter, "quote": self.quote, "escape": self.escape}
        for name, mark in marks.items():
            if not mark.isascii() or {"\r", "\n"} & set(mark):
                text = f"{mark!r} is not ASCII, or contains a line end; write another character"
                yield OptionProblem(name, text)
        if not self.delimiter or {self.quote, self.escape} & set(self.delimiter):
            yield OptionProblem(
                "delimiter",
                f"{self.delimiter!r} is empty, or contains the quote or the escape; write another delimiter",
            )
        if self.escape and not self.quote:
            text = f"{self.escape!r} has no meaning without quotes; leave it out, or set quote"
            yield OptionProblem("escape", text)

    @property
    def null_texts(self) -> list[str]:
        """Unquoted texts of CSV that mean NULL.

        In files without quotes an empty field is text if another mark of NULL is set.
        """
        if self.null_text is None:
            return [""]
        return ["", self.null_text] if self.quote else [self.null_text]


@dataclass(frozen=True, slots=True)
class ExpectedColumns:
    """The columns that a source expects, by its own names."""

    names: tuple[str, ...]
    """In the order of files without column names; frames have exactly these columns, in this order."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Names that differ in the file: our name to the name in the file."""
    optional: frozenset[str] = frozenset()
    """Columns that may be absent from a JSON object, which means NULL."""
    closed: bool = False
    """Whether a JSON object with any other key is refused."""

    def written_name(self, name: str) -> str:
        """Returns the name that a column of ours has in the file or table."""
        return self.written.get(name, name)

    def locate(self, present: Sequence[str], where: str, *, is_file: bool = True) -> list[int]:
        """Finds the index in ``present`` of each of ``names``: with the same case, else in any case.

        Columns of a file may have no names; columns of a table always have names.

        Raises ``FatalError`` if a column is missing or appears twice.
        """
        exact = [name.strip() for name in present]
        folded = [name.casefold() for name in exact]
        places, problems = [], []
        for name in self.names:
            theirs = self.written_name(name)
            hits = [i for i, other in enumerate(exact) if other == theirs]
            hits = hits or [i for i, other in enumerate(folded) if other == theirs.casefold()]
            if len(hits) != 1:
                problems.append(f"{theirs} is {'present twice' if hits else 'missing'}")
            places.append(hits[0] if hits else -1)
        if problems:
            advice = "Map the names in the settings (columns), or "
            advice += (
                'set header = "no" if the file has no names' if is_file else "name another table"
            )
            raise FatalError(
                f"{where}: the columns do not fit: {', '.join(problems)}; the columns are"
                f" {', '.join(exact) or 'none'}. {advice}{hint(exact, format_of(self.names))}"
            )
        return places

    def names_a_column(self, fields: Sequence[str]) -> bool:
        """Tests whether the fields of a first record look like a header."""
        theirs = {self.written_name(name).casefold() for name in self.names}
        return any(item.strip().casefold() in theirs for item in fields)
