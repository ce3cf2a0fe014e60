"""The variables of the shell that a service needs: those its unit holds, and the secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchfleet.domain.cell import Cell
from benchfleet.environment import TOKENS, hidden_variables
from benchfleet.ledger.addresses import redact
from benchfleet.study import Study

# Paths and settings. An SSH agent's socket is not one of them: it ends with the login.
_SETTINGS = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", "XDG_CACHE_HOME"),
    *("CUDA_HOME", "CUDA_VISIBLE_DEVICES"),
    *("BENCHFLEET_HOST", "BENCHFLEET_LEASE_SECONDS", "BENCHFLEET_RETURN_SECONDS"),
    "BENCHFLEET_PYTHON_ARCHIVE",
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "HF_TOKEN_PATH"),
    *("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "NLTK_DATA"),
    "OLLAMA_MODELS",
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSFILE", "PGSERVICE"),
    *("PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGAPPNAME", "PGCONNECT_TIMEOUT"),
    *("PGTARGETSESSIONATTRS", "PGLOADBALANCEHOSTS", "PGREQUIREAUTH", "PGCHANNELBINDING"),
    *("PGSSLMODE", "PGSSLNEGOTIATION", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL"),
    *("PGSSLCRLDIR", "PGSSLSNI", "PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION"),
    *("PGGSSENCMODE", "PGGSSLIB", "PGKRBSRVNAME"),
    *("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"),
    *("RSYNC_RSH", "GIT_SSH", "GIT_SSH_COMMAND"),
    *("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_CA_BUNDLE"),
    *("AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
    "AZURE_STORAGE_ACCOUNT_NAME",
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "no_proxy", "NO_PROXY"),
)
# These too, unless one holds a password.
_ADDRESSES = (
    *("BENCHFLEET_RESULT_CACHE", "BENCHFLEET_TRUST", "HF_ENDPOINT", "RAY_ADDRESS"),
    *("OPENAI_BASE_URL", "OLLAMA_HOST", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    *("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
)
_SECRETS = (
    *(*TOKENS, "PGPASSWORD"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN"),
)
_API_KEY = "_API_KEY"  # the end of names of such variables
_LOGIN = re.compile(r":(?!//)[^/@\s]*@")  # as in user:password@proxy:3128
SECRETS_FILE = ".config/benchfleet/environment"  # below the home folder


def passed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The paths and settings that are set; none with a password."""
    names = [*_SETTINGS, *(name for name in _ADDRESSES if not _has_password(environ.get(name, "")))]
    return {name: environ[name] for name in names if environ.get(name)}


def secret_variables(environ: Mapping[str, str], named: Iterable[str] = ()) -> list[str]:
    """The names of the variables that are set and hold a secret; `named` are the campaign's."""
    names = {name for name in environ if name.endswith(_API_KEY)}
    names |= {*_SECRETS, *hidden_variables(), *named}
    names |= {name for name in _ADDRESSES if _has_password(environ.get(name, ""))}
    return sorted(name for name in names if environ.get(name))


def named_variables(study: Study, cells: Iterable[Cell]) -> set[str]:
    """The variables that the campaign names for keys of servers and addresses of messages."""
    sources = {str(cell.model.kwargs.get("key", "")) for cell in cells}
    sources |= set(study.campaign.notify.to) if study.campaign.notify else set()
    return {source.removeprefix("env:") for source in sources if source.startswith("env:")}


def variables_in_file() -> set[str]:
    """The variables that the user's file of secrets sets already."""
    try:
        text = Path(os.path.expanduser("~"), SECRETS_FILE).read_text("utf-8", "replace")
    except OSError:
        return set()
    return {line.partition("=")[0].strip() for line in text.splitlines() if "=" in line}


def _has_password(addresses: str) -> bool:
    return any(redact(one) != one or bool(_LOGIN.search(one)) for one in addresses.split(","))
