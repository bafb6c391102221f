"""What commands print on stderr where a machine is slow, and only there."""

import re

_NOTICE = re.compile(r"^ramledger: still reading process \d+ …\n", re.MULTILINE)


def without_slow_notice(text: str) -> str:
    return _NOTICE.sub("", text)
