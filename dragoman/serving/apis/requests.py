"""What the APIs share: reading the languages of a request, and checking its texts."""

from dragoman.serving.http.refusals import Refused
from dragoman.serving.service import AUTO, RequestOptions, Service


def request_options(service: Service, source: str, target: str) -> RequestOptions:
    """The languages of a request. Raises Refused where they are missing or not served."""
    for name, value in (("source", source), ("target", target)):
        if not value:
            raise Refused(400, f"Invalid request: missing {name} parameter")
    return RequestOptions(
        source=AUTO if source == AUTO else _find_language(service, source),
        target=_find_language(service, target),
        deadline=service.settings.deadline_seconds,
    )


def _find_language(service: Service, code: str) -> str:
    found = service.models.find(code)
    if found is None:
        raise Refused(400, f"{code} is not supported")
    return found


def check_texts(service: Service, texts: list[str]) -> list[str]:
    """Raises Refused for more texts, or longer ones, than the server takes."""
    settings = service.settings
    longest = max(map(len, texts), default=0)
    for size, most in ((len(texts), settings.max_texts), (longest, settings.max_chars)):
        if size > most:
            raise Refused(400, f"Invalid request: request ({size}) exceeds text limit ({most})")
    return texts
