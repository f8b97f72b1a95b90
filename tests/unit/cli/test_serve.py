from pathlib import Path

import pytest

from dragoman.cli.main import run_command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist. Name a model folder, a run of `dragoman train`, or `demo`."),
        (["MODEL"], "MODEL has no languages. Write them in front of it: en-de=MODEL."),
        (["en=MODEL"], "the languages in `en=MODEL` must be a pair such as en-de, but are `en`."),
        (["en-de=MODEL", "EN-de=MODEL"], "MODEL and MODEL both translate en-de. Serve one of them."),
        (["en-de=MODEL", "--pivot", "fr"], "`--pivot` must be one of en, de, but is fr."),
        (["en-de=MODEL", "--tag", "legal"], "`inference.tag` (`--tag`) is 'legal', but the model has no tags. Leave"),
        (["en-de=MODEL", "--api-keys", "nowhere"], "nowhere does not exist. "),
        (["MODEL", "--port", "70000"], "`--port` must be from 0 to 65535, but is 70000."),
        (["MODEL", "--max-wait", "1"], "`--max-wait` is not a flag of `dragoman serve`. Did you mean"),
        (["MODEL", "--max-texts", "0"], "`--max-texts` must be at least 1, but is 0."),
        (["MODEL", "--inference.n-best", "2"], "`--inference.n-best` is not a flag of `dragoman serve`."),
        (["MODEL", "--inference.mbr-samples", "4"], "`--inference.mbr-samples` is not a flag of `dragoman serve`."),
        (["MODEL", "--host", "nowhere.invalid"], "cannot serve at nowhere.invalid:5000: "),
        (["en-de=MODEL", "--url-prefix", "a b"], "`--url-prefix` must be a path such as /mt, but is a b."),
        (["en-de=MODEL", "--url-prefix", "/../x"], "`--url-prefix` must be a path such as /mt, but is /../x."),
        (["en-de=MODEL", "--url-prefix", "v1"], "`--url-prefix` must not be /v1, because the server has other paths"),
        (["MODEL", "--public-url", "example.org/mt"], "`--public-url` must be a URL such as https://example.org/mt, "),
        (
            ["MODEL", "--public-url", "https://x/mt?a=b"],
            "`--public-url` must be a URL such as https://example.org/mt, ",
        ),
        (["MODEL", "--public-url", "https://u:p@x"], "`--public-url` must be a URL such as https://example.org/mt, "),
        (["MODEL", "--public-url", "http://[x"], "`--public-url` must be a URL such as https://example.org/mt, "),
        (["MODEL", "--trusted-proxies", "10.0.0.0/8,nowhere"], "`--trusted-proxies` must be addresses such as 127.0."),
        (["MODEL", "--trusted-proxies", "10.0.0.1/8"], "`--trusted-proxies` must be addresses such as 127.0.0.1, 10."),
        (["MODEL", "--cors", "example.org"], "`--cors` must be *, none, or origins such as https://example.org, "),
        (["MODEL", "--cors", "https://x/path"], "`--cors` must be *, none, or origins such as https://example.org, "),
        (["MODEL", "--cors", "https://x,,"], "`--cors` must be *, none, or origins such as https://example.org, "),
        (["MODEL", "--access-log", "/"], "`--access-log` cannot write /: Is a directory. Choose another file."),
        (["MODEL", "--unix-socket", "s", "--port", "1"], "`--unix-socket` and `--port` must not both be given. Leave"),
        (["MODEL", "--unix-socket", "s", "--host", "h"], "`--unix-socket` and `--host` must not both be given. Leave"),
        (["MODEL", "--unix-socket", "MODEL"], "cannot serve at MODEL: it exists and is not a socket. Choose another"),
        (["MODEL", "--unix-socket", "MODEL/x/y"], "cannot serve at MODEL/x/y: No such file or directory. Choose"),
        (["MODEL", "--unix-socket", "MODEL" + "y" * 90], f"cannot serve at MODEL{'y' * 90}: AF_UNIX path too long. "),
        ([], "MODEL is missing."),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvicorn")
    known = [one.replace("MODEL", str(model_folder)) for one in arguments]
    has_address = {"--host", "--port", "--unix-socket"} & set(known)
    assert run_command([*["serve", *known], *([] if has_address else ["--port", "0"])]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    expected = message if message == "MODEL is missing." else message.replace("MODEL", str(model_folder))
    assert said.startswith(f"dragoman: {expected}"), said


def test_help_has_every_limit_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["serve", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--port N Port to listen on; 0: any free port [default: 5000]" in said
    assert "--max-requests N Maximum number of open requests; more are refused (503) [default: 256]" in said
    assert "--deadline-seconds X" in said
