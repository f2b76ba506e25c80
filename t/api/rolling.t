#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# etc/proxy/haproxy-replicas.cfg in front of three servers: requests with the same beginning
# go to the same server, others to the least busy one; each is restarted under load, and one
# is killed, and no request is lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP;
use POSIX ();
use Test::More;
use Time::HiRes ();

$ENV{PATH} .= ':/usr/sbin:/sbin';
plan skip_all => 'HAProxy is not installed' if system('command -v haproxy >/dev/null 2>&1') != 0;

my @names  = qw(one two three);
my $folder = File::Temp->newdir;
my $demo   = LlmServer::source('share/demo-model');
my (%port, %server, $proxy, @pids);

sub free_port { return IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport }

sub replica {
    my ($name) = @_;
    $server{$name} = LlmServer->serve("listen = 127.0.0.1:$port{$name}\ndrain_timeout = 600s\nreplica = $name\nstate = $folder/$name\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n");
    return;
}

# The example, without TLS, at other addresses.
sub configuration {
    my ($bind) = @_;
    my $text = LlmServer::read_file(LlmServer::source('etc/proxy/haproxy-replicas.cfg'));
    my %change = ('bind :443 ssl crt /etc/ssl/llm/both.pem alpn h2,http/1.1' => "bind 127.0.0.1:$bind",
        '/run/haproxy/llmserve.sock' => "$folder/socket", 'maxconn 4000' => 'maxconn 200');
    @change{map { "127.0.0.1:808$_" } 1 .. 3} = map { "127.0.0.1:$port{$_}" } @names;
    for my $from (sort keys %change) {
        $text =~ s/\Q$from\E/$change{$from}/g or die "no '$from'";
    }
    LlmServer::write_file("$folder/haproxy.cfg", $text);
    return "$folder/haproxy.cfg";
}

sub spawn {
    my ($log, @command) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>>', "$folder/$log";
        open STDERR, '>&', \*STDOUT;
        exec @command or die "exec: $!";
    }
    push @pids, $pid;
    return $pid;
}

# A column of HAProxy's statistics for a server of a backend.
sub seen {
    my ($backend, $name, $column) = @_;
    my $socket = IO::Socket::UNIX->new("$folder/socket") or return '';
    print $socket "show stat\n";
    my ($head, @lines) = map { [split /,/] } split /\n/, LlmServer::read_all($socket);
    my ($at) = grep { $head->[$_] eq $column } 0 .. $#$head;
    return map { $_->[$at] } grep { ($_->[0] // '') eq $backend && $_->[1] eq $name } @lines;
}

sub becomes {
    my ($wanted, $what) = @_;
    my $deadline = time + 4 * $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.05) until $wanted->() || time > $deadline;
    return ok $wanted->(), $what;
}

sub is_up { my ($name) = @_; return join('', seen('by_prefix', $name, 'status')) eq 'UP' }

# One request with this hash, when HAProxy is done with those before: while one runs, the next is above the mean.
sub one_by_hash {
    my ($hash) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.01) until !join('', seen('by_prefix', 'BACKEND', 'scur')) || time > $deadline;
    return $proxy->post('/v1/completions', { prompt => 'x', max_tokens => 1 }, { 'x-llmserve-prefix-hash' => $hash });
}

# How many requests each replica has had from this backend.
sub had { my ($backend) = @_; return map { seen($backend, $_, 'stot') } @names }

$port{$_} = free_port() for @names;
my $bind = free_port();
replica($_) for @names;
spawn('haproxy.log', 'haproxy', '-db', '-f', configuration($bind));
becomes(sub { 3 == grep { is_up($_) } @names }, 'HAProxy has three replicas') or diag LlmServer::read_file("$folder/haproxy.log");
$proxy = LlmServer->new(address => "127.0.0.1:$bind", status => 0);

