#!/bin/sh
# Builds a Debian package of an installed tree: deb.sh STAGE VERSION OUTPUT. `make deb` stages the tree and calls this.
# DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's own tools.
set -eu
umask 022
stage=$1 version=$2 output=$3
name=${DEBFULLNAME:-$(git log -1 --format=%an 2> /dev/null || echo "tperf authors")}
email=${DEBEMAIL:-$(git log -1 --format=%ae 2> /dev/null || echo root@localhost)}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2> /dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
doc=$stage/usr/share/doc/tperf

strip --strip-unneeded --remove-section=.comment --remove-section=.note "$stage/usr/bin/tperf"
gzip -9n "$stage/usr/share/man/man1/tperf.1"

mkdir -p "$doc"
{ echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
  echo "Upstream-Name: tperf"
  echo
  echo "Files: *"
  echo "Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE)"
  echo "License: Expat"
  sed -n '/^Permission/,$p' LICENSE | sed 's/^$/./; s/^/ /'; } > "$doc/copyright"
{ echo "tperf ($version) unstable; urgency=medium"
  echo
  echo "  * What is new is in NEWS.gz."
  echo
  echo " -- $name <$email>  $(LC_ALL=C date -R -u -d "@$SOURCE_DATE_EPOCH")"; } | gzip -9n > "$doc/changelog.gz"
gzip -9nc CHANGELOG.md > "$doc/NEWS.gz"

# The packages of the program's libraries. dpkg-shlibdeps must run in a source package.
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
mkdir "$source/debian"
printf 'Source: tperf\n\nPackage: tperf\nArchitecture: any\n' > "$source/debian/control"
program=$(cd "$stage" && pwd)/usr/bin/tperf
depends=$(cd "$source" && dpkg-shlibdeps -O "$program" 2> /dev/null | sed -n 's/^shlibs:Depends=//p')

mkdir -p "$stage/DEBIAN"
cat > "$stage/DEBIAN/control" <<CONTROL
Package: tperf
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $name <$email>
Installed-Size: $(du -k -s --exclude=DEBIAN "$stage" | cut -f 1)
Depends: $depends
Recommends: libedit2
Suggests: librsvg2-bin, fonts-dejavu-core
Section: science
Priority: optional
Description: performance model of large transformers on GPU clusters
 tperf predicts how long training and serving a large transformer model take
 on a cluster of GPUs, whether it fits their memory, and what a different
 machine would change, before anyone rents one. Questions are asked on the
 command line or from Lua scripts.
CONTROL
(cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f ! -path '*/usr/bin/*' -exec chmod 644 {} +
dpkg-deb --root-owner-group --build "$stage" "$output"
