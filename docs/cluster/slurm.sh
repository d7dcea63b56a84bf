#!/bin/bash
#SBATCH --job-name=cmpe
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --requeue
# A Ray cluster for the time of this job: sbatch slurm.sh PROBLEM ROWS ANSWERS
# All nodes see the same environment (module load, or a virtual environment on a shared disk).
set -euo pipefail

problem=${1:?"usage: sbatch slurm.sh PROBLEM ROWS ANSWERS"}
rows=${2:?"usage: sbatch slurm.sh PROBLEM ROWS ANSWERS"}
answers=${3:?"usage: sbatch slurm.sh PROBLEM ROWS ANSWERS"}
port=6379
# Only this job may use its cluster.
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
# Since Slurm 22.05 srun does not take this from sbatch, and would bind Ray to one core.
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --node-ip-address="$address" --port="$port" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --block &
for _ in {1..60}; do
    ray health-check --address "$address:$port" 2> /dev/null && break
    sleep 2
done
if [ "${#nodes[@]}" -gt 1 ]; then # blocks go to these as they join
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --nodelist="$others" \
        ray start --address="$address:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi

# --resume: a job that is requeued goes on with what is there.
cmpe solve "$problem" --evidence "$rows" --method auto \
    --output "$answers/" --format parquet --resume \
    --executor ray --address "$address:$port"
