#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-bench with llmserve and the demo model, and with a front end on a fake step
# loop: its counts, its effects on a server, and its error messages.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP;
use Test::More;

my $dir = tempdir(CLEANUP => 1);
my $runs = 0;

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    return scalar(<$file>) // '';
}

# Starts the tool; its process id, and where its output goes.
sub start {
    my (@arguments) = @_;
    my $name = "$dir/" . ++$runs;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$name.out";
        open STDERR, '>', "$name.err";
        alarm 4 * $LlmServer::TIMEOUT;    # a hanging tool is a failing test
        exec LlmServer::built('llmserve-bench'), @arguments or die "exec: $!";
    }
    return { pid => $pid, name => $name };
}

sub result {
    my ($run) = @_;
    waitpid $run->{pid}, 0;
    my %got = (status => ($? & 127) ? "signal $?" : $? >> 8, out => slurp("$run->{name}.out"),
        err => slurp("$run->{name}.err"));
    $got{json} = eval { decode_json(slurp("$run->{name}.json")) };
    return \%got;
}

# A run against the server, with its JSON.
sub arguments {
    my ($server, @more) = @_;
    return ('--base-url', "http://$server->{address}", '--result-dir', $dir,
        '--result-filename', ($runs + 1) . '.json', @more);
}

sub bench { return result(start(arguments(@_))) }

