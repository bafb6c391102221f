"""`config.callbacks(MemoryCallbacks)`: every process of an RLlib run in one recording.

Each env runner, learner and the driver send one small report a period to one named actor of the
cluster. The driver gets a summary per iteration, and at the end the verdict on each process.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import ramledger
from ramledger.diagnose.cluster_verdicts import DRIVER
from ramledger.diagnose.finding import Diagnosis
from ramledger.errors import ConfigError, RecordingError
from ramledger.integrations.cluster.process_report import ProcessReport
from ramledger.integrations.cluster.ray_ledger import ENV_RUNNER, ClusterLedger, cluster_header
from ramledger.integrations.cluster.ray_reporter import Reporter
from ramledger.ledger import printable
from ramledger.recording import SUFFIX
from ramledger.remedies.catalog import parse_apply

try:
    import ray
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from ramledger.integrations.cluster.ray_nodes import all_stores, object_stores, own_node
except ImportError as error:
    _version = getattr(sys.modules.get("ray"), "__version__", None)
    _what = f"ray {_version} is too old, or lacks RLlib" if _version else "ray is not installed"
    raise ConfigError(_what, hint="pip install 'ramledger[ray]'") from error

ACTOR = NAMESPACE = "ramledger"
_MOST_PER_SECOND = 100  # reports that reach the actor, however many workers there are
_STORE_REST = 100  # a reading of the object store, then so many times as long without one
_ANSWER_SECONDS = 5.0
_LAST_SECONDS = 20.0
_VERDICT_SECONDS = 120.0


class MemoryCallbacks(RLlibCallback):
    """Memory of the whole run: `config.callbacks(MemoryCallbacks)`, or `.options(…)` of it."""

    recording: str | None = None
    every_seconds: float = 1.0
    force: bool = False
    verbose: bool = True
    apply: str = ""

    def __init__(self) -> None:
        super().__init__()
        self._left_as_they_are = applied(self.apply)  # in env runners, too: each has callbacks
        self.diagnosis: Diagnosis | None = None
        self.path = ""  # of the recording
        self._run = ""
        self._ledger: Any = None
        self._reporter: Reporter | None = None
        self._pid = 0
        self._store: dict[str, int] | None = None
        self._stores: dict[str, dict[str, int]] = {}
        self._store_at = 0.0

    @classmethod
    def options(cls, **settings: Any) -> type["MemoryCallbacks"]:
        """These callbacks with other settings: `recording`, `every_seconds`, `force`, `verbose`.

        `apply`: remedies in every process, as in `ramledger.apply`.
        """
        known = {"recording", "every_seconds", "force", "verbose", "apply"}
        if unknown := settings.keys() - known:
            raise ConfigError(
                f"MemoryCallbacks has no option {sorted(unknown)[0]!r}",
                hint=f"it has {', '.join(sorted(known))}",
            )
        if settings.get("every_seconds", 1.0) <= 0:
            raise ConfigError("every_seconds must be positive", hint="1.0 is usual")
        if settings.get("apply"):
            parse_apply(settings["apply"])
        return type(cls.__name__, (cls,), {**settings, "__module__": cls.__module__})

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ledger": None, "_reporter": None}

    # ---- the driver -------------------------------------------------------------------------

    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Open the recording and make every process report."""
        if not getattr(algorithm.config, "enable_env_runner_and_connector_v2", False):
            raise ConfigError(
                "MemoryCallbacks needs RLlib's current API stack",
                hint="config.api_stack(enable_rl_module_and_learner=True, "
                "enable_env_runner_and_connector_v2=True)",
            )
        if getattr(algorithm, "_ramledger_callbacks", None) is not None:
            self._say("MemoryCallbacks is already registered; ignoring the second one")
            return
        algorithm._ramledger_callbacks = self
        self._run = f"{type(algorithm).__name__}-{os.getpid()}-{id(algorithm):x}"
        self._ledger = _actor()
        self._open_recording(algorithm)
        self._pid = os.getpid()
        self._reporter = Reporter(DRIVER, DRIVER, own_node(), 0.0, _keep)
        left = {*self._left_as_they_are, *self._make_report(algorithm)}
        for sentence in sorted(left):
            self._say(sentence)
        self._at_the_end(algorithm)

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        """One iteration is over: the summary goes into its result as `memory`."""
        if self._reporter is None:
            return
        with suppress(Exception):
            number = int(result.get("training_iteration") or algorithm.iteration)
            call = self._ledger.iteration.remote(
                self._run, number, self._reporter.current(), self._object_store(), self._stores
            )
            result["memory"] = ray.get(call, timeout=_ANSWER_SECONDS)

    def _object_store(self) -> dict[str, int] | None:
        """Read at most once a period, and rarely where that takes long: it asks every node."""
        began = time.monotonic()
        if began >= self._store_at:
            self._stores = object_stores()
            self._store = all_stores(self._stores)
            now = time.monotonic()
            self._store_at = now + max(self.every_seconds, (now - began) * _STORE_REST)
        return self._store

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: Any,
        env_runner_indices: list[int],
        is_evaluation: bool = False,
        **_: Any,
    ) -> None:
        """Runners that stand in for dead ones report, too."""
        if self._reporter is not None:
            role = _runner_role(is_evaluation)
            with suppress(Exception):
                env_runner_group.foreach_env_runner(
                    self._attach(algorithm, role),
                    local_env_runner=False,
                    remote_worker_ids=env_runner_indices,
                )

    def _open_recording(self, algorithm: Any) -> None:
        folder = getattr(algorithm, "logdir", None) or os.getcwd()
        self.path = os.path.abspath(self.recording or os.path.join(folder, "memory" + SUFFIX))
        force = self.force or self.recording is None
        first_line = cluster_header(sys.argv, self._run)
        trouble = ray.get(self._ledger.begin.remote(self._run, self.path, first_line, force))
        if not trouble:
            return
        if self.recording is not None:
            raise RecordingError(trouble, hint="MemoryCallbacks.options(recording=…, force=True)")
        self.path = ""
        self._say(f"{trouble}: there is no recording, and no verdict")

    def _attach(self, algorithm: Any, role: str) -> Callable[..., list[str]]:
        config = algorithm.config
        workers = config.num_env_runners + config.evaluation_num_env_runners + config.num_learners
        every = max(self.every_seconds, workers / _MOST_PER_SECOND)
        return partial(
            attach, ledger=self._ledger, run=self._run, role=role, every_seconds=every,
            apply=self.apply,
        )  # fmt: skip

    def _make_report(self, algorithm: Any) -> Iterator[str]:
        """Every process reports from here on; what of the remedies they could not apply."""
        answers: list[Any] = []
        for group, role in (
            (algorithm.env_runner_group, ENV_RUNNER),
            (algorithm.eval_env_runner_group, _runner_role(True)),
        ):
            if group is not None and group.num_remote_env_runners():
                answers += group.foreach_env_runner(
                    self._attach(algorithm, role), local_env_runner=False
                )
        learners = getattr(algorithm, "learner_group", None)
        if learners is not None and learners.is_remote:
            found = learners.foreach_learner(self._attach(algorithm, "learner"))
            answers += [one.get() for one in found if one.ok]
        aggregators = getattr(algorithm, "_aggregator_actor_manager", None)
        if aggregators is not None:
            found = aggregators.foreach_actor(self._attach(algorithm, "aggregator"))
            answers += [one.get() for one in found if one.ok]
        for answer in answers:
            yield from answer if isinstance(answer, list) else ()

    def _at_the_end(self, algorithm: Any) -> None:
        """RLlib has no callback for the end: its `cleanup` is wrapped, or Python's exit."""
        cleanup = algorithm.cleanup

        def finish_and_clean_up() -> None:
            self._last_snapshots(algorithm)
            self.finish()
            cleanup()

        algorithm.cleanup = finish_and_clean_up
        atexit.register(self.finish)

    def _last_snapshots(self, algorithm: Any) -> None:
        """Of processes that have grown since their last snapshot."""
        if self._reporter is None:
            return
        reports = [self._reporter.last_report()]
        for group in (algorithm.env_runner_group, algorithm.eval_env_runner_group):
            with suppress(Exception):
                if group is not None and group.num_remote_env_runners():
                    reports += group.foreach_env_runner(
                        last_report, local_env_runner=False, timeout_seconds=_LAST_SECONDS
                    )
        for report in filter(None, reports):
            self._ledger.note.remote(self._run, report)  # before `end`: calls keep their order

    def finish(self) -> None:
        """Close the recording and judge it; may be called twice."""
        if self._reporter is None or self._pid != os.getpid():  # a forked child ends, too
            return
        self._reporter = None
        atexit.unregister(self.finish)
        with suppress(Exception):
            call = self._ledger.end.remote(self._run)
            self.diagnosis, others = ray.get(call, timeout=_VERDICT_SECONDS)
            if others == 0:
                ray.kill(self._ledger)
            if self.diagnosis is not None:
                self._say_verdict(self.diagnosis)

    def _say_verdict(self, diagnosis: Diagnosis) -> None:
        reason = diagnosis.reason.removeprefix("leak: ")
        self._say(f"{diagnosis.verdict}: {reason}")
        for leak in diagnosis.leaks[1:]:
            self._say(leak.summary)
        self._say(f"recording: {self.path}")

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"ramledger: {printable(text)}")

    # ---- env runners ------------------------------------------------------------------------

    def on_sample_end(self, **_: Any) -> None:
        """In every env runner, after each sample: always at the same point of its work."""
        if REPORTER is not None:
            REPORTER.report()


