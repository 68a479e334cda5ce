#!/bin/sh
# Appends a line to bench/history.csv: the instructions of standard commands and bench/walk.lua, counted by callgrind,
# whose counts do not depend on the machine's load. Run it in the repository's root after `make all`; it takes a few
# minutes.
set -eu
program=build/release/tperf
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1 > /dev/null |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
search=$(count search llama-3.1-70b -s h100-sxm -g 256 -b 512 -j 1)
train=$(count train llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8)
infer=$(count infer llama-3.1-70b -s h100-sxm -g 16 -p 2048 -n 256 --tpot 20ms)
schedule=$(count schedule zb_h1 zbv v_half -d 16 -m 1024)
walk=$(count run --trust bench/walk.lua)
history=bench/history.csv
[ -e $history ] || echo "version,date,machine,search,train,infer,schedule,walk" > $history
echo "$(cat VERSION),$(git log -1 --format=%cs),$(uname -m) $(cc -dumpmachine) $(cc -dumpversion),$search,$train,$infer,$schedule,$walk" |
  tee -a $history
