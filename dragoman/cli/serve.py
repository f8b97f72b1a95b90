"""``dragoman serve``: serve models over HTTP until a signal stops the process."""

import argparse
import importlib.util
import logging
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.cli.arguments import ArgumentParser, overrides_of, path_name
from dragoman.cli.models import add_model_flags, check_search_flags
from dragoman.config import WITHOUT_SAMPLING, Setting
from dragoman.config.fields import SettingValue, quote_value
from dragoman.errors import ConfigError, install_advice
from dragoman.kernels.compiling import announce_compiling
from dragoman.messages import say
from dragoman.serving.settings import SERVE_SETTINGS, ServeSettings
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import TerminalProgress

_NEEDED = ("starlette", "uvicorn", "httptools", "multipart", "prometheus_client")
# Settings that a request sets itself, and settings that would make answers differ between requests.
_IGNORED = tuple(f"inference.{name}" for name in ("n_best", "seed", *WITHOUT_SAMPLING))


def run(arguments: Sequence[str]) -> int:
    """Load the models and serve them. Returns the exit code after the service is stopped."""
    options = build_parser().parse(arguments)
    check_search_flags(options)
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"`dragoman serve` needs {', '.join(missing)}. {install_advice('serve')}")
    for text in options.model:  # before the slow imports
        if not os.path.exists(text):
            require_model(text.partition("=")[2] or text)
    from dragoman.serving.app import make_app
    from dragoman.serving.http.keys import Keys
    from dragoman.serving.http.server import bind_socket, has_reload_signal, run_server, url_of_socket
    from dragoman.serving.models import Models, add_terms, load_served_model
    from dragoman.serving.service import Service

    settings = ServeSettings(**{name: getattr(options, name) for name in SERVE_SETTINGS})
    keys = Keys(options.api_keys, settings.requests_per_minute)
    logging.basicConfig(format="dragoman: %(message)s", level=logging.WARNING)
    if has_reload_signal():  # one that arrives during the start takes effect when the server listens
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    load = partial(load_served_model, overrides=overrides_of(options), device=options.device)

    def load_models() -> Models:
        loaded = [load(name, progress=TerminalProgress()) for name in options.model]
        return Models(add_terms(loaded, options.terms), options.pivot)

    async def reload() -> None:
        await service.reload(load_models, keys.reload)
        say(f"{address} translates {', '.join(service.models.pairs)}, reloaded")

    with bind_socket(options.host, options.port) as found:
        announce_compiling()
        service, address = Service(load_models(), settings), url_of_socket(found)
        app, pairs = make_app(service, keys, with_page=not options.no_page), ", ".join(service.models.pairs)
        ready = f"{address} translates {pairs}; see {address}/docs for the API"
        run_server(app, service, found, lambda: say(ready), reload)
    return 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman serve``."""
    parser = ArgumentParser("serve", "dragoman serve run", "dragoman serve en-de=run-a de-en=run-b --port 8000")
    text = "Model folder or run; en-de=FOLDER sets its languages"
    parser.add_argument("model", nargs="+", metavar="MODEL", help=text)
    parser.add_flag("--host", "NAME", "Host name or address to listen on [default: 127.0.0.1]", default="127.0.0.1")
    parser.add_flag("--port", "N", "Port to listen on; 0: any free port [default: 5000]", _port, default=5000)
    parser.add_flag("--pivot", "LANG", "Language to translate through if no model has the pair", default="")
    parser.add_flag("--api-keys", "FILE", "File of API keys, one per line; without it, anyone has access", path_name)
    text = "Terminology: lines of source<TAB>target; en-de=FILE for one of several models"
    parser.add_argument("--terms", action="append", default=[], metavar="FILE", help=text)
    parser.add_switch("--no-page", "Serve only the APIs and /docs, no page at /")
    add_model_flags(parser, without=_IGNORED)
    parser.start_section("Limits")
    for name, one in SERVE_SETTINGS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=_argument_type(one),
            default=one.default,
            metavar="X" if one.kind is float else "N",
            help=f"{one.help} [default: {quote_value(one.default)}]",
        )
    return parser


def _argument_type(setting: Setting) -> Callable[[str], SettingValue]:
    def parse(text: str) -> SettingValue:
        try:
            return setting.parse(text, "")
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error).strip()) from None

    return parse


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, but is {text}.")
    return int(text)
