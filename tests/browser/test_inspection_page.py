import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.text.tokenization.words import Word
from dragoman.visualization.inspection.attributions import decode_weights, encode_weights
from dragoman.visualization.inspection.inspection import Inspection
from dragoman.visualization.inspection.inspector import inspect_text

Open = Callable[..., Any]
HOSTILE = "</script><script>window.hacked=1;alert(1)</script><img src=x onerror=alert(2)> \u202eone"


def expected_links(inspection: Inspection, src: Sequence[Word], tgt: Sequence[Word]) -> Any:
    """Weights between words, (target, source), computed from the record."""
    shape = len(inspection.tgt.tokens), len(inspection.src.tokens)
    links = np.frombuffer(base64.b64decode(inspection.links), np.uint8).reshape(shape) / 255
    return np.array([[links[t.start : t.stop, s.start : s.stop].sum(1).mean() for s in src] for t in tgt])


def shades(page: Any, side: str) -> list[float | None]:
    found = page.eval_on_selector_all(f"#{side} .word", "nodes => nodes.map((node) => node.dataset.weight ?? null)")
    return [None if weight is None else float(weight) for weight in found]


def matrix(page: Any) -> list[list[int]]:
    """The red channel of the large matrix, by row."""
    return page.evaluate("""() => {
        const canvas = document.querySelector("#matrix canvas");
        const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return [...Array(height).keys()].map((y) => [...Array(width).keys()].map((x) => data[4 * (y * width + x)]));
    }""")


def test_pointing_at_a_word_shades_the_words_it_attends_to_and_the_reverse(open_page: Open) -> None:
    opened = open_page()
    page, inspection = opened.page, opened.inspection
    weights = expected_links(inspection, inspection.src.words, inspection.tgt.words)
    assert page.locator("#tgt .word").all_inner_texts() == [word.text for word in inspection.tgt.words]
    page.locator("#tgt .word").nth(1).hover()
    assert shades(page, "src") == pytest.approx(weights[1].tolist(), abs=2e-3)
    assert shades(page, "tgt") == [None] * len(inspection.tgt.words)
    darkest = int(weights[1].argmax())
    color = page.locator("#src .word").nth(darkest).evaluate("node => getComputedStyle(node).backgroundColor")
    assert color not in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    page.locator("#src .word").nth(2).hover()
    assert shades(page, "tgt") == pytest.approx(weights[:, 2].tolist(), abs=2e-3)
    page.mouse.move(3, 3)
    assert shades(page, "tgt") == [None] * len(inspection.tgt.words)
    assert opened.problems == []


def test_a_click_pins_a_word_and_a_second_click_releases_it(open_page: Open) -> None:
    page = open_page().page
    word = page.locator("#tgt .word").nth(2)
    word.click()
    page.mouse.move(3, 3)
    page.evaluate("document.activeElement.blur()")
    assert word.get_attribute("aria-pressed") == "true"
    assert None not in shades(page, "src")
    word.click()
    page.mouse.move(3, 3)
    page.evaluate("document.activeElement.blur()")
    assert shades(page, "src") == [None] * page.locator("#src .word").count()


def test_subwords_are_the_tokens(open_page: Open) -> None:
    opened = open_page()
    page, inspection = opened.page, opened.inspection
    page.get_by_role("button", name="subwords").click()
    assert page.locator("#src .word").count() == len(inspection.src.tokens)
    tokens = [Word(text, at, at + 1) for at, text in enumerate(inspection.src.tokens)]
    targets = [Word(text, at, at + 1) for at, text in enumerate(inspection.tgt.tokens)]
    page.locator("#tgt .word").nth(0).hover()
    assert shades(page, "src") == pytest.approx(expected_links(inspection, tokens, targets)[0].tolist(), abs=2e-3)
    page.get_by_role("button", name="words", exact=True).click()
    assert page.locator("#src .word").count() == len(inspection.src.words)


