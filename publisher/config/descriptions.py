"""Descriptions of settings: the docstrings under the fields of the options classes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any


def owners(kind: type) -> list[type]:
    """Returns the classes that declare the fields of an options class, base classes first."""
    return [owner for owner in reversed(kind.__mro__) if is_dataclass(owner)]


def own_fields(owner: type) -> list[Field[Any]]:
    """Returns the fields that a class declares itself."""
    return [field for field in fields(owner) if field.name in owner.__annotations__]


@cache
def descriptions(owner: type) -> dict[str, str]:
    """Returns the description of each field that a class declares itself, as one paragraph of Markdown."""
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(declared, ast.ClassDef)
    texts = {}
    for statement, following in zip(declared.body, declared.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            text = inspect.cleandoc(str(following.value.value))
            texts[statement.target.id] = re.sub(r"\s+", " ", text.replace("``", "`"))
    return texts
