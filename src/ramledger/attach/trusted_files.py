"""Whether files of another process may be run by this user."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def why_not_trusted(status: Mapping[str, str], paths: Iterable[str]) -> str:
    """Why this user must not run what lies at `paths`; "" if it may.

    `status` is that of the process that runs them already. If it is of the same user, running
    them again adds no risk. If not, nobody but root and this user may be able to change them.
    """
    user = os.geteuid()
    if status.get("Uid", "").split() == [str(user)] * 4:
        return ""
    for path in paths:
        for place in _places(path):
            problem = _problem(place, user)
            if problem:
                return f"the process is another user's, and {place} {problem}"
    return ""


def _places(path: str) -> Iterator[str]:
    """A path with all folders above it, as it is written and as links lead to it."""
    for place in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        yield place
        while place != os.path.dirname(place):
            place = os.path.dirname(place)
            yield place


def _problem(place: str, user: int) -> str:
    try:
        found = os.lstat(place)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found.st_uid not in (0, user):
        return f"belongs to user {found.st_uid}"
    # in a sticky folder, as /tmp, others can add files and change none
    is_exempt = stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX
    if found.st_mode & _WRITABLE_BY_OTHERS and not is_exempt:
        return "can be changed by others"
    return ""
