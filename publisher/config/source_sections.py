"""Reads the sources of a job file with the options of their formats."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.config.settings import SourceOptions, SourceSettings
from publisher.config.toml_sections import Problems, Section
from publisher.config.validation import option_names
from publisher.database import urls
from publisher.database.options import DatabaseOptions
from publisher.errors import OptionsError, SettingKey, SettingsError
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.registry import FORMATS
from publisher.planning.filters import FilterOptions, SelectionOptions
from publisher.planning.polls import PollOptions

if TYPE_CHECKING:
    from publisher.engine.contract import EngineName
    from publisher.formats.format import FormatOptions


@dataclass(frozen=True, slots=True)
class Overrides:
    """Options of the command line, which override the job file; ``None`` for options not given."""

    database: str | None = None
    schema: str | None = None
    format: str | None = None
    status: str | None = None
    lanes: int | None = None
    engine: EngineName | None = None
    ledger: Path | None = None


def source_parts(format_: str) -> tuple[type, ...]:
    """The classes of options for sources of one format."""
    descriptor = FORMATS[format_]
    parts: list[type] = [SourceOptions, descriptor.options]
    if descriptor.reads_snapshots:
        parts.append(SnapshotOptions)
    parts.append(FilterOptions if descriptor.names_users else SelectionOptions)
    return (*parts, PollOptions) if descriptor.in_polls else tuple(parts)


def _filters(section: Section, format_: str) -> FilterOptions:
    """The filters of a source, without loopback options if its records name no user."""
    if FORMATS[format_].names_users:
        return section.options(FilterOptions)
    for name in ("driver_user", "allow_loopback"):
        section.refuse(
            name,
            f"records of the format {format_} name no user, so loopback cannot be recognised; leave it"
            " out",
        )
    return FilterOptions(**asdict(section.options(SelectionOptions)))


def path_in(directory: Path, path: str | Path) -> Path:
    """A path of a job file, relative to its directory."""
    return directory / Path(path).expanduser()


def with_url(section: Section, options: DatabaseOptions, directory: Path) -> DatabaseOptions | None:
    """Completes the URL, because tasks may lack the environment variable or run in another directory."""
    if section.concerns("url", "url_env"):
        return None
    key = "url_env" if options.url is None and options.url_env is not None else "url"
    try:
        url = urls.complete_text(urls.resolve_path(options.url, directory), options.url_env)
    except SettingsError as error:
        section.problem(key, error.problems[0].text)
        return None
    return replace(options, url=url, url_env=None)


class SourceSections:
    """Builds the settings of the sources of a job file."""

    def __init__(
        self,
        data: dict[str, object],
        problems: Problems,
        directory: Path,
        overrides: Overrides,
        database: DatabaseOptions | None,
    ) -> None:
        self._data = data
        self._problems = problems
        self._directory = directory
        self._overrides = overrides
        self._database = database
        self.places: list[SettingKey] = []
        """Path of each source in the file."""

    def sources(self) -> tuple[SourceSettings, ...]:
        """Builds the settings of all sources; adds their problems."""
        if "source" in self._data and "sources" in self._data:
            self._problems.add(("source",), "appears beside [[sources]]; keep one of the two")
        if isinstance(self._data.get("source"), list):
            self._problems.add(("source",), "is written [[source]]; write [[sources]], or [source]")
            return ()
        if "sources" not in self._data:
            section = Section(("source",), self._data.get("source", {}), self._problems)
            self.places.append(section.place)
            return (self._source(section),)
        entries = self._data["sources"]
        if not isinstance(entries, list):
            self._problems.add(("sources",), "is one table; write [[sources]], or [source]")
            return ()
        sections = [Section(("sources", i), e, self._problems) for i, e in enumerate(entries)]
        self.places += [section.place for section in sections]
        sources = [self._source(section) for section in sections]
        names = [source.name for source in sources]
        for section, name in zip(sections, names, strict=True):
            if names.count(name) > 1:
                section.problem("name", f"{name} is the name of several sources; give each its own")
        return tuple(sources)

    def _source(self, section: Section) -> SourceSettings:
        section.override(schema=self._overrides.schema, status=self._overrides.status)
        shared = section.options(SourceOptions)
        source = SourceSettings(
            name=shared.name or shared.format,
            format=shared.format,
            snapshots=tuple(path_in(self._directory, path) for path in shared.snapshots),
            table=shared.table,
            copies=shared.copies,
            database=self._database_of(section, shared),
            options=EventLogOptions(),
            reading=SnapshotOptions(),
            filters=FilterOptions(),
            polls=None,
        )
        if section.concerns("format"):  # only the options that all formats share are checked
            section.know(
                name for f in FORMATS for part in source_parts(f) for name in option_names(part)
            )
            section.finish()
            return source
        parts = source_parts(shared.format)
        options: FormatOptions | None = section.entry(FORMATS[shared.format].options)
        source = replace(
            source,
            options=options or source.options,  # None: the problems were added
            reading=section.options(SnapshotOptions)
            if SnapshotOptions in parts
            else source.reading,
            filters=_filters(section, shared.format),
            polls=section.options(PollOptions) if PollOptions in parts else None,
        )
        if options is not None:
            source = self._complete_options(section, source)
        section.finish()
        self._check(section, source)
        return source

    def _complete_options(self, section: Section, source: SourceSettings) -> SourceSettings:
        """Lets the format complete the options of a source; adds their problems."""
        format_ = source.descriptor
        problems = [*format_.find_problems(source.options, is_table=source.table is not None)]
        options = source.options
        try:
            options = format_.complete_options(options, self._directory, source.reading)
        except OptionsError as error:
            problems += error.problems
        for name, text in problems:
            section.problem(name, text)
        return replace(source, options=options)

    def _database_of(self, section: Section, shared: SourceOptions) -> DatabaseOptions | None:
        if shared.url is None and shared.url_env is None:
            return self._database
        options = self._database or DatabaseOptions()
        options = replace(options, url=shared.url, url_env=shared.url_env)
        return with_url(section, options, self._directory)

    def _check(self, section: Section, source: SourceSettings) -> None:
        if source.table is not None and source.snapshots:
            section.problem("table", "appears beside snapshots; keep one of the two")
        format_, is_table = source.descriptor, source.table is not None
        if is_table and format_.compares:
            section.problem("table", 'this format compares tables; write tables = ["NAME"]')
        elif is_table and format_.live is None:
            section.problem("table", f"{source.format} is read from files; set snapshots")
