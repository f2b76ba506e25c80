#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# GET /admin/history and llmserve-whatif: the history has a server's requests without their
# texts, is read as a trace and simulated with other policies, and a winner is named only if its
# lead is large enough.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api", "$FindBin::Bin/../sim";
use IO::Socket::INET;
use JSON::PP;
use List::Util qw(max sum);
use LlmServer;
use Sim;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $model = "$source/t/data/models/stories260K";
my $ini   = "[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n[plugins]\nscheduler = sarathi\n";
my $ten   = profile('ten.ini');
delete $ENV{LLMSERVE_ADMIN_KEY};

# ---- what the server tells -------------------------------------------------------------------
my $server = LlmServer->serve($ini);
my $text   = $server->get('/admin/history')->{content};
like $text, qr/\AH 2 sarathi paged none cache\.block_tokens=16 .* engine\.max_context=512 .*\n\z/, 'a server that had nothing to do';
my ($status, $out, $err) = run('llmserve-whatif', '-a', $server->{address}, '-c', "$server->{folder}/llmserve.ini", '--profile', $ten);
is $status, 2, '  of which nothing can be said';
like $err, qr/^llmserve-whatif: .*: has no requests$/m, '  as the answer says';
my $opened = $server->post('/admin/whatif', { policies => ['fcfs', "$folder/x.so"] });
is $opened->{status}, 400, '  nor can a request name a file, which would be opened';
like $opened->{json}{error}{message}, qr/is a path, which a request may not set/, '    with the reason';
for my $case (
    [{ policies => ['fcfs', 'nonesuch'] },         'policies',  qr/no scheduler 'nonesuch'; there are: .*\bapt\b.*\bfcfs\b/, 'a scheduler that is not there'],
    [{ policies => ['fcfs+nonesuch'] },            'policies',  qr/no cache 'nonesuch'; there are: .*\bpaged\b/,              'nor a cache'],
    [{ policies => ['fcfs+paged+nonesuch'] },      'policies',  qr/no predictor 'nonesuch'; there are: .*\bnone\b/,            'nor a predictor'],
    [{ policies => ['fcfs:x=/etc/passwd'] },       'policies',  qr/'x=\/etc\/passwd': a request may set no path/,              'a path of a parameter'],
    [{ policies => ['pipe:command=true'] },        'policies',  qr/scheduler 'pipe' starts a program/,                        'a program'],
    [{ policies => ['fcfs++none'] },               'policies',  qr/'fcfs\+\+none': a part is empty/,                           'half a candidate'],
    [{ objective => 'nonesuch' },                  'objective', qr/expected one of auto, .* found 'nonesuch'/,                 'an objective that is not there'],
) {
    my ($question, $param, $why, $name) = @$case;
    my $refused = $server->post('/admin/whatif', $question);
    is_deeply [$refused->{status}, $refused->{json}{error}{param}], [400, $param], "  $name is refused at once";
    like $refused->{json}{error}{message}, $why, '    with the reason';
}
is decode_json($server->get('/admin/whatif')->{content})->{state}, 'none', '  and nothing is measured';

my @same = map { 300 + $_ % 50 } 1 .. 40;
for my $n (1 .. 6) {
    my %more = $n % 2 ? (priority => $n, slo => { ttft_ms => 5000 }) : ();
    $server->post('/v1/completions', { prompt => [@same, 100 + $n], max_tokens => 5 + $n, ignore_eos => JSON::PP::true, temperature => 0, %more });
}
my $told = $server->get('/admin/history');
is $told->{headers}{'content-type'}, 'text/plain; charset=utf-8', 'requests, as text';
my @arrivals = $told->{content} =~ /^A (.*)$/mg;
my @ends     = $told->{content} =~ /^E (.*)$/mg;
is scalar(@arrivals), 6, '  each when it came';
is scalar(@ends), 6, '  and when it ended';
my @fields = split / /, $arrivals[0];
is_deeply [@fields[0, 2, 3, 5, 7]], [1, 41, 6, 1, 5_000_000_000], '  with what was asked';
is scalar(@fields) - 11, 2, '  and a hash for each 16 tokens of the prompt';
is $arrivals[5] =~ s/.* (\S+ \S+)\z/$1/r, $arrivals[0] =~ s/.* (\S+ \S+)\z/$1/r, '  which those who share them have in common';
my ($number, $generated, $reason, $first, $last) = split / /, $ends[5];
is_deeply [$number, $generated, $reason], [6, 11, 2], '  how long the answer was, and why it ended';
cmp_ok $first, '>', (split / /, $arrivals[5])[1], '  its first token came after it';
cmp_ok $last, '>', $first, '  and its last after that';

