"""The Python programs that a bootstrap runs on a host: they keep its folder of environments tidy.

An environment is made in a folder of its own, ``<place>.made-<token>``. Once it is whole, the link
``<place>`` leads there.
"""

_USERS = """\
import sys
sys.path[:] = filter(None, sys.path)  # no module of the home folder's
import fcntl, os, shutil, signal, time
def content(file):
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
def users(made):
    made, found = os.fsencode(made), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        words = content(f"/proc/{pid}/cmdline").split(b"\\0")
        named = any(word == made or word.startswith(made + b"/") for word in words)
        loaded = b"/" + os.path.basename(made) + b"/" in content(f"/proc/{pid}/maps")
        if pid != os.getpid() and (named or loaded):
            found.append(pid)
    return found
def is_published(made):
    place, name = made.rpartition(".made-")[0], os.path.basename(made)
    return os.path.islink(place) and os.readlink(place) == name
"""
# The lock lasts as long as its input. Then this attempt is over, however it ended: what it started
# and did not put in its place goes.
LOCK = f"""{_USERS}\
lock, made = sys.argv[1:]
try:
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    lock = open(lock, "a")
except OSError as error:
    print("refused", error.strerror, flush=True)
    sys.exit(1)
try:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("busy", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
except OSError:  # a file system without locks: folders of our own keep us apart
    print("unlocked", flush=True)
else:
    print("held", flush=True)
sys.stdin.read()
end = time.monotonic() + 10
while not is_published(made) and (found := users(made)) and time.monotonic() < end:
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.05)
if not is_published(made):
    shutil.rmtree(made, ignore_errors=True)
    if os.path.islink(made + ".link"):
        os.unlink(made + ".link")"""
# Removes what was cut short, or was replaced, unless something runs in it still.
CLEAN = f"""{_USERS}\
folder = sys.argv[1]
for name in os.listdir(folder) if os.path.isdir(folder) else ():
    made = os.path.join(folder, name)
    if ".made-" not in name or is_published(made) or users(made):
        continue
    if os.path.islink(made):
        os.unlink(made)
    else:
        shutil.rmtree(made, ignore_errors=True)"""
# At one stroke: slots may run in what was there.
PUBLISH = """\
import os, sys
place, made = sys.argv[1:]
os.symlink(os.path.basename(made), made + ".link")
os.replace(made + ".link", place)"""
