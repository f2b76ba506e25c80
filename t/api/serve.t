#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve itself, over HTTP: a trained model's golden tokens with all policies, the
# demo model's chat, and the state after requests have ended.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use Golden;
use JSON::PP;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $stories = $Golden::MODEL;
my $demo    = LlmServer::source('share/demo-model');
my $engine  = "[engine]\nthreads = 1\npin = false\n";

my @golden  = @Golden::ANSWERS;

# ---- golden tokens --------------------------------------------------------------------
{
    my $server = LlmServer->serve("served_model_name = stories\n[model]\npath = $stories\n$engine");
    is decode_json($server->get('/v1/models')->{content})->{data}[0]{id}, 'stories', 'the name it is served by';
    for my $golden (@golden) {
        my $choice = $server->post('/v1/completions', Golden::body($golden->{prompt_ids}, $golden))->{json}{choices}[0];
        is_deeply $choice->{token_ids}, $golden->{greedy_ids}, "golden: \"$golden->{prompt}\" by ids";
        my $by_text = $server->post('/v1/completions', Golden::body($golden->{prompt}, $golden))->{json}{choices}[0];
        is_deeply $by_text->{prompt_token_ids}, $golden->{prompt_ids}, '  its text has the ids';
        is_deeply $by_text->{token_ids}, $golden->{greedy_ids}, '  and the answer';
        my @events = LlmServer::events($server->post('/v1/completions', { %{ Golden::body($golden->{prompt_ids}, $golden) }, stream => $true }));
        is_deeply [map { ref ? @{ $_->{choices}[0]{token_ids} } : () } @events], $golden->{greedy_ids}, '  streamed';
        is join('', map { ref ? $_->{choices}[0]{text} : () } @events), $choice->{text}, '  as the same text';
        like $choice->{text}, qr/\A[\x{9}\x{a}\x{d}\x{20}-\x{10ffff}]+\z/, '  which is text';
    }

    my @steps = $server->get('/metrics')->{content} =~ /^vllm:iteration_tokens_total_bucket\{.*le="([^"]+)"\} /mg;
    is "@steps", '1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf', "vLLM's buckets of tokens a step";

    my $ask = sub { return $server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 30, @_ })->{json}{choices} };
    my $sampled = $ask->(seed => 7)->[0]{text};
    is $ask->(seed => 7)->[0]{text}, $sampled, 'a seed makes the same text';
    isnt $ask->(seed => 8)->[0]{text}, $sampled, 'another another';
    my $several = $ask->(seed => 7, n => 3);
    is $several->[0]{text}, $sampled, 'also with company';
    isnt $several->[1]{text}, $several->[2]{text}, 'of which each has its own';
    is $ask->(temperature => 0, stop => 'little')->[0]{text}, ', there was a ', 'a stop string';

    # The likeliest of those ids that may be drawn, as far as the alternatives tell.
    my %allowed = map { $_ => 1 } my @allowed = grep { $_ % 3 != 0 } 3 .. 511;
    my @greedy  = (temperature => 0, logprobs => 20, return_tokens_as_token_ids => $true, return_token_ids => $true);
    my $among   = $ask->(@greedy, allowed_token_ids => \@allowed)->[0];
    is_deeply [grep { !$allowed{$_} } @{ $among->{token_ids} }], [], 'allowed_token_ids: no others are drawn';
    my @best = map { my $top = $_; (sort { $top->{$b} <=> $top->{$a} } grep { $allowed{ s/token_id://r } } keys %$top)[0] // '' } @{ $among->{logprobs}{top_logprobs} };
    is_deeply [map { "token_id:$_" } @{ $among->{token_ids} }], \@best, '  but the likeliest of them';
    my $held = $ask->(@greedy, allowed_token_ids => \@allowed, guided_regex => '[a-z ]+[.]')->[0];
    is_deeply [grep { !$allowed{$_} && $_ != 2 } @{ $held->{token_ids} }], [], '  beside a form too';
    like $held->{text}, qr/\A[a-z ]+[.]?\z/, '    which is kept to';
    my $never = sub { return $ask->(temperature => 0, bad_words => [@_])->[0]{text} };
    my $free  = $never->();
    like $free, qr/a little girl named/, 'without bad words';
    unlike $never->('little'), qr/little/, 'bad_words: none of them comes';
    like $never->('little girl'), qr/a little (?!girl)/, '  of several tokens all but the last may';
    is $never->('big girl'), $free, '    and it too where the others are not before it';
    is $never->('time', 'Once upon'), $free, '  in the prompt they may stand';

    my $logprobs = $ask->(temperature => 0, logprobs => 3, max_tokens => 5)->[0]{logprobs};
    my $best = 0;
    for my $i (0 .. 4) {
        my $drawn = $logprobs->{token_logprobs}[$i];
        my $top   = $logprobs->{top_logprobs}[$i];
        $best++ if $top->{ $logprobs->{tokens}[$i] } == $drawn && !grep { $_ > $drawn } values %$top;
    }
    is $best, 5, 'without temperature the best is drawn';
    is scalar(grep { my $sum = 0; $sum += exp for values %$_; $sum > 0 && $sum <= 1.0001 } @{ $logprobs->{top_logprobs} }), 5,
        'and are of a distribution';

    is $server->post('/v1/completions', { prompt => [1, 512] })->{status}, 400, 'an id outside the vocabulary';
    is $server->post('/v1/completions', { prompt => [(5) x 512] })->{json}{error}{code}, 'context_length_exceeded', 'a prompt too long';
    is $server->post('/v1/completions', { prompt => [(5) x 500], ignore_eos => $true, max_tokens => -1 })->{json}{usage}{total_tokens}, 512,
        'an answer to the end of the context';
    is $server->stop, 0, 'the server ends well';
}

# ---- more answers than places ---------------------------------------------------------
{
    my $server = LlmServer->serve("[model]\npath = $stories\n${engine}max_requests = 4\n");
    my %ask    = (prompt => 'Once', max_tokens => 1);
    is $server->post('/v1/completions', { %ask, n => 4 })->{status}, 200, 'as many answers as may be alive';
    my $many = $server->post('/v1/completions', { %ask, n => 5 });
    is $many->{status}, 400, '  one more can never run: it need not be tried again';
    like $many->{json}{error}{message}, qr/n = 5 is more than the 4 answers allowed/, '  and says why';
    is $server->post('/v1/completions', { %ask, prompt => [('Once') x 5] })->{status}, 400, '  so it is with prompts';
}

# ---- prefixes -------------------------------------------------------------------------
# The cached part of a prompt is the same in usage, whole and streamed, in the
# log, and in /metrics.
{
    my $server = LlmServer->serve("[model]\npath = $demo\n$engine");
    my $text   = 'The quick brown fox jumps over the lazy dog. ' x 6;
    my %body   = (
        '/v1/completions'      => { prompt => "First, $text", max_tokens => 3 },
        '/v1/chat/completions' => { messages => [{ role => 'user', content => "Then, $text" }], max_tokens => 3 },
    );
    my ($prompt_tokens, $cached_tokens) = (0, 0);
    my $usage_of = sub {
        my ($path, %more) = @_;
        my $answer = $server->post($path, { %{ $body{$path} }, %more });
        my $usage  = $more{stream} ? (LlmServer::events($answer))[-2]{usage} : $answer->{json}{usage};
        my $cached = $usage->{prompt_tokens_details}{cached_tokens};
        $prompt_tokens += $usage->{prompt_tokens} * ($more{n} // 1);
        $cached_tokens += $cached * ($more{n} // 1);
        return ($usage->{prompt_tokens}, $cached);
    };
    for my $path (sort keys %body) {
        my ($n, $none) = $usage_of->($path);
        cmp_ok $n, '>', 60, "$path: a long prompt";
        is $none, 0, '  of which nothing is cached at first';
        my ($same, $cached) = $usage_of->($path);
        cmp_ok $cached, '>', $n / 2, '  asked again, its prefix is';
        cmp_ok $cached, '<', $n, '  but not all: the last token is computed';
        my @stream = (stream => $true, stream_options => { include_usage => $true, continuous_usage_stats => $true });
        is_deeply [$usage_of->($path, @stream)], [$n, $cached], '  streamed too';
        is_deeply [$usage_of->($path, n => 3)], [$n, $cached], '  and for three answers';
        is_deeply [$usage_of->($path, n => 3, @stream)], [$n, $cached], '  streamed too';
        like $server->log, qr/prompt_tokens $n, generated_tokens 3, shared_tokens $cached,/, '  so says the log';
    }
    my $labels = '{model_name="demo-model",engine="0"}';
    is $server->metric("vllm:prefix_cache_hits_total$labels"), $cached_tokens, '/metrics counts what was saved';
    is $server->metric("vllm:request_prefill_kv_computed_tokens_sum$labels"), $prompt_tokens - $cached_tokens,
        '  and what was computed';
    is $server->stop, 0, 'the server ends well';
}

# Chunks of a few tokens, and a cache too small for all: who shares a step, how a prompt is
# cut and who is preempted must not show.
my $swapping = "host_memory = 1MiB\n";
for my $policy (
    "[plugins]\nscheduler = sarathi\n[scheduler.sarathi]\nchunk = 32\n",
    "[plugins]\nscheduler = fcfs\n",
    "$swapping\[plugins]\nscheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nmax_seqs = 64\nquantum = 1ms\n",
    "[plugins]\nscheduler = srpt\ncache = contiguous\n[cache.contiguous]\nreserve = pow2\nmax_len = 128\n",
) {
    my $server = LlmServer->serve("[model]\npath = $stories\n$engine\[cache]\ndevice_memory = 1MiB\n$policy");
    my ($name) = $policy =~ /scheduler = (\w+)/;
    my @ids  = Golden::all_at_once($server, 4);
    for my $i (0 .. $#golden) {
        is_deeply $ids[$i], [($golden[$i]{greedy_ids}) x 4], "$name: \"$golden[$i]{prompt}\" in company";
    }
    # on a busy machine requests may come so slowly that there is room for all: once more
    my $preemptions = 'vllm:num_preemptions_total{model_name="stories260K",engine="0"}';
    for (1 .. 20) {
        last if $server->metric($preemptions) > 0;
        Golden::all_at_once($server, 12);
    }
    cmp_ok $server->metric($preemptions), '>', 0, "$name: some were preempted";
    ok $server->metric_becomes('llmserve_generations_live', 0), "$name: nothing is left";

    # Clients that leave, at any moment of their request.
    my @leavers = map {
        my $socket = $server->connect;
        my $stream = $_ % 2 ? 'true' : 'false';
        syswrite $socket, LlmServer::raw_post('/v1/completions', "{\"prompt\":[1,403],\"n\":4,\"max_tokens\":500,\"ignore_eos\":true,\"stream\":$stream}");
        $socket
    } 1 .. 20;
    close $_ for @leavers;
    ok $server->metric_becomes('llmserve_generations_live', 0), "$name: who leaves is forgotten";
    my $units = $server->metric('llmserve_cache_units{tier="device"}');
    cmp_ok $units, '>', 0, "$name: there is a cache";
    ok $server->metric_becomes('llmserve_cache_units_free{tier="device"}', $units), "$name: and it is empty again";
    is $server->stop, 0, "$name: the server ends well";
}

# ---- too few descriptors --------------------------------------------------------------
SKIP: {
    skip 'what the server runs under needs more itself', 1 if LlmServer::under();
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/few.ini", "[server]\nlisten = 127.0.0.1:0\n[model]\npath = $stories\n");
    my $llmserve = LlmServer::built('llmserve');
    for my $limit (7 .. 12, 30) {
        my $said = qx(sh -c "ulimit -n $limit; exec '$llmserve' -c $folder/few.ini" 2>&1);
        is $? >> 8, 1, "with $limit descriptors it does not start";
        like $said, qr/only \d+ more files may be open, \d+ are needed .*raise the limit \(ulimit -n,/, '  and says why';
        is $? & 127, 0, '  without a crash';
    }
}

# ---- the demo model -------------------------------------------------------------------
{
    my $server = LlmServer->serve("[model]\npath = $demo\n$engine");
    my $ask    = { messages => [{ role => 'user', content => 'Tell me a short story.' }], temperature => 0, max_tokens => 200 };
    my $whole  = $server->post('/v1/chat/completions', $ask)->{json}{choices}[0];
    is $whole->{finish_reason}, 'stop', 'a chat ends by itself';
    like $whole->{message}{content}, qr/\A\w[\w\s,.'"!?;:-]+\z/, 'in words';
    my @events = LlmServer::events($server->post('/v1/chat/completions', { %$ask, stream => $true }));
    is join('', map { ref ? $_->{choices}[0]{delta}{content} // '' : () } @events), $whole->{message}{content}, 'streamed the same';

    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/chat/completions', encode_json({ %$ask, stream => $true, ignore_eos => $true }));
    my $begin = LlmServer::read_until($socket, qr/"content":"\w/);
    $server->signal('TERM');
    my $rest = LlmServer::read_all($socket);
    like "$begin$rest", qr/"finish_reason":"length".*data: \[DONE\]\n\n\r\n0\r\n\r\n\z/s, 'what runs at SIGTERM is finished';
    is $server->wait_for_end, 0, 'then the server ends well';
}
done_testing;
