"""Stand-ins for llama.cpp's server and vLLM: programs with their command lines."""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """\
#!{python}
import os, socket, sys
from benchfleet.testing.simulated_server import main

words = sys.argv[1:]
model, port, more = words[1], words[words.index("--port") + 1], words[6:]
if more[:1] == ["--n-gpu-layers"]:
    more = more[2:]
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with socket.socket() as other:
    if os.path.exists(here + "/port-taken"):
        other.bind(("127.0.0.1", int(port)))
        other.listen()
    with open(here + "/starts", "a") as starts:
        starts.write(model + "\\n")
    try:
        main(["--model", model, "--port", port, *more])
    except OSError as error:
        sys.exit(str(error))
"""


def llama_server(folder: Path) -> Path:
    """Make the program ``llama-server`` in a folder. It serves simulated answers; a file
    ``port-taken`` beside it keeps it from starting. The file ``starts`` beside it has the model of
    each start."""
    folder.mkdir(exist_ok=True)
    program = folder / "llama-server"
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return program


_VLLM = """\
#!{python}
import os, sys
from benchfleet.testing.simulated_server import main

verb, model, *words = sys.argv[1:]
assert verb == "serve" and words[:2] == ["--host", "127.0.0.1"]
with open(os.path.dirname(os.path.abspath(sys.argv[0])) + "/starts", "a") as starts:
    starts.write("started\\n")
main(["--model", model, *words[2:]])
"""


def vllm(folder: Path) -> Path:
    """Make the program ``vllm`` in a folder, whose LoRA adapters answer by their folder. The file
    ``starts`` beside it has a line for each start."""
    folder.mkdir(exist_ok=True)
    program = folder / "vllm"
    program.write_text(_VLLM.format(python=sys.executable))
    program.chmod(0o755)
    return program
