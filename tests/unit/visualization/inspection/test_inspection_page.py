import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import torch

from dragoman.bundle import Model, Weights
from dragoman.config import InferenceSettings
from dragoman.model.transformer import Transformer
from dragoman.visualization.inspection.inspection import escape_json, inspection_page
from dragoman.visualization.inspection.inspector import inspect_text

HOSTILE = "</script><script>alert(1)</script><!--\u2028 & <img src=x onerror=alert(2)>"


def test_the_policy_has_the_hashes_of_the_script_and_the_style(trained: Model) -> None:
    page = inspection_page(inspect_text(trained, "one two"))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none';")
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page), "the page loads nothing"
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=", page)


def test_no_text_can_end_the_data_block(trained: Model) -> None:
    inspection = inspect_text(trained, HOSTILE, name=HOSTILE, reference=HOSTILE)
    page = inspection_page(inspection)
    assert page.lower().count("</script>") == 2
    assert page.count("<!--") == 0
    assert "<img" not in page
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == json.loads(inspection.to_json())
    assert json.loads(data)["src"]["text"] == HOSTILE


def test_the_lightness_of_the_colour_scale_is_monotonic_in_both_modes() -> None:
    style = files("dragoman.visualization.inspection").joinpath("page", "page.css").read_text(encoding="utf-8")
    stops = re.findall(r"--scale-\d: (#[0-9a-f]{6})", style)
    assert len(stops) == 10
    for mode, sign in ((stops[:5], -1), (stops[5:], 1)):
        lightness = [
            sum(w * int(stop[at : at + 2], 16) for at, w in ((1, 0.2126), (3, 0.7152), (5, 0.0722))) for stop in mode
        ]
        assert all(sign * (after - before) > 20 for before, after in pairwise(lightness))


def test_escaping_json_keeps_its_value() -> None:
    value = {"a": ["<", ">&", "\u2028\u2029", "\\u003c", "ü"]}
    document = escape_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(document) == value
    assert not set("<>&\u2028\u2029") & set(document)


def test_a_page_of_sixty_by_sixty_tokens_with_all_heads_of_a_base_model_is_at_most_a_megabyte(
    trained: Model,
) -> None:
    size = 60
    settings = replace(trained.config.model, num_heads=8, num_encoder_layers=6, num_decoder_layers=6)
    torch.manual_seed(1)
    large = replace(
        trained,
        weights=Weights.of(
            Transformer(settings, trained.transformer.src_vocab_size, trained.transformer.tgt_vocab_size).eval()
        ),
    )
    text = "q"
    while len(trained.tokenizers.src.encode(text)) < size - 1:
        text += "qz"[len(text) % 2]
    search = InferenceSettings(beam_size=5, min_tokens=size, max_extra_tokens=1)
    inspection = inspect_text(large, text, search)
    cross = inspection.of_kind("cross")
    assert (len(cross.keys), cross.num_layers, cross.num_heads, cross.mean_only) == (size, 6, 8, False)
    assert len(cross.queries) >= size
    assert len(inspection_page(inspection).encode()) <= 1_000_000
