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

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --node-ip-address="$address" --port="$port" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
if [ "${#nodes[@]}" -gt 1 ]; then
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --nodelist="$others" \
        ray start --address="$address:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
    sleep 20
fi

# --resume: a job that is requeued goes on with what is there.
cmpe solve "$problem" --evidence "$rows" --method auto \
    --output "$answers/" --format parquet --resume \
    --executor ray --address "$address:$port"
