"""The descriptor of a source format: everything that other packages need to know about a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from publisher.formats.files.options import SnapshotOptions
from publisher.model.plain import restore

if TYPE_CHECKING:
    from publisher.database.options import DatabaseOptions
    from publisher.errors import OptionProblem
    from publisher.formats.contract import Source
    from publisher.formats.files.file_splits import Split
    from publisher.formats.live.table_split import DatabaseTable
    from publisher.formats.retry import CorrectedRecord, RetryFiles
    from publisher.formats.waiting_rows import TableBacklog
    from publisher.model.keys import IdentifierCase


class FormatOptions(Protocol):
    """The settings of a source that belong to its format: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def identifier_case(self) -> IdentifierCase:
        """Case of table, schema and column names in keys and documents."""


@dataclass(frozen=True, slots=True)
class LiveFormat:
    """Readers of a format for tables of a database."""

    source: Callable[[Any, DatabaseTable], Source]
    """Creates the source from options and table."""
    backlog: Callable[[Any, DatabaseOptions, str], TableBacklog]
    """Creates the counter of the rows that wait to be read."""
    has_status: bool = False
    """Rows have a status, which shows whether they were published.  For a table without one, the
    state of the source records how far the table was read."""


def _keep_options(
    options: FormatOptions, directory: Path, reading: SnapshotOptions
) -> FormatOptions:
    del directory, reading
    return options


def _no_description(path: Path) -> Path | None:
    del path
    return None


def _no_problems(options: FormatOptions, *, is_table: bool) -> Iterable[OptionProblem]:
    del options, is_table
    return ()


class CompleteOptions(Protocol):
    """Completes the options of a job file: resolves paths relative to its directory, and reads files
    that describe tables.

    Raises ``OptionsError``."""

    def __call__(self, options: Any, directory: Path, reading: SnapshotOptions) -> FormatOptions:
        """Returns the complete options."""


class FindProblems(Protocol):
    """Finds problems of options that their types and their own checks do not show."""

    def __call__(self, options: Any, *, is_table: bool) -> Iterable[OptionProblem]:
        """Yields the problems; ``is_table``: the source is a table, not files."""


class WriteRetry(Protocol):
    """Writes corrected raw records as files of the format, for a source with default settings of files.

    Raises ``UsageError`` for a record that cannot be written."""

    def __call__(
        self, options: Any, records: Sequence[CorrectedRecord], folder: Path
    ) -> RetryFiles:
        """Writes the files into a folder that does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A source format.  Its package creates this object, and the registry lists it."""

    name: str
    """Name in settings, ledger and ``--format``."""
    title: str
    """Title of its page in the reference."""
    position_text: str
    """How users write its positions; ``Source.parse_position`` accepts it."""
    options: type[FormatOptions]
    source: Callable[[Any, SnapshotOptions], Source]
    """Creates the source of files from its options."""
    split: Callable[[], type[Split[Any]]]
    """Returns the type of its splits of files; a ledger stores their plain values."""
    live: LiveFormat | None = None
    """Readers for tables of a database; ``None`` if the format only exists in files."""
    complete_options: CompleteOptions = _keep_options
    find_problems: FindProblems = _no_problems
    reads_snapshots: bool = False
    """Files are CSV, JSON lines or Parquet, read as ``SnapshotOptions`` say."""
    names_users: bool = False
    """Records name the database user who made a change."""
    in_polls: bool = False
    """Changes are planned together by polls; in other formats each change is an operation by itself."""
    in_commits: bool = False
    """Changes are in the order of commits, not in the order of the file."""
    description_of: Callable[[Path], Path | None] = _no_description
    """Returns the file that describes a file; ``None`` if there is none."""
    knows_repetitions: bool = False
    """The source recognises records of earlier files of the job, so equal content is not published
    again."""
    compares: bool = False
    """Whole tables are compared with their last known state."""
    write_retry: WriteRetry | None = None
    """Writes corrected rejected records; ``None`` if they are corrected in their tables."""

    @property
    def has_status(self) -> bool:
        """True if rows of its tables have a status."""
        return self.live is not None and self.live.has_status

    def restore(self, options: Mapping[str, Any], reading: Mapping[str, Any]) -> Source:
        """Restores the source of a ledger from the plain values that the ledger stores."""
        return self.source(restore(self.options, options), restore(SnapshotOptions, reading))
