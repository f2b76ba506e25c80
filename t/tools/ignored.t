#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A build inside of the source tree leaves git status empty: every file of this build would be
# ignored there, or is part of the repository.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Find;
use Test::More;

my ($source, $build) = map { realpath($_) } @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
plan skip_all => 'built in the source tree, where .ci/run asks git status' if $source eq $build;
plan skip_all => 'git not found' if system('command -v git >/dev/null') != 0;
plan skip_all => 'not a git checkout' if !-e "$source/.git" || system("git -C '$source' status >/dev/null 2>&1") != 0;

my @made;
find({ no_chdir => 1, wanted => sub { push @made, substr($_, length($build) + 1) if -f } }, $build);
my %ours = map { chomp; $_ => 1 } qx(git -C '$source' ls-files);
my $list = "$build/made.log";
open my $file, '>', $list or die "$list: $!";
print $file map { "$_\n" } @made;
close $file or die "$list: $!";
my %ignored = map { chomp; $_ => 1 } qx(git -C '$source' check-ignore --no-index --stdin <'$list');
unlink $list;
cmp_ok scalar(@made), '>', 100, 'there is a build';
is_deeply [sort grep { !$ours{$_} && !$ignored{$_} } @made], [], 'git ignores what it has made';
done_testing;
