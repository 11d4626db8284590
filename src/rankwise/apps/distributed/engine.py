"""Dask as an engine: named calls on workers, and errors that name their partition."""

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar, final
from uuid import uuid4
from weakref import WeakSet

from rankwise.core.errors import DataFileError, InvalidInputError, extra

T = TypeVar("T")

OUT_OF_MEMORY = (
    "must fit in the memory of a worker, with about as much again to work in: it does not. Cut "
    "the data into smaller partitions."
)

BRANCHES = 8
"""Number of values that one call adds up: the branching of the tree of sums."""


def dask_module() -> Any:
    """Import and return dask."""
    with extra("Learning on a cluster", "dask", "distributed"):
        import dask  # noqa: PLC0415
    return dask


KEPT_MEMORY = 1 << 28
"""Bytes that workers of this machine keep when they are freed, for the next part of a file."""
KEPT_SHARE = 16
"""At most one part in this many of a worker's memory limit: a full worker pauses."""


@contextmanager
def client_of(address: str | None, n_workers: int | None = None, **options: Any) -> Iterator[Any]:
    """Connect to the cluster of a scheduler, or start one on this machine and stop it at the end.

    Workers on this machine are processes with one thread. Workers with enough memory keep freed
    memory for the next part of a file, which Dask would return to the system. Dask's sampling
    profiler is off, since it slows down passes over files.

    Parameters
    ----------
    address : str or None
        The address of the scheduler.
    n_workers : int, optional
        Number of processes to start if there is no address.
    **options
        Options of `distributed.LocalCluster`.
    """
    dask = dask_module()
    with extra("Learning on a cluster", "distributed", "distributed"):
        import distributed  # noqa: PLC0415
    if address is not None:
        with distributed.Client(address) as client:
            yield client
        return
    # settings of the workers' processes, which must be set before they start
    before_start = "distributed.nanny.pre-spawn-environ"  # the C library reads it once
    settings: dict[str, Any] = {"distributed.worker.profile.enabled": False}
    if may_keep_memory(options.get("memory_limit", "auto"), n_workers):
        for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
            settings[f"{before_start}.{name}"] = KEPT_MEMORY
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", **options}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=n_workers, **options) as local,
        distributed.Client(local) as client,
    ):
        yield client


def may_keep_memory(limit: Any, n_workers: int | None) -> bool:
    """Return whether a worker may keep freed memory, given the memory limit of `LocalCluster`."""
    with extra("Learning on a cluster", "distributed", "distributed"):
        from dask.system import CPU_COUNT  # noqa: PLC0415
        from dask.utils import parse_bytes  # noqa: PLC0415
        from distributed.system import MEMORY_LIMIT  # noqa: PLC0415
    if limit is None:
        return True
    if limit == "auto":
        limit = MEMORY_LIMIT // (n_workers or CPU_COUNT)
    elif isinstance(limit, float) and limit <= 1.0:
        limit = limit * MEMORY_LIMIT
    return bool(parse_bytes(limit) >= KEPT_SHARE * KEPT_MEMORY)


