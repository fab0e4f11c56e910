"""Tables of the job file, alone and over those of a database."""

from dataclasses import replace

import pytest

from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, LayeredCatalogue, Table


class Everything:
    """A database that has these tables and no others."""

    closed = True

    def __init__(self, *tables: Table) -> None:
        self._tables = {table.name: table for table in tables}

    def table(self, schema: str | None, name: str) -> Table | None:
        return self._tables.get(name)


USR = Table("hr", "usr")
ANY = Table(None, "usr")


@pytest.mark.parametrize(
    ("tables", "asked", "found"),
    [
        ((USR,), ("hr", "usr"), USR),
        ((USR,), (None, "usr"), USR),
        ((USR,), ("crm", "usr"), None),
        ((USR,), ("HR", "USR"), USR),
        ((USR,), ("hr", "user"), None),
        ((ANY,), ("hr", "usr"), ANY),
        ((ANY, USR), ("hr", "usr"), USR),
        ((ANY, USR), ("crm", "usr"), ANY),
        ((USR, Table("crm", "usr")), (None, "usr"), None),
        ((USR, Table("hr", "USR")), ("hr", "USR"), Table("hr", "USR")),
        ((USR, Table("hr", "USR")), ("hr", "Usr"), None),
        ((), ("hr", "usr"), None),
    ],
)
def test_the_job_file_is_asked_by_the_name_that_the_source_writes(
    tables: tuple[Table, ...], asked: tuple[str | None, str], found: Table | None
) -> None:
    catalogue: Catalogue = JobCatalogue(tables)
    answer = catalogue.table(*asked)
    assert (answer and replace(answer, twins=())) == found
    assert not catalogue.closed


class TestLayers:
    DATABASE = Table(
        "HR",
        "USR",
        key=("IDU",),
        columns={"IDU": ColumnKind.DECIMAL, "FNAME": ColumnKind.STRING, "LNAME": ColumnKind.STRING},
        complete=True,
        padded=frozenset({"LNAME"}),
    )

    def layer_over_database(self, *tables: Table) -> Table:
        database = Everything(self.DATABASE)
        table = LayeredCatalogue(JobCatalogue(tables), database).table(None, "USR")
        assert table is not None
        return table

    def test_the_database_alone_is_taken_as_it_is(self) -> None:
        assert self.layer_over_database() == self.DATABASE

    def test_the_job_file_wins_for_the_kinds_that_it_names_whatever_their_case(self) -> None:
        table = self.layer_over_database(
            Table(None, "usr", columns={"idu": ColumnKind.INT}, padded=frozenset({"fname"}))
        )
        assert table.columns == {
            "IDU": ColumnKind.INT,
            "FNAME": ColumnKind.STRING,
            "LNAME": ColumnKind.STRING,
        }
        assert list(table.columns) == ["IDU", "FNAME", "LNAME"]
        assert table.padded == {"FNAME", "LNAME"}
        assert (table.schema, table.name, table.key) == ("HR", "USR", ("IDU",))

    def test_a_column_that_the_database_does_not_have_is_not_added(self) -> None:
        assert (
            "PIN"
            not in self.layer_over_database(
                Table(None, "USR", columns={"PIN": ColumnKind.INT})
            ).columns
        )

    def test_a_key_of_the_job_file_serves_where_the_database_has_none(self) -> None:
        view = Table("hr", "view_usr", columns={"pk_idu": ColumnKind.INT}, complete=True)
        job = JobCatalogue([Table(None, "view_usr", key=("pk_idu",))])
        table = LayeredCatalogue(job, Everything(view)).table("hr", "view_usr")
        assert table is not None
        assert table.key == ("pk_idu",)

    def test_a_table_of_the_job_file_exists_also_where_the_database_lacks_it(self) -> None:
        both = LayeredCatalogue(JobCatalogue([USR]), Everything())
        assert both.table("hr", "usr") == USR
        assert both.table("hr", "other") is None
        assert both.closed
