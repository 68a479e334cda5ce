#!/bin/sh
# Usage: dist.sh VERSION FOLDER URL. Writes the files of a release into FOLDER: the sources, the rockspec that fetches
# them from URL, what packages were built before (wheel, npm, Debian), the notes of this version, the checksums of all.
set -e
version=$1 folder=$2 url=$3
mkdir -p "$folder"
rm -f "$folder"/*
git archive --format=tar --prefix="tperf-$version/" HEAD | gzip -9n > "$folder/tperf-$version.tar.gz"
sed "s|url = \"[^\"]*\",.*|url = \"$url/tperf-$version.tar.gz\",|" "tperf-$version-1.rockspec" > "$folder/tperf-$version-1.rockspec"
for built in build/tperf-"$version"-*.whl build/npm/tperf-"$version".tgz build/tperf_"$version"_*.deb; do
  [ ! -f "$built" ] || cp "$built" "$folder"
done
# From this version's heading to the next one's.
awk -v at="## $version" 'index($0, "## ") == 1 { on = index($0, at) == 1; next } on' CHANGELOG.md > "$folder/notes.md"
[ -s "$folder/notes.md" ] || { echo "CHANGELOG.md has no section '## $version'" >&2; exit 1; }
(cd "$folder" && sha256sum -- * > SHA256SUMS)
echo "$folder: $(ls "$folder" | tr '\n' ' ')"