my $history = write_file('history', $told->{content});
my $report  = simulate('-c', "$server->{folder}/llmserve.ini", '--profile', $ten, '--trace', $history);
is_deeply [@$report{qw(completed total_input_tokens total_output_tokens)}], [6, 6 * 41, sum(6 .. 11)], 'llmserve-sim reads it as a trace';

# ---- against what was served -------------------------------------------------------------------
sub whatif {
    my @arguments = @_;
    my ($code, $said, $why) = run('llmserve-whatif', '--quiet', '--json', "$folder/answer.json", '-c', "$server->{folder}/llmserve.ini", '--profile', $ten, @arguments);
    return { status => $code, out => $said, err => $why, $code == 0 ? %{ decode_json(read_file("$folder/answer.json")) } : () };
}

# Steps of ten seconds: longer than those that were run, whatever machine this is.
my $long  = write_file('long.ini', read_file($ten) =~ s/10ms/10s/r);
my $asked = whatif('-a', $server->{address}, '--profile', $long, '--policies', 'fcfs', 'sarathi:chunk=64..128:64,nonesuch', 'rr+hybrid', '--objective', 'latency');
is $asked->{status}, 0, 'the server is asked' or diag $asked->{err};
is_deeply [map { $_->{name} } @{ $asked->{results} }], ['sarathi+paged+none', 'fcfs', 'sarathi chunk=64', 'sarathi chunk=128', 'nonesuch', 'rr+hybrid'], '  what runs, and each candidate';
like $asked->{results}[4]{error}, qr/no scheduler 'nonesuch'/, '  one that does not exist is left out, with its reason';
my @latency = map { my @a = split / /, $arrivals[$_]; my @e = split / /, $ends[$_]; ($e[4] - $a[1]) / 1e6 } 0 .. 5;
cmp_ok abs($asked->{served}{mean_e2el_ms} - sum(@latency) / 6), '<', 1e-6, '  what was served is what the history says';
my $simulated = $asked->{results}[0]{report}{mean_e2el_ms};
cmp_ok abs($asked->{margin} - abs($simulated / $asked->{served}{mean_e2el_ms} - 1)), '<', 1e-9, '  how far simulated is from served';
ok !$asked->{margin_assumed}, '    is known';
is $asked->{profile_error}, 0.04, '    how much slower or faster a machine may be';
is $asked->{beside_ms}, 0, '    a device that is said to be slower than it is stays so';
is $asked->{best}, undef, '  no winner where all are alike';
like $asked->{out}, qr/^No difference that can be told/m, '    which is said';

# A device that is said to take no time: all of what was served is beside it.
my $swift = whatif('-a', $server->{address}, '--profile', write_file('swift.ini', read_file($ten) =~ s/10ms/10us/r), '--policies', 'fcfs');
cmp_ok $swift->{beside_ms}, '>', 0, 'what steps take beside a device is found';
cmp_ok abs($swift->{results}[0]{report}{mean_tpot_ms} / $swift->{served}{mean_tpot_ms} - 1), '<', 0.2, '  so that what runs is simulated as it was served';
cmp_ok $swift->{results}[1]{report}{mean_tpot_ms}, '>', $swift->{beside_ms} / 2, '  and counted for each candidate';
like $swift->{out}, qr/apart; a step took \d+\.\d\d ms more than the profile says,\n\d+ % of a token's time\. Differences of less than \d+\.\d % are not told \(~\),\nnor those that steps of 4 % more or less time would end\.$/m, '  and said';
cmp_ok $swift->{fitted}, '>', 0.5, '  and the part of a token that it is';
cmp_ok $swift->{margin}, '>', 0.2 * $swift->{fitted}, '  a fifth of which is not told of others';

