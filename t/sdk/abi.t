#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The ABI of the SDK's headers against t/sdk/llmserve-1.abi: structs may grow at their end,
# types may be added, nothing else may change. After an addition:
#   t/sdk/abi.t --update
# and commit the new baseline with the headers.
src=${LLS_SRCDIR:-$(dirname "$0")/../..}
baseline=$src/t/sdk/llmserve-1.abi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

skip() {
  echo "1..0 # SKIP $1"
  exit 0
}
test "$(uname -m)" = x86_64 || skip "the baseline is of x86-64"
command -v abidw >/dev/null && command -v abidiff >/dev/null ||
  skip "abidiff not found: apt-get install abigail-tools"
command -v gcc >/dev/null || skip "gcc not found, which the baseline is made with"

# library FOLDER: a library of the headers in FOLDER/llmserve, with a function for each
# struct and enum there is.
library() {
  headers=$1/llmserve
  {
    for h in "$headers"/*.h; do echo "#include <llmserve/$(basename "$h")>"; done
    sed -n 's/^\(struct\|enum\) \(lls_[a-z0-9_]*\) {.*/\1 \2/p' "$headers"/*.h |
      while read -r kind name; do
        echo "void abi_$name($kind $name *); void abi_$name($kind $name *p) { (void)p; }"
      done
  } >"$1/abi.c"
  gcc -std=c17 -g -O0 -fno-eliminate-unused-debug-types -shared -fPIC -I"$1" \
    -o "$1/libabi.so" "$1/abi.c"
}

# headers FOLDER: a copy of the tree's
headers() {
  mkdir -p "$folder/$1/llmserve" && cp "$src"/include/llmserve/*.h "$folder/$1/llmserve/"
}

headers now && library "$folder/now" || exit 1
if test "$1" = --update; then
  abidw --headers-dir "$folder/now" --no-corpus-path --no-comp-dir-path \
    --no-show-locs --out-file "$baseline" "$folder/now/libabi.so"
  exit
fi

# Judges the report of abidiff: prints why a change breaks the ABI; nothing if it does not.
# A struct may grow where both sides know its size: it begins with `size` or `api_version`,
# or it is lls_request, which is only ever handed out by pointer.
judge() { # judge HEADERS <REPORT
  perl -e '
    my %grows = (lls_request => 1);
    for my $file (glob "$ARGV[0]/llmserve/*.h") {
      open my $in, "<", $file or die "$file: $!\n";
      my $text = join "", <$in>;
      $grows{$1} = 1 while $text =~ /^struct (lls_\w+) \{[^\n]*\n\s+uint32_t (?:size|api_version);/mg;
    }
    my ($name, $size) = ("", 0);
    while (<STDIN>) {
      ($name, $size) = ($2, 0) if /^\x27(struct|enum|union) (\w+)/;
      $size = $1 if /^\s+type size changed from (\d+)/;
      print "$1 types have gone or have changed\n" if /functions summary: (?!0 Removed, 0 Changed)(.*?),/;
      print "$name has changed within its size\n" if /^  type size hasn\x27t changed/;
      print "$name has a fixed size\n" if /^  type size changed/ && !$grows{$name};
      print "$name: a member was put in at bit $1, before its end\n" if /at offset (\d+) \(in bits\)$/ && $1 < $size;
      print "$name: what was there has changed\n" if /there are data member changes|deletion/;
    }' "$1"
}

# same NAME: does the library of these headers keep the ABI of the baseline? What is wrong
# is in $folder/why, abidiff's words in $folder/report.
same() {
  abidiff --leaf-changes-only --no-added-syms --no-show-locs "$baseline" \
    "$folder/$1/libabi.so" >"$folder/report" 2>&1
  status=$?
  judge "$folder/$1" <"$folder/report" >"$folder/why" 2>&1
  test $((status & 3)) = 0 && ! test -s "$folder/why" # 1, 2: abidiff could not tell
}

n=0
result() { # result STATUS NAME
  n=$((n + 1))
  if test "$1" = 0; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

same now
kept=$?
result $kept "the headers keep the ABI of version 1"
test $kept = 0 || {
  echo "# Plugins that are built and installed would read wrong members: structs of"
  echo "# include/llmserve may grow at their end, where they have a size; nothing else."
  sed 's/^/# /' "$folder/why" "$folder/report"
}

# Does the guard see what it is there for? The headers with a change, by sed.
edit() {
  rm -rf "$folder/edited"
  headers edited && sed -i "$1" "$folder"/edited/llmserve/*.h && library "$folder/edited"
}
kept() { # NAME SED: must pass
  edit "$2" && same edited
  result $? "kept: $1"
}
broken() { # NAME SED: must fail
  edit "$2" && ! same edited
  result $? "seen: $1"
}
kept 'a member appended' \
  's|^  uint32_t min_drafts;|&\n  uint64_t more;|'
kept 'a callback appended' \
  's|^  void (\*on_end)(void \*self, .*);|&\n  int (*more)(void *self);|'
kept 'a struct added' 's|^struct lls_prompt {|struct lls_more {\n  int one;\n};\n\n&|'
kept 'an enumerator appended' 's|^  LLS_REFUSED_POSTPONED,|& LLS_REFUSED_MORE,|'
broken 'a member in the middle' 's|^  uint32_t n_waiting, n_running|  uint32_t more;\n&|'
broken 'a member removed' '/^  uint32_t preemptions;/d'
broken 'two members swapped' 's|^  int64_t started_ns, ended_ns;|  int64_t ended_ns, started_ns;|'
broken 'another type' 's|^  uint64_t step; .*number of this.*|  uint32_t step;|'
broken 'a callback in the middle' 's|^  void (\*on_step)(void \*self|  void (*more)(void *self);\n&|'
broken 'other arguments' 's|^  uint32_t (\*mark)(void \*self);|  uint32_t (*mark)(void *self, int more);|'
broken 'an enumerator moved' 's|^  LLS_REFUSED_NEVER_FITS,||'
broken 'a struct removed' 's/^struct lls_sink {/struct lls_drain {/; s/struct lls_sink \*/struct lls_drain */g'
broken 'an array element that grows' 's|^  uint8_t form; .*|&\n  uint64_t more;|'
echo "1..$n"
