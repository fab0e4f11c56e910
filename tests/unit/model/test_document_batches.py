"""Documents leave in order, none before its turn, however they came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model import document_batches
from publisher.model.change import Document, Object, Position
from publisher.model.document_batches import Documents, Outbox


def document(rank: int, key: str = "idu=1") -> Document:
    return Document(
        object=Object("s", "usr", key),
        position=Position("", rank, 0, 0),
        poll=rank // 10,
        operation="modify",
        association=f"{key},table=usr",
        event_id=f"log:{rank}",
        text=f"<nds>{rank} ü</nds>",
        rows=(rank, rank + 1000),
        records=f"{rank},{rank + 1000}",
    )


def flatten(batches: list[Documents]) -> list[Document]:
    return [document for batch in batches for document in batch]


def test_documents_by_the_column_are_the_same_documents() -> None:
    documents = [document(3), document(4)._replace(object=Object(None, "usr", "idu=2"))]
    batch = Documents.of([(3, documents[0]), (4, documents[1])])
    assert list(batch) == documents
    assert batch.bytes == sum(len(found.text.encode()) for found in documents)
    assert list(batch.slice(1, 2)) == documents[1:]
    assert batch.slice(1, 2).bytes == len(documents[1].text.encode())


@given(
    st.sets(st.integers(1, 60)),
    st.sets(st.integers(1, 60)),
    st.sampled_from([1, 5, 9, 60]),
    st.sampled_from([1, 2, 7, 1 << 10]),
    st.lists(st.integers(1, 61), max_size=4),
)
def test_documents_leave_in_order_and_none_too_early(
    batched: set[int], single: set[int], cut: int, portion: int, places: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_batches, "_PORTION", portion)
        check_order(batched, single, cut, places)


def check_order(batched: set[int], single: set[int], cut: int, places: list[int]) -> None:
    outbox = Outbox()
    single -= batched
    ranks = sorted(batched)
    for start in range(0, len(ranks), cut):
        part = ranks[start : start + cut]
        outbox.add_batch(Documents.of([(rank, document(rank)) for rank in part]))
    for rank in sorted(single, reverse=True):
        outbox.add(rank, document(rank))
    everything = sorted(batched | single)
    assert outbox.count == len(everything)
    seen: list[int] = []
    for place in sorted(places):
        seen += [
            found.position.high
            for found in flatten(outbox.take(("", place, Position("", 0, 0, 0))))
        ]
        assert seen == [rank for rank in everything if rank < place]
    seen += [found.position.high for found in flatten(outbox.take())]
    assert seen == everything
    assert outbox.count == 0


def test_one_record_id_of_two_objects_goes_by_association() -> None:
    outbox = Outbox()
    outbox.add(7, document(7, "idu=2"))
    outbox.add(7, document(7, "idu=1"))
    assert [found.object.key for found in flatten(outbox.take())] == ["idu=1", "idu=2"]
    assert (outbox.count, outbox.bytes) == (0, 0)


def test_only_the_portion_that_gets_a_document_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_batches, "_PORTION", 4)
    outbox = Outbox()
    batch = Documents.of([(2 * rank, document(2 * rank)) for rank in range(12)])
    outbox.add_batch(batch)
    outbox.add(11, document(11))
    parts = outbox.take()
    assert [len(part) for part in parts] == [4, 5, 4]
    shared = [part.batch["text"].buffers()[2].address for part in (parts[0], parts[2])]
    assert shared == [batch.batch["text"].buffers()[2].address] * 2
    assert [found.position.high for found in parts[1]] == [8, 10, 11, 12, 14]
