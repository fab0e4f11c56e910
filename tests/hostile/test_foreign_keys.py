"""Foreign keys that no driver's guide shows: cycles, a child of two parents, names with dots and quotes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.golden.test_classes import database_job, operations_of, outcomes_of, replay_events

pytestmark = pytest.mark.usefixtures("local_engine")

CYCLE = """
CREATE TABLE dept (idd INTEGER PRIMARY KEY, head INTEGER REFERENCES usr, above INTEGER REFERENCES dept);
CREATE TABLE usr (idu INTEGER PRIMARY KEY, dept INTEGER REFERENCES dept, boss INTEGER REFERENCES usr);
INSERT INTO dept VALUES (1, 1, 1), (2, 2, 1);
INSERT INTO usr VALUES (1, 1, 2), (2, 1, 1);
"""
TWO_PARENTS = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY);
CREATE TABLE grp (idg INTEGER PRIMARY KEY);
CREATE TABLE member (idg INTEGER REFERENCES grp, idu INTEGER REFERENCES usr);
INSERT INTO usr VALUES (1), (2);
INSERT INTO grp VALUES (7);
INSERT INTO member VALUES (7, 1), (7, 2), (7, 1), (8, 1), (7, NULL), (NULL, 1);
"""
QUOTED = """
CREATE TABLE "o'ha.ra" ("k.y" INTEGER PRIMARY KEY, "y.x" TEXT);
CREATE TABLE "y" ("of k.y" INTEGER REFERENCES "o'ha.ra", "a""b" TEXT);
CREATE TABLE "y.z" ("of k.y" INTEGER REFERENCES "o'ha.ra", "x" TEXT);
INSERT INTO "o'ha.ra" VALUES (1, 'own');
INSERT INTO "y" VALUES (1, 'child');
INSERT INTO "y.z" VALUES (1, 'dotted');
"""


def test_cycles_of_foreign_keys_are_references_on_both_sides(tmp_path: Path) -> None:
    events = ["6|dept|idd=1", "6|usr|idu=1", "2|usr|idu=2|boss|1|2", "4|dept|idd=2", "6|usr|idu=3"]
    folder = replay_events(tmp_path, events, job=database_job(tmp_path, CYCLE))
    assert Counter(outcomes_of(folder, 5)) == {"published": 4, "ignored: row-gone": 1}
    references = [text.count(b"association-ref=") for text in operations_of(folder)]
    assert sorted(references) == [0, 2, 2, 2]


def test_a_child_of_two_parents_belongs_to_the_first_and_refers_to_the_second(
    tmp_path: Path,
) -> None:
    events = ["6|grp|idg=7", "6|usr|idu=1", "8|member|idg=8|idu", "1|member|idu=1|idg||7"]
    folder = replay_events(tmp_path, events, job=database_job(tmp_path, TWO_PARENTS))
    assert outcomes_of(folder, 4) == [
        "published",
        "ignored: nothing-to-publish",
        "ignored: row-gone",
        "rejected: table-key",
    ]
    (group,) = operations_of(folder)
    assert group.count(b"association-ref=") == 2
    assert b'attr-name="member.idu"' in group


@pytest.mark.parametrize(
    ("exclude", "attributes"),
    [
        ("", [b"y.a&quot;b", b"y.x", b"y.z.x"]),
        ('exclude = ["y"]', [b"y.x", b"y.z.x"]),
        ('exclude = ["y.z"]', [b"y.a&quot;b", b"y.x"]),
        ('exclude_columns = ["x"]', [b"y.a&quot;b", b"y.x"]),
        ('exclude_columns = ["y.x"]', [b"y.a&quot;b", b"y.z.x"]),
    ],
)
def test_names_with_dots_and_quotes_are_told_apart(
    exclude: str, attributes: list[bytes], tmp_path: Path
) -> None:
    job = database_job(tmp_path, QUOTED).replace("[database]", f"{exclude}\n[database]")
    events = [
        """6|"o'ha.ra"|k.y=1""",
        """3|"o'ha.ra"|"k.y"=2|y.x||1""",
        """3|"o'ha.ra"|k.y=2|"y.z".x||2""",
        """3|y|k.y=2|a"b||3""",
    ]
    folder = replay_events(tmp_path, events, job=job)
    outcomes = Counter(outcomes_of(folder, 4))
    assert outcomes == {"published": len(attributes) + 1} | (
        {"ignored: excluded": 1} if len(attributes) < 3 else {}
    )
    whole, fields = sorted(operations_of(folder), key=lambda text: b"k.y=2" in text)
    for name in attributes:
        assert whole.count(b'attr-name="' + name + b'"') == 1
        assert fields.count(b'attr-name="' + name + b'"') == 1
    assert whole.count(b"attr-name=") == fields.count(b"attr-name=") == len(attributes)
