# SPDX-License-Identifier: Apache-2.0
"""Archives (.tea): a ZIP file with everything of one engine. Unlike trex's class, opening an existing archive keeps it, and
everything of an engine can be put in: `lathe process --archive` does, and `load("x.tea")` and `lathe explore x.tea` read it.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from zipfile import ZIP_DEFLATED, ZipFile

__all__ = ["EngineArchive", "get_reader", "get_writer"]


class _Writer:
    def __init__(self, archive: EngineArchive | None, name: str):
        self._archive, self._name = archive, name
        self._file = None if archive else open(name, "w", encoding="utf-8")

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self._file:
            self._file.close()

    def write(self, text: str | bytes) -> None:
        if self._archive:
            self._archive._write(self._name, text)
        elif self._file:
            self._file.write(text if isinstance(text, str) else text.decode())


class _Reader:
    def __init__(self, archive: EngineArchive | None, name: str):
        self._archive, self._name = archive, name

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        pass

    def read(self) -> bytes | str:
        if self._archive:
            return self._archive.readf(self._name)
        with open(self._name, encoding="utf-8") as file:
            return file.read()

    def readlines(self) -> Iterator[str]:
        text = self.read()
        yield from (text if isinstance(text, str) else text.decode()).splitlines()


class EngineArchive:
    """An archive file. override_files: begin anew when it exists; without it, what it holds is kept."""

    def __init__(self, archive_filename: str | os.PathLike[str], override_files: bool = False):
        self.archive_filename = os.fspath(archive_filename)
        if override_files and os.path.exists(self.archive_filename):
            os.remove(self.archive_filename)
        self.zipf: ZipFile | None = None

    def open(self) -> None:
        self.zipf = ZipFile(self.archive_filename, "a", compression=ZIP_DEFLATED, compresslevel=9)

    def close(self) -> None:
        if self.zipf:
            self.zipf.close()
        self.zipf = None

    def __enter__(self) -> EngineArchive:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def names(self) -> list[str]:
        with ZipFile(self.archive_filename) as archive:
            return archive.namelist()

    def _write(self, name: str, content: str | bytes) -> None:
        base = os.path.basename(name)
        if self.zipf:
            self.zipf.writestr(base, content)
            return
        with ZipFile(self.archive_filename, "a", compression=ZIP_DEFLATED, compresslevel=9) as archive:
            archive.writestr(base, content)

    def writef_txt(self, fname: str, text: str) -> None:
        self._write(fname, text)

    def writef_bin(self, fname: str, content: bytes) -> None:
        self._write(fname, bytes(content))

    def readf(self, fname: str) -> bytes:
        if self.zipf:
            return self.zipf.read(os.path.basename(fname))
        with ZipFile(self.archive_filename) as archive:
            return archive.read(os.path.basename(fname))

    def writer(self, fname: str) -> _Writer:
        return _Writer(self, fname)

    def reader(self, fname: str) -> _Reader:
        return _Reader(self, fname)


def get_writer(tea: EngineArchive | None, fname: str) -> _Writer:
    """Writes into the archive, or into a plain file where there is none."""
    return _Writer(tea, fname)


def get_reader(tea: EngineArchive | None, fname: str) -> _Reader:
    return _Reader(tea, fname)