# ---- the keys that plots of `vllm bench serve` results read, each with its type -----------
my %shape = (
    text    => qr/^"/,
    count   => qr/^\d+$/,
    number  => qr/^-?\d[\d.e+-]*$/i,
    counts  => qr/^\[\d+(,\d+)*\]$/,
    numbers => qr/^\[-?\d[\d.e+-]*(,-?\d[\d.e+-]*)*\]$/i,
    texts   => qr/^\["/,
    lists   => qr/^\[\[/,
);
my %vllm = (
    text    => [qw(date endpoint_type backend model_id)],
    count   => [qw(num_prompts completed failed total_input_tokens total_output_tokens max_concurrency
                   max_concurrent_requests)],
    number  => [qw(request_rate burstiness duration request_throughput request_goodput output_throughput
                   total_token_throughput max_output_tokens_per_s),
                map { my $metric = $_; map { "${_}_${metric}_ms" } qw(mean median std p99) } qw(ttft tpot itl e2el)],
    counts  => [qw(input_lens output_lens)],
    numbers => [qw(ttfts latencies start_times queue_times)],
    texts   => [qw(generated_texts errors)],
    lists   => [qw(itls)],
);

sub vllm_keys {
    my ($json) = @_;
    my $coder = JSON::PP->new->allow_nonref;
    for my $type (sort keys %vllm) {
        my @wrong = grep { $coder->encode($json->{$_}) !~ $shape{$type} } @{ $vllm{$type} };
        is "@wrong", '', "vLLM's keys of type $type are there";
    }
    for my $key (qw(label tokenizer_id)) {
        ok exists $json->{$key}, "vLLM's key $key is there";
    }
}

# ---- llmserve itself --------------------------------------------------------------------
{
    my $demo   = LlmServer::source('share/demo-model');
    my $server = LlmServer->serve("[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n");
    my @short  = qw(--random-input-len 20 --random-output-len 6);

    my $got = bench($server, @short, qw(--num-prompts 12 --max-concurrency 3 --slo-ttft 60s
        --realtime-share 0.5 --best-effort-share 0.5 --save-detailed --num-warmups 2 --metadata colour=blue),
        qw(--temperature 0));    # else one in many answers is ends of text alone, which have no text
    my $json  = $got->{json};
    my @apart = map { my $life = $json->{lives}[$_]; $life->{phases}[3] - $life->{phases}[1] - $json->{ttfts}[$_] } 0 .. 11;
    is_deeply [scalar @{ $json->{lives} }, grep { abs($_) > 1e-5 } @apart], [12], 'the lives of requests, of which a client sees the wait and the answer';
    SKIP: {
        skip 'gnuplot is not installed', 3 if system('command -v gnuplot >/dev/null') != 0;
        my $seen = bench($server, qw(--random-input-len 20 --random-output-len 200 --ignore-eos --num-prompts 60 --max-concurrency 3),
            '--plot', "$dir/load.html")->{json}{timeline};
        cmp_ok scalar(grep { $_ > 0 } map { @{ $seen->{$_} } } qw(requests_running requests_waiting)), '>', 0,
            'for a plot it looks at how many requests the server has';
        is scalar @{ $seen->{cache_used} }, scalar @{ $seen->{tokens_per_s} }, '  and at its cache, all along';
        like slurp("$dir/load.html"), qr/Requests at the server.*cache in use.*60 requests from the middle/s, '  which are on the page';
    }
    is $got->{status}, 0, 'a run ends well';
    like $got->{out}, qr/^Successful requests: +12 +$/m, 'with its table';
    is $got->{err}, '', 'and nothing else';
    is $json->{completed}, 12, 'all are answered';
    is $json->{total_input_tokens}, 240, 'prompt tokens';
    is $json->{total_output_tokens}, 72, 'generated tokens, of the usage';
    is_deeply $json->{output_lens}, [(6) x 12], 'each with its own';
    cmp_ok $json->{max_concurrent_requests}, '<=', 3, 'no more at a time than allowed';
    cmp_ok $json->{connections}, '<=', 3, 'over connections that are used again';
    is $json->{model_id}, 'demo-model', 'the model is found';
    is $json->{max_concurrency}, 3, 'what was asked for is noted';
    is $json->{colour}, 'blue', 'and metadata';
    is $json->{slo_attainment}{issued}, 12, 'attainment is of all issued';
    is_deeply [sort keys %{ $json->{slo_attainment_by_class} }], [qw(best_effort realtime)], 'by class';
    is $json->{slo_attainment_by_class}{realtime}{ttft}, 1, 'and kind';
    is scalar(grep { $_ <= 0 } @{ $json->{ttfts} }), 0, 'no first token before its request';

    is scalar(grep { length } @{ $json->{generated_texts} }), 12, 'and its text';
    vllm_keys(bench($server, @short, qw(--num-prompts 3 --max-concurrency 2 --request-rate 50 --goodput ttft:60000
        --save-detailed))->{json});
    is $json->{steady_state}, undef, 'a short run has no steady part';

    $got = bench($server, @short, qw(--num-prompts 4 --backend openai-chat --continuous-usage),
        '--chat-template-kwargs', '{"enable_thinking": false}');
    is $got->{json}{completed}, 4, 'chats are answered';
    is $got->{json}{total_output_tokens}, 24, 'with the tokens asked for';
    cmp_ok $got->{json}{mean_itl_per_token_ms}, '>', 0, 'gaps by token, since each chunk says how many it has';

    $got = bench($server, @short, qw(--num-prompts 6 --tenants 2));
    is_deeply [sort keys %{ $got->{json}{slo_attainment_by_tenant} }], [1, 2], 'attainment by tenant';
    my $tenants = () = $server->get('/metrics')->{content} =~ /^llmserve_tenant_requests_total\{tenant="tenant-[12]"\} [1-5]$/mg;
    is $tenants, 2, 'the server sees the tenants too';

    $got = bench($server, @short, qw(--num-prompts 2 --percentile-metrics ttft));
    unlike $got->{out}, qr/ITL/, 'the table has what was asked for';
    my @line = (@short, qw(--num-prompts 2 --append-result), '--base-url', "http://$server->{address}",
        '--result-dir', $dir, '--result-filename', 'lines.jsonl');
    result(start(@line)) for 1 .. 2;
    is_deeply [map { decode_json($_)->{completed} } split /\n/, slurp("$dir/lines.jsonl")], [2, 2], 'results as lines of one file';
    $got = bench($server, @short, qw(--num-prompts 2 --dry-run));
    like $got->{out}, qr/^2 requests in .*^POST \/v1\/completions /ms, 'a dry run shows what it would send';
    is $got->{json}, undef, 'and sends nothing';

    $got = bench($server, qw(--num-prompts 4 --random-input-len 20 --max-tokens bound --output-len 5 --max-new-tokens 900 --ignore-eos));
    is $got->{json}{completed}, 4, 'hanging up after the true length is an end';
    is $got->{json}{total_output_tokens}, 20, 'at that length';
    ok $server->metric_becomes('llmserve_generations_live', 0), 'the server is rid of them';

    $got = bench($server, @short, qw(--num-prompts 8 --cancel-fraction 1 --cancel-after 2 --random-output-len 500));
    is $got->{json}{cancelled}, 8, 'cancelled on purpose';
    is $got->{json}{failed}, 0, 'is no failure';
    is $got->{json}{slo_attainment}{issued}, 0, 'and in no attainment';
    $got = bench($server, @short, qw(--num-prompts 8 --cancel-fraction 1 --cancel-after 0 --random-output-len 500));
    is $got->{json}{cancelled}, 8, 'cancelled at once';
    ok $server->metric_becomes('llmserve_generations_live', 0), 'who leaves is forgotten';

    $got = bench($server, @short, qw(--num-prompts 2 --slow-fraction 1 --slow-rate 20000));
    is $got->{json}{cancelled}, 2, 'slow readers come to their end, and are not measured';

    $got = bench($server, qw(--num-prompts 3 --random-input-len 5000));
    is $got->{status}, 1, 'no answer at all is a failure';
    is $got->{json}{failed}, 3, 'counted';
    like join('', keys %{ $got->{json}{failures} }), qr/^HTTP 400: /, 'by its kind';

    $got = bench($server, qw(--max-concurrency 2 --num-prompts 1000 --random-input-len 20
        --random-output-len 400 --ignore-eos --stop-after 500ms));
    is $got->{status}, 0, 'a run may be stopped by the clock';
    cmp_ok $got->{json}{issued}, '<', 1000, 'before its end';
    is $got->{json}{failed}, 0, 'and what runs then is no failure';

    SKIP: {
        skip 'fewer than 2,000 open files are allowed here', 1 if qx(sh -c 'ulimit -n') =~ /^(\d+)$/ && $1 < 2000;
        $got = bench($server, qw(--num-prompts 1500 --request-rate inf --random-input-len 4 --random-output-len 1));
        is_deeply [@{ $got->{json} }{qw(completed failed)}], [1500, 0], 'all at once wait, as vLLM lets them'
            or diag explain $got->{json}{failures};
    }

    my @sweep = ('--base-url', "http://$server->{address}", '--result-dir', "$dir/sweep", @short,
        qw(--num-prompts 4 --goodput ttft:60000 --sweep request-rate=20,40 --num-runs 2));
    $got = result(start(@sweep));
    is $got->{status}, 0, 'a sweep';
    like $got->{out}, qr/^request-rate=20 .*^request-rate=40 /ms, 'has a row for each point';
    like $got->{out}, qr/variation, %/, 'how much the repeats differ';
    my $compared = result(start('--compare', "$dir/sweep/request-rate=20_seed=0.json", "$dir/sweep/request-rate=40_seed=0.json"));
    is $compared->{status}, 0, 'two results side by side';
    like $compared->{out}, qr/^TTFT p50 .*too few runs$/m, 'of one run each: no winner';
    my $one = decode_json(slurp("$dir/sweep/request-rate=20_seed=0.json"));
    is $one->{completed}, 4, 'and a file for each run';
    my $before = (stat "$dir/sweep/request-rate=40_seed=1.json")[1];
    unlink "$dir/sweep/request-rate=20_seed=1.json";
    $got = result(start(@sweep));
    is $got->{status}, 0, 'again';
    ok -e "$dir/sweep/request-rate=20_seed=1.json", 'runs what is missing';
    is((stat "$dir/sweep/request-rate=40_seed=1.json")[1], $before, 'and that only');
    like $got->{out}, qr/^3 of 4 runs were there already$/m, '  which it says';
    is decode_json(slurp("$dir/sweep/request-rate=40_seed=1.json"))->{made_by}{server}{plugins}{scheduler}{name},
        'fcfs', 'a result says which server it is of';
    $server->configure("[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[plugins]\nscheduler = sarathi\n");
    $server->signal('HUP');
    ok $server->metric_becomes('llmserve_reloads_total', 1), 'another scheduler';
    $got = result(start(@sweep));
    unlike $got->{out}, qr/already/, '  is another server: nothing of the old one is shown';
    like $got->{out}, qr/^4 results in \S+ had been made by something else/m, '  and all is run again';

    $got = result(start('--base-url', "http://$server->{address}", '--result-dir', "$dir/find", @short,
            qw(--num-prompts 3 --goodput ttft:60000 --find-rate 0.9 --find-rate-low 50 --find-rate-high 100)));
    like $got->{out}, qr/^90 % is still attained at 100 req\/s/m, 'the search for a rate';

    # It dies with requests under way: those fail, nothing hangs, nothing is lost.
    my $run = start(arguments($server, qw(--num-prompts 40 --max-concurrency 4 --random-input-len 20
        --random-output-len 300 --ignore-eos)));
    $server->metric_becomes('vllm:num_requests_running{model_name="demo-model",engine="0"}', 4);
    kill 'KILL', $server->{pid};
    $server->wait_for_end;
    $got = result($run);
    like $got->{status}, qr/^[01]$/, 'a server that dies is survived';
    is $got->{json}{completed} + $got->{json}{failed}, 40, 'every request has an end';
    cmp_ok $got->{json}{failed}, '>', 0, 'some of them bad';
    like join(' ', keys %{ $got->{json}{failures} }), qr/connection/i, 'whose kind is told';

    my $nobody = result(start('--base-url', "http://$server->{address}", '--num-prompts', 1));
    is $nobody->{status}, 1, 'nobody there';
    like $nobody->{err}, qr/^llmserve-bench: http:\/\/\S+: connection refused$/i, 'is said in a sentence';
}

# ---- a fake step loop: fates by request id ------------------------------------------------
{
    my $server = LlmServer->fake;
    my @some   = qw(--num-prompts 4 --random-input-len 9 --random-output-len 5 --ignore-eos);
    my $got    = bench($server, @some, qw(--request-id-prefix fail-));
    is $got->{json}{failed}, 4, 'an error inside a stream is a failure';
    $got = bench($server, @some, qw(--request-id-prefix reject-));
    is $got->{json}{failed}, 4, 'a refusal too';
    $got = bench($server, @some, qw(--request-id-prefix hold- --timeout 300ms));
    is_deeply $got->{json}{failures}, { 'timed out' => 4 }, 'and what never comes';
    is $server->stop, 0, 'the server ends well';
}
{
    # Long enough for a request to follow its connection, however busy the machine is, and shorter
    # than the time to the next one.
    my $server = LlmServer->fake(idle => 500);
    my $got    = bench($server, qw(--num-prompts 3 --random-input-len 9 --random-output-len 5 --ignore-eos --request-rate 0.7 --arrivals uniform));
    is $got->{json}{completed}, 3, 'connections that the server has closed meanwhile are made anew';
    cmp_ok $got->{json}{connections}, '>=', 2, 'as they had to be';
    is $server->stop, 0, 'the server ends well';
}

# ---- heads in pieces: two answers begin at the same time, in the middle of a word ----------
{
    my $listener = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1') or die "listen: $!";
    my $run = start('--base-url', 'http://127.0.0.1:' . $listener->sockport, '--result-dir', $dir, '--result-filename',
        ($runs + 1) . '.json', qw(--model any --num-prompts 2 --request-rate inf --random-input-len 3 --random-output-len 1));
    my $chunk = qq(data: {"choices": [{"text": "x"}]}\n\ndata: [DONE]\n\n);
    my $rest  = "\r\nContent-Length: " . length($chunk) . "\r\n\r\n$chunk";
    my @clients;
    while (@clients < 2 and my $client = $listener->accept) {
        $client->autoflush(1);
        my ($length, $body) = (0);
        while (my $line = <$client>) {
            last if $line eq "\r\n";
            $length = $1 if $line =~ /^content-length: (\d+)/i;
        }
        read $client, $body, $length;
        $length > 0 ? push @clients, $client : print $client "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    for my $piece ("HTTP/1.1 200 OK\r\nContent-Ty", 'pe: text/ev', "ent-stream$rest") {
        print { $clients[$_] } $piece for 0, 1;
        select undef, undef, undef, 0.05;    # the pieces may come together on a busy machine: then nothing is shown
    }
    close $_ for @clients, $listener;
    is_deeply result($run)->{json}{failures}, {}, 'a head may come in pieces, on several connections at once';
}

# ---- a token may be the byte 0 --------------------------------------------------------------
{
    my $listener = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1', Timeout => $LlmServer::TIMEOUT) or die "listen: $!";
    my $run = start('--base-url', 'http://127.0.0.1:' . $listener->sockport, '--result-dir', $dir, '--result-filename',
        ($runs + 1) . '.json', qw(--model any --num-prompts 1 --random-input-len 3 --random-output-len 2 --save-detailed));
    my $chunks = join '', map { "data: $_\n\n" } '{"choices": [{"text": "\u0000"}]}', '{"choices": [{"text": "a\u0000b"}]}', '[DONE]';
    my $length = 0;
    while (!$length and my $client = $listener->accept) {
        my $body;
        while (my $line = <$client>) {
            last if $line eq "\r\n";
            $length = $1 if $line =~ /^content-length: (\d+)/i;
        }
        read $client, $body, $length;
        print $client $length ? "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " . length($chunks) . "\r\n\r\n$chunks"
          : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    my $got = result($run)->{json};
    is_deeply $got->{failures}, {}, 'a token may be the byte 0';
    is $got->{completed}, 1, '  it is counted';
    is $got->{generated_texts}[0], "\0a\0b", '  and kept';
}

# ---- keys, and what is printed ------------------------------------------------------------
{
    LlmServer::write_file("$dir/keys", "sk-right tester\n");
    my $server = LlmServer->serve("api_keys = $dir/keys\n[model]\npath = " . LlmServer::source('t/data/models/stories260K') . "\n[engine]\nthreads = 1\npin = false\n");
    my @load = qw(--dataset-name random --random-input-len 8 --random-output-len 4 --num-prompts 3);
    for my $case ([ 'sk-right', [], 3 ], [ 'sk-wrong', [], 0 ], [ 'sk-wrong', [ '--header', 'authorization=Bearer sk-right' ], 3 ]) {
        my ($key, $more, $completed) = @$case;
        local $ENV{OPENAI_API_KEY} = $key;
        is bench($server, @load, @$more)->{json}{completed} // 0, $completed, "OPENAI_API_KEY = $key @$more";
    }
    local $ENV{OPENAI_API_KEY} = 'sk-right';
    my $got = bench($server, @load, '--json');
    is decode_json($got->{out})->{completed}, 3, '--json prints the result';
    is $got->{err}, '', '  and no progress';
    $got = bench($server, @load, '--quiet');
    is "$got->{out}$got->{err}", '', '--quiet prints nothing';
    is $got->{json}{completed}, 3, '  and saves what it was told to';
    $server->stop;
}

# ---- usage --------------------------------------------------------------------------------
{
    my $got = result(start('--help'));
    is $got->{status}, 0, '--help';
    like $got->{out}, qr/--\Q$_\E/, "  has --$_"
        for qw(request-rate burstiness max-concurrency num-prompts dataset-name goodput sweep cancel-fraction);
    my @bad = (
        ['--request-rat', 3]             => qr/did you mean --request-rate/,
        ['--request-rate', 'x']          => qr/--request-rate: expected/,
        ['--port', 'x']                  => qr/--port: expected/,
        ['--goodput', 'speed:3']         => qr/--goodput: expected/,
        ['--header', 'x']                => qr/--header: expected/,
        ['--extra-body', '[]']           => qr/--extra-body: expected/,
        ['--percentile-metrics', 'x']    => qr/--percentile-metrics: expected/,
        ['--compare', 'one']             => qr/--compare: expected two/,
        ['--compare', 'a.json', 'b']     => qr/a.json: is no result/,
        ['--base-url', 'https://x']      => qr/--base-url: expected http/,
        ['--trace', '/nowhere.csv']      => qr/\/nowhere.csv: cannot be read/,
        ['--sweep', 'colour=1']          => qr/unknown option --colour/,
        ['stray']                        => qr/'stray'/,
    );
    while (my ($arguments, $sentence) = splice @bad, 0, 2) {
        $got = result(start(@$arguments));
        is $got->{status}, 2, "bad usage: @$arguments";
        like $got->{err}, $sentence, '  is told what is wrong';
    }
}
done_testing;
