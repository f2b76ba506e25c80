#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The floors of the house: core/Makefile.inc and text/Makefile.inc list their folders from the ground
# up, as core/api/Makefile.inc lists those that stand on core/api, and no file includes a header of a
# folder that stands higher, so that whoever changes one knows what can't depend on it. text is a library of
# its own: it includes nothing of the core but core/base, which in turn includes nothing of text. folders.t
# looks for circles everywhere, in kernels and tools too.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# The folders that a Makefile.inc includes, in its order, each followed by its own.
sub folders_of {
    my ($dir) = @_;
    open my $list, '<', "$top/$dir/Makefile.inc" or die "$dir/Makefile.inc: $!";
    return map { ($_, folders_of($_)) } map { m{^include %D%/(\w+)/} ? "$dir/$1" : () } <$list>;
}
my ($base, @core) = folders_of('core');
is($base, 'core/base', 'core/base is the ground floor');
my @text = folders_of('text');
my @floors = ($base, @text, @core, 'core/serve', 'core'); # the daemon, and main.c above it
my %height = map { $floors[$_] => $_ } 0 .. $#floors;
my %below_text = map { $_ => 1 } $base, @text;

sub folder_of {
    my ($path) = @_;
    return $path =~ s{/[^/]*\z}{}r;
}

my (@files, @upwards, @of_core);
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(c|h|cc)\z/ } }, "$top/core", "$top/text");
for my $file (sort @files) {
    my $path = substr $file, length "$top/";
    my $own = folder_of($path);
    open my $source, '<', $file or die "$file: $!";
    while (my $line = <$source>) {
        my ($header) = $line =~ m{^\s*#\s*include\s+"([^"]+)"} or next;
        my $folder = folder_of($header);
        push @of_core, "$path:$. includes $header" if $own =~ m{^text/} && !$below_text{$folder};
        push @upwards, "$path:$. includes $header"
            if $header =~ m{^tools/|^plugins/|^t/}
            || ($header =~ m{^(?:core|text)/} && ($height{$folder} // @floors) > ($height{$own} // 0));
    }
}
cmp_ok(scalar @files, '>', 100, 'the sources are there');
cmp_ok(scalar @text, '>', 3, 'text has its folders');
cmp_ok(scalar(grep { m{^core/api/} } @core), '>', 3, 'core/api has its folders');
ok(exists $height{ folder_of(substr $_, length "$top/") }, "a floor for $_")
    for grep { !exists $height{ folder_of(substr $_, length "$top/") } } @files;
is_deeply(\@of_core, [], 'text includes nothing but text and core/base');
is_deeply(\@upwards, [], 'nothing includes a header of a higher floor');
done_testing;
