"""Published clients: calls every public method once and checks the answer."""

import importlib.util
import inspect
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest

from dragoman.serving.service import Service
from tests.unit.text.documents.office.office_files import body_of, docx, odt


@pytest.fixture(scope="module")
def address(make_service: Callable[..., Service], serving: Any) -> Iterator[str]:
    """The address of a server with more target than source languages."""
    with serving(make_service("en-de", "en-fr", "de-en")) as found:
        yield found


DOCUMENTS = {
    "translate_document",
    "translate_document_from_filepath",
    "translate_document_upload",
    "translate_document_get_status",
    "translate_document_wait_until_done",
    "translate_document_download",
}
ANSWERED = {
    *("translate_text", "get_source_languages", "get_target_languages", "get_usage", "set_app_info", "close"),
    *DOCUMENTS,
}
NOT_ASKED = {"upload_translation_memory_file"}  # uses a URL from another answer of DeepL


def test_every_method_of_the_official_deepl_client(address: str, tmp_path: Path) -> None:
    """Unsupported methods raise the client's own error, with the server's message if the client reads it."""
    deepl = pytest.importorskip("deepl")
    client = deepl.DeepLClient("key", server_url=address)
    said: dict[str, str] = {}
    for name, method in inspect.getmembers(client, callable):
        if name.startswith("_") or name in ANSWERED | NOT_ASKED:
            continue
        with pytest.raises(deepl.DeepLException) as error:
            method(**_arguments(deepl, name, method, tmp_path))
        assert error.value.http_status_code == (400 if name == "translate_text_with_glossary" else 404), name
        said[name] = str(error.value)
    assert len(said) > 20
    assert "This server supports /v2/translate" in said["list_glossaries"]
    assert "'glossary_id' not supported: this server has no glossaries" in said["translate_text_with_glossary"]
    assert said.keys() >= {"create_glossary", "rephrase_text"}
    assert [one.code for one in client.get_source_languages()] == ["EN", "DE"]
    assert [one.code for one in client.get_target_languages()] == ["DE", "EN", "FR"]
    answers = client.translate_text(["Hello", "Bye."], source_lang="EN", target_lang="FR")
    assert [one.text for one in answers] == ["Hello [fr]", "Bye. [fr]"]
    assert client.get_usage().character.count >= 9
    assert client.set_app_info("app", "1.0").translate_text("Hi", source_lang="EN", target_lang="DE").text == "Hi [de]"
    client.close()


def _arguments(deepl: Any, name: str, method: Any, folder: Path) -> dict[str, Any]:
    """A valid value for each required parameter."""
    (folder / "in.txt").write_text("Hello")
    entries = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"a": "b"})
    known = {
        "text": "Hello",
        "source_lang": "EN",
        "target_lang": "DE",
        "entries": {"a": "b"},
        "csv_data": "a,b",
        "input_path": folder / "in.txt",
        "handle": deepl.DocumentHandle("id", "key"),
        "glossary_dicts": [entries],
        "glossary_dict": entries,
        "configured_rules": {},
        "content_length": 1,
    }
    given = [each for each in inspect.signature(method).parameters.values() if each.default is each.empty]
    arguments = {each.name: known.get(each.name, "x") for each in given if each.kind is not each.VAR_KEYWORD}
    if name == "translate_text_with_glossary":
        arguments["glossary"] = deepl.GlossaryInfo("id", "name", True, "EN", "DE", None, 1)
    if name == "delete_multilingual_glossary_dictionary":
        arguments |= {"source_lang": "EN", "target_lang": "DE"}
    if name == "download_translation_memory_export":
        result = SimpleNamespace(download_url=f"{method.__self__.server_url}/v3/export")
        arguments["job"] = SimpleNamespace(result=result, job_id="id", done=True, ok=True, status="complete")
    return arguments


RUN = "<w:p><w:r><w:t>Hello</w:t></w:r>%s</w:p>"
FILES = {
    "a.docx": (docx(RUN % ""), RUN % '<w:r><w:t xml:space="preserve"> [de]</w:t></w:r>'),
    "b.odt": (odt("<text:p>Hello</text:p>"), "<text:p>Hello [de]</text:p>"),
}


@pytest.fixture
def deepl(monkeypatch: pytest.MonkeyPatch) -> Any:
    """DeepL's library, which asks for the state of a document more often than every five seconds."""
    library = pytest.importorskip("deepl")
    quick = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 100))
    monkeypatch.setattr("deepl.translator.time", quick)
    return library


@pytest.mark.parametrize("name", FILES)
def test_documents_with_the_official_deepl_client(deepl: Any, address: str, tmp_path: Path, name: str) -> None:
    client, (content, expected) = deepl.DeepLClient("key", server_url=address), FILES[name]
    source, output = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(content)
    status = client.translate_document_from_filepath(
        source, output, source_lang="EN", target_lang="DE", formality="less"
    )
    assert (status.done, status.ok, status.billed_characters) == (True, True, 5)
    assert body_of(output.read_bytes()) == expected
    written = io.BytesIO()
    client.translate_document(io.BytesIO(content), written, target_lang="DE", source_lang="EN", filename=name)
    assert written.getvalue() == output.read_bytes()
    handle = client.translate_document_upload(content, target_lang="DE", source_lang="EN", filename=name)
    assert client.translate_document_wait_until_done(handle).status == deepl.DocumentStatus.Status.DONE
    client.translate_document_download(handle, io.BytesIO())
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_download(handle, io.BytesIO())


