#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# make install into an empty folder, and make uninstall, which leaves only files that were
# changed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Cwd qw(abs_path);
use File::Find;
use File::Temp;
use Test::More;

delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
my $build = abs_path(LlmServer::built('.'));
my $dest  = File::Temp->newdir;

sub make { my $out = qx(cd '$build' && make -s @_ DESTDIR='$dest' 2>&1); return $? == 0 ? 'ok' : $out }

sub found {
    my ($want) = @_;
    my @found;
    find({ no_chdir => 1, wanted => sub { push @found, substr $_, length $dest if $want->() } }, "$dest");
    return sort @found;
}

is make('install'), 'ok', 'make install';
my @files = found(sub { -f });
for my $file (qw(bin/llmserve bin/llmserve-ctl include/llmserve/plugin.h demo-model/config.json llmserve/llmserve.ini scheduler_fcfs.so llmserve-plugin.pc)) {
    ok scalar(grep { /\Q$file\E\z/ } @files), "  $file is there";
}
my ($ini) = grep { m{/llmserve/llmserve\.ini\z} } @files;
like LlmServer::read_file("$dest$ini"), qr{^path = /.*/demo-model$}m, 'the configuration names the installed model';
my %docs = map { $_ => LlmServer::read_file("$dest$_") } grep { m{/presets/|/doc/llmserve/README\z|/man/} } @files;
is_deeply [grep { m{/presets/} && $docs{$_} =~ m{\bplugins/|[^/]/README} } sort keys %docs], [], 'presets name what is installed';
my %pages = map { m{([^/]+)\.(\d)\z} ? ("$1($2)" => 1) : () } @files;
my @named = map { $docs{$_} =~ /\b(llmserve-\w+\(7\))/g } grep { m{/presets/} } sort keys %docs;
is_deeply [grep { !$pages{$_} } @named], [], '  pages that there are' or diag "@named";
ok scalar(@named), '  and there are some';
is qx('$dest@{[grep { m{bin/llmserve\z} } @files]}' --version), "llmserve 0.1.0\n", 'the program runs';
is make('install'), 'ok', 'make install once more';
is_deeply [found(sub { -f })], \@files, '  is the same';

is make('uninstall'), 'ok', 'make uninstall';
is_deeply [found(sub { !-d })], [], '  leaves no file';
is_deeply [found(sub { -d && m{/llmserve\z} })], [], '  and no folder of its own';

make('install');
LlmServer::write_file("$dest$ini", "; mine\n");
make('install');
is LlmServer::read_file("$dest$ini"), "; mine\n", 'a changed configuration outlives an installation';
make('uninstall');
is_deeply [found(sub { !-d })], [$ini], 'and an uninstallation';

# The prefix of a quickstart's build is /usr/local; people install it elsewhere, and move folders.
{
    my $prefix = "$dest/opt/llmserve";
    is system("cd '$build' && make -s install prefix='$prefix' systemdsystemunitdir='$prefix/systemd' >/dev/null 2>&1"), 0, 'make install prefix=ELSEWHERE, of what is built';
    local $ENV{LLS_PLUGIN_PATH};
    delete $ENV{LLS_PLUGIN_PATH};
    my $list = sub { scalar qx('$prefix/bin/llmserve' --list-plugins 2>&1) };
    like $list->(), qr/^scheduler +fcfs /m, '  its programs find its plugins';
    like scalar(qx('$prefix/bin/llmserve' --check-config 2>&1)), qr{^\Q$prefix\E/etc/llmserve/llmserve\.ini: ok$}m, '  and its configuration, that its model';
    my ($pc) = glob "$prefix/lib*/pkgconfig/*.pc";
    like LlmServer::read_file($pc), qr/^prefix=\Q$prefix\E$/m, '  the SDK names it';
    rename $prefix, "$dest/moved" or die $!;
    $prefix = "$dest/moved";
    like $list->(), qr/^scheduler +fcfs /m, '  moved, they find them, too';
}
done_testing;
