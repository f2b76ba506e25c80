#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# How long the contents of the state folder are kept, and folders of older and newer
# servers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

if (my ($why) = Batches::missing()) { plan skip_all => $why }
plan skip_all => 'python3 with sqlite3, which changes the database, is not installed'
  if system('python3 -c "import sqlite3" 2>/dev/null') != 0;

my $state  = File::Temp->newdir;
my $server = LlmServer->fake(state => $state);
is sprintf('%o', (stat "$state/llmserve.db")[2] & 0777), '600', 'what clients sent is for nobody else';

# The fields before the file, as the openai client sends them.
sub form {
    my ($content, %fields) = @_;
    my $field = "--x-boundary-x\r\nContent-Disposition: form-data; name=";
    return join('', map { qq($field"$_"\r\n\r\n$fields{$_}\r\n) } sort keys %fields) . Batches::form('batch', $content);
}

sub expires { my ($anchor, $seconds) = @_; return ('expires_after[anchor]' => $anchor, 'expires_after[seconds]' => $seconds) }

sub change {
    my ($sql) = @_;
    $ENV{LLS_SQL} = $sql;
    is system('python3', '-c', 'import os, sqlite3; c = sqlite3.connect(os.sys.argv[1]); c.executescript(os.environ["LLS_SQL"]); c.commit()',
        "$state/llmserve.db"), 0, "another hand: $sql";
    delete $ENV{LLS_SQL};
}

sub restart {
    is $server->stop, 0, 'the server ends well';
    $_->() for @_;
    $server = LlmServer->fake(state => $state);
}

# ---- files that expire -------------------------------------------------------------------

my $kept    = Batches::upload($server, Batches::line('kept'));
my $answer  = Batches::post_form($server, form('x', expires('created_at', 3600)));
my $expires = $answer->{json};
is $expires->{expires_at}, $expires->{created_at} + 3600, 'a file that expires' or diag $answer->{content};
is $kept->{expires_at}, undef, '  and one that does not';
is_deeply Batches::get($server, "/v1/files/$expires->{id}"), $expires, '  says so later, too';
for my $case ([expires('now', 3600)], [expires('created_at', 3599)], [expires('created_at', 2592001)], [expires('created_at', '1h')],
    ['expires_after[seconds]' => 3600], ['expires_after[anchor]' => 'created_at']) {
    $answer = Batches::post_form($server, form('x', @$case));
    is $answer->{status}, 400, "refused: @$case";
    is $answer->{json}{error}{param}, 'expires_after', '  by name';
}
restart(sub { change("UPDATE files SET expires = 1 WHERE id = '$expires->{id}'") });
is $server->get("/v1/files/$expires->{id}")->{status}, 404, 'once its time is over it is gone';
is_deeply [map { $_->{id} } @{ Batches::get($server, '/v1/files')->{data} }], [$kept->{id}], '  from the list';
my $deadline = time + $LlmServer::TIMEOUT;
sleep 1 while -e "$state/files/$expires->{id}" && time < $deadline;
ok !-e "$state/files/$expires->{id}", '  and from the disk';
ok -e "$state/files/$kept->{id}", '  the other is there';

# ---- responses that expire -----------------------------------------------------------------

sub ask { return $server->post('/v1/responses', { input => 'Once', max_output_tokens => 2, @_ }) }
my $one = ask()->{json}{id};
my $two = ask(previous_response_id => $one)->{json}{id};
restart(sub { change("UPDATE responses SET expires = 1 WHERE id = '$one'") });
is $server->get("/v1/responses/$one")->{status}, 404, 'a response whose time is over is gone';
is ask(previous_response_id => $one)->{status}, 404, '  and not gone on from';
is ask(previous_response_id => $two)->{status}, 200, '  but for the one that did';

# ---- older and newer folders ---------------------------------------------------------------

restart(sub { change('DROP TABLE responses; DROP TABLE conversations; DROP TABLE replicas; DROP TABLE usage; DROP TABLE folder; DROP INDEX files_by_expiry; '
          . 'ALTER TABLE files DROP COLUMN expires; ALTER TABLE batches DROP COLUMN owner; ALTER TABLE batches DROP COLUMN model; PRAGMA user_version = 0') });
is_deeply Batches::get($server, "/v1/files/$kept->{id}"), $kept, 'a folder of an older server is taken over';
is $server->stop, 0, 'the server ends well';
change('PRAGMA user_version = 99');
eval { LlmServer->serve(Batches::ini($state)) };
like $@, qr/\[server\] state: .*written by a newer llmserve/, 'one of a newer server is left alone';
done_testing;
