"""Sealed files are read like others, by the processes that have the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError
from publisher.masking.masker import Masking
from publisher.masking.options import MaskingOptions
from publisher.masking.sealed_files import (
    content_path,
    content_size,
    create_private,
    linked_name,
    open_spill,
    release_contents,
    use_masking,
)

CHUNK = 1 << 20


@pytest.fixture(autouse=True)
def masking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Masking]:
    monkeypatch.setenv("MASK_KEY", "k" * 32)
    masking = Masking.of(MaskingOptions(key_env="MASK_KEY"))
    use_masking(masking)
    yield masking
    release_contents()
    use_masking(None)


def write(path: Path, content: bytes) -> Path:
    with create_private(path) as file:
        file.write(content)
    return path


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_the_content_is_read_back(tmp_path: Path, size: int) -> None:
    content = (b"secret" * (size // 6 + 1))[:size]
    path = write(tmp_path / "a.csv", content)
    assert Path(content_path(path)).read_bytes() == content
    assert content_size(path) == size
    assert b"secret" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"one")
    assert Path(content_path(path)).read_bytes() == b"one"
    (tmp_path / "new").mkdir()
    write(tmp_path / "new" / "a", b"three").replace(path)
    assert Path(content_path(path)).read_bytes() == b"three"
    release_contents()
    assert Path(content_path(path)).read_bytes() == b"three"


def test_writers_of_columns_need_no_other_file(tmp_path: Path) -> None:
    table = pa.table({"name": ["Frost"] * 300_000, "number": range(300_000)})
    for name in ("parquet", "arrow"):
        with create_private(tmp_path / name) as file:
            if name == "parquet":
                pq.write_table(table, file)
            else:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
    assert pq.read_table(content_path(tmp_path / "parquet"), memory_map=True) == table
    with pa.memory_map(content_path(tmp_path / "arrow")) as source:
        assert pa.ipc.open_file(source).read_all() == table


def test_files_of_other_runs_are_not_sealed(tmp_path: Path) -> None:
    use_masking(None)
    path = write(tmp_path / "a", b"open")
    assert path.read_bytes() == b"open"
    assert content_path(path) == str(path)


def test_intermediate_values_are_on_disk_only_if_nothing_is_masked(masking: Masking) -> None:
    places = []
    for used in (masking, None):
        use_masking(used)
        with open_spill() as file:
            file.write(b"secret")
            file.seek(0)
            assert file.read() == b"secret"
            places.append(str(Path(f"/proc/self/fd/{file.fileno()}").readlink()))
    assert [place.startswith("/memfd:") for place in places] == [True, False]


def test_only_the_key_opens_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a", b"secret")
    use_masking(None)
    with pytest.raises(FatalError, match="is sealed with a masking key: use a job with"):
        content_path(path)
    monkeypatch.setenv("OTHER_KEY", "l" * 32)
    use_masking(Masking.of(MaskingOptions(key_env="OTHER_KEY")))
    with pytest.raises(FatalError, match="sealed with another masking key"):
        content_path(path)


CHUNK_SIZE = 4 + 12 + CHUNK + 16
END_SIZE = 4 + 12 + 16


def cut(octets: bytes) -> bytes:
    return octets[:-1]


def cut_last_chunk(octets: bytes) -> bytes:
    return octets[:-END_SIZE]


def swap_chunks(octets: bytes) -> bytes:
    start = len(octets) - END_SIZE - 2 * CHUNK_SIZE
    first, second = (octets[at : at + CHUNK_SIZE] for at in (start, start + CHUNK_SIZE))
    return octets[:start] + second + first + octets[-END_SIZE:]


@pytest.mark.parametrize("damage", [cut, cut_last_chunk, swap_chunks])
def test_damage_is_found(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = write(tmp_path / "a", bytes(2 * CHUNK))
    octets = path.read_bytes()
    damaged = damage(octets)
    assert damaged != octets
    path.write_bytes(damaged)
    with pytest.raises(FatalError, match="damaged"):
        content_path(path)


def test_a_chunk_belongs_to_its_file(tmp_path: Path) -> None:
    """Two files with the same name and size: neither a chunk nor the end of one is taken for another's."""
    paths = [tmp_path / folder / "a" for folder in "12"]
    for path in paths:
        path.parent.mkdir()
    one, other = (write(path, bytes(2 * CHUNK)).read_bytes() for path in paths)
    for stop, length in ((len(one), END_SIZE), (len(one) - END_SIZE, CHUNK_SIZE)):
        start = stop - length
        paths[0].write_bytes(one[:start] + other[start:stop] + one[stop:])
        with pytest.raises(FatalError, match="misplaced"):
            content_path(paths[0])


def test_a_file_belongs_to_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "usr.csv", b"content")
    linked = path.with_name(linked_name("kept-1", linked_name("kept-0", path.name)))
    assert linked.name == "kept-1~usr.csv"
    path.rename(linked)
    assert Path(content_path(linked)).read_bytes() == b"content"
    linked.rename(tmp_path / "kept-1~grp.csv")
    with pytest.raises(FatalError, match=r"was written as 'usr\.csv': restore"):
        content_path(tmp_path / "kept-1~grp.csv")


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"content")
    path.write_bytes(path.read_bytes().replace(b"XDS sealed 2", b"XDS sealed 1"))
    with pytest.raises(FatalError, match="sealed by another version of the program"):
        content_path(path)
