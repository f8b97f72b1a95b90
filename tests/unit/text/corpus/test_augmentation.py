from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DataSettings
from dragoman.text.corpus.cleaning import augment, is_augmented

SRC, TGT = "A man rides his bicycle through the old town.", "Ein Mann fährt mit dem Rad durch die Altstadt."
SHARES = st.floats(0, 1)


def shown(times: int = 4000, pair: tuple[str, str] = (SRC, TGT), **shares: float) -> Counter[tuple[str, str]]:
    settings = DataSettings(**{f"augment_{kind}": share for kind, share in shares.items()})
    return Counter(augment(settings, *pair, 1, index % 7, index) for index in range(times))


def test_case_is_capitals_on_both_sides_or_a_lower_case_source() -> None:
    found = shown(case=0.3)
    assert set(found) == {(SRC, TGT), (SRC.upper(), TGT.upper()), (SRC.lower(), TGT)}
    assert abs(found[SRC, TGT] - 2800) < 4 * 29  # four standard deviations of 4,000 samples
    assert abs(found[SRC.lower(), TGT] - 600) < 4 * 23


def test_the_final_dot_goes_from_both_sides_and_only_where_both_have_one() -> None:
    found = shown(punctuation=0.25)
    assert set(found) == {(SRC, TGT), (SRC[:-1], TGT[:-1])}
    assert abs(found[SRC, TGT] - 3000) < 4 * 27
    for pair in (("Go.", "Geh!"), ("Well ...", "Nun ..."), (".", "."), ("食べる。。", "Iss.")):
        assert set(shown(20, pair, punctuation=1.0)) == {pair}
    assert set(shown(20, ("食べる。", "Iss. "), punctuation=1.0)) == {("食べる", "Iss")}


def test_noise_is_about_one_error_in_twenty_letters_of_the_source_alone() -> None:
    found = shown(noise=1.0)
    assert {tgt for _, tgt in found} == {TGT}
    assert max(abs(len(src) - len(SRC)) for src, _ in found) < 10
    untouched = found[SRC, TGT] / 4000
    # 28 letters are followed by a letter.
    assert abs(untouched - 0.95**28) < 0.04
    assert len(found) > 500


@given(
    st.text(max_size=30), st.text(max_size=30), SHARES, SHARES, SHARES, st.integers(0, 2**31 - 1), st.integers(0, 99)
)
def test_any_text_stays_a_text_of_one_line_and_follows_from_seed_epoch_and_pair(
    src: str, tgt: str, case: float, punctuation: float, noise: float, seed: int, epoch: int
) -> None:
    settings = DataSettings(augment_case=case, augment_punctuation=punctuation, augment_noise=noise)
    first = augment(settings, src, tgt, seed, epoch, 3)
    assert first == augment(settings, src, tgt, seed, epoch, 3)
    for before, after in zip((src, tgt), first, strict=True):
        assert bool(before.strip()) == bool(after.strip())
        assert before.count("\n") >= after.count("\n")


def test_off_is_the_default() -> None:
    assert not is_augmented(DataSettings())
    assert is_augmented(DataSettings(augment_noise=0.1))
    assert set(shown(50)) == {(SRC, TGT)}
