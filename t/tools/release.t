#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A release's list of parts (tools/package/sbom): valid SPDX 2.3 with the tarball's checksum and each library at the
# version that the package manager has, the same bytes each time. The workflows that would publish a release name
# targets and files that exist. `.ci/full` makes the tarball twice and compares.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

my ($source, $build) = @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
plan skip_all => 'no dpkg-query' if system('command -v dpkg-query >/dev/null') != 0;
my $folder = tempdir(CLEANUP => 1);
open my $tarball, '>', "$folder/llmserve-1.2.3.tar.xz" or die $!;
print $tarball "abc";
close $tarball;

$ENV{SOURCE_DATE_EPOCH} = 1790000000;
my $command = "'$source/tools/package/sbom' llmserve 1.2.3 $folder/llmserve-1.2.3.tar.xz '$build/llmserve'";
my $text = qx($command);
is $?, 0, 'the parts are listed';
is qx($command), $text, '  by the same bytes each time';
my $list = decode_json($text);
my %part = map { $_->{name} => $_ } @{ $list->{packages} };
is $part{llmserve}{checksums}[0]{checksumValue}, 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', '  with the tarball\'s SHA-256';
is $list->{creationInfo}{created}, '2026-09-21T14:13:20Z', '  and the time that it is given';
chomp(my $version = qx(dpkg-query -W -f '\${Version}' libuv1));
is $part{libuv1}{versionInfo}, $version, '  libuv at the version that is installed';
like $part{libuv1}{externalRefs}[0]{referenceLocator}, qr{\Apkg:deb/\w+/libuv1\@}, '  as a package URL';
ok $part{$_}, "  $_, which is compiled in" for 'node-llhttp', 'uthash-dev';
my %ids = map { $_->{SPDXID} => 1 } @{ $list->{packages} }, { SPDXID => 'SPDXRef-DOCUMENT' };
is_deeply [grep { !$ids{ $_->{spdxElementId} } || !$ids{ $_->{relatedSpdxElement} } } @{ $list->{relationships} }], [], '  every relation is between parts';
SKIP: {
    skip 'pyspdxtools (pip install spdx-tools) is not installed', 1 if system('command -v pyspdxtools >/dev/null') != 0;
    open my $file, '>', "$folder/list.spdx.json" or die $!;
    print $file $text;
    close $file;
    is qx(pyspdxtools -i $folder/list.spdx.json 2>&1), '', '  SPDX\'s own tool finds no fault';
}

# ---- the workflows ---------------------------------------------------------------------------
SKIP: {
    my @workflows = glob "$source/.github/workflows/*.yml";
    skip 'a tarball has no workflows', 3 if !@workflows;
    my %text = map { my $path = $_; local (@ARGV, $/) = $path; ($path =~ m{([^/]+)\z}) => scalar <> } @workflows;
    my $all = join '', values %text;
    my @targets = $all =~ /make -s -C build\/quickstart (\w+)/g;
    cmp_ok scalar @targets, '>', 4, 'workflows make something';
    my $made = do { local (@ARGV, $/) = "$build/Makefile"; <> };
    is_deeply [grep { $made !~ /^$_:/m } @targets], [], '  by targets that exist';
    is_deeply [grep { !-x "$source/$_" } $all =~ m{run: (?:\./)?(\.ci/\w+|quickstart)}g], [], '  and programs that do';
}
done_testing;
