#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The server's answers while its model is loading. The test holds a lease on the tokeniser's file,
# so that it controls when loading continues.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Fcntl qw(F_WRLCK F_UNLCK);
use File::Copy;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K');
my $loading = qr{until then http://([\w.:\[\]]+) answers 503};

use constant F_SETLEASE => 1024;    # Linux's, which Fcntl does not have
local $SIG{IO} = 'IGNORE';          # that somebody waits for the lease
{
    my $file = File::Temp->new;
    open my $lease, '<', "$file" or die $!;
    close $file;
    plan skip_all => "no leases on files in /tmp: $!" unless fcntl $lease, F_SETLEASE, F_WRLCK;
}

# A server in the middle of loading, and what makes it go on, perhaps with another text.
sub loading_server {
    my $folder = File::Temp->newdir;
    symlink $_, "$folder/" . s{.*/}{}r or die $! for grep { !m{/tokenizer\.json$} } glob "$stories/*";
    copy("$stories/tokenizer.json", "$folder/tokenizer.json") or die $!;
    open my $lease, '+<', "$folder/tokenizer.json" or die $!;
    fcntl $lease, F_SETLEASE, F_WRLCK or die "lease: $!";
    my $server = LlmServer->serve("[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\n", $loading);
    my $go_on = sub {
        my ($text) = @_;
        if (defined $text) { truncate $lease, 0; syswrite $lease, $text }
        fcntl $lease, F_SETLEASE, F_UNLCK or die "$folder: $!";    # naming it keeps it
    };
    return ($server, $go_on);
}

sub ready {
    my ($server) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    my $answer;
    do { $answer = $server->get('/ready') } until $answer->{status} == 200 || time > $deadline;
    return $answer->{status};
}

{
    my ($server, $go_on) = loading_server();
    my $live = $server->get('/live');
    is_deeply [$live->{status}, decode_json($live->{content})], [200, { status => 'loading' }], '/live is well while the model is loaded';
    for my $path ('/ready', '/health', '/v1/models', '/metrics', '/nowhere') {
        is $server->get($path)->{status}, 503, "$path is not";
    }
    my $refused = $server->post('/v1/completions', { prompt => 'x' }, { 'x-request-id' => 'early-1' });
    is_deeply [$refused->{status}, $refused->{json}{error}],
        [503, { message => 'the model is being loaded', type => 'server_error', param => undef, code => 'loading' }], 'a request is told why';
    cmp_ok $refused->{headers}{'retry-after'}, '>=', 1, '  and when to come again';
    is $refused->{headers}{'x-request-id'}, 'early-1', '  by its id';
    my $kept = $server->connect;
    syswrite $kept, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
    like LlmServer::read_until($kept, qr/\}\}\z/), qr/\AHTTP\/1\.1 503 /, 'a connection asks early';
    $server->signal('HUP');
    $go_on->();
    is ready($server), 200, 'the model is there';
    syswrite $kept, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":2}');
    like LlmServer::read_until($kept, qr/\}\z/), qr/\AHTTP\/1\.1 200 .*"text":/s, 'and the connection is served';
    my $deadline = time + $LlmServer::TIMEOUT;
    my $status   = {};
    $status = decode_json($server->get('/admin/status')->{content}) until ($status->{generation} // 0) == 2 || time > $deadline;
    is $status->{generation}, 2, 'a reload that was asked for too early has come';
    is $server->stop, 0, 'the server ends well';
}
{
    my ($server, $go_on) = loading_server();
    my $idle = $server->connect;
    $server->signal('TERM');
    my $deadline = time + $LlmServer::TIMEOUT;
    select undef, undef, undef, 0.01 until $server->log =~ /SIGTERM/ || time > $deadline;
    $go_on->();
    is $server->wait_for_end, 0, 'told to stop while loading, it ends well';
    unlike $server->log, qr/listening on/, '  without having served';
    is LlmServer::read_all($idle), '', '  and closes what was open';
}
{
    my ($server, $go_on) = loading_server();
    $go_on->('{');
    is $server->wait_for_end, 1, 'what cannot be loaded is a failure';
    like $server->log, qr/tokenizer\.json/, '  that says where';
}
{
    my ($server, $go_on) = loading_server();    # which keeps the folder
    my $port = $server->{address} =~ s/.*://r;
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/taken.ini", "[server]\nlisten = 127.0.0.1:$port\n[model]\npath = $stories\n");
    my $said = `timeout $LlmServer::TIMEOUT @{[LlmServer::built('llmserve')]} -c $folder/taken.ini 2>&1`;
    is $? >> 8, 1, 'an address that is taken is known before anything is loaded';
    like $said, qr/taken\.ini:2: \[server\] listen: cannot listen on 127\.0\.0\.1:$port: address already in use/, '  and said';
    unlike $said, qr/tokenizer|weights/, '  first';
    LlmServer::write_file("$folder/keys.ini", "[server]\nlisten = 127.0.0.1:0\napi_keys = $folder/none\n[model]\npath = $stories\n");
    $said = `timeout $LlmServer::TIMEOUT @{[LlmServer::built('llmserve')]} -c $folder/keys.ini 2>&1`;
    is $? >> 8, 1, 'so are keys that are missing';
    like $said, qr/keys\.ini:3: \[server\] api_keys: /, '  and said';
    unlike $said, qr/loading/, '  first';
    $server->signal('KILL');
    $server->wait_for_end;
}
done_testing;
