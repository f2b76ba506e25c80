#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The floors of the house: core/Makefile.inc lists the folders of core from the ground up, and
# no file includes a header of a folder that stands higher, or of a device's kernels. So there
# is no circle between folders, and whoever changes one knows what can't depend on it.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

open my $list, '<', "$top/core/Makefile.inc" or die "core/Makefile.inc: $!";
my @floors = map { m{^include %D%/(\w+)/} ? $1 : () } <$list>;
push @floors, 'serve', ''; # the daemon, and main.c above it
my %height = map { $floors[$_] => $_ } 0 .. $#floors;

# The core's folder of a path below the top; '' of main.c.
sub folder_of {
    my ($path) = @_;
    return $path =~ m{^core/(\w+)/} ? $1 : '';
}

my (@files, @upwards);
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(c|h|cc)\z/ } }, "$top/core");
for my $file (sort @files) {
    my $path = substr $file, length "$top/";
    my $own = folder_of($path);
    open my $source, '<', $file or die "$file: $!";
    while (my $line = <$source>) {
        my ($header) = $line =~ m{^\s*#\s*include\s+"([^"]+)"} or next;
        push @upwards, "$path:$. includes $header"
            if $header =~ m{^kernels/|^tools/|^plugins/|^t/}
            || ($header =~ m{^core/} && $height{ folder_of($header) } > $height{$own});
    }
}
cmp_ok(scalar @files, '>', 100, 'the sources are there');
ok(exists $height{ folder_of(substr $_, length "$top/") }, "a floor for $_")
    for grep { !exists $height{ folder_of(substr $_, length "$top/") } } @files;
is_deeply(\@upwards, [], 'nothing includes a header of a higher floor');
done_testing;
