"""Batches of sources: every one once, within the budget."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.segments import Source, token_batches


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 5), st.integers(1, 3000), st.integers(1, 4))
def test_every_source_with_ids_is_in_one_batch_within_the_budget(
    lengths: list[int], rows: int, budget: int, workers: int
) -> None:
    sources = [Source(str(number), [7] * length) for number, length in enumerate(lengths)]
    batches = list(token_batches(sources, rows, budget, workers))
    names = [source.name for batch in batches for source in batch]
    assert sorted(names) == sorted(source.name for source in sources if source.ids)
    for batch in batches:
        assert len(batch) == 1 or max(one.length for one in batch) * len(batch) * rows <= budget
