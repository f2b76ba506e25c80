#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# README's table of the models that can be loaded is the one that bench/models/table.py
# makes of the families that it checks: a family that is added there and not here, or a
# row that was written by hand, fails.
use strict;
use warnings;
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
plan skip_all => 'no python3' if system('python3 -c 0 2>/dev/null') != 0;
plan skip_all => 'a release has no bench/models' if !-e "$top/bench/models/table.py";

sub table { my ($tree, @options) = @_; return scalar `python3 -B '$tree/bench/models/table.py' --readme @options 2>&1` }

my $said = table($top);
is $?, 0, 'README has the table of bench/models/readme.py' or diag $said;
like $said, qr/^    Qwen2, Qwen2.5, Qwen3 +yes +yes$/m, 'the table is printed';

# In a copy of the tree: a row by hand, a family without a row.
my $copy = tempdir(CLEANUP => 1);
make_path("$copy/bench/models");
copy($_, "$copy/bench/models") or die "$_: $!" for glob "$top/bench/models/*.py";
copy("$top/README", $copy) or die $!;

sub change {
    my ($file, $from, $to) = @_;
    open my $in, '<', "$copy/$file" or die "$file: $!";
    my $text = do { local $/; <$in> };
    $text =~ s/\Q$from\E/$to/ or die "$file has no '$from'";
    open my $out, '>', "$copy/$file" or die "$file: $!";
    print {$out} $text;
    close $out or die $!;
    return;
}

change('README', '    Phi-3, Phi-4                        yes     yes', '    Phi-3, Phi-4, Phi-5                 yes     yes');
like table($copy), qr/README's table.*--readme --update/, 'a row that was written by hand is refused';
is $? >> 8, 1, '  by the exit status';
table($copy, '--update');
is table($copy), $said, '--update writes the table';
change('bench/models/readme.py', '"nemotron"', '"apertus"');
like table($copy), qr/family 'nemotron' .*is in no row/, 'a family without a row is refused';
change('bench/models/readme.py', '"hy3"', '"hy4", "hy3", "falcon"');
like table($copy), qr/names 'hy4', which is no family/, '  as is a row of an unknown one';
done_testing;
