"""Promises of training: a resumed run equals an uninterrupted one, and accumulation changes only the memory."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Card, Model, Weights, resolve_model_folder
from dragoman.config import PRESETS, Config, TokenizerSettings, TrainSettings, ValidateSettings
from dragoman.data.batch import Batch
from dragoman.data.batching import micro_batches
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import Encode, load_batch
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import CheckpointError, ResourceError
from dragoman.model.transformer import Transformer
from dragoman.records import SentencePair
from dragoman.signals import Interrupted
from dragoman.text.tokenization.encoding import BpeDropout
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer
from dragoman.training import loop
from dragoman.training.distributed import Processes
from dragoman.training.loop import Loop
from dragoman.training.run.checkpoint import means_of, set_weights
from dragoman.training.run.log import LogLines, RunLog
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.session import TrainingSession
from dragoman.training.step import replica
from dragoman.training.step.gradients import Gradients
from dragoman.training.step.memory import MemoryPlan, plan_memory
from dragoman.training.step.optimizer import build_optimizer
from dragoman.training.trainer import choose_mean, fit, restore_session
from tests.dispositions import disposition_of


@dataclass(frozen=True)
class Corpus:
    pairs: tuple[SentencePair, ...]
    tokenizers: TokenizerPair
    train: InMemoryPairs
    dev: InMemoryPairs
    encode: Encode


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """600 sentences of the phrasebook with BPE dropout on."""
    pairs = tuple(SentencePair(pair.src, pair.tgt) for pair in load_phrasebook().generate(seed=1, count=600))
    settings = TokenizerSettings(vocab_size=500)
    tokenizer = train_tokenizer(settings, [text for pair in pairs for text in (pair.src, pair.tgt)])
    ids = [tokenizer.encode_batch([getattr(pair, side) for pair in pairs]) for side in ("src", "tgt")]
    dropout = BpeDropout(tokenizer, 0.1)

    def encode(index: int, epoch: int) -> tuple[list[int], list[int]]:
        return tuple(  # type: ignore[return-value]
            dropout.encode(text, 1, epoch, index, side)
            for side, text in enumerate((pairs[index].src, pairs[index].tgt))
        )

    return Corpus(
        pairs,
        TokenizerPair(tokenizer, tokenizer, joint=True),
        InMemoryPairs(ids[0][:500], ids[1][:500]),
        InMemoryPairs(ids[0][500:], ids[1][500:]),
        encode,
    )


CONFIG = Config(
    model=replace(PRESETS["tiny"], d_model=32, d_ff=48, num_encoder_layers=1, num_decoder_layers=1, dropout=0.2),
    train=TrainSettings(
        batch_tokens=400,
        max_steps=70,
        patience=0,
        precision="float32",
        device="cpu",
        log_every_steps=7,
        warmup_steps=20,
    ),
    validate=ValidateSettings(every_epochs=1, metric="loss"),
)


def _session(
    corpus: Corpus,
    folder: Path,
    config: Config = CONFIG,
    stop_after: int | None = None,
    signal_number: int = signal.SIGTERM,
) -> TrainingSession:
    """Build a session that sends itself a signal when it logs step `stop_after`."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(config.train.seed)
    model = Transformer(config.model, corpus.tokenizers.src.vocab_size, corpus.tokenizers.tgt.vocab_size)

    class Log(RunLog):
        def progress(self, event: dict[str, object], seconds_left: float | None) -> None:
            super().progress(event, seconds_left)
            if event["step"] == stop_after:
                os.kill(os.getpid(), signal_number)

    def validate(model: Transformer) -> Mapping[str, float]:
        torch.rand(3)  # random numbers used in a validation must not change the training steps after it
        return {}

    trained = Model(Weights.of(model), corpus.tokenizers, config, Card())
    return TrainingSession(
        RunFolder(folder), trained, corpus.train, corpus.dev, validate, Log(folder, LogLines(sys.stderr)), corpus.encode
    )


def _log(folder: Path) -> list[dict[str, object]]:
    """Return the log without times."""
    lines = (folder / "log.jsonl").read_text().split("\n")
    timed = {"seconds", "tokens_per_second"}
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines if line]