# ---- one that is told ------------------------------------------------------------------------
# A long answer and forty short ones, one at a time: who takes turns has a tenth of the latency.
my $queue = "H 2 fcfs paged none engine.max_sequences=1\nA 1 0 40 400 0 0 0 -1 -1 -1 -1\n" . join('', map { "A $_ " . $_ * 1000 . " 40 4 0 0 0 -1 -1 -1 -1\n" } 2 .. 41) . "E 1 400 2\n" . join '', map { "E $_ 4 2\n" } 2 .. 41;
my $log  = write_file('queue', $queue);
my $told_apart = whatif('--history', $log, '--policies', 'rr,mlfq,fcfs');
is $told_apart->{status}, 0, 'a decision log in place of a server' or diag $told_apart->{err};
is $told_apart->{results}[0]{name}, 'fcfs+paged+none', '  which names what ran';
ok $told_apart->{margin_assumed}, '  but not how it was served';
is $told_apart->{best}, 'mlfq', '  the winner takes turns';
cmp_ok $told_apart->{gain}, '>', 0.5, '    by far';
is $told_apart->{results}[3]{gain}, 0, '  and what runs already is no better than itself';
like $told_apart->{out}, qr/^Best: $told_apart->{best}, whose latency would be .*\n\nplugins\.scheduler=$told_apart->{best}$/m, '  the answer says what to set';

