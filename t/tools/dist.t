#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A release's tarball contains everything that git has, except for what only the repository needs, so no
# EXTRA_DIST is incomplete. `make distcheck` checks before a release that it builds and installs
# (doc/release.md).
use strict;
use warnings;
use Cwd qw(realpath);
use File::Temp qw(tempdir);
use Test::More;

my ($source, $build) = map { realpath($_) } @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
plan skip_all => 'git not found' if system('command -v git >/dev/null') != 0;
plan skip_all => 'not a git checkout' if !-e "$source/.git" || system("git -C '$source' status >/dev/null 2>&1") != 0;

# Not in a release: CI, the scripts which once made data (tools/README), experiments with their results, and the fuzzers'
# corpora (t/fuzz/replay.c skips without its corpus).
my $only_here = qr{\A\.(?:ci|github)/|\Aexperiments/|\At/fuzz/corpus/|\A\.gitignore\z|\Atools/(?:README\z|[\w/-]+\.py\z)};

delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
my $folder = tempdir(CLEANUP => 1) . '/dist';
my $out = qx(make -s -C '$build' distdir distdir='$folder' 2>&1);
is $?, 0, 'make distdir' or diag $out;
chomp(my @ours = qx(git -C '$source' ls-files));
cmp_ok scalar(@ours), '>', 1000, 'git has files';
is_deeply [grep { !/$only_here/ && -e "$source/$_" && !-e "$folder/$_" } @ours], [], 'all of them are in a tarball';
is_deeply [grep { m{\A(?:experiments|t/fuzz/corpus)/} && -e "$folder/$_" } @ours], [], 'without what was measured and the corpora';
done_testing;
