"""How many threads small dense algebra runs on."""

from contextlib import AbstractContextManager, nullcontext

from rankwise.core.threads import serial_blas

LARGEST_SERIAL = 500


def few_threads(rank: int) -> AbstractContextManager[None]:
    """Run small matrices on one BLAS thread.

    Waking and waiting for threads costs more than they save up to a rank of about 500, and
    hundreds of times more on a busy machine.
    """
    return nullcontext() if rank > LARGEST_SERIAL else serial_blas()
