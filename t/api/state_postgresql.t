#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Replicas with one PostgreSQL database and one folder of files: what one stores the other
# reads, each batch is run by one of them, and a database that is lost is a 503 and nothing
# else.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use IO::Socket::INET;
use JSON::PP;
use LlmServer;
use Postgres;
use Test::More;
use Time::HiRes qw(sleep time);

for my $why (Batches::missing(), Postgres::missing()) { plan skip_all => $why }

my $database = Postgres->new;
my $files    = File::Temp->newdir;
my @states;

sub replica {
    my ($folder, $more) = @_;
    push @states, File::Temp->newdir;
    my $url = $database->url;
    return LlmServer->serve(Batches::ini($states[-1], $more, "state_database = $url\nstate_files = $folder\n"));
}

sub ask { my ($server, @more) = @_; return $server->post('/v1/responses', { input => 'Once', max_output_tokens => 8, temperature => 0, @more }) }
sub text { my ($answer) = @_; return $answer->{json}{output}[0]{content}[0]{text} // "$answer->{status} $answer->{content}" }

# Tries until it is done or the time is over.
sub until_true {
    my ($try) = @_;
    my $deadline = time + 2 * $LlmServer::TIMEOUT;
    while (time < $deadline) {
        my $value = $try->();
        return $value if $value;
        sleep($_[1] // 0.1);
    }
    return;
}

my ($one, $two) = map { replica($files) } 1, 2;

# ---- responses and conversations -----------------------------------------------------------
my $first = ask($one)->{json};
is_deeply Batches::get($two, "/v1/responses/$first->{id}"), $first, 'a response of one replica is read at the other';
my $here  = ask($one, previous_response_id => $first->{id}, input => 'Then');
my $there = ask($two, previous_response_id => $first->{id}, input => 'Then');
is $there->{status}, 200, '  and continued there';
is text($there), text($here), '  as it would have been here';
is_deeply [map { $_->{content}[0]{text} } @{ Batches::get($one, "/v1/responses/$there->{json}{id}/input_items?order=asc")->{data} }],
    ['Once', text({ json => $first }), 'Then'], '  with the same items';
is $two->request('DELETE', "/v1/responses/$first->{id}")->{status}, 200, '  and deleted';
is $one->get("/v1/responses/$first->{id}")->{status}, 404, '  for both';
is $one->get('/v1/responses/resp_%ff')->{status}, 400, 'an id that is no text is refused';

my $conversation = $one->post('/v1/conversations', {})->{json}{id};
ask($_, conversation => $conversation) for $one, $two, $one;
is scalar @{ Batches::get($two, "/v1/conversations/$conversation/items?limit=100")->{data} }, 6, 'a conversation grows at both';

# A response in the background is of one replica; the other one knows that it is alive.
my $slow = $one->post('/v1/responses', { input => 'Once', max_output_tokens => 400, background => JSON::PP::true })->{json};
like Batches::get($two, "/v1/responses/$slow->{id}")->{status}, qr/^(?:queued|completed|incomplete)$/, 'a response in the background is not given up elsewhere';
ok until_true(sub { Batches::get($two, "/v1/responses/$slow->{id}")->{status} =~ /^(?:completed|incomplete)$/ }), '  and its end is seen there';

# ---- files and batches ---------------------------------------------------------------------
my $lines = join '', map { Batches::line("line-$_") } 1 .. 20;
my $file  = Batches::upload($one, $lines);
is $two->get("/v1/files/$file->{id}/content")->{content}, $lines, 'a file of one replica is read at the other';
my $batch = Batches::create($two, $file->{id});
my $over  = Batches::wait_for($one, $batch->{id});
is $over->{status}, 'completed', 'a batch of its lines is run';
is scalar keys %{ Batches::texts(Batches::results($one, $over->{output_file_id})) }, 20, '  each once';

# ---- a proxy that knows no ids -------------------------------------------------------------
$ENV{PATH} .= ':/usr/sbin:/sbin';
SKIP: {
    skip 'HAProxy is not installed', 3 if system('command -v haproxy >/dev/null 2>&1') != 0;
    my $folder  = File::Temp->newdir;
    my $port    = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
    my $example = LlmServer::read_file(LlmServer::source('etc/proxy/haproxy-shared.cfg'));
    my %change  = ('bind :443 ssl crt /etc/ssl/llm/both.pem alpn h2,http/1.1' => "bind 127.0.0.1:$port", 'maxconn 4000' => 'maxconn 200',
        '/run/haproxy/llmserve.sock' => "$folder/socket", '127.0.0.1:8081' => $one->{address}, '127.0.0.1:8082' => $two->{address});
    for my $from (sort keys %change) { $example =~ s/\Q$from\E/$change{$from}/g or die "no '$from'" }
    $example =~ s/^ +server three .*\n//mg;
    LlmServer::write_file("$folder/haproxy.cfg", $example);
    my $pid = fork // die "fork: $!";
    if ($pid == 0) { open STDOUT, '>', "$folder/log"; open STDERR, '>&', \*STDOUT; exec 'haproxy', '-db', '-f', "$folder/haproxy.cfg"; die }
    my $proxy = LlmServer->new(pid => $pid, address => "127.0.0.1:$port", folder => $folder);
    ok until_true(sub { my $answer = $proxy->get('/v1/models'); $answer->{status} == 200 }), 'a proxy before both' or diag LlmServer::read_file("$folder/log");
    my ($last, @status);
    for my $turn (1 .. 6) {
        my $answer = ask($proxy, $last ? (previous_response_id => $last) : ());
        push @status, $answer->{status};
        $last = $answer->{json}{id};
    }
    is_deeply \@status, [(200) x 6], '  which sends each turn of a conversation anywhere';
    is $proxy->get("/v1/files/$file->{id}/content")->{content}, $lines, '  and a file from anywhere';
    $proxy->stop;
}

# ---- limits of tenants ---------------------------------------------------------------------
# A tenant that has used up its limit at one replica gets little more at the other: as much as it
# asks for before the use is known there, not as much again.
{
    my ($here, $there) = map { replica($files, "[tenants]\nrequests_per_minute = 60\n") } 1, 2;
    my $begin = sub { $_[0]->post('/v1/completions', { prompt => 'Once', max_tokens => 1 }, { 'x-gateway-inference-fairness-id' => 'ann' })->{status} };
    # its row comes with its first reading of the others' use, which is not charged
    $begin->($there);
    ok until_true(sub { $database->sql(q(SELECT 1 / count(*) FROM usage WHERE tenant = 'ann')) }), 'a replica says what a tenant has used';
    my $used = 0;
    until_true(sub { return 1 if $begin->($here) == 429; $used++; return $used > 400 }, 0.01);
    cmp_ok $used, '<', 400, 'a tenant has a limit';
    my $more = 0;
    until_true(sub { return 1 if $begin->($there) == 429; $more++; return $more >= 50 }, 0.2);
    cmp_ok $more, '<', 50, '  which is known at the other replica';
    is $_->stop, 0, '  and they end well' for $here, $there;
}

# ---- one that dies -------------------------------------------------------------------------
my $many   = join '', map { Batches::line("line-$_", max_tokens => 60) } 1 .. 150;
my $taken  = Batches::create($one, Batches::upload($one, $many)->{id});
my $cancel = Batches::create($one, Batches::upload($one, $many)->{id});
Batches::wait_for($two, $taken->{id}, sub { $_[0]{request_counts}{completed} > 5 });
is $two->post("/v1/batches/$cancel->{id}/cancel", {})->{json}{status}, 'cancelling', 'a batch is cancelled from the other replica';
my $lost = $one->post('/v1/responses', { input => 'Once', max_output_tokens => 450, ignore_eos => JSON::PP::true, background => JSON::PP::true })->{json};
$one->signal('KILL');
$one->wait_for_end;
is Batches::get($two, "/v1/batches/$taken->{id}")->{status}, 'in_progress', 'a replica dies within a batch';
$over = Batches::wait_for($two, $taken->{id});
is $over->{status}, 'completed', '  which the other one finishes';
is $over->{request_counts}{completed}, 150, '  to the last line';
is scalar keys %{ Batches::texts(Batches::results($two, $over->{output_file_id})) }, 150, '  each once';
like $two->log, qr/\Q$taken->{id}\E goes on here/, '  and says so';
is Batches::wait_for($two, $cancel->{id})->{status}, 'cancelled', '  the cancelled one ends';
like Batches::get($two, "/v1/responses/$lost->{id}")->{status}, qr/^(?:failed|completed|incomplete)$/, '  and a response that died with it has failed';

# A batch whose end is in its row, as after a COMMIT whose answer was lost, while its process still has it at the next
# heartbeat, every 3 s.
my $unsure = Batches::create($two, Batches::upload($two, $many)->{id});
Batches::wait_for($two, $unsure->{id}, sub { $_[0]{request_counts}{completed} > 5 });
$two->signal('STOP');
ok $database->sql("UPDATE batches SET status = 'completed' WHERE id = '$unsure->{id}'"), 'an end that is not confirmed';
sleep 3.2;
$two->signal('CONT');
is Batches::wait_for($two, $unsure->{id})->{request_counts}{completed}, 150, '  is written again';
unlike $two->log, qr/its row does not change/, '  and blocks nothing';

# ---- a database that dies ------------------------------------------------------------------
$one = replica($files);
my $under = Batches::create($one, Batches::upload($one, $many)->{id});
Batches::wait_for($two, $under->{id}, sub { $_[0]{request_counts}{completed} > 5 });
my %stored;

# Asks a replica for a response, and remembers it if the replica says that it is stored.
sub load {
    my ($server) = @_;
    my $answer = ask($server, max_output_tokens => 2);
    $stored{ $answer->{json}{id} } = text($answer) if $answer->{status} == 200 && $answer->{json}{store};
    return $answer;
}
load($_) for $one, $two, $one, $two;
is scalar keys %stored, 4, 'responses are stored at both';
ok $database->stop('immediate'), '  until the database is killed';
my $refused = until_true(sub { my $answer = load($one); load($two); $answer->{status} == 200 ? undef : $answer });
is $refused->{status}, 503, '  then they are refused';
is $refused->{json}{error}{code}, 'state_unavailable', '  by name';
ok $refused->{headers}{'retry-after'}, '  with a time to come back';
my ($known) = sort keys %stored;
for my $case (["/v1/responses/$known", 'reading one'], ["/v1/files/$file->{id}", 'a file'], ["/v1/batches/$under->{id}", 'a batch'], ['/v1/files', 'the list of files'],
    ['/v1/batches', 'that of batches']) {
    my $answer = $two->get($case->[0]);
    is "$answer->{status} " . ($answer->{json}{error}{code} // decode_json($answer->{content})->{error}{code}), '503 state_unavailable', "  $case->[1] too";
}
is Batches::post_form($two, Batches::form('batch', $lines))->{status}, 503, '  and an upload';
is ask($one, background => JSON::PP::true)->{status}, 503, '  and one in the background';
is ask($one, store => JSON::PP::false)->{status}, 200, '  what is not to be stored is answered';
is $one->post('/v1/completions', { prompt => 'Once', max_tokens => 2 })->{status}, 200, '  as is what never is';
like $one->get('/metrics')->{content}, qr/^llmserve_state_up 0$/m, '  and the metric for an alert is 0';
$database->start;
ok until_true(sub { load($one)->{status} == 200 && load($two)->{status} == 200 }), 'after its restart they are stored again';
is_deeply [grep { text({ json => Batches::get($two, "/v1/responses/$_") }) ne $stored{$_} } sort keys %stored], [], '  and none is lost';
$over = Batches::wait_for($two, $under->{id});
is "$over->{status} $over->{request_counts}{completed}", 'completed 150', '  the batch neither';
is scalar keys %{ Batches::texts(Batches::results($two, $over->{output_file_id})) }, 150, '  whose lines are answered once';
like $one->get('/metrics')->{content}, qr/^llmserve_state_up 1$/m, '  the metric is 1 again';
like $one->log, qr/the database is lost.*the database answers again/s, '  and the log has both';

# ---- what is refused at the start ----------------------------------------------------------
my $wrong = File::Temp->newdir;
eval { replica($wrong) };
like $@, qr/\Q$wrong\E does not have the files of this database/, 'a replica with a folder of its own does not start';
is $_->stop, 0, 'a replica ends well' for $one, $two;
ok $database->sql('UPDATE schema_steps SET steps = 99'), 'a newer server has been here';
eval { replica($files) };
like $@, qr/\[server\] state: .*written by a newer llmserve/, '  an older one leaves its database alone';
done_testing;
