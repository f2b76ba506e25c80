#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# make deb reports missing tools before it builds anything.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

# All that PATH has, but what makes packages.
my $bin = tempdir(CLEANUP => 1);
for my $folder (split /:/, $ENV{PATH}) {
    for my $program (grep { !m{/(?:dpkg-buildpackage|dh)\z} } glob "$folder/*") {
        symlink $program, "$bin/" . ($program =~ s{.*/}{}r);
    }
}
delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
my $out = qx(PATH='$bin' make -C '$ENV{LLS_BUILDDIR}' deb 2>&1);
isnt $?, 0, 'make deb without dpkg-dev';
like $out, qr/^make deb: apt-get install dpkg-dev debhelper$/m, 'says what to install';
unlike $out, qr/\bdistdir\b|\btar\b/, '  before it makes a tarball' or diag $out;
done_testing;
