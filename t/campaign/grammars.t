#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Clients whose answers keep to grammars that cost as much as a few bytes can make them cost, beside
# ordinary ones. The others go on: the longest gap of a stream beside two of them, and how long an
# ordinary request takes beside twelve, and after these have left. Schemas that take seconds to
# compile, beside small ones. Times are looked at, so the suite has none of it: t/campaign/run, or
# by itself with a machine that has little else to do.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/../api");
use Campaign;
use IO::Select;
use JSON::PP;
use LlmServer;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $end    = Campaign::begin;
my $server = LlmServer->serve("any_model = true\n[model]\npath = " . Campaign::model() . "\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 64MiB\n[plugins]\nscheduler = sarathi\n");

my %attack = (
    'none: as many others' => {},
    'an ambiguous grammar' => { guided_grammar => qq(root ::= s "q"\ns ::= [a-z ] s [a-z ]? | [a-z ] s? | [a-z ]) },
    'letter by letter'     => { guided_grammar => qq(root ::= s "q"\ns ::= x s x? | x s? | x\nx ::= ) . join ' | ', map { qq("$_") } 'a' .. 'p', ' ' },
    'three times itself'   => { guided_grammar => qq(root ::= s "q"\ns ::= s s s | s s | [a-z ]) },
    'counts that begin alike' => { guided_grammar => q(root ::= ([a-z ]{1,90} | [a-y ]{2,80} | [a-x ]{3,70} | [a-w ]{4,60}){2,40} "q") },
    'a regex of vowels'    => { guided_regex => '(.*[aeiou].*){20}' },
    'nested quantifiers'   => { guided_regex => '(([a-z ]*)*|([a-z ]|[a-z ])*)*0' },
    'ten thousand choices' => { guided_choice => [map { "the same beginning of all of them, number $_" } 1 .. 10000] },
    'branches that begin alike' => { guided_json => { anyOf => [map { { type => 'string', pattern => "^([a-z]+ ?){$_,9$_}$_\$" } } 1 .. 5] } },
    'a schema of itself'   => { guided_json => { '$ref' => '#/$defs/a', '$defs' => { a => { anyOf => [{ type => 'array', items => { '$ref' => '#/$defs/a' } }, { type => 'array', items => { anyOf => [{ '$ref' => '#/$defs/a' }, { type => 'null' }] } }] } } } },
);
my $ordinary = { prompt => 'Once upon a time', max_tokens => 60, temperature => 0, ignore_eos => JSON::PP::true };

sub open_request {
    my ($body) = @_;
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json($body), 'Content-Type: application/json', 'Connection: close');
    return $socket;
}

# Attackers are a process of their own, so that what they take of it is not measured; they stay as many:
# one with a whole answer asks again, from another prompt, so that nothing is shared.
my $attackers;

sub ask_again {
    my ($body) = @_;
    my $socket = $server->connect;
    $socket->blocking(0);
    my $prompt = encode_json(['Once upon ' . rand]) =~ s/^\[|\]$//gr;
    return [$socket, LlmServer::raw_post('/v1/completions', qq({"prompt":$prompt,) . substr($body, 1), 'Content-Type: application/json', 'Connection: close')];
}

sub go_on_attacking {
    my ($n, $body) = @_;
    my @open = map { ask_again($body) } 1 .. $n;
    while (1) {
        IO::Select->new(map { $_->[0] } @open)->can_read(0.01);
        for my $one (@open) {
            my ($socket, $text) = ($one->[0]);
            my $sent = syswrite $socket, $one->[1];
            substr($one->[1], 0, $sent // 0) = '' if length $one->[1];
            my $got;
            while ($got = sysread $socket, $text, 65536) { }
            @$one = @{ ask_again($body) } if defined $got;
        }
    }
    return;
}

sub attack {
    my ($n, $ask) = @_;
    my $body = encode_json({ %$ask, max_tokens => 200, temperature => 1, stream => JSON::PP::true });
    defined($attackers = fork) or die "fork: $!";
    return if $attackers;
    eval { go_on_attacking($n, $body) };
    POSIX::_exit(1);
}
sub leave { kill 'KILL', $attackers; waitpid $attackers, 0; return }

# How long it took, and the longest time without a piece after the first one; both in ms.
sub stream {
    my $began  = time;
    my $socket = open_request({ %$ordinary, stream => JSON::PP::true });
    my ($last, $gap, $select) = (undef, 0, IO::Select->new($socket));
    while (time - $began < 60) {
        next if !$select->can_read(0.02);
        last if !sysread $socket, my $text, 65536;
        my $now = time;
        $gap  = $now - $last if defined $last && $now - $last > $gap;
        $last = $now;
    }
    return (1000 * (time - $began), 1000 * $gap);
}

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[@sorted / 2] }
sub largest { my ($most) = sort { $b <=> $a } @_; return $most }

stream() for 1 .. 3;
my @alone = map { [stream()] } 1 .. 5;
my ($alone_ms, $alone_gap) = (median(map { $_->[0] } @alone), largest(map { $_->[1] } @alone));
diag sprintf 'alone: %.0f ms, longest gap %.1f ms', $alone_ms, $alone_gap;
my ($worst_gap, $worst_ms) = (0, 0);
for my $name (sort keys %attack) {
    attack(2, $attack{$name});
    sleep 0.3;
    my $gap = largest(map { (stream())[1] } 1 .. 5);
    leave();
    attack(12, $attack{$name});
    sleep 0.3;
    my $ms = median(map { (stream())[0] } 1 .. 3);
    leave();
    my @after = map { (stream())[0] } 1 .. 3;
    diag sprintf '%s: longest gap beside two %.1f ms; beside twelve %.0f ms, %.1f times; when they have left %s ms', $name, $gap, $ms, $ms / $alone_ms, join ', ', map { sprintf '%.0f', $_ } @after;
    ($worst_gap, $worst_ms) = (largest($worst_gap, $gap), largest($worst_ms, $ms));
}
cmp_ok $worst_gap, '<', 100, 'no stream waits 100 ms';

# A small schema behind twelve of a megabyte, each another one.
sub compile_ms {
    my $began = time;
    my $status = $server->post('/v1/completions', { %$ordinary, max_tokens => 5, guided_choice => ['yes' . rand, 'no'] })->{status};
    is $status, 200, 'a small choice is answered';
    return 1000 * (time - $began);
}
my $small = median(map { compile_ms() } 1 .. 5);
my @open = map { my $k = $_; open_request({ %$ordinary, guided_json => { type => 'object', properties => { map { ("name_${k}_$_" => { type => 'string', pattern => "^[a-z]{1,9}_$k\$", description => 'x' x 200 }) } 1 .. 2200 } } }) } 1 .. 12;
sleep 0.2;
my $behind = compile_ms();
close $_ for @open;
my $left = compile_ms();
diag sprintf 'a small choice alone %.0f ms; behind twelve large schemas %.0f ms; when they have left %.0f ms', $small, $behind, $left;
cmp_ok $behind, '<', 1000, 'small compiles do not wait for large ones';
is $server->stop, 0, 'the server ends well';
Campaign::figure('alone (ms)' => sprintf('%.0f', $alone_ms), 'largest gap (ms)' => sprintf('%.0f', $worst_gap), 'beside twelve (ms)' => sprintf('%.0f', $worst_ms), 'a choice behind schemas (ms)' => sprintf('%.0f', $behind));
done_testing;
