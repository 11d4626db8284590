"""Files that are either wholly written or not touched at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file beside ``path`` that takes its place when the block ends well.

    The new content is forced to the disk before it is renamed, so that a reader, or a machine that
    stops at any moment, sees the old file or the new one. When the block fails, the old file stays
    as it was and the new one is removed. Links are followed; devices and pipes are written in
    place.

    Parameters
    ----------
    path : str or path
        The file to create or to replace.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io.atomic import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "note.txt")
    ...     with replacing(path) as new:
    ...         _ = new.write_text("all or nothing")
    ...     path.read_text()
    'all or nothing'
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    new.touch(exist_ok=False)
    mode = (target if target.exists() else new).stat().st_mode
    try:
        yield new
        new.chmod(mode)  # a writer may have put a file of its own in the place of the empty one
        with new.open("r+b") as stream:
            os.fsync(stream.fileno())
        os.replace(new, target)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise
