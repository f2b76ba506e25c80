#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Predictor retrieval in the server, with the shipped encoder: it learns from served
# requests, keeps its history when the server is killed, and prevents a second server
# from using its file.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IPC::Open3;
use Test::More;
use Time::HiRes;

-e LlmServer::built('.libs/predictor_retrieval.so')
    or plan skip_all => 'predictor retrieval is not built: libsqlite3-dev, libhnswlib-dev';

my $folder = File::Temp->newdir;
my $ini    = "[model]\npath = " . LlmServer::source('share/demo-model') . "\n"
    . "[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n"
    . "[plugins]\nscheduler = alise\ncache = paged\npredictor = retrieval\n"
    . "[predictor.retrieval]\ndb_file = $folder/history.db\n";

sub ask {
    my ($server, $text) = @_;
    my $answer = $server->request('POST', '/v1/chat/completions',
        { messages => [{ role => 'user', content => $text }], temperature => 0, max_tokens => 300 });
    return $answer->{status};
}

sub figure {
    my ($server, $name) = @_;
    my ($value) = $server->get('/metrics')->{content} =~ /^llmserve_predictor\{[^}]*figure="$name"\} (\S+)/m;
    return $value // -1;
}

# Figures are taken when a request ends, answers are learned a moment later.
sub wait_for {
    my ($server, $name, $least) = @_;
    my $deadline = Time::HiRes::time() + 4 * $LlmServer::TIMEOUT;
    while (figure($server, $name) < $least && Time::HiRes::time() < $deadline) {
        Time::HiRes::sleep(0.05);
        ask($server, 'Hello');
    }
    return figure($server, $name);
}

my @prompts = map { ("List $_ animals.", "Tell me a story about $_ foxes.", "Name one fruit, $_") } qw(two three four five six);
my $server  = LlmServer->serve($ini);
like $server->log, qr{encoder .*/share/demo-model/encoder, vectors of 96}, 'the encoder beside the model is found';
is scalar(grep { ask($server, $_) == 200 } @prompts), 15, 'requests are answered';
cmp_ok wait_for($server, 'entries', 15), '>=', 15, 'every answer is remembered';
cmp_ok figure($server, 'error'), '>', 0, 'the running error is a metric';

my ($out, $second) = ('', "$folder/second.ini");
LlmServer::write_file($second, "[server]\nlisten = 127.0.0.1:0\n$ini");
my $pid = open3(my $in, my $from, undef, LlmServer::built('llmserve'), '-c', $second);
$out .= $_ while <$from>;
waitpid $pid, 0;
isnt $? >> 8, 0, 'a second server on the file ends';
like $out, qr{history\.db is in use by another server \(process $server->{pid}\): give each server}, '  and says why';

$server->signal('KILL');
is $server->wait_for_end, 'killed by signal 9', 'killed';
$server = LlmServer->serve($ini);
ask($server, $prompts[0]);
cmp_ok wait_for($server, 'entries', 15), '>=', 15, '  it remembers all';
cmp_ok wait_for($server, 'hit_rate', 0.5), '>=', 0.5, '  and predicts from it';

# Token ids are read as the text they stand for. Figures are those of when a request ended.
my $ids = $server->post('/tokenize', { prompt => $prompts[1] })->{json}{tokens};
sub ask_by_ids { $server->request('POST', '/v1/completions', { prompt => $ids, max_tokens => 4 })->{status} }
is ask_by_ids(), 200, 'a prompt of token ids';
my $before = figure($server, 'predictions');
for (1 .. 50) {
    Time::HiRes::sleep(0.05);
    ask_by_ids();
    last if figure($server, 'predictions') > $before;
}
cmp_ok figure($server, 'predictions'), '>', $before, '  is predicted too';
is $server->stop, 0, 'it stops';
done_testing;