def test_arrow_keys_change_layer_and_head_of_the_matrix(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    weights = decode_weights(opened.inspection.of_kind("cross"))

    def is_shown(expected: Any) -> bool:
        """On the light scale the red channel falls as the weight rises."""
        red = np.array(matrix(page), dtype=float)
        order = np.argsort(expected, axis=None)
        return red.shape == expected.shape and bool((np.diff(red.flatten()[order]) <= 0.51).all())

    assert is_shown(weights[1].mean(0)), "it begins with the layer that alignments are read from"
    before = matrix(page)
    for key in ("ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
        assert page.locator("#value").inner_text() == "Layer 2, mean of the heads", "elsewhere the key scrolls"
    page.locator("#matrix").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#value").inner_text() == "Layer 2, max of the heads"
    assert is_shown(weights[1].max(0))
    page.keyboard.press("ArrowRight")
    assert page.locator("#value").inner_text() == "Layer 2, head 1"
    assert is_shown(weights[1, 0])
    page.keyboard.press("ArrowUp")
    assert page.locator("#value").inner_text() == "Layer 1, head 1"
    assert is_shown(weights[0, 0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert matrix(page) == before


def test_kinds_thumbnails_and_values(open_page: Open) -> None:
    opened = open_page()
    page, inspection = opened.page, opened.inspection
    for kind in ("encoder_self", "decoder_self", "cross"):
        one = inspection.of_kind(kind)
        page.locator(f"#kinds button[data-kind={kind}]").click()
        assert (len(matrix(page)), len(matrix(page)[0])) == (len(one.queries), len(one.keys))
        thumbnails = page.locator("#heads .head")
        assert thumbnails.count() == one.num_layers * one.num_heads
        facts = one.heads[1][0]
        text = page.locator(".head[data-layer='1'][data-head='0']").inner_text()
        assert f"{facts.entropy_bits:.1f} bit" in text
        page.locator(".head[data-layer='1'][data-head='0']").click()
        assert page.locator("#value").inner_text() == "Layer 2, head 1"
    page.locator("#matrix canvas").scroll_into_view_if_needed()
    box = page.locator("#matrix canvas").bounding_box()
    cell = box["width"] / len(inspection.of_kind("cross").keys)
    page.mouse.move(box["x"] + 1.5 * cell, box["y"] + 2.5 * cell)
    assert (
        page.locator("#value").inner_text().endswith(f"{decode_weights(inspection.of_kind('cross'))[1, 0, 2, 1]:.3f}")
    )
    assert opened.problems == []


def test_steps_alternatives_beam_and_opinions_are_shown(open_page: Open) -> None:
    opened = open_page()
    page, inspection = opened.page, opened.inspection
    assert page.locator("#steps tr").count() == len(inspection.steps) + 1
    assert page.locator("#n-best li").count() == len(inspection.n_best)
    assert page.locator("#beam g").count() == len(inspection.beam)
    assert page.locator("#beam g.best").count() == sum(node.best for node in inspection.beam)
    looked_at = [step for step in inspection.steps if step.alternatives[0].continuation is not None]
    assert page.locator("#steps details").count() == len(looked_at)
    page.locator("#steps summary").first.click()
    assert page.locator("#steps details").first.locator(".then").count() == 5
    assert page.locator("#opinions figure").count() == 3
    assert "Attention weights do not explain why" in page.locator("main").inner_text()
    assert opened.inspection.reference in page.locator("#reference").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_sentence_runs_nothing_and_nothing_is_loaded(
    open_page: Open, small_bundle: Model, scheme: str
) -> None:
    opened = open_page(inspect_text(small_bundle, HOSTILE, name=HOSTILE, reference=HOSTILE), color_scheme=scheme)
    page = opened.page
    for word in page.locator("#src .word").all():
        word.hover()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "‹U+202E›" in page.locator("#src").inner_text()
    assert opened.problems == []
    assert len(opened.requests) == 1


def test_the_policy_stops_injected_scripts(open_page: Open) -> None:
    opened = open_page()
    opened.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "https://example.org/x.png";
        document.body.append(image);
    }""")
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.hacked === undefined")
    assert len(opened.problems) == 2
    assert all("Content Security Policy" in problem for problem in opened.problems)


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_horizontal_scrolling(open_page: Open, small_bundle: Model, width: int) -> None:
    long_words = inspect_text(small_bundle, "onetwothree" * 12 + " four")
    for shown in (None, long_words):
        opened = open_page(
            *([shown] if shown else []), viewport={"width": width, "height": 800}, is_mobile=True, has_touch=True
        )
        page = opened.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#tgt .word").first.tap()
        assert None not in shades(page, "src")
        page.get_by_role("button", name="subwords").tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.problems == []


def test_right_to_left_text_is_set_right_to_left(open_page: Open, small_bundle: Model) -> None:
    page = open_page(inspect_text(small_bundle, "שלום one")).page
    assert page.locator("#src").get_attribute("dir") == "rtl"
    first, second = (page.locator("#src .word").nth(index).bounding_box()["x"] for index in (0, 1))
    assert first > second


def test_a_text_of_many_tokens_has_a_page(open_page: Open, small_bundle: Model) -> None:
    opened = open_page(inspect_text(small_bundle, "one two " * 110))
    assert "only the mean" in opened.page.locator("#heads-help").inner_text()
    opened.page.locator("#matrix").focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.locator("#value").inner_text() == "Layer 2, mean of the heads"
    assert opened.problems == []


def test_short_sides_keep_all_labels_and_long_sides_some(open_page: Open, small_bundle: Model) -> None:
    opened = open_page(inspect_text(small_bundle, "one two " * 90, InferenceSettings(beam_size=1, max_extra_tokens=1)))
    page, one = opened.page, opened.inspection.of_kind("encoder_self")
    assert 150 < len(one.keys) <= 200
    page.locator("#kinds button[data-kind=encoder_self]").click()
    for axis in (".columns", ".rows"):
        labels = page.locator(f"#matrix {axis} span").all_inner_texts()
        assert all(labels)
        assert len(one.keys) / 4 < len(labels) < len(one.keys) / 2
    cross = opened.inspection.of_kind("cross")
    few = torch.from_numpy(np.ascontiguousarray(decode_weights(cross)[:, :, :3]))
    wide = replace(cross, queries=cross.queries[:3], data=encode_weights(few))
    page = open_page(replace(opened.inspection, weights=(wide, *opened.inspection.weights[1:]))).page
    assert page.locator("#matrix .rows span").all_inner_texts() == list(wide.queries)
    assert len(matrix(page)) == 3
    assert page.locator("#matrix canvas").bounding_box()["height"] >= 3 * 12
    assert opened.problems == []


def test_the_scale_can_be_stretched_to_show_small_weights(open_page: Open, small_bundle: Model) -> None:
    opened = open_page(inspect_text(small_bundle, "one two " * 90, InferenceSettings(beam_size=1, max_extra_tokens=1)))
    page = opened.page
    assert min(map(min, matrix(page))) > 200, "thin: next to the paper's colour"
    assert page.locator("#scale-end").inner_text() == "1"
    page.locator("#stretch").check()
    assert min(map(min, matrix(page))) < 20
    largest = decode_weights(opened.inspection.of_kind("cross"))[1].mean(0).max()
    assert float(page.locator("#scale-end").inner_text()) == pytest.approx(largest, abs=3e-3)
    page.locator("#stretch").uncheck()
    assert min(map(min, matrix(page))) > 200


def test_the_keyboard_reaches_every_cell(open_page: Open) -> None:
    opened = open_page()
    page, cross = opened.page, decode_weights(opened.inspection.of_kind("cross"))
    page.locator("#matrix").focus()
    for key in ("ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(f"Shift+{key}")
    told = page.locator("#value").inner_text()
    assert float(told.rpartition(": ")[2]) == pytest.approx(cross[1].mean(0)[1, 2], abs=3e-3)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    told = page.locator("#value").inner_text()
    assert float(told.rpartition(": ")[2]) == pytest.approx(cross[1].max(0)[1, 1], abs=3e-3), "the cell stays"
    for _ in range(40):
        page.keyboard.press("Shift+ArrowLeft")
    assert page.locator("#value").inner_text().endswith(f"{cross[1].max(0)[1, 0]:.3f}")
    assert "layer 2" in page.locator("#matrix canvas").get_attribute("aria-label").lower()
    assert page.locator("#matrix").get_attribute("role") == "group"
    assert opened.problems == []


def test_keys_and_taps_show_the_details_of_the_beam(open_page: Open) -> None:
    opened = open_page(has_touch=True)
    page, beam = opened.page, opened.inspection.beam
    assert page.locator("#beam g[tabindex='0']").count() == 1
    page.locator("#beam g[tabindex='0']").focus()
    best = [node for node in beam if node.best]
    fact = page.locator("#beam-fact")
    assert f"log-probability {best[0].log_prob:.2f}" in fact.inner_text()
    page.keyboard.press("ArrowRight")
    assert f"log-probability {best[1].log_prob:.2f}" in fact.inner_text()
    assert "part of the translation" in fact.inner_text()
    page.keyboard.press("ArrowDown")
    assert "part of the translation" not in fact.inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert f"log-probability {best[0].log_prob:.2f}" in fact.inner_text()
    page.locator("#beam g.pruned").first.tap()
    assert "pruned" in fact.inner_text()
    assert opened.problems == []


def test_dark_mode_has_its_own_scale(open_page: Open) -> None:
    light, dark = (matrix(open_page(color_scheme=scheme).page) for scheme in ("light", "dark"))
    assert np.shape(light) == np.shape(dark)
    assert light != dark


def luminance(channels: Sequence[int]) -> float:
    """The relative luminance of a colour (WCAG 2)."""
    parts = [value / 255 for value in channels]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """The contrast ratio of two colours (WCAG 2)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_weights_differ_from_zero_and_words_are_readable_on_all_shades(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme).page
    grounds = page.evaluate("""() => {
        const canvas = document.querySelector(".scale");
        const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 1);
        return [...Array(101).keys()].map((share) => {
            const at = 4 * Math.round((share / 100) * (width - 1));
            return [...data.slice(at, at + 3)];
        });
    }""")
    steps = [luminance(ground) for ground in grounds]
    assert steps == sorted(steps, reverse=scheme == "light"), "more weight is always further from the paper"
    if scheme == "dark":  # the eye distinguishes dark colours poorly
        assert contrast(grounds[0], grounds[10]) >= 1.35
        assert contrast(grounds[0], grounds[25]) >= 2.2
    for word in page.locator("#tgt .word").all():
        word.hover()
        shaded = page.eval_on_selector_all(
            "#src .word[data-weight]",
            r"""nodes => nodes.map(getComputedStyle).map(({ backgroundColor, color }) =>
                [backgroundColor, color].map((text) => text.match(/\d+/g).slice(0, 3).map(Number)))""",
        )
        assert shaded
        assert min(contrast(*pair) for pair in shaded) >= 4.5
