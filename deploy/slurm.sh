#!/bin/bash
# SLURM: `sbatch deploy/slurm.sh quickstart --trials 50`; arguments are those of `suite sweep`.
# One Ray node on each of the job's machines, the sweep on the first. When the time is up, or a machine is
# lost, submit the same line again: it continues.
#SBATCH --job-name=suite
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
set -euo pipefail

# A folder that all machines see, and an environment in it: make once with
#   python3 -m venv "$SUITE_HOME/venv" && "$SUITE_HOME/venv/bin/pip" install -c constraints.txt .
: "${SUITE_HOME:=$HOME/suite}"
source "$SUITE_HOME/venv/bin/activate"

# A token of this job's own, which only its owner can read: others on these machines cannot join.
umask 077
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN_PATH="$SUITE_HOME/token-$SLURM_JOB_ID"
python -c 'import secrets; print(secrets.token_hex(32), end="")' >"$RAY_AUTH_TOKEN_PATH"
trap 'rm -f "$RAY_AUTH_TOKEN_PATH"' EXIT

mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${machines[0]}
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | awk '{print $1}')
port=$((20000 + SLURM_JOB_ID % 20000)) # another job on the machine has another one
ray_options=(--num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" --block)

srun --nodes=1 --ntasks=1 --overlap -w "$head" \
    ray start --head --node-ip-address="$address" --port="$port" \
    --include-dashboard=false "${ray_options[@]}" &
sleep 20
for machine in "${machines[@]:1}"; do
    srun --nodes=1 --ntasks=1 --overlap -w "$machine" \
        ray start --address="$address:$port" "${ray_options[@]}" &
done
sleep 10

# Records go to an MLflow server that outlives the job: SQLite loses data on network file systems. It listens
# on loopback of $SUITE_RECORDS, and a tunnel leads to it.
: "${SUITE_RECORDS:?name of the machine where mlflow server runs; see docs/cluster.md}"
ssh -N -o ExitOnForwardFailure=yes -L "$((port + 1)):127.0.0.1:5000" "$SUITE_RECORDS" &
sleep 5

suite sweep "$@" --address "$address:$port" --storage "$SUITE_HOME/runs" --resume \
    --tracking-uri "http://127.0.0.1:$((port + 1))" &
sweep=$!
# Five minutes before the end SLURM says so: running trials stop, everything is kept.
trap 'kill -TERM $sweep' TERM
code=0
wait $sweep || code=$?
if kill -0 $sweep 2>/dev/null; then # that was the signal; now the sweep
    code=0
    wait $sweep || code=$?
fi
exit $code
