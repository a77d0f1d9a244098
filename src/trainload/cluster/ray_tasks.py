"""Independent calls of one function on a Ray cluster, or on a local Ray of this machine: the only importer of ray.

Plain tasks, spread over the nodes, a bounded number in flight. A worker or node that dies has its task run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from trainload.errors import UsageError
from trainload.machine.cpus import usable_cpus

Result = TypeVar("Result")
LOOPBACK = "127.0.0.1"
MAX_RETRIES = 5  # of a task whose process died
TASKS_AHEAD = 2  # per place to run one: one runs, one waits; a cluster that grows by demand sees the demand

# Of a Ray of this machine alone, set before ray is imported: on Linux it would listen on every interface, and would
# report its use to its makers.
_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def run_tasks(
    function: Callable[..., Result],
    shared: object,
    tasks: Sequence[tuple[Any, ...]],
    *,
    address: str | None,
    cpus: int = 1,
    done: Callable[[int, Result], None],
) -> None:
    """Call `function(shared, *task)` for each task; `done(number, result)` as they end, in this process.

    function: importable by name on every node, where the same version of its package is installed; what it does must
    be right if it is done twice. address: of a cluster; None starts a Ray of this machine that ends with the call, or
    takes the one that this process is connected to. cpus: that one task takes.

    Raises UsageError where Ray is missing, what a task raised, and OSError where tasks die again and again. What
    still runs then is cancelled.
    """
    with cluster(address, cpus) as ray:
        _Run(ray, function, shared, tasks, cpus, done).run()


@contextmanager
def cluster(address: str | None, cpus: int = 1) -> Iterator[Any]:
    """The module ray, connected to a cluster as `run_tasks` says; a Ray that was started here ends with the block."""
    with _environment(_LOCAL if address is None else {}):
        try:
            import ray
        except ImportError as error:
            raise UsageError("on='ray' needs Ray: pip install 'trainload[ray]'") from error
        if ray.is_initialized():
            yield ray
            return
        quiet: dict[str, Any] = {"configure_logging": False, "log_to_driver": False}
        if address is None:
            _start_alone(ray, num_cpus=max(cpus, usable_cpus()), **quiet)
        else:
            ray.init(address=address, **quiet)
        try:
            yield ray
        finally:
            ray.shutdown()


def _start_alone(ray: Any, **options: Any) -> None:
    """Start a Ray of this machine that listens on the loopback only."""
    constants = ray._private.ray_constants
    known = constants.ENABLE_RAY_CLUSTER  # _LOCAL comes too late for it where the program imported ray before
    constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(address="local", _node_ip_address=LOOPBACK, include_dashboard=False, **options)
    finally:
        constants.ENABLE_RAY_CLUSTER = known
    if ray.util.get_node_ip_address() != LOOPBACK:
        ray.shutdown()
        raise UsageError("this version of Ray listens on every interface: start a cluster, and give its address")


class _Run:
    def __init__(
        self,
        ray: Any,
        function: Callable[..., Any],
        shared: object,
        tasks: Sequence[tuple[Any, ...]],
        cpus: int,
        done: Callable[[int, Any], None],
    ) -> None:
        self._ray = ray
        self._cpus = cpus
        self._tasks = tasks
        self._done = done
        self._shared = ray.put(shared)
        self._remote = ray.remote(function).options(
            num_cpus=cpus, scheduling_strategy="SPREAD", max_retries=MAX_RETRIES, retry_exceptions=False
        )
        self._numbers: dict[Any, int] = {}  # of the tasks in flight

    def run(self) -> None:
        try:
            issued = 0
            while issued < len(self._tasks) or self._numbers:
                while issued < len(self._tasks) and len(self._numbers) < self._most():
                    self._numbers[self._remote.remote(self._shared, *self._tasks[issued])] = issued
                    issued += 1
                ready, _ = self._ray.wait(list(self._numbers), num_returns=1)
                for reference in ready:
                    self._done(self._numbers.pop(reference), self._result(reference))
        except BaseException:
            for reference in self._numbers:
                self._ray.cancel(reference, force=True)
            raise

    def _most(self) -> int:
        """How many tasks may be in flight on the cluster as it is now."""
        places = int(self._ray.cluster_resources().get("CPU", 0)) // self._cpus
        return TASKS_AHEAD * max(places, 1)

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise OSError(f"a task on Ray failed {MAX_RETRIES + 1} times: {error}") from error


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables for a while, where they are not set."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]
