"""Column names of views: variants, forms and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.view_names import ViewName, ViewRole, parse_view_name, view_name_problems

KEYS = ("idu", "idg", "a__b")
COLUMNS = st.sampled_from(["fname", "Phone No", "x__y", "idu", "größe", "p"])


@st.composite
def variants(draw: st.DrawFn, column: str, role: ViewRole) -> str:
    """Any way to write a column with this role."""
    group = draw(st.sampled_from(["", "1_", "20_"]))
    ref = f"_{draw(st.sampled_from(KEYS))}__"
    prefix = {
        ViewRole.VALUE: draw(st.sampled_from(["", "sv_", "mv_"])),
        ViewRole.PRIMARY_KEY: "pk_" + draw(st.sampled_from(["", "sv_"])) + group,
        ViewRole.FOREIGN_KEY: "fk_" + draw(st.sampled_from(["", "sv_", "mv_"])) + group + ref,
    }[role]
    if role is ViewRole.PRIMARY_KEY and draw(st.booleans()):
        prefix += ref
    return draw(st.sampled_from([prefix, prefix.upper(), prefix.title()])) + column


@given(COLUMNS, st.sampled_from(ViewRole), st.data())
def test_every_variant_of_a_name_has_one_effective_name(
    column: str, role: ViewRole, data: st.DataObject
) -> None:
    first, second = (parse_view_name(data.draw(variants(column, role)), KEYS) for _ in range(2))
    assert first.column == second.column == column
    assert first.role is second.role is role
    assert first.schema_name == second.schema_name
    assert first.is_same(second)


@pytest.mark.parametrize(
    ("name", "schema_name", "column", "is_multiple", "ref"),
    [
        ("pk_idu", "pk_idu", "idu", False, None),
        ("pk__idu__idu", "pk_idu", "idu", False, "idu"),
        ("sv_fname", "fname", "fname", False, None),
        ("MV_phoneno", "phoneno", "phoneno", True, None),
        ("fk_mv__idg__mbr_of", "fk_mbr_of", "mbr_of", True, "idg"),
        ("fk_2__idu__manager", "fk_manager", "manager", False, "idu"),
        ("fk__a__b__c", "fk_c", "c", False, "a__b"),
        ("fk_mbr_of", "fk_mbr_of", "mbr_of", False, None),
        ("pk_", "pk_", "pk_", False, None),
        ("plain", "plain", "plain", False, None),
    ],
)
def test_names_of_the_guide(
    name: str, schema_name: str, column: str, is_multiple: bool, ref: str | None
) -> None:
    parsed = parse_view_name(name, KEYS)
    assert (parsed.schema_name, parsed.column) == (schema_name, column)
    assert (parsed.is_multiple, parsed.ref) == (is_multiple, ref)


@given(st.text(min_size=1))
def test_prefixes_belong_to_the_name_without_meta_identifiers(name: str) -> None:
    assert parse_view_name(name, KEYS, enabled=False) == ViewName(name)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["fname"], "no column begins with pk_"),
        (["pk_idu", "fk_manager"], "fk_manager names no key"),
        (["pk_idu", "fk__no__manager"], "refers to no, which is the key of no class"),
        (["pk_idu", "fk__two__manager"], "which is the key of 2 classes"),
        (["pk_idu", "sv_a", "MV_A"], "2 columns have the effective name a"),
        (["pk_idu", "fk_1__idu__a", "fk_1__idu__b"], "2 columns are the foreign key of group 1"),
    ],
)
def test_views_that_are_refused(names: list[str], problem: str) -> None:
    parsed = [parse_view_name(name, ["idu", "two"]) for name in names]
    (text,) = view_name_problems(parsed, {"idu": 1, "two": 2})
    assert problem in text


def test_the_view_of_the_guide_is_accepted() -> None:
    names = ["pk_idu", "sv_fname", "mv_phoneno", "fk__idu__manager"]
    parsed = [parse_view_name(name, ["idu"]) for name in names]
    assert list(view_name_problems(parsed, {"idu": 1})) == []
