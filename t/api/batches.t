#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/files and /v1/batches on the demo model: the states of a batch, its errors, its
# completion.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $demo = LlmServer::source('share/demo-model');

# ---- without a folder ----------------------------------------------------------------

{
    my $server = LlmServer->serve("[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n");
    my $answer = Batches::post_form($server, Batches::form('batch', "x\n"));
    is $answer->{status}, 400, 'without [server] state an upload is refused';
    like $answer->{json}{error}{message}, Batches::missing() ? qr/built without/ : qr/\[server\] state/,
      '  and told what is missing';
    is $server->post('/v1/batches', {})->{json}{error}{code}, 'no_state', '  and so is a batch';
    is $server->get('/v1/files')->{status}, 400, '  and a list';
    is $server->stop, 0, '  and the server ends well';
}
if (my ($why) = Batches::missing()) {
    my $folder = File::Temp->newdir;
    eval { LlmServer->serve(Batches::ini($folder)) };
    like $@, qr/\[server\] state: .* cannot be used: llmserve was built without SQLite/, 'nor is a folder taken';
    note $why;
    done_testing;
    exit;
}

# ---- files -----------------------------------------------------------------------------

my $state  = File::Temp->newdir;
my $server = LlmServer->serve(Batches::ini($state, '', "max_upload = 4MiB\n"));

my $big  = join '', map { Batches::line("big-$_") } 1 .. 5000;
my $file = Batches::upload($server, $big);
is $file->{object},   'file',        'an upload is a file';
is $file->{bytes},    length $big,   '  of its size';
is $file->{filename}, 'lines.jsonl', '  with its name';
is $file->{purpose},  'batch',       '  and purpose';
is_deeply Batches::get($server, "/v1/files/$file->{id}"), $file, '  and can be looked at';
is $server->get("/v1/files/$file->{id}/content")->{content}, $big, '  and read: it is what was sent';
is $server->request('HEAD', "/v1/files/$file->{id}/content")->{status}, 200, '  HEAD too';

my $odd   = "--x-boundary-x\r\n\r\n--x-boundary-\r\n-x\0\xff\r\n--";
my $other = Batches::upload($server, $odd);
is $server->get("/v1/files/$other->{id}/content")->{content}, $odd, 'bytes that look like delimiters are kept';
my $list = Batches::get($server, '/v1/files?purpose=batch&limit=1');
is_deeply [map { $_->{id} } @{ $list->{data} }], [$other->{id}], 'a list: the newest first';
ok $list->{has_more}, '  and there is more';
is Batches::get($server, "/v1/files?after=$other->{id}")->{data}[0]{id}, $file->{id}, '  after it the other';
is Batches::get($server, '/v1/files?order=asc')->{data}[0]{id}, $file->{id}, '  and the oldest first';
is $server->get('/v1/files?limit=0')->{status}, 400, '  a limit has a range';
my $wordy = $server->post('/v1/batches', { input_file_id => $other->{id}, metadata => { a => 'x' x 65_536 } });
is $wordy->{status}, 413, 'the description of a batch is short';
like $wordy->{json}{error}{message}, qr/has \d+ bytes; at most 65536 are read/, '  with both numbers';
is_deeply Batches::get($server, '/files?order=asc'), Batches::get($server, '/v1/files?order=asc'), 'without /v1 too';
is $server->get("/files/$other->{id}/content")->{content}, $odd, '  a file';
my $gone = decode_json($server->request('DELETE', "/v1/files/$other->{id}")->{content});
is_deeply $gone, { id => $other->{id}, object => 'file', deleted => JSON::PP::true }, 'it is deleted';
is $server->get("/v1/files/$other->{id}$_")->{status}, 404, "  and gone$_" for '', '/content';
ok !-e "$state/files/$other->{id}", '  from the disk, too';

