#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# make html: Sphinx has nothing to say against the pages, each plugin and manual has one, and no link within the site
# leads nowhere.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use File::Basename qw(dirname);
use File::Find;
use File::Temp qw(tempdir);
use Test::More;

for my $program (qw(sphinx-build groff python3)) {
    plan skip_all => "$program is not installed" if system("command -v $program >/dev/null 2>&1") != 0;
}
my $myst = qx(head -n 1 "\$(command -v sphinx-build)") =~ /^#!\s*(\S+)/ && system("$1 -c 'import myst_parser' 2>/dev/null") == 0;
plan skip_all => 'myst-parser is not installed' if !$myst;

my $dir = tempdir(CLEANUP => 1);
my ($source, $built) = (LlmServer::source("."), LlmServer::built("."));
is system("python3 '$source/tools/site/pages.py' '$source' '$built' '$dir/pages'"), 0, 'the pages are written';
my $said = qx(LLS_VERSION=0 sphinx-build -q -W --keep-going -b html '$dir/pages' '$dir/html' 2>&1);
is $?, 0, 'Sphinx makes a site of them';
is $said, '', '  without a warning';

my (@pages, %there);
find({ no_chdir => 1, wanted => sub { $there{substr $_, length "$dir/html/"} = 1 if -f; push @pages, $_ if /\.html\z/ } }, "$dir/html");
my @guides;
find({ no_chdir => 1, wanted => sub { push @guides, substr($_, 1 + length $source) =~ s/\.md\z/.html/r if /\.md\z/ } }, "$source/doc");
cmp_ok scalar @guides, '>', 15, 'there are guides';
is_deeply [grep { !$there{$_} } sort @guides], [], '  each has a page';
my @plugins = map { m{/plugins/(\w+)s/(\w+)/README\z} ? "plugins/$1-$2.html" : () } glob "$source/plugins/*/*/README";
cmp_ok scalar @plugins, '>', 25, 'there are plugins';
is_deeply [grep { !$there{$_} } @plugins], [], '  each has a page';
is_deeply [grep { !$there{"man/$_.html"} } qw(llmserve.1 llmserve-sim.1 llmserve.ini.5 llmserve-trace.5 llmserve-plugin.7)], [], 'so do manuals';
ok -s "$dir/html/searchindex.js", 'it can be searched';
ok $there{'search.html'}, '  by a page';

SKIP: {
    skip 'a tarball has no experiments', 3 if !-d "$source/experiments/results";
    is_deeply [grep { !$there{"experiments/$_.html"} } map { m{experiments/(.*)\.md\z} } glob "$source/experiments/results/*.md"], [], 'each page of results has one';
    my %pictures = map { LlmServer::read_file($_) =~ /!\[[^\]]*\]\(([\w.-]+)\)/g ? ($1 => 1) : () } glob "$source/experiments/results/*.md";
    my $gallery = LlmServer::read_file("$dir/html/gallery.html");
    cmp_ok scalar keys %pictures, '>', 0, 'some have pictures';
    is_deeply [grep { $gallery !~ /<img [^>]*src="[^"]*\Q$_\E"/ } sort keys %pictures], [], '  each is in the gallery';
}

my (@dead, $links);
for my $page (@pages) {
    my $text = LlmServer::read_file($page);
    for my $link ($text =~ /(?:href|src)="([^"#?]+)/g) {
        next if $link =~ m{\A(?:[a-z]+:|//)};
        $links++;
        my $target = dirname($page) . "/$link";
        push @dead, substr($page, length "$dir/html/") . ": $link" if !-e $target;
    }
}
cmp_ok $links // 0, '>', 1000, 'it has links';
is_deeply \@dead, [], '  none of them is dead';
done_testing;