# ---- which one ----------------------------------------------------------------------
my $hash = $proxy->post('/v1/completions', { prompt => 'x', max_tokens => 1 })->{headers}{'x-llmserve-prefix-hash'};
like $hash, qr/\A[0-9a-f]{16}\z/, 'the hash comes through';
one_by_hash($hash) for 1 .. 8;
is_deeply [sort { $a <=> $b } had('by_prefix')], [0, 0, 8], 'requests that begin alike go to one replica';
one_by_hash(sprintf '%016x', $_) for 1 .. 64;
is scalar(grep { $_ > 8 } had('by_prefix')), 3, 'others to others';
$proxy->post('/v1/completions', { prompt => 'x', max_tokens => 1 }) for 1 .. 5;
is_deeply [had('by_load')], [2, 2, 2], 'those without a hash to the least busy';
is $proxy->get($_)->{status}, 403, "$_ is closed" for qw(/metrics /admin/status);

# ---- what is stored -------------------------------------------------------------------
# Its id says where: the replica is asked that has it, whoever is less busy.
sub respond { my (%more) = @_; return $proxy->post('/v1/responses', { input => 'x', max_output_tokens => 16, %more }) }
my %first;
for (1 .. 30) {
    last if keys %first == 3;
    my $id = respond()->{json}{id} // '';
    $first{$1} = $id if $id =~ /\Aresp_(one|two|three)-[0-9a-f]{32}\z/;
}
is_deeply [sort keys %first], [sort @names], 'responses are stored by all replicas, whose names are in their ids';
for my $name (@names) {
    my $answer = $proxy->get("/v1/responses/$first{$name}");
    is_deeply [$answer->{status}, $answer->{headers}{'x-llmserve-replica'}], [200, $name], "  $name is asked for its own";
    my $next = respond(previous_response_id => $first{$name})->{json};
    like $next->{id}, qr/\Aresp_$name-/, '  and to go on from it';
    is $proxy->request('DELETE', "/v1/responses/$next->{id}")->{status}, 200, '  and to forget';
}
my $form = "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n"
    . encode_json({ custom_id => 'a', method => 'POST', url => '/v1/completions', body => { prompt => 'x', max_tokens => 1 } }) . "\n\r\n--x--\r\n";
my $file = decode_json($proxy->request('POST', '/v1/files', $form, { 'content-type' => 'multipart/form-data; boundary=x' })->{content})->{id};
like $file, qr/\Afile-one-[0-9a-f]{32}\z/, 'a file is with the first one, where lists are';
my $batch = $proxy->post('/v1/batches', { input_file_id => $file, endpoint => '/v1/completions', completion_window => '24h' })->{json}{id};
like $batch, qr/\Abatch_one-[0-9a-f]{32}\z/, '  and its batch';
is $proxy->get("/v1/$_")->{status}, 200, "  $_" for "files/$file/content", "batches/$batch";
is $proxy->get('/v1/files', { 'x-llmserve-replica' => $_ })->{headers}{'x-llmserve-replica'}, $_, "  $_ is asked by its name" for @names;

# ---- under load ---------------------------------------------------------------------
# Loads again and again until `stop` is there. A body of 100 kB does not fit HAProxy's buffer as it comes.
sub load {
    my ($name, @options) = @_;
    my @command = (LlmServer::built('llmserve-bench'), '--base-url', "http://127.0.0.1:$bind", qw(--random-input-len 30 --random-output-len 20
        --num-prompts 40 --max-concurrency 6 --append-result --disable-tqdm), '--result-dir', "$folder", '--result-filename', "$name.jsonl", @options);
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>>', "$folder/$name.out";
        open STDERR, '>&', \*STDOUT;
        my $seed = 0;
        while (!-e "$folder/stop") {
            system(@command, '--seed', ++$seed) == 0 or POSIX::_exit(1);
        }
        POSIX::_exit(0);
    }
    push @pids, $pid;
    return $pid;
}

# Sums of one kind of load, of lines that are whole: requests, those lost, tokens.
sub sum {
    my ($name) = @_;
    my @runs = map { decode_json($_) } LlmServer::read_file("$folder/$name.jsonl") =~ /^(.*)\n/mg;
    my %sum;
    for my $run (@runs) {
        $sum{$_} += $run->{$_} for qw(num_prompts completed failed total_output_tokens);
    }
    return \%sum;
}