my $bare = $server->post('/files', Batches::form('batch', $big), { 'content-type' => 'multipart/form-data; boundary=x-boundary-x' })->{json};
is $bare->{bytes}, length $big, 'an upload without /v1';
is $server->request('DELETE', "/files/$bare->{id}")->{status}, 200, '  and its end';

(my $quoting = Batches::form('batch', $odd)) =~ s/name="file"; filename="lines.jsonl"/filename="a; name=b \\"; name=c"; name="file"/;
my $quoted = Batches::post_form($server, $quoting);
is $quoted->{json}{filename}, 'a; name=b "; name=c', 'a file may be called like a parameter' or diag $quoted->{content};
is $server->request('DELETE', "/v1/files/$quoted->{json}{id}")->{status}, 200, '  and is deleted';

for my $case (
    [ Batches::form('assistants', 'x'), qr/'purpose' must be "batch", not "assistants"/, 'another purpose' ],
    [ "--x-boundary-x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x-boundary-x--\r\n", qr/'file' is missing/, 'no file' ],
    [ substr(Batches::form('batch', 'x'), 0, -6), qr/last delimiter is missing/, 'a form that is cut' ],
    [ "--x-boundary-x\r\n\r\nx\r\n--x-boundary-x--\r\n", qr/a part has no name/, 'a part without a name' ],
) {
    my $answer = Batches::post_form($server, $case->[0]);
    is $answer->{status}, 400, "$case->[2] is refused";
    like $answer->{json}{error}{message}, $case->[1], '  with the reason';
}
is $server->post('/v1/files', {})->{status}, 400, 'a body that is no form is refused';
is Batches::post_form($server, Batches::form('batch', 'x' x (5 << 20)))->{status}, 413, 'more than max_upload is refused';
my $left = Batches::form('batch', 'x' x 100000);
my $socket = $server->connect;
syswrite $socket, "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x-boundary-x\r\n"
  . 'Content-Length: ' . (2 * length $left) . "\r\n\r\n$left";
close $socket;
is scalar @{ Batches::get($server, '/v1/files')->{data} }, 1, 'none of these is a file';
my $deadline = time + $LlmServer::TIMEOUT;
sleep 1 while scalar(() = glob "$state/files/*") > 1 && time < $deadline;
is scalar(() = glob "$state/files/*"), 1, '  or left on the disk';

# ---- a batch ---------------------------------------------------------------------------

my $lines = join '', (map { Batches::line("a-$_") } 1 .. 20), "\n",
  Batches::line('wrong', max_tokens => -5), Batches::line('streams', stream => JSON::PP::true);
my $input = Batches::upload($server, $lines);
my $made  = Batches::create($server, $input->{id}, metadata => { run => 'one' });
is $made->{object}, 'batch', 'a batch is made';
is $made->{status}, 'validating', '  and will be looked at';
is_deeply $made->{metadata}, { run => 'one' }, '  with its metadata';
is $made->{expires_at} - $made->{created_at}, 86400, '  and a day';
my $batch = Batches::wait_for($server, $made->{id});
is $batch->{status}, 'completed', 'it is completed';
is_deeply $batch->{request_counts}, { total => 22, completed => 20, failed => 2 }, '  with its counts';
ok $batch->{"${_}_at"}, "  and the time it was $_" for qw(created in_progress finalizing completed);
is $batch->{"${_}_at"}, undef, "  and was not $_" for qw(failed expired cancelling cancelled);
my @output = Batches::results($server, $batch->{output_file_id});
my $texts  = Batches::texts(@output);
is_deeply [sort keys %$texts], [sort map { "a-$_" } 1 .. 20], '  its output has each line once';
is $output[0]{response}{status_code}, 200, '  with a status';
is $output[0]{response}{body}{object}, 'text_completion', '  and the answer';
is $output[0]{error}, undef, '  and no error';
my $live = $server->post('/v1/completions', decode_json(Batches::line('a-7'))->{body});
is $texts->{'a-7'}, $live->{json}{choices}[0]{text}, '  which is what a client is given';
my %failed = map { $_->{custom_id} => $_ } Batches::results($server, $batch->{error_file_id});
is_deeply [sort keys %failed], ['streams', 'wrong'], 'its error file has the lines that the endpoint refuses';
is $failed{wrong}{response}{status_code}, 400, '  with the status';
is $failed{wrong}{response}{body}{error}{param}, 'max_tokens', '  and the error';
is Batches::get($server, "/v1/files/$batch->{output_file_id}")->{purpose}, 'batch_output', 'the output is a file of its purpose';
is_deeply Batches::get($server, '/v1/batches?limit=5')->{data}, [$batch], 'it is in the list';
ok $server->metric_becomes('llmserve_batch_lines_total{outcome="completed"}', 20), 'its lines are counted';
is decode_json($server->get('/admin/status')->{content})->{batches}{lines_failed}, 2, '  and those that failed';

