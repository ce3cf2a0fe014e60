"""What a task reads that may have to be fetched."""

from __future__ import annotations

from dataclasses import replace

from .dataset import RemoteData
from .nltk_data import NltkData
from .url_file import UrlFile

Need = RemoteData | NltkData | UrlFile


def source_name(need: Need) -> str:
    """Its name in lists, where all configs of a repository are one."""
    return str(replace(need, config=None) if isinstance(need, RemoteData) else need)
