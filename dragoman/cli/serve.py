"""``dragoman serve``: serve models over HTTP until a signal stops the process."""

import argparse
import importlib.util
import logging
import os
import signal
import socket
from contextlib import AbstractContextManager
from functools import partial

from dragoman.cli.arguments import ArgumentParser, Options, argument_type, path_name
from dragoman.config import WITHOUT_SAMPLING
from dragoman.config.fields import quote_value
from dragoman.display import say
from dragoman.errors import ConfigError, install_advice
from dragoman.serving.limits import SERVE_SETTINGS, ServeSettings
from dragoman.signals import hold_reloads
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import TerminalProgress

_NEEDED = ("starlette", "uvicorn", "httptools", "multipart", "prometheus_client")
_HOST, _PORT = "127.0.0.1", 5000
# Settings that a request sets itself, and settings that would make answers differ between requests.
_IGNORED = tuple(f"inference.{name}" for name in ("n_best", "seed", *WITHOUT_SAMPLING))

# Metavar, default and help of the flags that `Deployment.from_flags` reads.
_DEPLOYMENT = {
    "url_prefix": ("PATH", "", "Path below which a proxy shows the server, such as /mt"),
    "public_url": ("URL", "", "Address for clients, such as https://example.org/mt [default: from each request]"),
    "trusted_proxies": ("ADDRESSES", "", "Proxies whose headers count: 127.0.0.1,10.0.0.0/8,unix [default: none]"),
    "cors": ("ORIGINS", "*", "Web origins whose pages may read answers, none, or * for all [default: *]"),
    "access_log": ("FILE", "", "Log each request as a line of JSON; -: standard output [default: no log]"),
}


def run(options: Options) -> None:
    """Load the models, and serve them until the service is stopped."""
    with hold_reloads() as held:
        _serve(options, held)


def _serve(options: Options, held: list[int]) -> None:
    options.model_request()  # checks the flags
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"`dragoman serve` needs {', '.join(missing)}. {install_advice('serve')}")
    for text in options.model:  # before the slow imports
        if not os.path.exists(text):
            require_model(text.partition("=")[2] or text)
    from dragoman.serving.app import make_app
    from dragoman.serving.http.forwarding import Deployment
    from dragoman.serving.http.keys import Keys
    from dragoman.serving.http.server import Server, run_server, url_of_socket
    from dragoman.serving.models import Models, add_terms, drop_unknown_tags, load_served_model
    from dragoman.serving.service import Service

    settings = ServeSettings(**{name: getattr(options, name) for name in SERVE_SETTINGS})
    keys = Keys(options.api_keys, settings.requests_per_minute)
    deployment = Deployment.from_flags(**{name: getattr(options, name) for name in _DEPLOYMENT})
    logging.basicConfig(format="dragoman: %(message)s", level=logging.WARNING)
    load = partial(load_served_model, overrides=options.overrides(), device=options.device)

    def load_models() -> Models:
        loaded = [load(name, progress=TerminalProgress()) for name in options.model]
        drop_unknown_tags(loaded, TerminalProgress())
        return Models(add_terms(loaded, options.terms), options.pivot)

    async def reload() -> None:
        await service.reload(load_models, keys.reload)
        say(f"{address} translates {', '.join(service.models.pairs)}, reloaded")

    def ready() -> None:
        say(f"{address} translates {pairs}; see {public_url}/docs for the API")
        if held:
            signal.raise_signal(held[0])

    with _bind(options) as found:
        service, address = Service(load_models(), settings), url_of_socket(found)
        app, pairs = make_app(service, keys, not options.no_page, deployment), ", ".join(service.models.pairs)
        public_url = deployment.public_url or (address if options.unix_socket is None else "") + deployment.prefix
        run_server(Server(app, service, ready, reload), found)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman serve``."""
    parser = ArgumentParser("serve", "dragoman serve run", "dragoman serve en-de=run-a de-en=run-b --port 8000")
    text = "Model folder or run; en-de=FOLDER sets its languages"
    parser.add_argument("model", nargs="+", metavar="MODEL", help=text)
    parser.add_flag("--host", "NAME", f"Host name or address to listen on [default: {_HOST}]")
    parser.add_flag("--port", "N", f"Port to listen on; 0: any free port [default: {_PORT}]", _port)
    parser.add_flag("--unix-socket", "PATH", "Unix socket to listen on instead, for its owner and group", path_name)
    parser.add_flag("--pivot", "LANG", "Language to translate through if no model has the pair", default="")
    parser.add_flag("--api-keys", "FILE", "File of API keys, one per line; without it, anyone has access", path_name)
    text = "Terminology: lines of source<TAB>target; en-de=FILE for one of several models"
    parser.add_argument("--terms", action="append", default=[], metavar="FILE", help=text)
    parser.add_switch("--no-page", "Serve only the APIs and /docs, no page at /")
    parser.add_model_flags(without=_IGNORED)
    parser.start_section("Proxies")
    for name, (metavar, default, text) in _DEPLOYMENT.items():
        parser.add_flag(f"--{name.replace('_', '-')}", metavar, text, default=default)
    parser.start_section("Limits")
    for name, one in SERVE_SETTINGS.items():
        text, metavar = f"{one.help} [default: {quote_value(one.default)}]", "X" if one.kind is float else "N"
        parser.add_flag(f"--{name.replace('_', '-')}", metavar, text, argument_type(one), one.default)
    return parser


def _bind(options: Options) -> AbstractContextManager[socket.socket]:
    """The socket of the flags, bound. Raises ConfigError if it is not available, or if flags exclude each other."""
    from dragoman.serving.http.server import bind_socket, bind_unix_socket

    if options.unix_socket is None:
        return bind_socket(options.host or _HOST, _PORT if options.port is None else options.port)
    for flag, value in (("--host", options.host), ("--port", options.port)):
        if value is not None:
            raise ConfigError(f"`--unix-socket` and `{flag}` must not both be given. Leave one out.")
    return bind_unix_socket(options.unix_socket)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, but is {text}.")
    return int(text)
