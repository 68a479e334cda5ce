#!/bin/sh
# Usage: sources.sh FOLDER. Unpacks Debian's sources of Lua and libyaml, of the release of this system, into FOLDER/lua
# and FOLDER/yaml. It uses its own list of sources and state and leaves the system's unchanged.
set -e
mkdir -p "$1/state/lists/partial" "$1/cache/archives/partial"
cd "$1"
distribution=$(. /etc/os-release && echo "${NAME%% *}")
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
  "Origin: $distribution" | sort -u > sources.list
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$PWD/state/lists" -o Dir::Cache="$PWD/cache" "$@" > apt.log 2>&1 ||
    { cat apt.log >&2; exit 1; }
}
apt update
apt source --only-source lua5.4 libyaml
rm -rf lua yaml state cache ./*.dsc ./*.tar.*
mv lua5.4-*/ lua
mv libyaml-*/ yaml
# Debian's luaconf.h includes a header written by the package's build: the folder of C modules, of which there are none.
echo '#define DEB_HOST_MULTIARCH ""' > lua/src/lua5.4-deb-multiarch.h
