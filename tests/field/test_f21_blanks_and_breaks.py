"""Carriage return, tab, NEL and edge blanks survive writing and parsing.

Elsewhere CR became LF, and line breaks in attributes became blanks. XML 1.0 §2.11 and §3.3.3: a parser
normalises them unless they are character references.
"""

from __future__ import annotations

import pytest

from tests.support.workbench import Workbench, event, log_file

VALUES = [
    *("a\r\nb", "a\rb", "\ta\t", "  two  ", " ", "\u0085", "\u00a0", "\u2028"),
    *("]]>", "&amp;", "\n", "<a b='c'>"),
]


@pytest.mark.parametrize("value_format", ["xml", "json"])
def test_values_and_keys_are_parsed_as_they_were_logged(
    bench: Workbench, value_format: str
) -> None:
    events = [event(f"idu={n}", 3, "fname", new=value) for n, value in enumerate(VALUES)]
    events += [event(f'idu="{value}"', 3, "lname", new="x") for value in VALUES]
    bench.write("log.csv", log_file(events))
    bench.write(
        "job.toml",
        f'[[sources]]\nsnapshots = ["log.csv"]\n[documents]\nvalue_format = "{value_format}"\n',
    )

    bench.replay("log.csv", "-c", "job.toml")

    assert len(bench.lines()) == len(events)
    objects = bench.objects()
    assert {objects[f"idu={n},table=usr"]["fname"][0]: n for n in range(len(VALUES))} == {
        value: n for n, value in enumerate(VALUES)
    }
    keys = {name for name, attributes in objects.items() if "lname" in attributes}
    assert len(keys) == len(VALUES)
    quoted = {key.removeprefix("idu=").removesuffix(",table=usr").strip('"') for key in keys}
    assert quoted == set(VALUES)


@pytest.mark.parametrize("name", ["a\tb", "x\ny"])
def test_names_with_inner_breaks_are_parsed_as_they_were_logged(
    bench: Workbench, name: str
) -> None:
    bench.write("log.csv", log_file([event("idu=1", 3, name, new="v")]))
    bench.replay("log.csv")
    assert bench.objects() == {"idu=1,table=usr": {name: ("v",)}}


@pytest.mark.parametrize(
    ("name", "published"),
    [(" e ", " e"), ("\te", "\te")],  # blanks at the end fill a CHAR column of the log
)
def test_a_name_with_blanks_at_its_edge_is_never_another_column(
    bench: Workbench, name: str, published: str
) -> None:
    events = [event("idu=1", 3, "e", new="plain"), event("idu=1", 3, name, new="edged")]
    bench.write("log.csv", log_file(events))
    bench.replay("log.csv")
    assert bench.objects() == {"idu=1,table=usr": {"e": ("plain",), published: ("edged",)}}
