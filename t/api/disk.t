#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [cache] disk_space: blocks are on disk as soon as they are computed, and found there when they have
# left the cache, after a restart, and after a kill at any moment; with the answer of before. What is
# damaged, or of another model, is computed again.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $state = File::Temp->newdir;
my $file  = "$state/blocks-0";
my @asked = (max_tokens => 12, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true);

sub folder_of {
    my ($model) = @_;
    my $folder  = File::Temp->newdir;
    my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which these models lack
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    return $folder;
}

our $scheduler = 'fcfs';
our $element   = 'as_cached';
our $tokens    = 8; # of a block

# The device has room for a few of the prompts.
sub start {
    my ($folder, $space, $cache, @launcher) = @_;
    return LlmServer->serve("state = $state\n[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\n"
        . "max_sequences = 2\nmax_context = 96\n[cache]\ndevice_memory = 64KiB\nblock_tokens = $tokens\ndisk_space = $space\ndisk_element = $element\n"
        . "[plugins]\ncache = $cache\nscheduler = $scheduler\n", undef, @launcher);
}

sub prompt { my ($seed) = @_; return [map { 3 + ($_ * $seed) % 59 } 1 .. 76] }

# The ids of an answer, and how many tokens of the prompt were found.
sub ask {
    my ($server, $seed) = @_;
    my $json = $server->post('/v1/completions', { prompt => prompt($seed), @asked })->{json};
    return ($json->{choices}[0]{token_ids}, $json->{usage}{prompt_tokens_details}{cached_tokens} // 0);
}

sub on_disk { my ($server) = @_; return $server->metric('llmserve_prefix_tokens_total{tier="disk"}') // 0 }
sub blocks  { my ($server) = @_; return $server->metric('llmserve_disk_blocks_used') // 0 }

# ---- each kind of layers ----------------------------------------------------------------------------

my %right;
for my $model (qw(llama qwen2-window llama-4)) {
    for my $cache (qw(paged tiered)) {
        unlink $file;
        my $folder = folder_of($model);
        my $server = start($folder, '4MiB', $cache);
        my $none;
        ($right{$_}, $none) = ask($server, $_) for 7, 11 .. 20;
        my ($again, $found) = ask($server, 7);
        cmp_ok $found, '>=', 64, "$model, $cache: a prompt that has left the cache";
        cmp_ok on_disk($server), '>', 0, '  is found on disk';
        is_deeply $again, $right{7}, '  with the same answer';
        is $server->stop, 0, '  and the server ends well';
        $server = start($folder, '4MiB', $cache);
        ($again, $found) = ask($server, 13);
        cmp_ok $found, '>=', 64, '  after a restart too';
        is_deeply $again, $right{13}, '  with the same answer';
        is $server->stop, 0, '  and the server ends well';
    }
}
is((stat $file)[2] & 077, 0, 'the file is for nobody else to read');

# ---- int8 --------------------------------------------------------------------------------------------

# The log of the probability of the first token after a prompt, which int8 changes a little.
sub first_odds {
    my ($server) = @_;
    my $json = $server->post('/v1/completions', { prompt => prompt(7), max_tokens => 1, temperature => 0, logprobs => 1 })->{json};
    return $json->{choices}[0]{logprobs}{token_logprobs}[0];
}

{
    unlink $file;
    my $folder = folder_of('llama');
    my $server = start($folder, '4MiB', 'paged');
    my $right  = first_odds($server);
    is $server->stop, 0, 'blocks as they are cached';
    local $element = 'int8';
    for my $cache (qw(paged tiered)) {
        $server = start($folder, '4MiB', $cache);
        if ($cache eq 'paged') {
            like $server->log, qr/on disk, as int8; it was new, or of another model/, '  are not taken for int8';
            is blocks($server), 0, '  and are gone';
        }
        ask($server, $_) for 7, 11 .. 20;
        my $before = on_disk($server);
        my $odds   = first_odds($server);
        cmp_ok on_disk($server), '>=', $before + 64, "int8, $cache: a prompt that has left the cache is found on disk";
        cmp_ok abs($odds - $right), '<', 0.02, '  and computes nearly as before';
        is $server->stop, 0, '  and the server ends well';
    }
    $server = start($folder, '4MiB', 'paged');
    unlike $server->log, qr/it was new/, 'a restart finds the blocks';
    cmp_ok blocks($server), '>', 0, '  all of them';
    cmp_ok abs(first_odds($server) - $right), '<', 0.02, '  and computes nearly as before';
    cmp_ok on_disk($server), '>=', 64, '  from them';
    is $server->stop, 0, '  and the server ends well';
    local $element = 'as_cached';
    $server = start($folder, '4MiB', 'paged');
    like $server->log, qr/it was new, or of another model/, 'and int8 is not taken for what is cached';
    is blocks($server), 0, '  and is gone';
    is first_odds($server), $right, '  and computed again';
    is $server->stop, 0, '  and the server ends well';
}

# Returns how many blocks have room on disk, larger ones: slots are whole pages.
sub room {
    (local $element) = @_;
    local $tokens = 32;
    my $server = start(folder_of('llama'), '4MiB', 'paged');
    my $slots  = $server->metric('llmserve_disk_blocks');
    is $server->stop, 0, "$element: the server ends well";
    return $slots;
}
cmp_ok room('int8'), '>', 1.8 * room('as_cached'), 'the disk has room for more in int8';

# ---- sessions ------------------------------------------------------------------------------------------

{
    unlink $file;
    my $folder = folder_of('llama');
    my $server = start($folder, '4MiB', 'paged');
    my %session = ('x-session-id' => 'agent');
    $server->post('/v1/completions', { prompt => prompt(7), @asked }, \%session);
    my $there;
    for (1 .. 40) { # counted again while others run, which push it out of the device
        ask($server, 11 + $_ % 10);
        $there = decode_json($server->get('/admin/sessions')->{content})->{sessions}[0]{there};
        last if $there->{disk} >= 80 && $there->{device} == 0;
    }
    is_deeply $there, { device => 0, host => 0, disk => 80 }, 'a session shows what of it is on disk';
    is $server->stop, 0, '  and the server ends well';
}

# ---- sessions that a scheduler keeps and fetches (t/fault/scheduler_keeping.c) ---------------------------

# Returns how many tokens of each session the tiers have.
sub there {
    my ($server) = @_;
    return { map { $_->{name} => $_->{there} } @{ decode_json($server->get('/admin/sessions')->{content})->{sessions} } };
}

for my $cache (qw(paged tiered)) {
    local $scheduler = LlmServer::built('t/fault/.libs/scheduler_keeping.so');
    unlink $file;
    my $folder = folder_of('llama');
    my $server = start($folder, '200KiB', $cache); # 47 blocks, of which leases have 13 at most
    my $until  = time + $LlmServer::TIMEOUT;
    my $first  = $server->post('/v1/completions', { prompt => prompt(7), @asked }, { 'x-session-id' => 'keep' })->{json}{choices}[0]{token_ids};
    select undef, undef, undef, 0.02 until ($server->metric('llmserve_disk_blocks_held') // 0) == 10 || time > $until;
    is $server->metric('llmserve_disk_blocks_held'), 10, "$cache: a session is kept on disk";
    $server->post('/v1/completions', { prompt => prompt(8), @asked }, { 'x-session-id' => 'gone' });
    $server->post('/v1/completions', { prompt => prompt(9), @asked }, { 'x-session-id' => 'kept too' });
    my $there;
    for (1 .. 200) { # counted again while others run
        ask($server, 11 + $_ % 10);
        $there = there($server);
        last if $there->{gone}{disk} == 0 && $there->{'kept too'}{disk} == 0 && $there->{keep}{device} == 0;
    }
    is $there->{keep}{disk}, 80, '  whatever is written';
    is $there->{gone}{disk}, 0, '  while one that was kept for no time has left it';
    is $there->{'kept too'}{disk}, 0, '  and one for which leases have no room';
    is_deeply [(ask($server, 7))[0]], [$first], '  its answer is that of before';
    is $server->stop, 0, '  and the server ends well';
    unlink $file;
    $server = start($folder, '4MiB', $cache);
    $server->post('/v1/completions', { prompt => prompt(7), @asked }, { 'x-session-id' => 'fetch' });
    for (1 .. 200) { # until it has left the device, and comes back
        ask($server, 11 + $_ % 10);
        last if ($server->metric('llmserve_disk_fetched_tokens_total') // 0) > 0;
    }
    cmp_ok $server->metric('llmserve_disk_fetched_tokens_total'), '>', 0, "$cache: a session is read from disk before it returns";
    $until = time + $LlmServer::TIMEOUT;
    select undef, undef, undef, 0.02 until there($server)->{fetch}{device} == 80 || time > $until;
    my $before = on_disk($server);
    my ($again, $found) = ask($server, 7);
    is_deeply $again, $first, '  its answer is that of before';
    is $found, 72, '  its beginning was there';
    is on_disk($server), $before, '  and is not read again';
    is $server->stop, 0, '  and the server ends well';
}

# ---- while the disk reads -----------------------------------------------------------------------------

{
    unlink $file;
    my $slow   = "$state/slow";
    my $folder = folder_of('llama');
    local $ENV{ASAN_OPTIONS} = ($ENV{ASAN_OPTIONS} // '') . ':verify_asan_link_order=0';
    my $server = start($folder, '4MiB', 'paged', 'env', "SLOW_DISK=$slow", 'LD_PRELOAD=' . LlmServer::built('t/api/.libs/slow_disk.so'));
    my ($right) = ask($server, 7);
    ask($server, $_) for 11 .. 20;
    LlmServer::write_file($slow, '');
    my $pid = fork // die $!;
    if ($pid == 0) { my ($ids) = eval { ask($server, 7) }; require POSIX; POSIX::_exit("@{$ids // []}" eq "@$right" ? 0 : 1) }
    my $until = time + $LlmServer::TIMEOUT;
    my @reading;
    until (@reading || time > $until) {
        @reading = grep { $_->{state} eq 'reading' } map { @{ $_->{requests} } } @{ decode_json($server->get('/admin/queues')->{content})->{instances} };
    }
    is scalar @reading, 1, 'a request that waits for the disk is "reading" in /admin/queues';
    is on_disk($server), 0, '  before it has tokens from there';
    unlink $slow;
    waitpid $pid, 0;
    is $?, 0, '  then its answer is that of before';
    cmp_ok on_disk($server), '>', 0, '  with tokens from the disk';
    is $server->stop, 0, '  and the server ends well';
}

# ---- killed at any moment ----------------------------------------------------------------------------

my $folder = folder_of('llama');
unlink $file;
my $server = start($folder, '4MiB', 'paged');
($right{$_}) = ask($server, $_) for 7, 11 .. 20;
is $server->stop, 0, 'all answers are known';
unlink $file;
my ($wrong, $hits) = (0, 0);
srand 41;
for my $round (LlmServer::rounds(6)) {
    $server = start($folder, '4MiB', 'paged');
    my @some = map { (7, 11 .. 20)[rand 11] } 1 .. 3;
    for my $seed (@some) {
        my ($ids, $found) = ask($server, $seed);
        $wrong++ if "@$ids" ne "@{$right{$seed}}";
        $hits += $found > 0;
    }
    my $killer = fork // die $!;
    if ($killer == 0) { select undef, undef, undef, rand 0.02; kill 'KILL', $server->{pid}; require POSIX; POSIX::_exit(0) }
    eval { ask($server, $_) for 7, 11 .. 20; 1 };
    waitpid $killer, 0;
    $server->wait_for_end;
}
is $wrong, 0, 'no answer is another one after kills';
cmp_ok $hits, '>', 0, '  and blocks were found';

# ---- files that are damaged ---------------------------------------------------------------------------

sub damage {
    my ($at, $length, $step) = @_;
    open my $f, '+<', $file or die $!;
    for (my $i = $at; $i < $at + $length; $i += $step) {
        seek $f, $i, 0;
        read $f, my $byte, 1;
        seek $f, $i, 0;
        print {$f} chr(ord($byte) ^ 4);
    }
    close $f;
    return;
}

my $size = -s $file;
damage(int($size / 40), int($size / 20), 512);
$server = start($folder, '4MiB', 'paged');
$wrong = 0;
for my $seed (7, 11 .. 20) { $wrong++ if "@{(ask($server, $seed))[0]}" ne "@{$right{$seed}}" }
is $wrong, 0, 'damaged blocks are computed again';
is $server->stop, 0, '  and the server ends well';
damage(4096, 16384, 64); # of 1,008 entries the first 256: no more were used
$server = start($folder, '4MiB', 'paged');
is blocks($server), 0, 'entries that are damaged are none';
is_deeply [(ask($server, 7))[0]], [$right{7}], '  and the prompt is computed';
is $server->stop, 0, '  and the server ends well';
open my $short, '+<', $file or die $!;
truncate $short, 6000;
close $short;
$server = start($folder, '4MiB', 'paged');
is_deeply [(ask($server, 7))[0]], [$right{7}], 'a file that is cut short is of no use, and does no harm';
is $server->stop, 0, '  and the server ends well';

# ---- another model -----------------------------------------------------------------------------------

$server = start($folder, '4MiB', 'paged');
ask($server, $_) for 7, 11;
is $server->stop, 0, 'blocks of a model';
my $other = folder_of('qwen2-window');
$server = start($other, '4MiB', 'paged');
like $server->log, qr/it was new, or of another model/, '  are not used by another';
is blocks($server), 0, '  and are gone';
is $server->stop, 0, '  and the server ends well';

done_testing;
