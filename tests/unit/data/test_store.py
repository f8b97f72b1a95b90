import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.store import PairStore, id_dtype, open_if_current, write_store
from dragoman.errors import DataError
from dragoman.files import remove_leftovers, write_folder
from dragoman.text.tokenization.encoding import RaggedIds

rows = st.lists(st.lists(st.integers(0, 70_000 - 1), max_size=8), max_size=12)


def write(folder: Path, key: str = "key", src: list[list[int]] | None = None, vocab_size: int = 100) -> None:
    src = [[5, 6], [], [7]] if src is None else src
    with write_store(folder, key, vocab_size, vocab_size) as writer:
        writer.append(RaggedIds.of(src), RaggedIds.of([ids[::-1] for ids in src]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(chunks=st.lists(rows, max_size=4))
def test_what_was_appended_comes_back(tmp_path: Path, chunks: list[list[list[int]]]) -> None:
    with write_store(tmp_path / "store", "key", 70_000, 70_000) as writer:
        for chunk in chunks:
            writer.append(RaggedIds.of(chunk), RaggedIds.of([ids[::-1] for ids in chunk]))
    store = PairStore(tmp_path / "store", "key")
    expected = [ids for chunk in chunks for ids in chunk]
    assert len(store) == len(expected)
    assert [store.src_ids(index).tolist() for index in range(len(store))] == expected
    assert [store.tgt_ids(index).tolist() for index in range(len(store))] == [ids[::-1] for ids in expected]
    assert store.src_counts.tolist() == store.tgt_counts.tolist() == [len(ids) for ids in expected]
    assert store.src_counts.dtype == np.int32


def test_text_notes_and_key_come_back(tmp_path: Path) -> None:
    texts = ["Grüß dich\u2028\n", "", "ὦ 𝄞 \udc80"]
    with write_store(tmp_path / "store", "key", 10, 10, keep_text=True) as writer:
        writer.append(RaggedIds.of([[4], [], [5]]), RaggedIds.of([[], [4], []]), texts, texts[::-1])
        writer.notes["dropped"] = 3
    store = PairStore(tmp_path / "store")
    assert [store.src_text(index) for index in range(3)] == texts
    assert [store.tgt_text(index) for index in range(3)] == texts[::-1]
    assert store.notes == {"dropped": 3}
    assert store.key == "key"


@pytest.mark.parametrize(("vocab_size", "size"), [(8, 2), (65_535, 2), (65_536, 4), (1_000_000, 4)])
def test_ids_take_four_bytes_only_where_two_do_not_hold_the_vocabulary(
    tmp_path: Path, vocab_size: int, size: int
) -> None:
    write(tmp_path / "store", src=[[vocab_size - 1, 0]], vocab_size=vocab_size)
    assert id_dtype(vocab_size).itemsize == size
    assert PairStore(tmp_path / "store").src_ids(0).tolist() == [vocab_size - 1, 0]


@pytest.mark.parametrize("ids", [[100], [-1], [70_000]])
def test_an_id_outside_the_vocabulary_is_refused_and_nothing_remains(tmp_path: Path, ids: list[int]) -> None:
    with pytest.raises(ValueError, match="between 0 and 99"):
        write(tmp_path / "store", src=[ids])
    assert list(tmp_path.iterdir()) == []


def test_sides_of_different_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same number"), write_store(tmp_path / "store", "key", 10, 10) as writer:
        writer.append(RaggedIds.of([[4]]), RaggedIds.of([]))


def test_a_pair_that_does_not_exist_is_an_index_error(tmp_path: Path) -> None:
    write(tmp_path / "store")
    for index in (-1, 3):
        with pytest.raises(IndexError):
            PairStore(tmp_path / "store").src_ids(index)


def test_another_key_asks_for_a_new_store(tmp_path: Path) -> None:
    write(tmp_path / "store", key="old")
    assert open_if_current(tmp_path / "store", "old") is not None
    assert open_if_current(tmp_path / "store", "new") is None
    with pytest.raises(DataError, match="another corpus"):
        PairStore(tmp_path / "store", "new")
    write(tmp_path / "store", key="new", src=[[9]])
    assert len(PairStore(tmp_path / "store", "new")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_an_exception_while_writing_keeps_the_store_that_was_there(tmp_path: Path) -> None:
    write(tmp_path / "store", key="old")
    with pytest.raises(ValueError, match="same number"), write_store(tmp_path / "store", "new", 10, 10) as writer:
        writer.append(RaggedIds.of([[4]]), RaggedIds.of([[4], [5]]))
    assert len(PairStore(tmp_path / "store", "old")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_killed_build_counts_for_nothing(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from dragoman.data.store import write_store\n"
        "from dragoman.text.tokenization.encoding import RaggedIds\n"
        "context = write_store(Path(sys.argv[1]), 'key', 10, 10); writer = context.__enter__()\n"
        "writer.append(RaggedIds.of([[4]] * 1000), RaggedIds.of([[5]] * 1000)); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "store")], env=os.environ)
    assert killed.returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    assert open_if_current(tmp_path / "store", "key") is None
    remove_leftovers(tmp_path)
    write(tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("name", ["src.u2", "src.offsets", "tgt.u2", "tgt.offsets", "manifest.json"])
@pytest.mark.parametrize("harm", ["shortened", "lengthened", "changed", "missing"])
def test_a_damaged_store_is_noticed(tmp_path: Path, name: str, harm: str) -> None:
    write(tmp_path / "store")
    file = tmp_path / "store" / name
    content = file.read_bytes()
    if harm == "missing":
        file.unlink()
    else:
        changed = content[:-1] + bytes([content[-1] ^ 1])
        file.write_bytes({"shortened": content[:-1], "lengthened": content + b"}", "changed": changed}[harm])
    with pytest.raises(DataError, match="store"):
        PairStore(tmp_path / "store")
    assert open_if_current(tmp_path / "store", "key") is None


def test_a_store_of_another_version_is_made_again(tmp_path: Path) -> None:
    with write_folder(tmp_path / "store", {"format": "dragoman pairs 0", "key": "key"}):
        pass
    with pytest.raises(DataError, match="another version"):
        PairStore(tmp_path / "store", "key")


def test_what_is_no_store_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    for name in ("missing", "empty", "file"):
        assert open_if_current(tmp_path / name, "key") is None