def test_errors_of_documents_reach_the_users_of_the_deepl_client(deepl: Any, address: str, tmp_path: Path) -> None:
    client = deepl.DeepLClient("key", server_url=address)
    given = {"target_lang": "DE", "source_lang": "EN"}
    with pytest.raises(deepl.DeepLException, match="The file is a PDF file"):
        client.translate_document_upload(b"%PDF-1.7", filename="a.pdf", **given)
    for upload, words in (
        ({"filename": "a.docx", "glossary": "id"}, "'glossary_id' not supported: this server has no glossaries"),
        ({"filename": "a.docx", "output_format": "pdf"}, "'output_format' not supported: the translation is docx"),
    ):
        with pytest.raises(deepl.DeepLException, match=words) as refused:
            client.translate_document_upload(FILES["a.docx"][0], **given | upload)
        assert refused.value.http_status_code == 400
    (tmp_path / "a.docx").write_bytes(FILES["a.docx"][0][:-30])
    with pytest.raises(deepl.DocumentTranslationException, match="the file is not a complete zip archive") as failed:
        client.translate_document_from_filepath(tmp_path / "a.docx", tmp_path / "out.docx", **given)
    assert not (tmp_path / "out.docx").exists()
    handle = failed.value.document_handle
    assert client.translate_document_get_status(handle).status == deepl.DocumentStatus.Status.ERROR
    with pytest.raises(deepl.DeepLException, match="Not found, message: The document_key does not fit"):
        client.translate_document_get_status(deepl.DocumentHandle(handle.document_id, "other"))


@pytest.mark.parametrize("name", FILES)
def test_documents_as_clients_of_libretranslate_send_them(address: str, name: str) -> None:
    requests = pytest.importorskip("requests")
    fields, (content, expected) = {"source": "en", "target": "de"}, FILES[name]
    answer = requests.post(f"{address}/translate_file", data=fields, files={"file": (name, content)}, timeout=30)
    assert answer.status_code == 200
    translated = requests.get(answer.json()["translatedFileUrl"], timeout=30)
    stem, _, ending = name.partition(".")
    assert translated.headers["content-disposition"] == f'attachment; filename="{stem}_de.{ending}"'
    assert body_of(translated.content) == expected
    assert f".{ending}" in requests.get(f"{address}/frontend/settings", timeout=30).json()["supportedFilesFormat"]


def test_every_method_of_libretranslatepy(address: str) -> None:
    library = pytest.importorskip("libretranslatepy")
    api = library.LibreTranslateAPI(address)
    calls: dict[str, Callable[[], Any]] = {
        "translate": lambda: api.translate("Hello", "en", "de"),
        "languages": lambda: {one["code"]: one["targets"] for one in api.languages()},
    }
    expected = {"translate": "Hello [de]", "languages": {"en": ["de", "en", "fr"], "de": ["de", "en"], "fr": ["fr"]}}
    if importlib.util.find_spec("py3langid"):
        calls["detect"] = lambda: api.detect("Das ist ein deutscher Satz")[0]["language"]
        expected["detect"] = "de"
    public = {name for name, _ in inspect.getmembers(api, callable) if not name.startswith("_")}
    assert public == {*calls, "detect"}
    assert {name: call() for name, call in calls.items()} == expected
    with pytest.raises(HTTPError, match="400"):
        api.translate("Hello", "en", "xx")


def test_every_method_of_deep_translator(address: str, tmp_path: Path) -> None:
    library = pytest.importorskip("deep_translator")
    (tmp_path / "in.txt").write_text("From a file")

    def translator(target: str = "de") -> Any:
        return library.LibreTranslator(source="en", target=target, api_key="x", custom_url=f"{address}/")

    calls: dict[str, Callable[[], Any]] = {
        "translate": lambda: translator().translate("Hello & more"),
        "translate_batch": lambda: translator().translate_batch(["One", "Two"]),
        "translate_file": lambda: translator().translate_file(str(tmp_path / "in.txt")),
        "get_supported_languages": lambda: "de" in translator().get_supported_languages(as_dict=True).values(),
        "is_language_supported": lambda: translator().is_language_supported("de"),
    }
    public = {name for name, _ in inspect.getmembers(translator(), callable) if not name.startswith("_")}
    assert public == calls.keys()
    assert {name: call() for name, call in calls.items()} == {
        "translate": "Hello & more [de]",
        "translate_batch": ["One [de]", "Two [de]"],
        "translate_file": "From a file [de]",
        "get_supported_languages": True,
        "is_language_supported": True,
    }
    with pytest.raises(library.exceptions.ServerException, match="ERR_BAD_REQUEST"):
        translator("it").translate("Hello")
