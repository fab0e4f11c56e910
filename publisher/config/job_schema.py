"""JSON Schema of the job file, for editors: types, bounds, choices, defaults and descriptions.

The schema follows from the options classes.  It accepts every job file that the program accepts; the program
also checks relations between settings, names of time zones, patterns and the like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Len

from publisher.config.descriptions import descriptions, own_fields, owners
from publisher.config.job_file import SECTIONS
from publisher.config.settings import SourceOptions
from publisher.config.source_sections import source_parts
from publisher.config.validation import Choices, option_defaults, required_names
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.engine.spark.options import SparkOptions
from publisher.formats.registry import FORMATS
from publisher.model.catalogue import DeclaredTable
from publisher.xds.document import EnvelopeOptions

Schema = dict[str, Any]

_TYPES: Mapping[type, str] = MappingProxyType(
    {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}
)
_PLACE: Schema = {
    "type": "object",
    "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
"""``{ env = "NAME" }`` or ``{ file = "PATH" }``."""
_CLIENT_SETTING: Schema = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        _PLACE,
        {
            "type": "object",
            "not": {"anyOf": [{"required": ["env"]}, {"required": ["file"]}]},
            "additionalProperties": {"$ref": "#/definitions/client-setting"},
        },
    ]
}
_SPARK_SETTING: Schema = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/spark-setting"}},
    ]
}
"""TOML reads ``spark.sql.x = "y"`` as nested tables."""


def job_schema() -> Schema:
    """Returns the schema (draft 7, which editors for TOML support)."""
    sections = {name: _section(name, kinds) for name, kinds in SECTIONS.items()}
    source = {"$ref": "#/definitions/source"}
    sections["sources"] = {"type": "array", "items": source}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Job file of xds-publisher",
        "type": "object",
        "properties": {"source": source, **sections},
        "additionalProperties": False,
        "not": {"required": ["source", "sources"]},
        "definitions": {
            "source": {"oneOf": [_source(format_) for format_ in FORMATS]},
            "client-setting": _CLIENT_SETTING,
            "spark-setting": _SPARK_SETTING,
        },
    }


def _section(name: str, kinds: tuple[type, ...]) -> Schema:
    if name == "tables":
        table = _object(DeclaredTable)
        del table["required"]  # the name of the section counts
        return {"type": "object", "additionalProperties": table}
    section = _object(*kinds)
    properties = section["properties"]
    if KafkaOptions in kinds:
        setting = {"$ref": "#/definitions/client-setting"}
        properties["kafka"] |= {"additionalProperties": setting}
    if SparkOptions in kinds:
        del properties["conf"]
        section["patternProperties"] = {r"^spark(\.|$)": {"$ref": "#/definitions/spark-setting"}}
    if EnvelopeOptions in kinds:
        del properties["version"]["default"]  # the version of the program
    return section


def _source(format_: str) -> Schema:
    """Returns the schema of sources of one format, which the default format need not name."""
    source = _object(*source_parts(format_))
    is_default = format_ == option_defaults(SourceOptions)["format"]
    source["properties"]["format"] |= {"const": format_}
    if not is_default:
        source["required"] = [*source.get("required", ()), "format"]
    return {"title": format_, **source}


def _object(*kinds: type) -> Schema:
    """Returns the schema of a table with the options of one or several classes."""
    properties = {
        field.name: _property(owner, field)
        for kind in kinds
        for owner in owners(kind)
        for field in own_fields(owner)
        if field.init
    }
    required = [name for kind in kinds for name in required_names(kind)]
    table: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return table | ({"required": required} if required else {})


@cache
def _hints(owner: type) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _property(owner: type, field: Field[Any]) -> Schema:
    hint = _hints(owner)[field.name]
    schema = _schema_of(hint)
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    if default is not None and default is not MISSING:
        if NoneType in get_args(hint):  # ``false`` unsets the text
            schema = {"anyOf": [schema, {"const": False}]}
        schema = {**schema, "default": _plain(default)}
    description = descriptions(owner).get(field.name)
    return {"description": description, **schema} if description else schema


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | frozenset):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _schema_of(hint: Any) -> Schema:
    """Returns the schema of a type; TOML has no null, so ``None`` means an absent setting."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        schema = _bounds_of(arguments[0], arguments[1:])
    elif origin in (Union, UnionType):
        members = [_schema_of(member) for member in arguments if member is not NoneType]
        schema = members[0] if len(members) == 1 else {"anyOf": members}
    elif origin is Literal:
        schema = {"enum": list(arguments)}
    elif origin in (tuple, frozenset):
        schema = {"type": "array", "items": _schema_of(arguments[0])}
    elif origin is not None:
        names = _schema_of(arguments[0])
        bounds = {"propertyNames": names} if len(names) > 1 else {}
        schema = {"type": "object", **bounds, "additionalProperties": _schema_of(arguments[1])}
    elif isinstance(hint, type) and is_dataclass(hint):
        schema = _object(hint)
    elif issubclass(hint, Enum):
        schema = {"enum": [member.value for member in hint]}
    else:
        schema = {"type": _TYPES[hint]}
    return schema


def _bounds_of(hint: Any, marks: tuple[Any, ...]) -> Schema:
    schema: Schema = {}
    for mark in marks:
        if isinstance(mark, Choices):
            return {"enum": list(mark.names)}
        if isinstance(mark, Ge):
            schema["minimum"] = mark.ge
        elif isinstance(mark, Gt):
            schema["exclusiveMinimum"] = mark.gt
        elif isinstance(mark, Le):
            schema["maximum"] = mark.le
        elif isinstance(mark, Len):
            kind = (
                "Length" if hint is str else "Items" if get_origin(hint) is tuple else "Properties"
            )
            schema[f"min{kind}"] = mark.min_length
            if mark.max_length is not None:
                schema[f"max{kind}"] = mark.max_length
    return _schema_of(hint) | schema
