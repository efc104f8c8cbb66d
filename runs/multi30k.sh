#!/usr/bin/env bash
# The published tiny model on tokenized Multi30k English-German: prepare, train, translate, score, and the curve.
#
#   DRAGOMAN_DATA=/path/to/data runs/multi30k.sh [DIRECTORY] [SEED]
#
# About 90 minutes of training on 2 cores. Needs the dragoman command on the PATH (or in .venv of this repository).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/multi30k-run}
seed=${2:-1}
data=${DRAGOMAN_DATA:?names the folder that holds multi30k/tok}/multi30k/tok
PATH=$here/../.venv/bin:$PATH

text() { echo "$data/$1.lc.norm.tok.$2.gz"; }

if [ ! -e "$out/prepared/manifest.json" ]; then
    dragoman prepare "$(text train en)" "$(text train de)" --out "$out/prepared" --vocab-size 10000 \
        --dev-source "$(text val en)" --dev-target "$(text val de)" --source-language en --target-language de
fi
resume=()
if [ -e "$out/run/recipe.toml" ]; then resume=(--resume); fi
dragoman train "$out/prepared" --out "$out/run" --recipe "$here/multi30k.toml" --seed "$seed" "${resume[@]}"

dragoman translate "$out/run" "$(text test_2016_flickr en)" --out "$out/test.de"
gzip -dc "$(text test_2016_flickr de)" >"$out/reference.de"
dragoman evaluate "$out/test.de" "$out/reference.de" --tokenize none --target-language de | tee "$out/scores.txt"

echo "curve (update, minutes, dev perplexity, dev BLEU of 200 greedy translations):"
python3 - "$out/run/events.jsonl" <<'PY'
import json
import sys

for line in open(sys.argv[1], encoding="utf-8"):
    event = json.loads(line)
    if event["event"] == "validated":
        bleu = "" if event["bleu"] is None else f"{event['bleu']:6.2f}"
        print(f"{event['step']:6d} {event['seconds'] / 60:7.1f} {event['perplexity']:8.3f} {bleu}")
PY
