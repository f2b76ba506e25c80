#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Answers are as /openapi.json describes them: requests go to every operation, whole and as streams, sound ones and
# ones that are refused. Each answer has the members that are required and none that is not described, each status is
# one that the operation lists, and in the end no member, alternative or operation is left that never came.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use HTTP::Tiny;
use JSON::PP;
use LlmServer;
use Shape;
use Test::More;
use Time::HiRes ();

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $json    = JSON::PP->new->utf8->allow_nonref;
my $stories = LlmServer::source('t/data/models/stories260K');
my $folder  = File::Temp->newdir;
my ($server, $doc, $shape, %answered, %statuses, @wrong);

# ---- answers and their descriptions -----------------------------------------------------------

# The JSON values of an answer: one, or those of a stream.
sub values_of {
    my ($type, $content) = @_;
    return map { /^data: (\{.*)/m ? $json->decode($1) : () } split /\n\n/, $content if $type eq 'text/event-stream';
    return map { $json->decode($_) } split /\n/, $content if $type eq 'application/x-ndjson';
    return $type eq 'application/json' ? $json->decode($content) : ();
}

# Checks an answer to "METHOD path" of the description.
sub see {
    my ($method, $path, $answer) = @_;
    my $what = "$method $path";
    my $of   = $doc->{paths}{$path}{ lc $method }{responses}{ $answer->{status} };
    return push @wrong, "$what: $answer->{status} is not listed: " . substr $answer->{content}, 0, 200 if !$of;
    my ($type) = ($answer->{headers}{'content-type'} // '') =~ m{\A([\w/+*-]+)};
    return if $method eq 'HEAD';
    my ($as) = grep { $_ eq ($type // '') || $_ eq '*/*' } sort keys %{ $of->{content} };
    return push @wrong, "$what: $answer->{status} as " . ($type // 'nothing') if !defined $as;
    $answered{"$what $as"} = 1 if $answer->{status} < 300;
    $statuses{$what}{ $answer->{status} } = 1;
    for my $value (values_of($as, $answer->{content})) {
        my $why = $shape->check($value, $of->{content}{$as}{schema}, "$what $answer->{status} $as");
        push @wrong, "$why: " . substr $json->encode($value), 0, 300 if defined $why;
    }
    return;
}

sub post { my ($path, $body, $to, $headers) = @_; my $answer = $server->post($to // $path, $body, $headers); see('POST', $path, $answer); return $answer->{json} // {} }
sub get { my ($path, $to) = @_; my $answer = $server->get($to // $path); see('GET', $path, $answer); return $answer }
sub drop { my ($path, $to) = @_; return see('DELETE', $path, $server->request('DELETE', $to // $path)) }
sub bare { my ($path, $to) = @_; return see('POST', $path, $server->request('POST', $to // $path)) }
sub is_right { my ($what) = @_; is join("\n", @wrong[0 .. ($#wrong < 9 ? $#wrong : 9)]), '', "$what: all as described"; @wrong = (); return }
sub user { return (messages => [{ role => 'user', content => $_[0] }]) }
sub engine { return "[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n" }
sub ends { my ($what) = @_; is_right($what); is $server->stop, 0, '  and the server ends well'; return }

# Both ways of answering: a body with `stream` on and off.
sub both {
    my ($path, %body) = @_;
    for my $stream ($false, $true) {
        my @usage = $stream && $path =~ m{completions\z} ? (stream_options => { include_usage => $true }) : ();
        post($path, { %body, stream => $stream, @usage });
    }
    return;
}

# Stores a file of a batch. Returns its id.
sub upload {
    my ($content) = @_;
    my $part = qq(--x\r\nContent-Disposition: form-data; name=);
    my $form = qq($part"purpose"\r\n\r\nbatch\r\n$part"expires_after[anchor]"\r\n\r\ncreated_at\r\n$part"expires_after[seconds]"\r\n\r\n3600\r\n)
        . qq($part"file"; filename="a.jsonl"\r\n\r\n$content\r\n--x--\r\n);
    my $made = $server->request('POST', '/v1/files', $form, { 'content-type' => 'multipart/form-data; boundary=x' });
    see('POST', '/v1/files', $made);
    return decode_json($made->{content})->{id};
}

# ---- generated ones: the fake loop answers with the prompt -----------------------------------

$server = LlmServer->fake(period => 1, context => 2048, format => 'hermes', reasoning => 'think');
$server->{http} = HTTP::Tiny->new(timeout => $LlmServer::TIMEOUT, keep_alive => 1);
$doc   = decode_json($server->get('/openapi.json')->{content});
$shape = Shape->new($doc);

my $call   = '<tool_call>{"name": "find", "arguments": {"text": "a b", "count": 3}}</tool_call>';
my $custom = '<tool_call>{"name": "raw", "arguments": {"input": "a b"}}</tool_call>';
my $mixed  = "<think>A thought.</think> Text. $call";
my @only   = (chat_template_kwargs => { only => $true });
my $schema = { type => 'object', properties => { text => { type => 'string' }, count => { type => 'integer' } } };
my @chat_tools = (@only, tools => [{ type => 'function', function => { name => 'find', parameters => $schema } }]);
my @rtools     = (@only, tools => [{ type => 'function', name => 'find', parameters => $schema }, { type => 'custom', name => 'raw' }]);
my @reports    = (timings_per_token => $true, return_progress => $true);
my @ids        = (return_token_ids => $true);

both('/v1/completions', prompt => 'Hello there', max_tokens => 9, @$_)
    for [n => 2, @reports], [logprobs => 2, echo => $true], [@ids], [prompt_logprobs => 1], [stop => ['e']], [stop_token_ids => [100 .. 200]];
both('/v1/chat/completions', user($mixed), max_tokens => 160, @only, @$_) for [@chat_tools], [], [@reports, @ids], [stop => ['e']];
both('/v1/chat/completions', user('Hello there'), max_tokens => 9, @$_) for [logprobs => $true, top_logprobs => 2], [prompt_logprobs => 1];
both('/v1/responses', input => $_->[0], max_output_tokens => $_->[1], @rtools, @reports) for [$mixed, 200], [$custom, 100];
both('/v1/responses', input => 'Hello there', max_output_tokens => 5, @reports, include => ['message.output_text.logprobs'], top_logprobs => 1);
both('/v1/messages', user($mixed), max_tokens => 200, @only, @$_)
    for [tools => [{ name => 'find', input_schema => $schema }], thinking => { type => 'enabled', budget_tokens => 1024 }], [stop_sequences => ['x']];
both('/api/chat', user($mixed), options => { num_predict => 200 }, @chat_tools, @$_) for [think => $true], [logprobs => $true, top_logprobs => 1];
both('/api/generate', prompt => 'Text', options => { num_predict => 20 }, @$_) for [], [logprobs => $true, top_logprobs => 1];
both('/api/generate', prompt => $mixed, think => $true, @only, options => { num_predict => 90 });
both('/completion', prompt => 'Hello there', n_predict => 9, @$_)
    for [n_probs => 2], [n_probs => 2, post_sampling_probs => $true], [return_tokens => $true, @reports], [stop => ['e'], logit_bias => [[5, 1], [6, $false]]], [ignore_eos => $true];
for my $more ([], [top_n_tokens => 2], [seed => 4], [return_full_text => $true]) {
    my %body = (inputs => 'Hello there', parameters => { max_new_tokens => 9, details => $true, @$more });
    post($_, \%body) for '/generate', '/generate_stream';
    both('/', %body);
}
post('/generate', { inputs => 'Hello there', parameters => { max_new_tokens => 3 } });
both('/inference/v1/generate', token_ids => [1, 5, 6], sampling_params => { max_tokens => 4, @$_ }, stream_options => { include_usage => $true }) for [logprobs => 1], [stop_token_ids => [0 .. 500]];
post('/inference/v1/generate', { token_ids => [1, 5, 6], sampling_params => { max_tokens => 4, @$_ } }) for [prompt_logprobs => 1], [logprobs => 1];
both('/invocations', @$_) for [prompt => 'x', max_tokens => 2], [user('x'), max_tokens => 2];
post('/v1/chat/completions/input_tokens', { user('x') });
post("/v1/responses/$_", { input => [{ role => 'user', content => 'x' }] }) for qw(input_tokens compact);
post('/v1/messages/count_tokens', { user('x') });
post('/tokenize', $_) for { prompt => 'x y', return_token_strs => $true }, { content => "x \x{e9}", with_pieces => $true }, { user('x') };
post('/detokenize', { tokens => [5, 6] });
post('/apply-template', { user('x') });
post('/v1/embeddings', { input => 'x', encoding_format => $_ }) for qw(float base64);
post('/invocations', { input => 'x' });
post('/pooling', { input => 'x' });
post('/v1/rerank', { query => 'x', documents => ['y'], return_documents => $_ }) for $true, $false;
post($_, { query => 'x', documents => ['y'] }) for '/v1/reranking', '/v2/rerank';
post('/v1/score', { text_1 => 'x', text_2 => 'y' });
post('/api/embed', { input => 'x' });
post('/api/embeddings', { prompt => 'x' });
post('/api/show', { model => 'fake/model' });
get($_) for grep { $doc->{paths}{$_}{get} && !/\{|events\z/ } sort keys %{ $doc->{paths} };
get('/v1/models/{id}', "/v1/models/$_") for 'fake/model', 'none';
bare('/ping');

is_right('generated');

# Refusals: each dialect refuses an empty body, a body that is too large, and one of another type.
for my $path (grep { $doc->{paths}{$_}{post} && !/\{/ } sort keys %{ $doc->{paths} }) {
    next if $path =~ m{/admin|/ping|files\z|conversations\z|whatif};
    post($path, {});
    post($path, { model => 'none', user('x'), prompt => 'x', input => 'x', inputs => 'x', max_tokens => 1, query => 'x', documents => ['y'], text_1 => 'x', text_2 => 'y', token_ids => [1], content => 'x', tokens => [5], input_prefix => 'x', input_suffix => 'y' });
    see('POST', $path, $server->request('POST', $path, 'x', { 'content-type' => 'text/plain' }));
}
is_right('refusals');
is $server->stop, 0, 'the server ends well';

# ---- of a model, with a store ------------------------------------------------------------------

LlmServer::write_file("$folder/template", '{% for m in messages %}{{ m.content }}{% endfor %}');
$server = LlmServer->serve("state = $folder/state\nkv_events = stream\nrequest_metrics = true\n[model]\npath = $stories\nchat_template = $folder/template\n"
    . engine() . "[lora]\nruntime = true\nfirst = $stories-lora/first\n");
both('/v1/completions', prompt => 'Once', max_tokens => 4, model => 'first');
both('/v1/chat/completions', user('Once'), max_tokens => 4, prompt_cache_key => 'one');
get($_) for qw(/v1/models /slots /props /lora-adapters /admin/status /admin/queues /admin/sessions /admin/config /admin/history /admin/policies /api/ps);
my $azure = '/openai/deployments';
for my $stream ($false, $true) {
    post("$azure/{id}/completions", { prompt => 'x', max_tokens => 1, stream => $stream }, "$azure/stories260K/completions");
    post("$azure/{id}/chat/completions", { user('x'), max_tokens => 1, stream => $stream }, "$azure/stories260K/chat/completions");
}
get('/console/{id}', '/console/docs.js');
for (1 .. 100) {
    last if exists $shape->{met}{'QueuedRequest.id'};
    my $socket = $server->connect;
    print $socket LlmServer::raw_post('/v1/completions', '{"prompt": "Once", "max_tokens": 400, "ignore_eos": true}', 'Content-Type: application/json', 'Connection: close');
    get('/admin/queues');
}
post('/lora-adapters', [{ id => 0, scale => 0.5 }]);
post('/v1/load_lora_adapter', { lora_name => 'a', lora_path => "$stories-lora/second" });
post('/v1/unload_lora_adapter', { lora_name => $_ }) for qw(a a);

my %id = (response => post('/v1/responses', { input => 'Once', max_output_tokens => 4 })->{id} // 'none');
SKIP: {
    skip 'no SQLite', 1 if $id{response} eq 'none' || $server->get("/v1/responses/$id{response}")->{status} == 404;
    get('/v1/responses/{id}', "/v1/responses/$_") for $id{response}, 'none', "$id{response}?stream=nonsense";
    get('/v1/responses/{id}/input_items', "/v1/responses/$id{response}/input_items");
    my $late = post('/v1/responses', { input => 'Once', max_output_tokens => 400, background => $true })->{id};
    my $streamed = $server->post('/v1/responses', { input => 'Once', max_output_tokens => 4, background => $true, stream => $true });
    get('/v1/responses/{id}', "/v1/responses/$1?stream=true") if $streamed->{content} =~ /"id":"(resp_[^"]+)"/;
    bare('/v1/responses/{id}/cancel', "/v1/responses/$late/cancel");
    drop('/v1/responses/{id}', "/v1/responses/$id{response}");
    my $c = post('/v1/conversations', { items => [{ role => 'user', content => 'x' }], metadata => { a => 'b' } })->{id};
    post('/v1/conversations/{id}', { metadata => {} }, "/v1/conversations/$c");
    my $item = post('/v1/conversations/{id}/items', { items => [{ role => 'user', content => 'y' }] }, "/v1/conversations/$c/items")->{data}[0]{id};
    both('/v1/responses', input => 'Once', max_output_tokens => 4, conversation => $c, instructions => 'Tell', user => 'me', max_tool_calls => 2, previous_response_id => undef);
    get('/v1/conversations/{id}', "/v1/conversations/$_") for $c, 'none';
    get('/v1/conversations/{id}/items', "/v1/conversations/$c/items");
    get('/v1/conversations/{id}/items/{item}', "/v1/conversations/$c/items/$item");
    drop('/v1/conversations/{id}/items/{item}', "/v1/conversations/$c/items/$item");
    drop('/v1/conversations/{id}', "/v1/conversations/$c");
    my ($right, $bad) = map { encode_json({ custom_id => 'a', method => 'POST', url => $_, body => { prompt => 'Once', max_tokens => 3 } }) } '/v1/completions', '/v1/nothing';
    my %files = map { ($_ => upload($_)) } $right, $bad;
    get('/v1/files');
    get('/v1/files/{id}', "/v1/files/$files{$right}");
    get('/v1/files/{id}/content', "/v1/files/$files{$right}/content");
    for my $file (@files{ $right, $bad }) {
        my $batch = post('/v1/batches', { input_file_id => $file, endpoint => '/v1/completions', completion_window => '24h', metadata => { a => 'b' } })->{id};
        my $until = Time::HiRes::time() + $LlmServer::TIMEOUT;
        my $state = '';
        $state = decode_json(get('/v1/batches/{id}', "/v1/batches/$batch")->{content})->{status} while $state !~ /completed|failed/ && Time::HiRes::time() < $until;
        bare('/v1/batches/{id}/cancel', "/v1/batches/$batch/cancel");
    }
    my $many = join "\n", map { encode_json({ custom_id => "$_", method => 'POST', url => '/v1/completions', body => { prompt => 'Once', max_tokens => 400, ignore_eos => $true } }) } 1 .. 60;
    my $stopped = post('/v1/batches', { input_file_id => upload($many), endpoint => '/v1/completions', completion_window => '24h' })->{id};
    bare('/v1/batches/{id}/cancel', "/v1/batches/$stopped/cancel");
    get('/v1/batches');
    drop('/v1/files/{id}', "/v1/files/$files{$right}") for 1, 2;
    post('/v1/responses', { input => 'x', previous_response_id => 'none' });
}
for my $path (qw(/admin/events /admin/kv_events)) {
    my $socket = $server->connect;
    print $socket "GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n";
    LlmServer::read_until($socket, qr/\r\n\r\n/);
    $server->post('/v1/completions', { prompt => "Once upon a time there was a girl who liked to play $path all day long, and then another day", max_tokens => 3, model => 'first' });
    my $text = LlmServer::read_until($socket, $path =~ /kv/ ? qr/data: .*\n\n/ : qr/data: .*"rows".*\n\n/) =~ s/^[0-9a-f]+\r\n|\r\n//mgr;
    see('GET', $path, { status => 200, headers => { 'content-type' => 'text/event-stream' }, content => $text });
}
post('/admin/whatif', {});
get('/admin/whatif');
drop('/admin/whatif');
bare('/admin/reload');
$server->configure("[nonsense]\n");
bare('/admin/reload');
get($_) for qw(/admin/status);
bare('/admin/drain');
$server->wait_for_end;
is_right('of a model');

# ---- of encoders, and of a router --------------------------------------------------------------

for my $model (qw(mean classes pair)) {
    $server = LlmServer->serve("[model]\npath = " . LlmServer::source("t/data/encoder/$model") . "\n[engine]\nthreads = 1\npin = false\n");
    post('/classify', { input => 'x' });
    post('/pooling', { input => 'x', encoding_format => $_ }) for qw(float base64);
    post('/v1/score', { text_1 => 'x', text_2 => ['y', 'z'] });
    post("$azure/{id}/embeddings", { input => 'x' }, "$azure/$model/embeddings");
    get($_) for qw(/v1/models /info /props /health /api/tags /api/ps /admin/status);
    ends($model);
}

my $encoder = LlmServer::source('t/data/encoder/mean');
mkdir "$folder/broken";
LlmServer::write_file("$folder/broken/config.json", '{"model_type": "none"}');
$server = LlmServer->serve("[engine]\ndevice = cpu\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n[models]\nchat = $stories\nembed = $encoder\nbroken = $folder/broken\n");
get($_) for qw(/v1/models /openai/v1/models /api/tags /api/ps /props /health /ready /live /load /version /metrics /openapi.json /docs /console /admin/status /admin/queues);
get('/v1/models/{id}', "/v1/models/$_") for qw(chat none);
both('/v1/completions', model => $_, prompt => 'Once', max_tokens => 2) for qw(chat broken none);
get('/api/ps');
get('/admin/queues', "/admin/queues?model=$_") for qw(chat embed none);
post('/v1/models/load', { model => $_ }) for qw(embed embed none);
post('/v1/models/unload', { model => $_ }) for qw(chat embed none);
get('/v1/models');
get('/admin/status');
bare('/admin/reload');
ends('a router');

# ---- who may, and when: every operation --------------------------------------------------------

# Sends a request with a name of another host, which the client does not let a test do.
sub elsewhere {
    my ($method, $path) = @_;
    my $socket = $server->connect;
    print $socket "$method $path HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    my ($head, $content) = split /\r\n\r\n/, LlmServer::read_all($socket), 2;
    my %headers = map { /\A([\w-]+): (.*)/ ? (lc $1 => $2) : () } split /\r\n/, $head;
    return { status => $head =~ m{\AHTTP/1.1 (\d+)} ? $1 : 0, content => $content // '', headers => \%headers };
}

# Sends a request to every operation, with these headers.
sub everywhere {
    my ($headers, $body) = @_;
    for my $path (sort keys %{ $doc->{paths} }) {
        next if $path =~ m{\A/admin/(?:drain|reload|events)\z};
        for my $method (map { uc } sort keys %{ $doc->{paths}{$path} }) {
            my %all = $method eq 'POST' && defined $body ? ('content-type' => 'application/json', %$headers) : %$headers;
            my $to  = $path =~ s/\{\w+\}/x/gr;
            see($method, $path, $headers->{host} ? elsewhere($method, $to) : $server->request($method, $to, $method eq 'POST' ? $body : undef, \%all));
        }
    }
    return;
}

LlmServer::write_file("$folder/keys", "user\n");
LlmServer::write_file("$folder/admins", "admin\n");
my %guarded = ('api_keys' => "$folder/keys", admin_keys => "$folder/admins");
my $guarded = join '', map { "$_ = $guarded{$_}\n" } sort keys %guarded;
sub of_stories { my ($keys, $more) = @_; return LlmServer->serve("$keys\[model]\npath = $stories\n" . engine() . ($more // '')) }

$server = of_stories("${guarded}max_body = 4KiB\n", "[tenants]\nrequests_per_minute = 1\n");
everywhere({}, '{}');
everywhere({ host => 'evil.example' });
everywhere({ origin => 'http://evil.example' });
everywhere({ authorization => 'Bearer user' }, '{}');
post('/', {}, undef, { authorization => 'Bearer user' });
everywhere({ authorization => 'Bearer admin' }, '{"x": "' . 'x' x 5000 . '"}');
ends('keys, origins, shares and sizes');
$server = of_stories("closed_paths = *\n");
everywhere({}, '{}');
ends('closed paths');

# /v1/x and x are one operation.
sub is_twice { my ($path) = @_; return exists $doc->{paths}{"/v1$path"} || $path =~ m{\A/openai/(?:v1/)?(?!deployments)} }
my $special = qr{\A/admin/(?:drain|reload|events)\z|\A/infill\z};    # /infill: no model here has the tokens
my @never;
for my $path (grep { $_ !~ $special } sort keys %{ $doc->{paths} }) {
    for my $method (sort keys %{ $doc->{paths}{$path} }) {
        my $what = uc($method) . " $path";
        my %listed = %{ $doc->{paths}{$path}{$method}{responses} };
        push @never, map { "$what: $_" } grep { $listed{$_} && !$statuses{$what}{$_} && "$what $_" !~ m{\AGET /metrics 40} } qw(401 403 421 429 501);
        my ($good) = grep { /\A[23]/ } keys %listed;
        push @never, map { "$what: $_" } grep { !$answered{"$what $_"} } is_twice($path) ? () : keys %{ $listed{$good}{content} };
    }
}
is join("\n", @never), '', 'each status, and each answer of success, came from each operation';

# Members that come of faults alone have tests of their own: hang.t, crash.t, instances_lost.t, whatif.t; windows.t has groups, ollama.t
# a thought of /api/generate.
my $faults = qr{error|fallback\z|reason\z|group_idx|InstanceQueues.tenants|InstanceStatus|exit_code|failed|InstanceQueues|PolicyFigures.*events|OllamaText.thinking};
my @places = map { $shape->places($doc->{components}{schemas}{$_}, $_) } grep { !/\Abody/ } sort keys %{ $doc->{components}{schemas} };
for my $path (grep { $_ !~ $special && !is_twice($_) } keys %{ $doc->{paths} }) {
    for my $method (keys %{ $doc->{paths}{$path} }) {
        my $answers = $doc->{paths}{$path}{$method}{responses};
        my ($good) = grep { /\A2/ } keys %$answers;
        push @places, map { $shape->places($answers->{$good}{content}{$_}{schema}, uc($method) . " $path $good $_") } keys %{ $answers->{$good}{content} } if $good;
    }
}
my @unmet = grep { !exists $shape->{met}{$_} && $_ !~ $faults } sort @places;
is join("\n", @unmet), '', 'each member of the description came';
done_testing;