# A short one behind a long one, in time with mlfq by 2 %: not on a machine that is 4 % off.
my $pair = write_file('pair', $queue =~ s/\n(?:A ([3-9]|\d\d) |E (?:[3-9]|\d\d) )[^\n]*//gr);
my $last_ttft = whatif('--history', $pair, '--policies', 'mlfq')->{results}[1]{report}{max_ttft_ms};
my ($close, $wide) = map { whatif('--history', $pair, '--policies', 'mlfq', '--goodput', 'ttft:' . sprintf '%.0f', $_ * $last_ttft) } 1.02, 4;
cmp_ok $close->{results}[1]{gain}, '>', $close->{margin}, 'a difference that steps of 4 % more time would end';
is $close->{best}, undef, '  is not told';
ok !$close->{results}[1]{told}, '    nor marked as one that is';
like $close->{out}, qr/^mlfq .* % ~$/m, '    for people too';
is $wide->{best}, 'mlfq', '  one that they would not is';
ok $wide->{results}[1]{told}, '    and marked';
is $asked->{served}{max_itl_ms}, undef, 'of what was served no gap within an answer is known';

is whatif('--history', $log, '--policies', 'fcfs', '--goodput', 'e2el:1000000')->{objective}, 'goodput', 'with SLOs the objective is goodput';
my ($ctl, $passed_on) = run('llmserve-ctl', 'whatif', '--quiet', '-c', "$server->{folder}/llmserve.ini", '--history', $log, '--profile', $ten, '--policies', 'mlfq');
is $ctl, 0, 'llmserve-ctl whatif is the same';
like $passed_on, qr/^Best: mlfq,/m, '  with the same answer';

# ---- taking it over, and asking again ------------------------------------------------------------
# A server that is none: it tells the queue, and keeps what it is asked to change.
my $stub = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die "listen: $!";
my $answers = fork // die "fork: $!";
if ($answers == 0) {
    my $sections = { plugins => { scheduler => 'fcfs', cache => 'paged', predictor => 'none' }, 'scheduler.fcfs' => {} };
    my %says = (
        'GET /admin/history' => $queue,
        'GET /admin/config'  => encode_json({ path => "$server->{folder}/llmserve.ini", sections => $sections }),
        'GET /admin/status'  => '{"requests": {"running": 0, "waiting": 0}}',
        'POST /admin/reload' => '{"message": "scheduler fcfs -> mlfq"}',
    );
    while (my $client = $stub->accept) {
        my ($head, $body) = ('', '');
        while (my $line = <$client>) { $head .= $line; last if $line eq "\r\n" }
        read $client, $body, $1 if $head =~ /^content-length: (\d+)/mi;
        my ($what) = $head =~ m{\A(\S+ \S+)};
        write_file('asked', $body) if $what =~ /POST/;
        print {$client} "HTTP/1.1 200 OK\r\n\r\n$says{$what}";
        close $client;
    }
    POSIX::_exit(0);
}
my $applied = whatif('-a', '127.0.0.1:' . $stub->sockport, '--policies', 'mlfq', '--apply');
is $applied->{status}, 0, 'the best may be taken over' or diag $applied->{err};
like $applied->{out}, qr/^Applied: scheduler fcfs -> mlfq$/m, '  and the server says what that changed';
is_deeply decode_json(read_file("$folder/asked")), { set => { plugins => { scheduler => 'mlfq' } } }, '  which is what it was asked';
unlink "$folder/asked";
is whatif('-a', '127.0.0.1:' . $stub->sockport, '--policies', 'fcfs', '--apply')->{status}, 0, 'where nothing is better';
ok !-e "$folder/asked", '  nothing is asked of it';
kill 'KILL', $answers;
waitpid $answers, 0;

my $config = write_file('running.json', encode_json({ path => "$server->{folder}/llmserve.ini", idle => JSON::PP::true, sections => { plugins => { scheduler => 'sarathi', cache => 'paged', predictor => 'none' }, 'scheduler.sarathi' => { chunk => '64' } } }));
is whatif('--history', $log, '--running', $config, '--policies', 'fcfs')->{results}[0]{name}, 'sarathi+paged+none', 'an answer of /admin/config in place of the server';

my $watch = fork // die "fork: $!";
if ($watch == 0) {
    open STDOUT, '>', "$folder/watched" or die;
    exec "$Sim::build/llmserve-whatif", '--quiet', '-c', "$server->{folder}/llmserve.ini", '--profile', $ten, '--history', $log, '--policies', 'mlfq', '--watch', '100ms', '--notify' or die;
}
my $until = time + $LlmServer::TIMEOUT;
sleep 0.1 until (-e "$folder/watched" && read_file("$folder/watched") =~ /\n/) || time > $until;
sleep 1;
kill 'TERM', $watch;
waitpid $watch, 0;
like read_file("$folder/watched"), qr/\A3 times in a row: mlfq would have served the last minutes better than fcfs\+paged\+none: latency by [^\n]+\n\z/, 'asked again and again it tells of one that was best three times, once';

# ---- what can't be answered --------------------------------------------------------------------
sub refused {
    my ($code, $sentence, @arguments) = @_;
    my $answer = whatif(@arguments);
    is $answer->{status}, $code, "refused: $sentence";
    like $answer->{err}, qr/^llmserve-whatif: [^\n]*$sentence[^\n]*\n\z/, '  and it says why';
    return;
}
refused(2, '--objective: expected', '--history', $log, '--objective', 'beauty');
refused(2, 'a part is empty', '--history', $log, '--policies', 'apt+');
refused(2, 'more than four parts', '--history', $log, '--policies', 'a+b+c+d+e');
refused(2, 'more than 256 candidates', '--history', $log, '--policies', 'sarathi:chunk=1..1000');
refused(2, 'nowhere: cannot open', '--history', "$folder/nowhere");
refused(2, "expected the first line of a decision log", '--history', write_file('headless', "E 1 4 2\n"));
refused(2, 'request 9 ends before it came', '--history', write_file('early', "H 2 fcfs paged none\nA 1 0 4 4 0 0 0 -1 -1 -1 -1\nE 9 4 2\n"));
refused(2, 'number: expected 2, found 3', '--history', write_file('gap', "H 2 fcfs paged none\nA 1 0 4 4 0 0 0 -1 -1 -1 -1\nA 3 0 4 4 0 0 0 -1 -1 -1 -1\n"));
refused(1, 'what runs cannot be simulated: .*no scheduler', '--history', write_file('foreign', $queue =~ s/fcfs/foreign/r));
refused(2, '--apply is for a server', '--history', $log, '--apply');
refused(2, '--running is of no use', '--running', $config);
refused(2, 'running:1: ', '--history', $log, '--running', write_file('running', '{'));
refused(3, 'no llmserve at', '-a', '127.0.0.1:1');

# A request counts as long as it was there: one that began long ago, and was served since, tells more than
# those that wait.
my $brief  = LlmServer->serve("history = 1us\n$ini");
my $client = $brief->connect;
syswrite $client, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":400,"ignore_eos":true,"stream":true}');
LlmServer::read_until($client, qr/data: /);
$brief->post('/v1/completions', { prompt => [1, 403], max_tokens => 1 });
LlmServer::read_until($client, qr/\[DONE\]/);
like $brief->get('/admin/history')->{content}, qr/^A 1 .*^A 2 /ms, 'who came before the time that is kept, but was there in it, is told of';
$brief->post('/v1/completions', { prompt => [1, 403], max_tokens => 1 });
unlike $brief->get('/admin/history')->{content}, qr/^A [12] /m, '  until it is over for so long';

my $silent = LlmServer->serve("history = 0\n$ini");
is $silent->get('/admin/history')->{status}, 404, 'no history where none is kept';
refused(1, 'history is 0', '-a', $silent->{address});
done_testing;
