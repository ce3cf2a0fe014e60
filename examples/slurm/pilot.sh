#!/bin/bash -l
{{sbatch}}
#SBATCH --mem=1G

{{prelude}}
cd {{folder}} || exit 1

# The end of this job, in seconds since 1970. SLURM_JOB_END_TIME needs a newer Slurm than 22.05.
ends_at=${SLURM_JOB_END_TIME:-$(($(date +%s) + {{seconds}}))}

# exec: Slurm signals this process, which has to be the worker.
exec {{command}} --ends-at "$ends_at"
