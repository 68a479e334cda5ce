#!/bin/sh
# Usage: sysroot.sh ARCHITECTURE FOLDER. Unpacks Debian's packages of Lua, libyaml and SQLite for another architecture
# below FOLDER/root. It uses its own state and leaves the system's packages and lists unchanged.
set -e
architecture=$1
mkdir -p "$2/state/lists/partial" "$2/cache/archives/partial" "$2/root"
cd "$2"
: > status
apt() {
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
    -o Dir::State="$PWD/state" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD/cache" "$@" > apt.log 2>&1 ||
    { cat apt.log >&2; return 1; }
}
apt update || true # a list that the mirror is writing is left out: what is missing then fails below
apt download liblua5.4-dev liblua5.4-0 libyaml-dev libyaml-0-2 libsqlite3-dev libsqlite3-0
for package in ./*.deb; do dpkg-deb -x "$package" root; done
rm -rf state cache status ./*.deb