@final
@dataclass(frozen=True, eq=False)
class Engine:
    """Make calls on the workers of a Dask cluster, or in Dask's local scheduler without one.

    Calls are lazy. Their names appear in Dask's dashboard as ``rankwise-...``.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.
    """

    client: Any = None
    _held: WeakSet[Any] = field(default_factory=WeakSet, repr=False)

    def call(
        self, name: str, function: Callable[..., Any], *arguments: Any, number: int = 0
    ) -> Any:
        """Return a delayed result."""
        key = f"rankwise-{name}-{number}-{uuid4().hex}"
        return dask_module().delayed(function, pure=False)(*arguments, dask_key_name=key)

    def call_each(
        self, name: str, function: Callable[..., Any], labels: Sequence[str], *arguments: Any
    ) -> list[Any]:
        """Call a function for every partition; errors name the partition.

        Parameters
        ----------
        name : str
            What the calls do, in one word.
        function : callable
            The function to call.
        labels : list of str
            The name of each partition in errors.
        *arguments : list or value
            A list holds one argument per partition; any other value goes to all partitions.
        """
        columns = [a if isinstance(a, list) else [a] * len(labels) for a in arguments]
        return [
            self.call(name, partial(named, function, label), *row, number=number)
            for number, (label, *row) in enumerate(zip(labels, *columns, strict=True))
        ]

    def persist(self, promises: list[Any]) -> list[Any]:
        """Start the calls; results stay on the workers, and are recomputed if a worker is lost."""
        with _quiet():
            owner = dask_module() if self.client is None else self.client
            persisted = owner.persist(*promises) if self.client is None else owner.persist(promises)
            self._held.update(_futures_of(persisted))
            return list(persisted)

    def release(self) -> None:
        """Release all results on the workers, even if something still refers to them.

        For example, a notebook keeps the traceback of an error, which refers to the results.
        """
        for future in list(self._held):
            future.release()

    def compute(self, promises: list[Any]) -> list[Any]:
        """Return the results."""
        with _quiet():
            try:
                if self.client is None:
                    return list(dask_module().compute(*promises))
                return self._gather(promises)
            except (InvalidInputError, DataFileError, MemoryError) as error:
                # Dask keeps the error, and with it whatever its traceback reaches: raise another
                error.__traceback__ = None
                raise type(error)(*error.args) from None
            except Exception as error:
                _explain_lost_worker(error)
                raise

    def _gather(self, promises: list[Any]) -> list[Any]:
        """Return the results from the cluster; name the partition if the caller's own code fails.

        Our own calls name their partition themselves.
        """
        futures = self.client.compute(promises)
        self._held.update(futures)
        try:
            return list(self.client.gather(futures))
        except MemoryError as error:
            number = None if OUT_OF_MEMORY in str(error) else self._failed_partition(futures)
            if number is None:
                raise
            error.__traceback__ = None  # it reaches the futures
            raise MemoryError(f"Partition {number} {OUT_OF_MEMORY}") from None

    def _failed_partition(self, futures: list[Any]) -> str | None:
        """Return the number of the partition whose task failed; None if it is unknown."""
        failed = [future.key for future in futures if future.status == "error"]
        return _partition_of(self.client.sync(self.client.scheduler.get_error_cause, keys=failed))

    def add(self, promises: list[Any]) -> Any:
        """Return the sum of the results, added up on the workers in a fixed order."""
        while len(promises) > 1:
            promises = [
                self.call("sum", reduce, add, promises[k : k + BRANCHES], number=k)
                for k in range(0, len(promises), BRANCHES)
            ]
        return promises[0]


@contextmanager
def engine_of(client: Any) -> Iterator[Engine]:
    """Yield an engine, and release all its results on the workers at the end."""
    engine = Engine(client)
    try:
        yield engine
    finally:
        engine.release()


def _futures_of(promises: Any) -> list[Any]:
    """Return the results that a cluster keeps for delayed calls; none without a cluster."""
    distributed: Any = sys.modules.get("distributed")  # whoever has a cluster has imported it
    return [] if distributed is None else list(distributed.futures_of(promises))


def named(function: Callable[..., T], label: str, *arguments: Any) -> T:
    """Call a function; data errors and memory errors say which partition they come from."""
    try:
        return function(*arguments)
    except MemoryError as error:
        raise MemoryError(f"{label} {OUT_OF_MEMORY}") from error
    except DataFileError as error:
        raise DataFileError(f"{label}: {error}") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{label}: {error}") from None


def _explain_lost_worker(error: Exception) -> None:
    """Name the partition whose workers died repeatedly."""
    if type(error).__name__ != "KilledWorker":
        return
    number = _partition_of(error.args[0]) or "?"
    raise MemoryError(
        f"Partition {number} killed the workers that ran it, probably for lack of memory. "
        "Use smaller partitions, or give workers more memory."
    ) from error


def _partition_of(task: Any) -> str | None:
    """Return the number of the partition that a task is about, None if it has none."""
    key = str(task)  # 'rankwise-...-3-...', or ('...', 3, 0) of an array
    found = re.search(r"rankwise-[a-z-]+-(\d+)-", key) or re.search(r"', (\d+)", key)
    return None if found is None else found.group(1)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out Dask's warning about large graphs: one vector goes to the workers by design."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield
