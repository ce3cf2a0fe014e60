# Runs in each pilot before the worker starts. Change it to what your cluster needs.
export HF_HOME=${SCRATCH:-$HOME}/huggingface
export HF_HUB_OFFLINE=1    # nodes often have no internet: download models on the login node
export TMPDIR=${TMPDIR:-/tmp}
