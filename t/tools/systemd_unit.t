#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The systemd unit, as rated by systemd: its exposure is at most 1.5 of 10, and every system
# call that the sandbox allows (core/serve/sandbox_calls.c) is also allowed by the unit.
use strict;
use warnings;
use File::Temp;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
plan skip_all => 'systemd-analyze is not installed (systemd)' if system('command -v systemd-analyze >/dev/null 2>&1') != 0;

sub read_file { my ($path) = @_; open my $in, '<', $path or die "$path: $!"; local $/; return <$in> }
sub lines_of { my (@command) = @_; open my $out, '-|', "@command 2>&1" or die "$!"; return <$out> }

my $folder = File::Temp->newdir;
my $unit   = read_file("$top/etc/llmserve.service.in");
$unit =~ s/\@bindir\@/\/usr\/bin/g;
$unit =~ s/\@(?:sysconfdir|docdir)\@/\/etc/g;
open my $out, '>', "$folder/llmserve.service" or die $!;
print $out $unit;
close $out or die $!;

my @judged = lines_of('systemd-analyze', 'security', '--offline=true', "$folder/llmserve.service");
plan skip_all => 'this systemd-analyze judges no file (--offline is of 250)' if "@judged" !~ /Overall exposure level/;
my ($level) = "@judged" =~ /Overall exposure level for \S+: ([\d.]+)/;
cmp_ok $level, '<=', 1.5, 'the exposure of the service' or diag @judged;

# The calls of a name, which may be a group of groups.
my %known;
sub calls_of {
    my ($name) = @_;
    return $name if $name !~ /\A@/;
    return @{ $known{$name} //= [map { calls_of($_) } map { /^\h+(\@?\w[\w-]*)$/ ? $1 : () } lines_of('systemd-analyze', 'syscall-filter', $name)] };
}
my %left;
for ($unit =~ /^SystemCallFilter=(.*)$/mg) {
    my ($not, $names) = /\A(~?)(.*)/;
    for my $call (map { calls_of($_) } split ' ', $names) { $not ? delete $left{$call} : ($left{$call} = 1) }
}
my ($list) = read_file("$top/core/serve/sandbox_calls.c") =~ /calls\[\] = \{(.*?)\};/s;
my @calls = $list =~ /"(\w+)"/g;
cmp_ok scalar(@calls), '>', 100, 'the sandbox leaves system calls';
my %there = map { $_ => 1 } calls_of('@known');
is join(' ', grep { !$left{$_} && (!%there || $there{$_}) } @calls), '', '  which the unit leaves too';
is_deeply [grep { !$left{$_} && $there{$_} } qw(landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp)], [], '  and those that make the sandbox';

# The template: what make derives from the unit differs by its name alone.
my $template = read_file("$ENV{LLS_BUILDDIR}/etc/llmserve@.service");
my $made     = read_file("$ENV{LLS_BUILDDIR}/etc/llmserve.service");
my @was = split /\n/, $made;
my @is  = split /\n/, $template;
is_deeply [map { $is[$_] } grep { $is[$_] ne $was[$_] && $was[$_] !~ /^#|^ExecStart|^ExecReload/ } 0 .. $#was],
    ['Description=LLM server with policies as plugins (%i)', 'StateDirectory=llmserve/%i', 'WorkingDirectory=%S/llmserve/%i'], 'llmserve@ has a state folder for each name';
is scalar(() = $template =~ m{/llmserve/%i\.ini$}mg), 2, '  and a configuration';
open my $copy, '>', "$folder/llmserve\@.service" or die $!;
print $copy $template =~ s{^Exec(\w+)=\S*/(\w+)}{Exec$1=/bin/true}mgr;
close $copy or die $!;
is join('', grep { /llmserve@/ } lines_of('systemd-analyze', 'verify', "$folder/llmserve\@one.service")), '', '  and systemd has nothing to say of it';
done_testing;
