"""Empties a server's prefix cache before a load point, where the server can."""

from __future__ import annotations

import urllib.request

_PATHS = ("/reset_prefix_cache", "/flush_cache")  # of vLLM (in its developer mode) and SGLang
_TIMEOUT_S = 10.0


def reset_prefix_cache(root: str, *, key: str = "") -> bool:
    """Whether the server emptied it. Prompts differ from point to point in any case."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    for path in _PATHS:
        request = urllib.request.Request(  # noqa: S310 - the campaign's own server
            root + path, data=b"", headers=headers, method="POST"
        )
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as reply:
                if reply.status == 200:
                    return True
        except OSError:
            continue
    return False
