"""The phases of a lab, and what each machine may run. Read by benchfleet."""

from enum import Enum

from benchfleet import PhaseDefinition, RunnerConfig


class Levels(Enum):
    """Tasks of a game; the value is the name of a task."""

    CARROT_EASY = "carrot-easy-detailed"
    CARROT_HARD = "carrot-hard-detailed"


class Model(Enum):
    """Models that the machines have."""

    CODER_V2_16B_Q8 = "Deepseek-Coder-V2-16B-Q8"
    CODER_V2_16B_Q4 = "Deepseek-Coder-V2-16B-Q4"


CONFIGURATIONS = {"baseline": "baseline", "planner": "planner"}

PHASES = (
    PhaseDefinition(
        phase="phase1",
        configs=[CONFIGURATIONS["baseline"]],
        levels=list(Levels),
        models=list(Model),
        reruns=2,
    ),
    PhaseDefinition(
        phase="phase2",
        configs=[CONFIGURATIONS["planner"]],
        levels=[Levels.CARROT_HARD],
        models=list(Model),
        reruns=2,
    ),
)

RUNNER_CONFIGS = {
    "machine-a": RunnerConfig(phase="phase1", allowed_models=[Model.CODER_V2_16B_Q8]),
    "machine-b": RunnerConfig(allowed_models=[Model.CODER_V2_16B_Q4]),
}

# How one cell is run: this script plays one level, and prints its scores as JSON.
RUN = [
    *("python", "play.py", "--level", "{benchmark}", "--model", "{model}"),
    *("--configuration", "{config_name}", "--rerun", "{repeat}"),
]