my %load = (
    prefix => [],
    load   => ['--send-prefix-hash=false'],
    long   => ['--extra-body', encode_json({ metadata => { why => 'x' x 100_000 } }), qw(--max-concurrency 2)],
);
sub loaded {
    my ($what, $during) = @_;
    unlink "$folder/stop", glob "$folder/*.jsonl";
    my @loads = map { load($_, @{ $load{$_} }) } sort keys %load;
    becomes(sub { (grep { sum($_)->{completed} } keys %load) == keys %load }, "$what: load") or diag map { LlmServer::read_file("$folder/$_.out") } keys %load;
    $during->();
    my @alive = grep { waitpid($_, POSIX::WNOHANG()) == 0 } @loads;
    is scalar @alive, 3, '  which goes on until the end';
    LlmServer::write_file("$folder/stop", '');
    waitpid $_, 0 for @alive;
    return;
}

sub none_lost {
    my ($name) = @_;
    my $sum = sum($name);
    is $sum->{completed}, $sum->{num_prompts}, "  $name: of $sum->{num_prompts} requests none is lost";
    return is $sum->{total_output_tokens}, 20 * $sum->{num_prompts}, '    and each has all its tokens';
}

# Responses beside them, of which none may fail: those that are not stored, and conversations, each turn of
# which goes on from the one before, wherever that is.
sub converse {
    my ($name, $one) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my ($n, $failed) = (0, 0);
        while (!-e "$folder/stop") {
            my $why = $one->() or ++$n, next;
            LlmServer::write_file("$folder/$name.why", $why);
            $failed++;
        }
        LlmServer::write_file("$folder/$name.count", "$n $failed");
        POSIX::_exit(0);
    }
    push @pids, $pid;
    return $pid;
}
my $last;
my %talks = (
    'not stored' => sub { my $answer = respond(store => JSON::PP::false); return $answer->{status} == 200 ? undef : $answer->{content} },
    'a conversation' => sub {
        my $answer = respond(defined $last ? (previous_response_id => $last) : ());
        return $answer->{content} if $answer->{status} != 200;
        my $id = $answer->{json}{id};
        my $read = $proxy->get("/v1/responses/$id");
        $last = rand() < 0.2 ? undef : $id;
        return $read->{status} == 200 ? undef : $read->{content};
    },
);
my @talks;
loaded('restarts', sub {
    @talks = map { converse($_, $talks{$_}) } sort keys %talks;
    for my $name (@names) {
        my $long = $server{$name}->connect;    # its answer takes longer than requests are repeated without a wait
        syswrite $long, LlmServer::raw_post('/v1/completions', '{"prompt":"x","max_tokens":300,"ignore_eos":true,"stream":true}');
        LlmServer::read_until($long, qr/data: /);
        is $server{$name}->stop, 0, "$name ends well";
        becomes(sub { !is_up($name) }, '  HAProxy sees it');
        replica($name);
        becomes(sub { is_up($name) }, '  and that it is back');
    }
});
none_lost($_) for sort keys %load;
waitpid $_, 0 for @talks;
for my $name (sort keys %talks) {
    my ($n, $failed) = split / /, LlmServer::read_file("$folder/$name.count");
    cmp_ok $n, '>', 0, "  responses, $name: of " . ($n + $failed);
    is $failed, 0, '    none is lost' or diag LlmServer::read_file("$folder/$name.why");
}

# ---- a death ------------------------------------------------------------------------
# Answers that had begun are lost, and are said to be; all else goes elsewhere.
loaded('a death', sub {
    $server{two}->signal('KILL');
    $server{two}->wait_for_end;
    is $proxy->post('/v1/completions', { prompt => 'x', max_tokens => 1 }, { 'x-llmserve-prefix-hash' => sprintf('%016x', $_) })->{status}, 200,
        "  request $_ is answered" for 1 .. 9;
    becomes(sub { !is_up('two') }, '  HAProxy sees it');
});
for my $name (sort keys %load) {
    my $sum = sum($name);
    cmp_ok $sum->{failed} // 0, '<=', 6, "  $name: no more are lost than were running there";
}

kill 'TERM', @pids;
is $server{$_}->stop, 0, "$_ ends well" for qw(one three);
done_testing;
