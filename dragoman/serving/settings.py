"""How much the service takes on, and how long anybody may wait for it."""

from dataclasses import dataclass

from dragoman.config.fields import describe
from dragoman.config.settings import setting


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What a running service is bounded by; the flags of ``dragoman serve`` have these names and defaults."""

    lanes: int = setting(0, "batches translated side by side, a thread each; 0: as processors", minimum=0, maximum=256)
    batch_tokens: int = setting(4096, "estimated source tokens translated at once", minimum=1)
    batch_sentences: int = setting(64, "sentences translated at once", minimum=1)
    batch_wait_ms: float = setting(
        5.0, "under load, wait so long for more sentences before a batch; none when idle", minimum=0.0, maximum=1000.0
    )
    max_requests: int = setting(256, "requests that wait or are translated; more are refused (503)", minimum=1)
    max_wait_seconds: float = setting(
        1.5, "a request that would wait longer for the work before it is refused (503)", above=0.0
    )
    deadline_seconds: float = setting(
        9.0, "what is not translated by then is refused (503): many clients give up after 10", above=0.0
    )
    max_chars: int = setting(5000, "characters of a text", minimum=1)
    max_texts: int = setting(1000, "texts of a request", minimum=1)
    max_alternatives: int = setting(5, "alternative translations of a text", minimum=0, maximum=100)
    max_body_bytes: int = setting(1 << 20, "bytes of a request", minimum=1)
    max_file_bytes: int = setting(10 << 20, "bytes of a file to translate", minimum=1)
    max_files: int = setting(100, "files kept for their download, for half an hour each", minimum=1)
    body_seconds: float = setting(10.0, "a request that takes longer to arrive is cut off (408)", above=0.0)
    requests_per_minute: int = setting(0, "of one API key, or without keys of one address; 0: any number", minimum=0)
    drain_delay_seconds: float = setting(
        1.0, "after SIGTERM, /readyz says no for so long before new connections are refused", minimum=0.0
    )
    drain_seconds: float = setting(30.0, "at SIGTERM, time for requests that have begun", minimum=0.0)


@dataclass(frozen=True, slots=True)
class _Tables:
    serve: ServeSettings = ServeSettings()


SERVE_SETTINGS = {setting.name: setting for setting in describe(_Tables).values()}
"""Every setting of the service by its name, with its range and help text."""
