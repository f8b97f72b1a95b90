"""Signals that make a run save and stop."""

import signal

import pytest

from dragoman.signals import Interrupted, catch_signals, clean_up_when_terminated
from tests.dispositions import disposition_of


@pytest.fixture(autouse=True)
def usual_dispositions():
    with (
        disposition_of(signal.SIGINT, signal.default_int_handler),
        disposition_of(signal.SIGTERM),
        disposition_of(signal.SIGHUP),
    ):
        yield


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_recorded_and_later_signals_act_as_before(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with catch_signals() as request:
        signal.raise_signal(number)
        assert request.signal_number == number
        assert signal.getsignal(number) == before
    assert Interrupted(number).exit_code == 128 + number


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with catch_signals() as request, clean_up_when_terminated():
        signal.raise_signal(signal.SIGHUP)
        assert request.signal_number is None
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_temporary_files_are_removed_when_a_command_is_terminated(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as leaving, clean_up_when_terminated():
        signal.raise_signal(number)
    assert leaving.value.code == 128 + number
    assert signal.getsignal(number) == signal.SIG_DFL
