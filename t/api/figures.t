#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The figures of policies reach /metrics and /admin/status: of every instance, during
# and after requests; and after a reload only those of the new policies.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;
use Time::HiRes;

my $stories = LlmServer::source('t/data/models/stories260K');

sub ini {
    my ($engine, $plugins) = @_;
    return "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n$engine"
        . "[cache]\ndevice_memory = 512KiB\nhost_memory = 1MiB\n[plugins]\n$plugins";
}

# {'0 scheduler mlfq level_1' => 3, ...} of a family.
sub family {
    my ($server, $name) = @_;
    my %found;
    my $page = $server->get('/metrics')->{content};
    $found{"$1 $2 $3"} = $4 while $page =~ /^llmserve_$name\{instance="(\d+)",plugin="([^"]+)",(?:figure|event)="([^"]+)"\} (\S+)$/mg;
    return \%found;
}

# Asks until it is so, for what is told once a second.
sub soon {
    my ($what) = @_;
    my $deadline = Time::HiRes::time() + $LlmServer::TIMEOUT;
    until ($what->()) {
        return 0 if Time::HiRes::time() > $deadline;
        Time::HiRes::sleep(0.05);
    }
    return 1;
}

sub policies { my ($server, $i) = @_; return decode_json($server->get('/admin/status')->{content})->{instances}[$i]{policies} }

# ---- one instance, and a reload -------------------------------------------------------

my $server = LlmServer->serve(ini('', "scheduler = mlfq\ncache = paged\n[scheduler.mlfq]\nmax_seqs = 1\n"));
my $client = $server->connect;
syswrite $client, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":390,"ignore_eos":true,"n":128}');
ok soon(sub { (family($server, 'scheduler')->{'0 scheduler mlfq level_0'} // 0) > 10 }), 'who waits on a level, while one runs';
cmp_ok family($server, 'scheduler_events_total')->{'0 scheduler mlfq demoted'}, '>', 0, 'who has sunk to another';
close $client;
ok soon(sub { family($server, 'scheduler')->{'0 scheduler mlfq level_0'} == 0 }), 'nobody when the client has gone';
my $cache = family($server, 'cache');
cmp_ok $cache->{'0 cache paged blocks'}, '>', 0, 'the cache manager has blocks';
is $cache->{'0 cache paged blocks_free'} + $cache->{'0 cache paged blocks_reusable'}, $cache->{'0 cache paged blocks'}, '  and none is held any more';
my $said = policies($server, 0);
is $said->{cache}{figures}{blocks}, $cache->{'0 cache paged blocks'}, 'the same in /admin/status';
is_deeply $said->{predictor}, { figures => {}, events => {} }, '  where who has nothing to say is listed';

$server->configure(ini('', "scheduler = alise\ncache = tiered\n"));
is $server->post('/admin/reload', '')->{status}, 200, 'other policies';
ok soon(sub { exists family($server, 'scheduler')->{'0 scheduler alise level_1'} }), '  say what they have to';
is scalar(grep { /mlfq|paged/ } keys %{ family($server, 'scheduler') }, keys %{ family($server, 'cache') }, keys %{ family($server, 'scheduler_events_total') }), 0, '  and nobody else does';
ok exists policies($server, 0)->{cache}{figures}{host_units_free}, '  in /admin/status too';
is $server->stop, 0, 'it ends well';

# ---- several instances -----------------------------------------------------------------

$server = LlmServer->serve(ini("instances = 2\n", "scheduler = sarathi\ncache = paged\n"));
is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 20 })->{status}, 200, 'two instances';
ok soon(sub { my $all = family($server, 'cache'); return defined $all->{'0 cache paged blocks'} && defined $all->{'1 cache paged blocks'} }), '  each speaks for itself';
is policies($server, 1)->{scheduler}{figures}{budget_tokens} // -1, family($server, 'scheduler')->{'1 scheduler sarathi budget_tokens'} // -1, '  in /admin/status as in /metrics';
is $server->stop, 0, 'it ends well';
done_testing;
