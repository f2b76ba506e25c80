#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Models of which some layers fold all tokens into a state: prefixes, swaps, hand-overs and reloads
# take the state along, and answers are those of a server that computes each prompt as a whole.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which these models lack
my @asked   = (temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true);

sub folder_of {
    my ($model) = @_;
    my $folder = File::Temp->newdir;
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    return $folder;
}

sub settings {
    my ($folder, $more, $policies, $memory) = @_;
    return "[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 32\nmax_sequences = 8\n"
        . ($more // '') . "[cache]\n" . (defined $memory ? "device_memory = $memory\n" : '') . "block_tokens = 8\nhost_memory = 4MiB\n[plugins]\n" . ($policies // "cache = paged\n");
}

sub prompt { my ($seed, $n) = @_; return [map { 3 + ($_ * $seed) % 59 } 1 .. $n] }

# The ids of an answer, and how many tokens of the prompt were found.
sub ask {
    my ($server, $prompt, $n) = @_;
    my $json = $server->post('/v1/completions', { prompt => $prompt, max_tokens => $n, @asked })->{json};
    return ($json->{choices}[0]{token_ids}, $json->{usage}{prompt_tokens_details}{cached_tokens} // 0);
}

# How often something has happened in the cache of the first instance.
sub events {
    my ($server, $name) = @_;
    return decode_json($server->get('/admin/status')->{content})->{instances}[0]{policies}{cache}{events}{$name} // 0;
}

sub together {
    my ($server, @prompts) = @_;
    return [map { $_->{choices}[0]{token_ids} } $server->at_once(map { { prompt => $_, max_tokens => 120, @asked } } @prompts)];
}

for my $model ('lfm2', 'qwen3.5-moe', 'mamba-2') {
    my $all     = $model eq 'mamba-2'; # no layer attends: nothing says where prompts part
    my $folder  = folder_of($model);
    my @prompts = map { prompt($_, 70) } 7, 11, 13, 17, 20, 31, 37, 41;
    my $plain   = LlmServer->serve(settings($folder, '', "cache = paged\n[cache.paged]\nprefix_sharing = off\n"));
    like $plain->log, $all ? qr/cache for 24 states .* cache: a state of \S+ KiB of 2 layers/s : qr/cache: \S+ KiB a token in 1 layers, a state of \S+ KiB of [12] layers/,
        "$model: layers with a state are a group";
    is decode_json($plain->get('/v1/models')->{content})->{data}[0]{max_model_len}, 256, '  and the cache has room for the context';
    my @right = map { (ask($plain, $_, 120))[0] } @prompts;
    my @longer = (@{ $prompts[0] }, @{ $right[0] }[0 .. 9]);
    $plain->stop;

    my $server;
    for my $cache ('paged', 'tiered') {
        my $name = "$model, $cache";
        $server = LlmServer->serve(settings($folder, '', "cache = $cache\n"));
        is_deeply((ask($server, $prompts[0], 120))[0], $right[0], "$name: the same answer with checkpoints");
        my ($again, $found) = ask($server, $prompts[0], 120);
        is $found, 64, '  the state at the prompt\'s last border is found';
        is_deeply $again, $right[0], '    with the same answer behind it';
        ($again, $found) = ask($server, \@longer, 40);
        is $found, 64, '  also by a prompt that goes on';
        is_deeply $again, [@{ $right[0] }[10 .. 49]], '    with the same answer behind it';
        my @forks = map { [@{ $prompts[1] }[0 .. 29], @{ prompt($_, 30) }] } 19, 23, 29;
        ask($server, $prompts[1], 8);
        my @found = map { (ask($server, $_, 8))[1] } @forks;
        is_deeply \@found, $all ? [0, 0, 0] : [0, 24, 24], '  where prompts part the second one leaves a state for the third';
        is $server->stop, 0, '  the server ends well';

        $server = LlmServer->serve(settings($folder, '', "cache = $cache\nscheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nquantum = 1ms\n", '64KiB'));
        for my $round (1 .. 10) {
            is_deeply together($server, @prompts), \@right, "$name: the same answers while sequences are swapped";
            last if events($server, 'units_swapped_out') > 0;
        }
        cmp_ok events($server, 'units_swapped_out'), '>', 0, '    which they were';
        $server->stop;

        $server = LlmServer->serve(settings($folder, "roles = prefill, decode\n", "cache = $cache\nscheduler = distserve\n"));
        is_deeply together($server, @prompts), \@right, "$name: and on an instance that others hand sequences to";
        cmp_ok $server->metric('llmserve_handed_over_total'), '>=', 8, '    all of them';
        $server->stop;
    }

    if ($model ne 'lfm2') { # which moves none in the smallest cache that a server takes
        $server = LlmServer->serve(settings($folder, '', "cache = tiered\nscheduler = alise\npredictor = fixed\n[scheduler.alise]\nlevels = 6\nfirst = 1ms\nlearn = off\npreempt = swap\n", '64KiB'));
        for my $round (1 .. 10) {
            my @lengths = map { 120 - 15 * $_ } 0 .. 7; # shorter ones come later, and go first
            my @answers = $server->at_once(map { { prompt => $prompts[$_], max_tokens => $lengths[$_], @asked } } 0 .. 7);
            is_deeply [map { $_->{choices}[0]{token_ids} } @answers], [map { [@{ $right[$_] }[0 .. $lengths[$_] - 1]] } 0 .. 7],
                "$model: the same answers while sequences move beside the steps";
            last if events($server, 'offloads') > 0;
        }
        cmp_ok events($server, 'offloads'), '>', 0, '    which they did';
        $server->stop;
    }

    $server = LlmServer->serve(settings($folder));
    my $socket = $server->connect;
    my $body   = encode_json({ prompt => $prompts[2], max_tokens => 120, stream => JSON::PP::true, @asked });
    syswrite $socket, LlmServer::raw_post('/v1/completions', $body, 'Connection: close');
    my $text = LlmServer::read_until($socket, qr/(?:data: .*\n\n){5}/);
    $server->configure(settings($folder, '', "cache = paged\nscheduler = sarathi\n"));
    is $server->post('/admin/reload', '')->{status}, 200, '  a reload in the middle of an answer';
    $server->configure(settings($folder, '', "cache = tiered\n"));
    is $server->post('/admin/reload', '')->{status}, 200, '    and one to another manager';
    $server->configure(settings($folder, '', "cache = hybrid\n"));
    my $refused = $server->post('/admin/reload', '');
    is $refused->{status}, 409, '    and one to a manager that keeps no states is refused';
    like $refused->{json}{error}{message}, qr/keep a state of each sequence, which cache manager hybrid cannot: set \[plugins\] cache = tiered or paged/, '    with a sentence';
    $text .= LlmServer::read_all($socket);
    is_deeply [map { @{ $_ // [] } } map { decode_json($_)->{choices}[0]{token_ids} } $text =~ /^data: (\{.*\})\r?$/gm], $right[2], '    the answer is the same';
    $server->stop;
}

# int8 beside states: a step is a block long, so that the same tokens are read as int8 with and without sharing
for my $int8 ('swapped', 'all') {
    my $folder = folder_of('lfm2');
    my @answers;
    for my $sharing ('off', 'on') {
        my $server = LlmServer->serve(settings($folder, '', "cache = tiered\n[cache.tiered]\nprefix_sharing = $sharing\n", "512KiB\nint8 = $int8") =~ s/max_step_tokens = 32/max_step_tokens = 8/r);
        my @got = map { [ask($server, prompt($_, 70), 60)] } 7, 7, 11;
        push @answers, [map { $_->[0] } @got];
        is $got[1][1], $sharing eq 'on' ? 64 : 0, "int8 = $int8, sharing $sharing: what is found";
        cmp_ok events($server, 'blocks_quantised'), '>', 0, '  full blocks of K and V become int8' if $int8 eq 'all';
        is $server->stop, 0, '  the server ends well';
    }
    is_deeply $answers[1], $answers[0], "int8 = $int8: the same answers with checkpoints";
}

# the configuration that is shipped
{
    my $folder = folder_of('qwen3.5-moe');
    my $ini    = LlmServer::read_file(LlmServer::source('etc/llmserve.ini')) =~ s{^\[server\]\n|^listen = .*\n}{}gmr =~ s{^path = .*}{path = $folder}mr;
    my $server = LlmServer->serve("$ini\n[engine]\nthreads = 1\npin = false\n");
    my @answers = map { [ask($server, prompt(7, 70), 20)] } 1, 2;
    is $answers[1][1], 64, 'etc/llmserve.ini: a state is found again';
    is_deeply $answers[1][0], $answers[0][0], '  with the same answer';
    is $server->stop, 0, '  the server ends well';
}

done_testing;
