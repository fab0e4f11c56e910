"""Restores the settings of a run from its journal, and changes some of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from publisher.config.job_file import defaults
from publisher.config.settings import (
    RunOptions,
    Settings,
    SourceSettings,
)
from publisher.config.source_sections import source_parts
from publisher.config.toml_sections import Problems, Section
from publisher.config.validation import option_names, required_names
from publisher.engine.contract import EngineName
from publisher.errors import FatalError, OptionsError, SettingsError, UsageError
from publisher.journal.manifest import Manifest, SourceEntry
from publisher.model.catalogue import Table
from publisher.model.classes import ClassOptions
from publisher.model.plain import restore
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.registry import FORMATS
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions

T = TypeVar("T")

_OF_DOCUMENTS = {"values": ValueOptions, "envelope": EnvelopeOptions, "documents": DocumentOptions}
"""The options classes of ``[documents]`` by the names of their fields in ``Settings``."""


def restore_settings(manifest: Manifest, engine: EngineName = "auto") -> Settings:
    """Restores the settings with which a run was planned, without a database and a sink.

    Raises:
        UsageError: The run is masked.
        FatalError: The journal does not have all settings.
    """
    if manifest.is_masked:
        raise UsageError(
            f"run {manifest.run} is masked, and cannot be planned again: compare it with a second "
            "replay --masked"
        )
    stored: dict[str, Any] = dict(manifest.settings)
    documents = stored.get("documents", {})
    settings = replace(
        defaults(),
        name=manifest.job,
        sources=tuple(
            _source(entry, meaning)
            for entry, meaning in zip(manifest.sources, stored.get("sources", ()), strict=True)
        ),
        tables=tuple(restore(Table, table) for table in stored.get("tables", ())),
        classes=_pick(ClassOptions, documents),
        values=_pick(ValueOptions, documents),
        envelope=_pick(EnvelopeOptions, documents),
        documents=_pick(DocumentOptions, documents),
        run=RunOptions(lanes=manifest.lanes, engine=engine),
    )
    restored = json.loads(settings.meaning())
    if restored | {"database": None} != stored | {"database": None}:
        raise FatalError(
            f"the settings of run {manifest.run} cannot be restored from its journal: {manifest.program} "
            "planned it; plan it with that version"
        )
    return settings


def _source(entry: SourceEntry, meaning: Mapping[str, Any]) -> SourceSettings:
    format_ = FORMATS[entry.format]
    return SourceSettings(
        name=entry.name,
        format=entry.format,
        snapshots=tuple(Path(file.path) for file in entry.files),
        table=entry.table,
        database=None,
        options=restore(format_.options, entry.options),
        reading=restore(SnapshotOptions, entry.reading),
        filters=_pick(FilterOptions, meaning),
        polls=_pick(PollOptions, meaning) if format_.in_polls else None,
    )


def _pick(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Restores the options of one class from those of several classes."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return restore(kind, {name: value for name, value in plain.items() if name in names})


def change_settings(settings: Settings, assignments: Sequence[str]) -> Settings:
    """Changes settings that are given as ``sources.NAME.SETTING=VALUE`` or ``documents.SETTING=VALUE``.

    Values are written as in a job file; text needs no quotes.

    Raises:
        SettingsError: All problems of the assignments.
    """
    problems = Problems()
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        place = tuple(key.strip().split("."))
        problems.from_option(place, f"--set {key}")
        if separator:
            settings = _change(settings, place, _parse(text.strip()), problems)
        else:
            problems.add(place, "has no value; write it as documents.insert_query_back=add")
    if problems:
        raise SettingsError(problems.in_order())
    return settings


def _parse(text: str) -> object:
    """Parses a value as TOML; text without quotes is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _change(
    settings: Settings, key: tuple[str, ...], value: object, problems: Problems
) -> Settings:
    match key:
        case ["sources", name, option]:
            return _change_source(settings, name, option, value, problems)
        case ["documents", option]:
            section = Section(("documents",), {option: value}, problems)
            changed = {
                name: _with(getattr(settings, name), option, section, kind)
                for name, kind in _OF_DOCUMENTS.items()
            }
            section.finish()
            return replace(settings, **changed)
        case ["classes", option]:
            section = Section(("classes",), {option: value}, problems)
            classes = _with(settings.classes, option, section, ClassOptions)
            section.finish()
            return replace(settings, classes=classes)
    problems.add(
        key, "cannot be changed; set sources.NAME.SETTING, documents.SETTING or classes.SETTING"
    )
    return settings


def _with(options: T, option: str, section: Section, kind: type[T]) -> T:
    """Replaces an option if it belongs to this class."""
    if option not in option_names(kind):
        section.know(option_names(kind))
        return options
    return replace(options, **{option: getattr(section.options(kind), option)})  # type: ignore[type-var]


def _change_source(
    settings: Settings, name: str, option: str, value: object, problems: Problems
) -> Settings:
    names = [source.name for source in settings.sources]
    if name not in names:
        text = f"the run has no source {name}; its sources are {', '.join(names)}"
        problems.add(("sources", name, option), text)
        return settings
    source = settings.sources[names.index(name)]
    changed = _with_option(source, option, value, problems)
    return replace(
        settings, sources=tuple(changed if each is source else each for each in settings.sources)
    )


def _with_option(
    source: SourceSettings, option: str, value: object, problems: Problems
) -> SourceSettings:
    required = required_names(type(source.options))
    plain = {name: getattr(source.options, name) for name in required} | {option: value}
    section = Section(("sources", source.name), plain, problems)
    section.know(required)
    parts = source_parts(source.format)[1:]  # without name, format and input
    for part in parts:
        if option not in option_names(part):
            section.know(option_names(part))
        elif part is type(source.options):
            source = replace(source, options=_with(source.options, option, section, part))
        elif part is SnapshotOptions:
            source = replace(source, reading=_with(source.reading, option, section, part))
        elif part is PollOptions and source.polls is not None:
            source = replace(source, polls=_with(source.polls, option, section, part))
        else:
            filters: object = section.options(part)
            source = replace(
                source, filters=replace(source.filters, **{option: getattr(filters, option)})
            )
    section.finish()
    return _complete(source, section)


def _complete(source: SourceSettings, section: Section) -> SourceSettings:
    """Lets the format check and complete the changed options."""
    format_ = source.descriptor
    found = [*format_.find_problems(source.options, is_table=source.table is not None)]
    options = source.options
    try:
        options = format_.complete_options(options, Path.cwd(), source.reading)
    except OptionsError as error:
        found += error.problems
    for name, text in found:
        section.problem(name, text)
    return replace(source, options=options)
