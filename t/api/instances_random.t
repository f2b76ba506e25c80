#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Conservation, as in t/sim, with processes started by mpirun: 2 to 4 processes; random roles,
# scheduler, cache and memory; clients, some of which disconnect; and in half of the cases one process
# killed at a random moment. Every request ends once, with its expected text or because its process
# died; process 0 was informed of each arrival and end; all memory is released. First, INT8 blocks are
# handed over to an instance that keeps them and to one that does not.
#
# LLS_MACHINES says how many machines, LLS_SEED from which on: each prints its own.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use JSON::PP;
use List::Util qw(sum0 shuffle);
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

my @golden  = @Golden::ANSWERS;
my @RECOVER = Mpi::recovery();
my $model   = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n";

sub status { my ($server) = @_; return decode_json($server->get('/admin/status')->{content}) }

# A client that left while it waited has no memory, and is gone as soon as its instance has heard so.
sub is_idle {
    my ($server) = @_;
    Mpi::memory_is_back($server);
    my ($now, $left);
    my $deadline = time + $LlmServer::TIMEOUT;
    do {
        $now  = status($server);
        $left = sum0(map { @{ $_->{requests} }{qw(waiting running preempted)} } @{ $now->{instances} });
    } while ($left > 0 && time < $deadline && sleep 0.02);
    is $left, 0, '  nobody is left';
    is $now->{scheduler_fallback}, undef, '  no plan was bad';
    return;
}

# INT8 is not exact: what such a cache answers is the reference's for a while.
my $SURE = 40;

sub agrees {
    my ($ids, $golden, $length, $int8) = @_;
    my $n = $int8 && $length > $SURE ? $SURE : $length;
    return @$ids == $length && "@$ids[0 .. $n - 1]" eq "@{ $golden->{greedy_ids} }[0 .. $n - 1]";
}

# ---- INT8 ----------------------------------------------------------------------------------
# The second that decodes has no INT8 blocks, and another cache. Over the link they are a
# fourth of f32's bytes, with their scales.
{
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/run", "#!/bin/sh\n# PROGRAM -c FILE\nif [ \"\$OMPI_COMM_WORLD_RANK\" = 2 ]; then sed 's/^int8 = all/int8 = off/; s/^cache = tiered/cache = contiguous/' \"\$3\" >'$folder/2.ini'; exec \"\$1\" -c '$folder/2.ini'; fi\nexec \"\$@\"\n");
    chmod 0755, "$folder/run";
    my %bytes;
    for my $int8 ('off', 'all') {
        my $server = LlmServer->serve("${model}roles = prefill, decode, decode\n[cache]\nelement = f32\nblock_tokens = 16\ndevice_memory = 2MiB\nint8 = $int8\n"
            . "[plugins]\nscheduler = distserve\ncache = tiered\n", undef, Mpi::run(3, @RECOVER), "$folder/run");
        my @pids = Mpi::pids($server);
        my @prompt = map { 300 + $_ % 150 } 1 .. 128;
        $server->at_once(map { { prompt => [@prompt, 100 + $_], max_tokens => 8, ignore_eos => JSON::PP::true } } 1 .. 6);
        is $server->metric('llmserve_handed_over_total'), 6, "int8 = $int8: each of 6 is handed over";
        $bytes{$int8} = $server->metric('llmserve_handed_bytes_total');
        my @ids = Golden::all_at_once($server, 4);
        for my $i (0 .. $#golden) {
            my @good = grep { agrees($_, $golden[$i], scalar @{ $golden[$i]{greedy_ids} }, $int8 eq 'all') } @{ $ids[$i] };
            is scalar @good, 4, "  \"$golden[$i]{prompt}\"";
        }
        my @all = @{ status($server)->{instances} };
        cmp_ok $_->{taken_over}, '>', 0, '  each that decodes took some' for @all[1, 2];
        is_idle($server);
        Mpi::ends($server, @pids);
    }
    cmp_ok $bytes{all}, '<', 0.6 * $bytes{off}, "INT8 blocks cross the link as they are: $bytes{all} bytes, not $bytes{off}";
}

# Each of two ranks has the heads of its own, and their scales.
for my $pool ('', "[scheduler.aligned]\nclass_frac = 0\nrmin = 4\noffers_frac = 0\n") {
    my $scheduler = $pool ? 'aligned' : 'distserve';
    my $server = LlmServer->serve("${model}roles = prefill, decode\ntensor_parallel_size = 2\n[cache]\nelement = f32\nblock_tokens = 16\ndevice_memory = 1MiB\nhost_memory = 1MiB\nint8 = all\n"
        . "[plugins]\nscheduler = $scheduler\ncache = tiered\n$pool", undef, Mpi::run(4, @RECOVER));
    my @pids = Mpi::pids($server);
    my @ids = Golden::all_at_once($server, 4);
    for my $i (0 .. $#golden) {
        my @good = grep { agrees($_, $golden[$i], scalar @{ $golden[$i]{greedy_ids} }, 1) } @{ $ids[$i] };
        is scalar @good, 4, "INT8 blocks of two ranks, $scheduler: \"$golden[$i]{prompt}\"";
    }
    cmp_ok $server->metric('llmserve_handed_over_total'), '>=', 4 * @golden, '  all were handed over';
    is_idle($server);
    Mpi::ends($server, @pids);
}