REPORTER: Reporter | None = None  # of this process, where it is a remote env runner


def applied(remedies: str) -> list[str]:
    """Put them in force in this process; why something stays as it is."""
    found: list[str] = []
    if remedies:
        with suppress(Exception):  # another version of ours on that node
            ramledger.apply(remedies, say=found.append)
    return found


def attach(
    worker: Any, *, ledger: Any, run: str, role: str, every_seconds: float, apply: str = ""
) -> list[str]:
    """Runs in a worker: from now on it reports; what of the remedies it could not apply."""
    global REPORTER
    left = applied(apply)
    index = getattr(worker, "worker_index", None)
    if index is None:
        index = getattr(worker, "_learner_index", None)
    name = role if index is None else f"{role} {index}"
    reporter = Reporter(name, role, own_node(), every_seconds, Sender(ledger, run))
    if hasattr(worker, "sample"):
        REPORTER = reporter
    else:
        reporter.report_forever()
    return left


def last_report(_: Any) -> ProcessReport | None:
    """Runs in an env runner when the run ends."""
    return REPORTER.last_report() if REPORTER is not None else None


class Sender:
    """Reports to the actor, one at a time: a slow actor gets fewer, not a queue."""

    def __init__(self, ledger: Any, run: str) -> None:
        self._ledger = ledger
        self._run = run
        self._under_way: Any = None

    def __call__(self, report: ProcessReport) -> None:
        if self._under_way is not None and not ray.wait([self._under_way], timeout=0)[0]:
            return
        self._under_way = self._ledger.note.remote(self._run, report)


def _keep(_: ProcessReport) -> None:
    """The driver's reports go with its iterations."""


def _runner_role(is_evaluation: bool) -> str:
    return "evaluation " + ENV_RUNNER if is_evaluation else ENV_RUNNER


def _actor() -> Any:
    """The cluster's one ledger, on the node of the first driver: there is its recording."""
    here = ray.get_runtime_context().get_node_id()
    return (
        ray.remote(ClusterLedger)
        .options(
            name=ACTOR,
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
        )
        .remote()
    )