my $chat = Batches::upload($server, encode_json({ custom_id => 'c', method => 'POST', url => '/v1/chat/completions',
    body => { messages => [{ role => 'user', content => 'Hello' }], max_tokens => 4, model => 'demo-model' } }));
$batch = Batches::wait_for($server, Batches::create($server, $chat->{id}, endpoint => '/v1/chat/completions')->{id});
my ($answer) = Batches::results($server, $batch->{output_file_id});
is $answer->{response}{body}{object}, 'chat.completion', 'chats can be batched';
is $answer->{response}{body}{service_tier}, 'flex', '  and are best_effort';

for my $case (
    ['/v1/responses',  { input => 'Hello', max_output_tokens => 4 },     'response', 'status',       'incomplete'],
    ['/v1/embeddings', { input => ['Hello', 'World'], model => 'demo-model' }, 'list', 'object', 'list'],
  ) {
    my ($endpoint, $body, $object, $member, $value) = @$case;
    my $lines = Batches::upload($server, encode_json({ custom_id => 'c', method => 'POST', url => $endpoint, body => $body }));
    $batch = Batches::wait_for($server, Batches::create($server, $lines->{id}, endpoint => $endpoint)->{id});
    my ($line) = Batches::results($server, $batch->{output_file_id});
    is $line->{response}{body}{object}, $object, "$endpoint can be batched";
    is $line->{response}{body}{$member}, $value, '  with its answer';
}

# ---- what cannot be run ----------------------------------------------------------------

my $bad = join "\n", '{', '[]', '{"custom_id": "a"}', '{"custom_id": "b", "method": "GET", "url": "/v1/completions", "body": {}}',
  '{"custom_id": "c", "method": "POST", "url": "/v1/models", "body": {}}', '{"custom_id": "d", "method": "POST", "url": "/v1/completions"}',
  map({ chomp(my $l = Batches::line('twice')); $l } 1 .. 2), '{"custom_id": 5, "method": "POST", "url": "/v1/completions", "body": {}}';
$batch = Batches::wait_for($server, Batches::create($server, Batches::upload($server, $bad)->{id})->{id});
is $batch->{status}, 'failed', 'a batch with wrong lines fails';
is_deeply [map { "$_->{line} $_->{code}" } @{ $batch->{errors}{data} }],
  ['1 invalid_json_line', '2 invalid_json_line', '3 invalid_method', '4 invalid_method', '5 invalid_url',
   '6 missing_required_parameter', '8 duplicate_custom_id', '9 missing_required_parameter'], '  each is named';
