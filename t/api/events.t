#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# GET /admin/events: figures, queues and lives of each second for its subscribers, of
# bounded size whatever runs; for admins only; and its end when the server ends.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $model = LlmServer::source('t/data/models/stories260K');

sub ini {
    my ($server, $engine) = @_;
    return "$server\n[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n$engine"
        . "[cache]\ndevice_memory = 512KiB\n[plugins]\nscheduler = mlfq\ncache = paged\n[scheduler.mlfq]\nmax_seqs = 2\n";
}

# Somebody who looks.
sub look {
    my ($server, @headers) = @_;
    my $viewer = $server->connect;
    syswrite $viewer, join "\r\n", 'GET /admin/events HTTP/1.0', 'Host: x', @headers, '', '';
    return $viewer;
}

# The data of the next event of that name for which `is_it` holds.
sub next_event {
    my ($viewer, $name, $is_it) = @_;
    my $text  = '';
    my $until = time + $LlmServer::TIMEOUT;
    while ($text !~ /<timeout>/ && time < $until) {
        $text .= LlmServer::read_until($viewer, qr/\n\n\z/);
        while ($text =~ s/\A(.*?)\r?\n\r?\n//s) {
            my $event = $1;
            next if $event !~ /^event: \Q$name\E\ndata: (.*)\z/ms;
            my $data = decode_json($1);
            return $data if !defined $is_it || $is_it->($data);
        }
    }
    BAIL_OUT("no event $name");
}

my $server = LlmServer->serve(ini('', ''));
my $viewer = look($server);
my $first  = next_event($viewer, 'figures');
is $first->{state}, 'ok', 'figures come at once';
is_deeply [map { $_->{role} } @{ $first->{instances} }], ['mixed'], '  of each instance';
LlmServer::is_recent($first->{time} / 1000, '  of now');
my $idle = next_event($viewer, 'queues');
is_deeply $idle->{instances}[0]{rows}, [], 'then the queues, where nobody is';
is_deeply $idle->{instances}[0]{counts}{waiting}, [0, 0, 0], '  nor waits';

# ---- a crowd --------------------------------------------------------------------------
my $client = $server->connect;
syswrite $client, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403,2],"max_tokens":380,"ignore_eos":true,"n":128,"class":"realtime","user":"ann"}', 'X-Request-Id: crowd-1');
my $queues = next_event($viewer, 'queues', sub { $_[0]{instances}[0]{counts}{waiting}[1] > 60 })->{instances}[0];
my @waiting = grep { $_->[2] eq 'waiting' } @{ $queues->{rows} };
is scalar(@waiting), 60, 'rows are bounded';
my %units = map { $_->[0] => $_->[13] } grep { $_->[2] eq 'running' } @{ $queues->{rows} };
is scalar(grep { $_ > 0 } values %units), scalar(keys %units), '  those that run have memory';
is_deeply [sort keys %{ $queues->{tenants} }], ['ann'], '  and a tenant';
is $queues->{rest}{requests} + @{ $queues->{rows} }, eval { my $n = 0; $n += $_->[1] for values %{ $queues->{counts} }; $n }, '  those without a row are counted';
is $waiting[0][16][0], 0, '  what waits is queued';
cmp_ok scalar(@{ $queues->{lines} }), '<=', 60, '  the scheduler is cut short';
close $client;
next_event($viewer, 'queues', sub { $_[0]{instances}[0]{counts}{waiting}[1] == 0 });

# ---- lives ----------------------------------------------------------------------------
my $done = $server->post('/v1/completions', { prompt => [1, 403], max_tokens => 5, ignore_eos => JSON::PP::true, slo => { ttft_ms => 60000 } }, { 'x-request-id' => 'life-1' });
is $done->{status}, 200, 'one more request';
my ($life) = grep { $_->[1] =~ /^life-1/ } map { @$_ } next_event($viewer, 'lives', sub { grep { $_->[1] =~ /^life-1/ } @{ $_[0] } });
is_deeply [@$life[2, 4, 5, 8, 9]], [0, 2, 5, 0, 'length'], '  is told of when it has ended';
my @phases = map { $life->[12][2 * $_] } 0 .. $#{ $life->[12] } / 2;
is_deeply \@phases, [0, 1, 2], '  with its phases: queued, prefill, decode';
my $newcomer = look($server);
ok next_event($newcomer, 'lives', sub { grep { $_->[1] =~ /^life-1/ } @{ $_[0] } }), 'who looks later sees the past';

# ---- bounds ---------------------------------------------------------------------------
my @more = map { look($server) } 3 .. 8;
next_event($_, 'figures') for @more;
like LlmServer::read_until(look($server), qr/\}\}/), qr/ 503 .*too_many_viewers/s, 'a ninth viewer is refused';
close shift @more;
ok $server->metric_becomes('llmserve_http_connections', 8), '  until one leaves'; # with the one that asks
my $again = look($server);
ok next_event($again, 'figures'), '  when another may look';
is $server->post('/admin/events', '')->{status}, 405, 'nothing is posted there';
$server->signal('TERM');
unlike LlmServer::read_until($newcomer), qr/<timeout>/, 'the stream ends with the server';
is $server->wait_for_end, 0, '  which ends well';

# ---- keys, and several instances --------------------------------------------------------
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/users", "user\n");
LlmServer::write_file("$folder/admins", "admin\n");
$server = LlmServer->serve(ini("api_keys = $folder/users\nadmin_keys = $folder/admins", "instances = 2\n"));
like LlmServer::read_until(look($server)), qr/ 401 /, 'no key, no look';
like LlmServer::read_until(look($server, 'Authorization: Bearer user')), qr/ 403 /, "  nor with a user's";
is scalar @{ next_event(look($server, 'Authorization: Bearer admin'), 'queues')->{instances} }, 2, "an admin sees both instances";
is $server->stop, 0, 'it ends well';
done_testing;
