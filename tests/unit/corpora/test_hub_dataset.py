"""Find the configuration of two languages by the names of configurations."""

import pytest

from dragoman.corpora.hub_dataset import WantedCorpus, _bar_class, choose_config
from dragoman.errors import ConfigError
from dragoman.workflows.progress import Progress

LANGUAGES = "af ar bg bn ca cs cy da el es et eu fa fi ga gl gu he hi hr hu hy id is ka".split()


@pytest.mark.parametrize(
    ("configs", "src", "tgt", "expected"),
    [
        (["ca-de", "en-it"], "en", "it", "en-it"),
        (["ca-de", "en-it"], "it", "en", "en-it"),
        (["iwslt2017-de-en", "iwslt2017-en-de"], "en", "de", "iwslt2017-en-de"),
        (["de-en-filtered", "de-en"], "de", "en", "de-en"),
        (["cs_en", "de_en"], "en", "de", "de_en"),
        (["ace_Latn-ban_Latn", "eng_Latn-deu_Latn"], "en", "de", "eng_Latn-deu_Latn"),
        (["zh-en"], "en", "zh", "zh-en"),
        (["default"], "en", "de", "default"),
    ],
)
def test_the_configuration_of_two_languages(configs: list[str], src: str, tgt: str, expected: str) -> None:
    assert choose_config(configs, WantedCorpus("Someone/corpus", src, tgt)) == expected


def test_a_configuration_by_name() -> None:
    configs = ["deen", "csen"]
    assert choose_config(configs, WantedCorpus("Someone/corpus", "en", "de", config="deen")) == "deen"
    with pytest.raises(ConfigError, match=r"has no configuration den\. It has deen, csen\. Did you mean `deen`\?"):
        choose_config(configs, WantedCorpus("Someone/corpus", "en", "de", config="den"))
    with pytest.raises(ConfigError, match=r"several configurations: deen, csen\. Choose one with `--config`"):
        choose_config(configs, WantedCorpus("Someone/corpus", "en", "de"))


def test_the_pairs_that_exist_are_listed_up_to_a_limit() -> None:
    configs = [f"{first}-{second}" for first in ("en", "de", "fr", "it") for second in LANGUAGES]
    with pytest.raises(ConfigError, match=r"does not have ja-zh\. It has de-af, .* and \d+ more") as caught:
        choose_config(configs, WantedCorpus("Someone/corpus", "ja", "zh"))
    assert len(str(caught.value)) < 600


class Recording(Progress):
    """Remembers all reports."""

    def __init__(self) -> None:
        self.stages: list[tuple[object, ...]] = []

    def stage(self, *report: object) -> None:
        self.stages.append(report)


def test_a_download_reports_its_bytes() -> None:
    pytest.importorskip("tqdm", reason="the extra hub is not installed")
    progress = Recording()
    with _bar_class("downloading x", progress)(total=9000, unit="B") as bar:
        bar.update(4000)
        bar.update(5000)
    assert progress.stages == [("downloading x", 4, 9, "kB"), ("downloading x", 9, 9, "kB")]