@pytest.fixture(scope="module")
def straight(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> TrainingSession:
    """A session that trained all steps without a stop."""
    session = _session(corpus, tmp_path_factory.mktemp("straight"))
    assert fit(session) == "train.max_steps = 70 reached"
    return session


@pytest.mark.parametrize(
    ("stops", "signal_number"),
    [
        pytest.param((14,), signal.SIGTERM, marks=pytest.mark.slow),
        ((7, 28, 56), signal.SIGINT),
        ((7,), signal.SIGHUP),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    corpus: Corpus, straight: TrainingSession, tmp_path: Path, stops: tuple[int, ...], signal_number: int
) -> None:
    for stop in stops:
        stopped = _session(corpus, tmp_path / "resumed", stop_after=stop, signal_number=signal_number)
        with disposition_of(signal.SIGHUP), pytest.raises(Interrupted) as error:
            fit(stopped)
        assert error.value.exit_code == 128 + signal_number
        assert stopped.state.step == stop
    resumed = _session(corpus, tmp_path / "resumed")
    fit(resumed)
    for name, parameter in straight.transformer.named_parameters():
        assert torch.equal(parameter, dict(resumed.transformer.named_parameters())[name]), name
    assert _log(tmp_path / "resumed") == _log(straight.run.path)
    assert {event["event"] for event in _log(straight.run.path)} == {"train", "validation"}
    assert replace(resumed.state, seconds=0) == replace(straight.state, seconds=0)


def test_a_warmup_fitted_to_the_time_changes_only_the_rate(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run equals a run with this warm-up in its settings bit for bit, so measuring has no effect."""
    monkeypatch.setattr(
        "dragoman.training.loop.TrainingPace.steps_until", lambda self, train: (30.0, "train.max_minutes")
    )
    limited = replace(CONFIG, train=replace(CONFIG.train, max_steps=12, max_minutes=60))
    taken: list[Config] = []
    chosen = _session(corpus, tmp_path / "chosen", limited)
    chosen.fits, chosen.freeze = {"train.warmup_steps": 20}, taken.append
    fit(chosen)
    given = _session(corpus, tmp_path / "given", replace(limited, train=replace(limited.train, warmup_steps=5)))
    fit(given)
    assert all(
        torch.equal(*pair) for pair in zip(chosen.transformer.parameters(), given.transformer.parameters(), strict=True)
    )
    assert _log(tmp_path / "chosen") == _log(tmp_path / "given")
    assert [config.train.warmup_steps for config in taken] == [chosen.model.config.train.warmup_steps] == [5]
    said = capsys.readouterr().err
    assert said.count("allows about 30 steps: the warm-up is 5 steps instead of 20 (`train.warmup_steps`).") == 1
    resumed = _session(corpus, tmp_path / "chosen", replace(limited, train=replace(taken[0].train, max_steps=14)))
    resumed.fits, resumed.freeze = {"train.warmup_steps": 20}, taken.append
    fit(resumed)
    assert len(taken) == 1, "a run whose limits allow no more steps keeps its warm-up"


def test_a_disk_that_is_too_small_is_refused_before_the_first_step(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.training.limits.free_space", lambda folder: 2_000_000)
    session = _session(corpus, tmp_path)
    with pytest.raises(ResourceError, match=r"2,000,000 bytes free, but the checkpoints .* need \d,\d{3},\d{3}"):
        fit(session)
    assert not (tmp_path / "checkpoints").exists()
    short = replace(CONFIG, train=replace(CONFIG.train, max_steps=1, keep_checkpoints=2, average_last=0))
    monkeypatch.setattr("dragoman.training.limits.free_space", lambda folder: 3_500_000)
    fit(_session(corpus, tmp_path, short))


def test_several_processes_stop_when_the_first_has_saved(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher kills all processes when one ends, and must not kill the first while it writes."""
    stopped = _session(corpus, tmp_path, stop_after=7)
    met: list[int] = []
    gather = Processes.gather

    def meet(processes: Processes, value: object) -> list[object]:
        if value is None:
            met.extend(stopped.run.steps())
        return gather(processes, value)

    monkeypatch.setattr(Processes, "gather", meet)
    with pytest.raises(Interrupted):
        fit(stopped)
    assert met == [7]


def test_muon_ema_and_averages_resume_exactly_and_their_weights_are_candidates(corpus: Corpus, tmp_path: Path) -> None:
    levers = replace(CONFIG.train, optimizer="muon", ema_decay=0.9, schedule="cosine", max_steps=28)
    train = replace(levers, threads=2, average_best=2, average_last=0, keep_checkpoints=2)
    config = replace(CONFIG, train=train, validate=replace(CONFIG.validate, every_steps=10))
    straight, stopped = (
        _session(corpus, tmp_path / "straight", config),
        _session(corpus, tmp_path / "resumed", config, 14),
    )
    fit(straight)
    with pytest.raises(Interrupted):
        fit(stopped)
    resumed = _session(corpus, tmp_path / "resumed", config)
    fit(resumed)
    assert all(
        torch.equal(*pair)
        for pair in zip(straight.transformer.parameters(), resumed.transformer.parameters(), strict=True)
    )
    means = means_of(resumed.run.steps(), resumed.state, config.train)
    assert [mean.ema_decay for mean in means] == [0.0, 0.9]
    scores = sorted(resumed.state.validations, key=lambda record: -record.score)
    assert set(means[0].steps) == {record.step for record in scores[:2]}
    for mean in means:
        ours, theirs = (mean.weights(each.run, each.transformer) for each in (straight, resumed))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    running = means[1].weights(resumed.run, resumed.transformer)
    assert any(not torch.equal(running[name], parameter) for name, parameter in resumed.transformer.named_parameters())
    # The chosen weights are the best of all measured ones.
    best = resumed.state.best
    assert best is not None
    measured = [best.score]
    for mean in means:
        set_weights(resumed.transformer, mean.weights(resumed.run, resumed.transformer))
        measured.append(resumed.score_of(resumed.measure(resumed.transformer)))
    choose_mean(resumed)
    chosen = Model.load(resolve_model_folder(tmp_path / "resumed"), "cpu")
    set_weights(resumed.transformer, dict(chosen.transformer.named_parameters()))
    assert resumed.score_of(resumed.measure(resumed.transformer)) == pytest.approx(max(measured), abs=1e-5)
    assert chosen.card.ema_decay == (0.9 if measured[2] == max(measured) else 0.0)


def test_a_lost_checkpoint_costs_only_the_steps_since_the_previous_one(corpus: Corpus, tmp_path: Path) -> None:
    config = replace(CONFIG, train=replace(CONFIG.train, max_steps=35, checkpoint_every_steps=10))
    straight = _session(corpus, tmp_path / "straight", config)
    fit(straight)
    shutil.copytree(tmp_path / "straight", tmp_path / "damaged")
    damaged = RunFolder(tmp_path / "damaged")
    newest, before = (damaged.step_folder(step) for step in reversed(damaged.steps()[-2:]))
    content = bytearray((newest / "optimizer.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "optimizer.safetensors").write_bytes(content)
    repaired = _session(corpus, tmp_path / "damaged", config)
    fit(repaired)
    assert before.name != newest.name
    for mine, theirs in zip(repaired.transformer.parameters(), straight.transformer.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert _log(tmp_path / "damaged") == _log(tmp_path / "straight")


def test_the_pointers_lead_to_intact_checkpoints(corpus: Corpus, tmp_path: Path) -> None:
    """Also if the best checkpoint is damaged, whether it is the newest or not."""
    config = replace(CONFIG, train=replace(CONFIG.train, max_steps=30), validate=ValidateSettings(0, 10, "loss"))
    session = _session(corpus, tmp_path, config)
    fit(session)
    assert session.run.steps() == [10, 20, 30]
    for damaged, last, best in ((30, 20, 20), (10, 20, 20), (20, None, None)):
        (session.run.step_folder(damaged) / "model.safetensors").write_bytes(b"damaged")
        resumed = _session(corpus, tmp_path, config)
        optimizer = build_optimizer(resumed.transformer, config.train)
        if last is None:
            with pytest.raises(CheckpointError, match="step_0000030"):
                restore_session(resumed, optimizer)
            break
        restore_session(resumed, optimizer)
        assert resumed.state.step == last
        assert (tmp_path / "last").read_text() == f"checkpoints/step_{last:07d}\n"
        assert (tmp_path / "best").read_text() == f"checkpoints/step_{best:07d}\n"
        Model.load(resolve_model_folder(tmp_path), "cpu")


def test_a_lost_best_checkpoint_is_no_longer_the_best(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, train=replace(CONFIG.train, max_steps=30), validate=ValidateSettings(0, 10, "loss"))
    session = _session(corpus, tmp_path, config)
    scores = iter((-3.0, -1.0, -2.0))
    monkeypatch.setattr(TrainingSession, "score_of", lambda self, _: next(scores))
    fit(session)
    assert (tmp_path / "best").read_text() == "checkpoints/step_0000020\n"
    (session.run.step_folder(20) / "model.safetensors").write_bytes(b"damaged")
    resumed = _session(corpus, tmp_path, config)
    restore_session(resumed, build_optimizer(resumed.transformer, config.train))
    assert resumed.state.step == 30
    assert [record.step for record in resumed.state.validations] == [10, 30]
    assert (tmp_path / "best").read_text() == "checkpoints/step_0000030\n"


def test_an_accumulated_gradient_equals_that_of_the_whole_batch(corpus: Corpus, tmp_path: Path) -> None:
    config = replace(
        CONFIG,
        model=replace(CONFIG.model, dropout=0.0),
        train=replace(CONFIG.train, clip_norm=0.0, micro_batch_tokens=4096),
    )
    session = _session(corpus, tmp_path / "run", config)
    indices = list(range(40))
    gradients = []
    for limit in (10**6, 100):
        src, tgt = ([len(side(index)) for index in indices] for side in (corpus.train.src_ids, corpus.train.tgt_ids))
        pieces = micro_batches(src, tgt, limit, padding_slack=limit)
        batches = [load_batch(corpus.train, piece) for piece in pieces]
        total = sum(batch.num_tgt_tokens for batch in batches)
        with Gradients(session.transformer, replace(config.train, threads=1)) as computed:
            computed.compute(batches, (1, 1), total)
        gradients.append(
            [parameter.grad.clone() for parameter in session.transformer.parameters() if parameter.grad is not None]
        )
        assert len(batches) == 1 if limit == 10**6 else len(batches) > 5
    for whole, accumulated in zip(*gradients, strict=True):
        torch.testing.assert_close(accumulated, whole, atol=1e-6, rtol=1e-4)


def test_less_memory_takes_the_same_steps(corpus: Corpus, tmp_path: Path) -> None:
    config = replace(
        CONFIG, model=replace(CONFIG.model, dropout=0.0), train=replace(CONFIG.train, max_steps=20, log_every_steps=1)
    )
    tight = replace(config, train=replace(config.train, micro_batch_tokens=60))
    logs = []
    for name, each in (("roomy", config), ("tight", tight)):
        session = _session(corpus, tmp_path / name, each)
        session.encode = None
        fit(session)
        logs.append([event["loss"] for event in _log(tmp_path / name) if event["event"] == "train"])
    assert logs[0] == pytest.approx(logs[1], rel=1e-4)


def test_the_best_and_the_newest_checkpoints_are_kept_with_pointers(corpus: Corpus, tmp_path: Path) -> None:
    config = replace(CONFIG, train=replace(CONFIG.train, keep_checkpoints=2, average_last=3))
    session = _session(corpus, tmp_path / "run", config)
    fit(session)
    best = session.state.best
    assert best is not None
    validated = [record.step for record in session.state.validations]
    assert set(validated[-3:]) <= set(session.run.steps())
    assert best.step in session.run.steps()
    assert len(session.run.steps()) <= 4
    assert (tmp_path / "run" / "best").read_text() == f"checkpoints/step_{best.step:07d}\n"
    assert (tmp_path / "run" / "last").read_text() == f"checkpoints/step_{70:07d}\n"


def test_the_average_is_the_mean_and_is_kept_only_if_it_helps(
    corpus: Corpus, straight: TrainingSession, tmp_path: Path
) -> None:
    shutil.copytree(straight.run.path, tmp_path / "run")
    session = _session(corpus, tmp_path / "run")
    fit(session)
    steps = [record.step for record in session.state.validations][-5:]
    weights = [Model.load(session.run.step_folder(step), "cpu").transformer.state_dict() for step in steps]
    assert choose_mean(session) in (tuple(steps), ())
    for name, parameter in session.transformer.state_dict().items():
        expected = torch.stack([each[name].double() for each in weights]).mean(0).float()
        torch.testing.assert_close(parameter, expected, atol=1e-7, rtol=1e-6)
    best = session.state.best
    assert best is not None
    helped = session.score_of(session.measure(session.transformer)) >= best.score
    assert (tmp_path / "run" / "averaged").exists() == helped


def test_a_step_without_a_finite_gradient_is_skipped_and_counted(corpus: Corpus, tmp_path: Path) -> None:
    session = _session(corpus, tmp_path / "run")
    loop = Loop(session, torch.optim.AdamW(session.transformer.parameters()))
    before = [parameter.clone() for parameter in session.transformer.parameters()]
    session.state.step = 1
    for parameter in session.transformer.parameters():
        parameter.grad = torch.full_like(parameter, float("nan"))
    assert not loop.update(1.0)
    assert session.state.skipped_steps == 1
    assert all(torch.equal(old, new) for old, new in zip(before, session.transformer.parameters(), strict=True))


def test_a_step_that_runs_out_of_memory_is_computed_in_parts(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout samples the same bits, and a run resumed afterwards equals a run that continued."""
    config = replace(CONFIG, train=replace(CONFIG.train, max_steps=14, log_every_steps=1))
    whole = _session(corpus, tmp_path / "whole", config)
    fit(whole)
    original, calls = replica.losses, [0]

    def limited(model: Transformer, batch: Batch, *rest: Any, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
        calls[0] += torch.is_grad_enabled()
        if calls[0] > 12 and torch.is_grad_enabled() and len(batch.src_lengths) > 6:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return original(model, batch, *rest, **more)

    monkeypatch.setattr(replica, "losses", limited)
    halved = _session(corpus, tmp_path / "halved", config)
    fit(halved)
    assert halved.state.micro_batch_splits > 1
    events = [[e for e in _log(tmp_path / name) if e["event"] != "watchdog"] for name in ("whole", "halved")]
    assert [e["loss"] for e in events[0]] == pytest.approx([e["loss"] for e in events[1]], rel=1e-5)
    found = [str(e["text"]) for e in _log(tmp_path / "halved") if e["event"] == "watchdog"]
    assert found
    assert all("`train.micro_batch_tokens` = " in text for text in found)


def test_a_step_with_a_loss_that_is_not_finite_never_reaches_a_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    """After five such steps in a row, the run returns to the last checkpoint with half the rate.

    The memory is planned only once, because memory that earlier steps took already belongs to the process.
    """
    plans: list[MemoryPlan] = []

    def plan(*given: Any) -> MemoryPlan:
        plans.append(plan_memory(*given))
        return plans[-1]

    config = replace(CONFIG, train=replace(CONFIG.train, max_steps=25, checkpoint_every_steps=5))
    session = _session(corpus, tmp_path / "run", config)
    original, left = Gradients.compute, {3, *range(12, 17)}

    def compute(self: Gradients, batches: object, seeds: tuple[int, int], *rest: int) -> torch.Tensor:
        total = original(self, batches, seeds, *rest)
        if seeds[1] not in left:
            return total
        left.discard(seeds[1])
        session.transformer.projection.weight.grad = torch.full_like(
            session.transformer.projection.weight, float("nan")
        )
        return total * float("nan")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Gradients, "compute", compute)
        patched.setattr(loop, "plan_memory", plan)
        fit(session)
    assert len(plans) == 1
    assert (session.state.step, session.state.watchdog.rate_factor) == (25, 0.5)
    assert session.state.watchdog.not_finite == 6
    names = [event["name"] for event in _log(tmp_path / "run") if event["event"] == "watchdog"]
    assert names == ["not finite", "went back"]
    for step in session.run.steps():
        Model.load(session.run.step_folder(step), "cpu")
