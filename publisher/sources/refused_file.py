"""The error for a file that does not fit as a whole."""

from __future__ import annotations

from publisher.errors import FatalError


class FileRefusedError(FatalError):
    """A file as a whole cannot be read with the settings; ``publish`` leaves it out."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type[FileRefusedError], tuple[str, str]]:
        return FileRefusedError, (self.path, self.problem)