# ---- machines by lot -----------------------------------------------------------------------
sub one_of { return $_[rand @_] }

# Roles by instance, in any order but that somebody prefills and somebody decodes; none: mixed.
sub roles {
    my ($n) = @_;
    return if rand() < 0.25;
    return shuffle('prefill', 'decode', map { one_of('prefill', 'decode', 'mixed') } 3 .. $n);
}

# An instance that may die: without it there are still both.
sub victim {
    my @roles = @_;
    for my $i (shuffle 1 .. $#roles) {
        my @left = @roles[grep { $_ != $i } 0 .. $#roles];
        return $i if (grep { $_ ne 'decode' } @left) && (grep { $_ ne 'prefill' } @left);
    }
    return;
}

sub machine {
    my $n = 2 + int rand 3;
    my @roles = roles($n);
    my $scheduler = @roles ? one_of(qw(distserve aligned)) : one_of(qw(fcfs sarathi mlfq));
    my $cache = one_of(qw(paged tiered tiered hybrid contiguous));
    my $int8 = $cache eq 'tiered' ? one_of(qw(off swapped all)) : 'off';
    my %m = (n => $n, roles => [@roles ? @roles : ('mixed') x $n], int8 => $int8 ne 'off');
    $m{config} = $model . (@roles ? 'roles = ' . join(', ', @roles) . "\n" : "instances = $n\n") . 'max_sequences = ' . one_of(2, 4, 16) . "\n"
        . "[cache]\ndevice_memory = " . one_of('384KiB', '768KiB', '2MiB') . "\nhost_memory = " . one_of('0', '1MiB') . "\n"
        . "int8 = $int8\n[plugins]\nscheduler = $scheduler\ncache = $cache\n";
    $m{victim} = victim(@{ $m{roles} }) if @RECOVER && rand() < 0.5;
    $m{name} = join(', ', @{ $m{roles} }) . " $scheduler $cache int8 = $int8" . (defined $m{victim} ? ", $m{victim} is killed" : '');
    return %m;
}

# Clients that come by and by; some go away. Those that stay, by what they ask.
sub ask {
    my ($server, $n, $kill_at, $kill) = @_;
    my (@stay, @go);
    for my $i (1 .. $n) {
        my $golden = one_of(@golden);
        my $length = 1 + int rand @{ $golden->{greedy_ids} };
        my $socket = $server->connect;
        syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json({ %{ Golden::body($golden->{prompt_ids}, $golden) }, max_tokens => $length }), 'Connection: close');
        if (rand() < 0.8) { push @stay, [$socket, $golden, $length] }
        else              { push @go, $socket }
        $kill->() if $i == $kill_at;
        close splice @go, rand @go, 1 if @go && rand() < 0.3;
        sleep rand 0.03 if rand() < 0.7;
    }
    close $_ for @go;
    return @stay;
}

my $first = $ENV{LLS_SEED} // int(time) % 100000;
for my $seed ($first .. $first + ($ENV{LLS_MACHINES} // @{ [LlmServer::rounds(6)] }) - 1) {
    srand $seed;
    my %m = machine();
    my $server = LlmServer->serve($m{config}, undef, Mpi::run($m{n}, @RECOVER));
    my @pids = Mpi::pids($server);
    my $requests = 12 + int rand 20;
    my $kill = sub { kill 'KILL', $pids[$m{victim}] if defined $m{victim} };
    my @clients = ask($server, $requests, 1 + int rand $requests, $kill);
    my ($whole, $lost, $odd) = (0, 0, 0);
    for (@clients) {
        my ($socket, $golden, $length) = @$_;
        my $answer = LlmServer::read_all($socket);
        my ($ids) = $answer =~ /"token_ids":\s*\[([\d,\s]*)\]/;
        if    (defined $ids && agrees([split /,\s*/, $ids], $golden, $length, $m{int8})) { $whole++ }
        elsif ($answer =~ /"code":\s*"instance_lost"/)                                  { $lost++ }
        else                                                                            { $odd++; diag $answer }
    }
    is $odd, 0, "seed $seed: $m{name}: $whole whole, $lost lost";
    is $lost, 0, '  none is lost where nobody dies' if !defined $m{victim};
    is_idle($server);
    my ($until, $history, %came, @ended) = (time + $LlmServer::TIMEOUT);
    do {    # an instance is idle a moment before main has heard of its last end
        $history = $server->get('/admin/history')->{content};
        %came  = map { $_ => 1 } $history =~ /^A (\d+) /mg;
        @ended = $history =~ /^E (\d+ \d+ \d+)/mg;
    } while (@ended < keys %came && time < $until && sleep 0.02);
    is_deeply [sort map { /^(\d+)/ } @ended], [sort keys %came], '  each that came has ended once, as process 0 heard it';
    cmp_ok scalar(@ended), '>=', @clients, '    of all that stayed';
    cmp_ok scalar(grep { / 2\z/ } @ended), '>=', $whole, '    with as many answers of full length as were read';
    my @late = grep { my @e = split / /; $e[3] > $e[4] } grep { /^\d+ \d+ 2 / } $history =~ /^E (.*)$/mg;
    is_deeply \@late, [], '    whose last token is not before the first';
    Mpi::ends($server, @pids);
}
done_testing;
