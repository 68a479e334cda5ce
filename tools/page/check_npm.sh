#!/bin/sh
# Usage: check_npm.sh PACKAGE PROGRAM. Installs the npm package into a new folder, offline, and runs npm/test.mjs there.
set -e
package=$(realpath "$1") program=$(realpath "$2") tests=$(realpath npm/test.mjs)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --offline --no-audit --no-fund --no-package-lock "$package"
cp "$tests" .
TPERF=$program node --test test.mjs
