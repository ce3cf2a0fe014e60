"""What a task reads that may have to be fetched."""

from __future__ import annotations

from .dataset import RemoteData
from .nltk_data import NltkData
from .url_file import UrlFile

Need = RemoteData | NltkData | UrlFile