is $batch->{output_file_id}, undef, '  and nothing was run';
$batch = Batches::wait_for($server, Batches::create($server, Batches::upload($server, "\n\n")->{id})->{id});
is $batch->{errors}{data}[0]{code}, 'empty_file', 'so does one without lines';
for my $case (
    [ { input_file_id => 'file-none' }, 404, 'a file that is not there' ],
    [ { input_file_id => 5 }, 400, 'an id that is none' ],
    [ { endpoint => '/v1/models' }, 400, 'another endpoint' ],
    [ { completion_window => 'soon' }, 400, 'a window that is none' ],
    [ { completion_window => '99999d' }, 400, 'one that is too long' ],
    [ { metadata => { a => 1 } }, 400, 'metadata that are no strings' ],
) {
    my $answer = Batches::create($server, $input->{id}, %{ $case->[0] });
    is $answer->{status}, $case->[1], "$case->[2]: refused" or diag explain $answer;
    is $answer->{json}{error}{param}, (keys %{ $case->[0] })[0], '  by the name of its parameter';
}
is $server->get('/v1/batches/batch_none')->{status}, 404, 'a batch that is not there';
is $server->post('/v1/batches/batch_none/cancel', {})->{status}, 404, '  cannot be cancelled';
is $server->post('/v1/batches/batch_none/else', {})->{status}, 404, '  nor anything else';

# ---- cancelling, expiring --------------------------------------------------------------

my $long = Batches::upload($server, join '', map { Batches::line("l-$_", max_tokens => 200) } 1 .. 3000);
$made = Batches::create($server, $long->{id});
$batch = Batches::wait_for($server, $made->{id}, sub { $_[0]{request_counts}{completed} > 0 });
is $server->request('DELETE', "/v1/files/$long->{id}")->{status}, 409, 'its input stays while it runs';
my $cancelled = $server->post("/v1/batches/$made->{id}/cancel", {})->{json};
is $cancelled->{status}, 'cancelling', 'a batch is being cancelled';
$batch = Batches::wait_for($server, $made->{id});
is $batch->{status}, 'cancelled', '  and cancelled';
my @done = Batches::results($server, $batch->{output_file_id});
my @rest = Batches::results($server, $batch->{error_file_id});
is scalar keys %{ Batches::texts(@done) }, scalar @done, '  what was answered is there, once';
is @done + @rest, 3000, '  and the others are named';
is $rest[-1]{error}{code}, 'batch_cancelled', '  with the reason';
is $server->post("/v1/batches/$made->{id}/cancel", {})->{status}, 409, '  once is enough';
is $server->request('DELETE', "/v1/files/$long->{id}")->{status}, 200, '  and its input may go';

$long  = Batches::upload($server, join '', map { Batches::line("e-$_", max_tokens => 200) } 1 .. 3000);
$batch = Batches::wait_for($server, Batches::create($server, $long->{id}, completion_window => '2s')->{id});
is $batch->{status}, 'expired', 'a batch whose time is over expires';
@done = Batches::results($server, $batch->{output_file_id});
@rest = Batches::results($server, $batch->{error_file_id});
is @done + @rest, 3000, '  every line is in one of its files';
is $rest[-1]{error}{code}, 'batch_expired', '  those that were not run with the reason';
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left in the step loop';

# ---- two batches at once, a stop, and another server -----------------------------------

my @ids = map { my $n = $_; Batches::create($server, Batches::upload($server, join '', map { Batches::line("$n-$_", max_tokens => 60) } 1 .. 60)->{id})->{id} } 1 .. 2;
Batches::wait_for($server, $ids[1], sub { $_[0]{request_counts}{completed} > 0 });
is $server->stop, 0, 'the server stops in the middle of two batches';
$server = LlmServer->serve(Batches::ini($state));
for my $id (@ids) {
    $batch = Batches::wait_for($server, $id);
    is $batch->{request_counts}{completed}, 60, 'one is completed after the next start';
    is scalar keys %{ Batches::texts(Batches::results($server, $batch->{output_file_id})) }, 60, '  with each line once';
}
my $second = eval { LlmServer->serve(Batches::ini($state)) };
like $@, qr/\[server\] state: .* is in use by another server/, 'a second server is refused the folder';
unlike $@, qr/ loading /, '  before a model is loaded';
is $server->stop, 0, 'the server ends well';
done_testing;
