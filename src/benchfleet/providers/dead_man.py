"""The dead-man timer: a shell script on an instance, which destroys it when nobody is left.

The runner writes a new word into ``~/.benchfleet/timer/alive`` each minute. If the word stays the
same for `TIMEOUT_S`, the script asks the provider to destroy its own instance, again and again. It
counts by the time since boot. The key goes to curl on standard input, never on a command line.
"""

from __future__ import annotations

import shlex

FOLDER = "~/.benchfleet/timer"
TIMEOUT_S = 1200  # without a new word
FIRST_TIMEOUT_S = 2400  # until the first word: an instance may need long to be reached

_SCRIPT = """\
mkdir -p {folder}; cd {folder}
[ -d /proc/"$(cat pid 2>/dev/null || echo none)" ] || {{ (
of() {{ tr '\\0' '\\n' < /proc/1/environ | sed -n "s/^$1=//p"; }}
key=${{{key}:-$(of {key})}}; id=${{{id}:-$(of {id})}}
call() {{
  printf 'header = "Authorization: Bearer %s"\\n' "$key" |
    curl --config - --silent --show-error --fail --max-time 60 -X "$1" {url}/"$id"/
}}
until call GET | grep -qF {label}; do sleep 5; done
touch armed
since=$(cut -d. -f1 /proc/uptime); last=; timeout=${{BENCHFLEET_TIMEOUT:-{first}}}
while sleep ${{BENCHFLEET_TICK:-15}}; do
  now=$(cut -d. -f1 /proc/uptime); word=$(cat alive 2>/dev/null)
  if [ "$word" != "$last" ]; then
    last=$word; since=$now; timeout=${{BENCHFLEET_TIMEOUT:-{timeout}}}
  fi
  [ $((now - since)) -gt "$timeout" ] && call DELETE
done
) > /dev/null 2>&1 & echo $! > pid; }}
"""


def timer_script(*, url: str, label: str, key: str, id: str) -> str:
    """The script for an instance.

    `url` is where its provider serves instances. `key` and `id` are the environment variables that
    hold the instance's own key and id.
    """
    return _SCRIPT.format(
        folder=FOLDER,
        url=shlex.quote(url),
        label=shlex.quote(label),
        key=key,
        id=id,
        first=FIRST_TIMEOUT_S,
        timeout=TIMEOUT_S,
    )
