#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# t/budget names a test file that uses more than its budget of processor time, on a fast machine and on a
# slow one.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $folder = realpath(tempdir(CLEANUP => 1));
copy(realpath("$FindBin::Bin/../budget"), "$folder/budget") or die "budget: $!";

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die "$name: $!";
    print $file $text;
    close $file or die "$name: $!";
    return "$folder/$name";
}

sub budget {
    my (@arguments) = @_;
    my $out = qx($^X '$folder/budget' @arguments 2>&1);
    return ($out, $? >> 8);
}

my $usual = write_file('usual', "t/a 10\nt/b 20\nt/c 30\nt/d 0.1\n");
is((budget('keep', 'plain', $usual))[1], 0, 'a run becomes the budget');
my ($out, $status) = budget('check', 'plain', $usual);
is $status, 0, 'the same run is within it';
like $out, qr/4 files, 0 over/, '  and says so';
($out, $status) = budget('check', 'plain', write_file('slow', "t/a 30\nt/b 60\nt/c 90\nt/d 0.3\n"));
is $status, 0, 'so is a machine that takes three times as long';
for my $speed (1, 3) {
    my $grown = join '', map { "t/$_->[0] " . $speed * $_->[1] . "\n" } ['a', 10], ['b', 45], ['c', 30], ['d', 0.1];
    ($out, $status) = budget('check', 'plain', write_file('grown', $grown));
    is $status, 1, "at $speed times the time: a test that has grown is over it";
    like $out, qr{^t/b: over its budget: .* budget 20\.0 s}m, '  by name';
    unlike $out, qr{^t/[acd]:}m, '  alone';
}
($out, $status) = budget('check', 'plain', write_file('new', "t/a 10\nt/b 20\nt/c 30\nt/d 4.9\nt/new 4\nt/long 9\n"));
is $status, 1, 'a new file may take 5 s';
like $out, qr{^t/long: over}m, '  and no more';
unlike $out, qr{^t/(?:new|d):}m, '  and a short one may grow by as much';
my $once = write_file('once', "t/a 10\nt/b 45\nt/c 30\nt/d 0.1\n");
is((budget('over', 'plain', $once))[0], "t/b\n", 'the names of what is over it, to run again');
is((budget('check', 'plain', $once, write_file('again', "t/b 21\n")))[1], 0, '  and of two measurements the least counts');
is((budget('check', 'plain', $once, write_file('again', "t/b 44\n")))[1], 1, '  which may be over it as well');
is((budget('keep', 'sanitizers', $usual))[1], 0, 'sanitizers have a budget of their own');
like qx(cat '$folder/budget.txt'), qr/^t\/c 30\.0 30\.0$/m, '  in the same line';
done_testing;
