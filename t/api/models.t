#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [models]: several models in one server, each loaded at its first use in a process of its
# own, unloaded when it is idle or another one needs the room; a request waits for its
# model, is cancelled with its client, and survives nothing but is always answered: when
# the process of its model dies it gets an error that names the model. A stopped process
# (SIGSTOP) stands for a busy one, so that nothing depends on the machine's speed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Fcntl qw(F_WRLCK F_UNLCK);
use File::Temp;
use JSON::PP;
use LlmServer;
use POSIX ();
use Test::More;

use constant F_SETLEASE => 1024;    # Linux's, which Fcntl does not have

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my ($server, $deadline);
my $sockets = File::Temp->newdir('/tmp/models-XXXXXX');
$ENV{RUNTIME_DIRECTORY} = "$sockets";    # where systemd has a service's sockets
my $stories = LlmServer::source('t/data/models/stories260K');
my $encoder = LlmServer::source('t/data/encoder/mean');
my $common  = "[engine]\ndevice = cpu\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n";
sub serve {
    my ($models, $more) = @_;
    my $ini = ($more // '') . $common . "[models]\nchat = " . $stories . "\nembed = " . $encoder . "\n$models";
    return $server = LlmServer->serve($ini);
}

# GET, decoded.
sub look { my ($path) = @_; return decode_json($server->get($path)->{content}) }
sub models { return map { $_->{id} => $_->{status} } grep { $_->{status} } @{ look('/v1/models')->{data} } }
sub state_of { my %all = models(); return join ' ', map { "$_:$all{$_}{value}" } sort keys %all }

sub becomes {
    my ($wanted, $name) = @_;
    $deadline = Time::HiRes::time() + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.01) while state_of() ne $wanted && Time::HiRes::time() < $deadline;
    return is state_of(), $wanted, $name;
}

sub pid_of { my ($model) = @_; return look('/admin/status')->{models}{$model}{pid} }
sub story { my (%more) = @_; return $server->post('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 4, temperature => 0, %more }) }
sub embed { my (%more) = @_; return $server->post('/v1/embeddings', { model => 'embed', input => 'A text', %more }) }
sub text_of { return $_[0]{json}{choices}[0]{text} // "status $_[0]{status}: $_[0]{content}" }
sub says { return $_[0]{json}{error}{message} // $_[0]{content} }

# Sends a request without waiting for its answer.
sub send_off {
    my ($path, $body) = @_;
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post($path, encode_json($body), 'Content-Type: application/json', 'Connection: close');
    return $socket;
}

# ---- loading at first use, and the list -------------------------------------------------

serve("unload_after = 0\nfallback = chat\n");
is state_of(), 'chat:unloaded embed:unloaded', 'no model is loaded at the start';
my $answer = story();
is $answer->{status}, 200, 'the first request loads its model' or diag $server->log;
my $text = text_of($answer);
is state_of(), 'chat:loaded embed:unloaded', '  and no other one';
my $reference = decode_json(LlmServer::read_file("$encoder/reference.json"));
my $vector = embed(input => $reference->{texts}[0])->{json}{data}[0]{embedding} // [];
ok @$vector == @{ $reference->{vectors}[0] } && !(grep { abs($vector->[$_] - $reference->{vectors}[0][$_]) > 1e-4 } 0 .. $#$vector),
    'an embedder beside it, whose vectors are those of transformers';
is state_of(), 'chat:loaded embed:loaded', '  both are loaded';
is $answer->{json}{model}, 'chat', 'the answer has the name of the model';
is text_of(story(model => 'chat:latest')), $text, 'a name as Ollama writes it';
is text_of($server->post('/v1/completions', { prompt => 'Once', max_tokens => 4, temperature => 0 })), $text, 'no name: [models] fallback';
my @events = LlmServer::events(story(stream => $true));
is join('', map { ref $_ ? $_->{choices}[0]{text} : '' } @events), $text, 'a stream has the same text';
is $events[-1], '[DONE]', '  to its end';
$answer = $server->post('/v1/completions', { model => 'none', prompt => 'Once' });
is_deeply [$answer->{status}, $answer->{json}{error}{code}], [404, 'model_not_found'], 'another name is a 404';
like says($answer), qr/"none".*"chat", "embed"/, '  which names them';
$answer = $server->post('/v1/messages', { model => 'none', max_tokens => 4, messages => [] });
is $answer->{json}{type}, 'error', '  in the shape of the dialect';
is $server->get('/v1/models/embed')->{status}, 200, 'one model';
is $server->get('/v1/models/none')->{status}, 404, '  one that is not';
is_deeply [map { $_->{name} } @{ look('/api/tags')->{models} }], [qw(chat embed)], "Ollama's list";
is look('/props')->{role}, 'router', "llama.cpp's router";
is look('/props?model=chat')->{model_alias}, 'chat', '  and the properties of a model';
is $server->request('HEAD', '/v1/models')->{status}, 200, 'HEAD';
is $server->post('/api/chat', { model => 'chat', stream => $false, options => { num_predict => 4 }, messages => [{ role => 'user', content => 'Hi' }] })->{json}{done}, $true, 'a chat of Ollama';
is $server->post('/openai/deployments/chat/completions', { prompt => 'Once', max_tokens => 1 })->{status}, 200, "Azure's paths name it";
is look('/v1/files?model=chat')->{error}{code}, 'no_state', 'what a model lacks it says itself';
like $server->get('/metrics?model=chat')->{content}, qr/^vllm:request_success_total\{.*model_name="chat"/m, "a model's metrics";
is $server->metric('llmserve_model_loaded{model_name="chat"}'), 1, "the router's";
is $server->get('/admin/queues')->{status}, 400, "administration of what?";
is $server->get('/admin/queues?model=chat')->{status}, 200, '  of a model';
my $ctl = LlmServer::built('llmserve-ctl') . " -a $server->{address} -c $server->{folder}/llmserve.ini";
like qx($ctl status), qr/^chat +loaded, 0 requests.*^embed +loaded/ms, 'llmserve-ctl';
like qx($ctl -m chat status), qr/serving chat .*^scheduler +fcfs/ms, '  about one';
is qx($ctl reload), "generation 2: 2 models\n", '  reload';
is $server->get('/openapi.json')->{status}, 200, 'the description';

# ---- load and unload --------------------------------------------------------------------

is $server->post('/models/unload', { model => 'embed' })->{json}{success}, $true, 'unload';
becomes('chat:loaded embed:unloaded', '  it is');
is $server->post('/models/unload', { model => 'embed' })->{status}, 400, '  not twice';
is $server->post('/models/load', { model => 'embed' })->{json}{success}, $true, 'load';
becomes('chat:loaded embed:loaded', '  it is');
is $server->post('/models/load', { model => 'embed' })->{status}, 400, '  not twice';
is $server->post('/models/load', { model => 'none' })->{status}, 404, '  not another';
my $former = pid_of('embed');
kill 'STOP', $former;
is $server->post('/models/unload', { model => 'embed' })->{json}{success}, $true, 'unload, which takes its time';
is state_of(), 'chat:loaded embed:unloading', '  for now';
is $server->post('/models/load', { model => 'embed' })->{json}{success}, $true, '  load meanwhile';
kill 'CONT', $former;
becomes('chat:loaded embed:loaded', '  it is loaded then');
isnt pid_of('embed'), $former, '  by another process';
is $server->post('/models/load', {})->{status}, 400, '  nor without a name';

# ---- its process dies; its client leaves ------------------------------------------------

my $pid = pid_of('chat');
kill 'STOP', $pid;
my $hangs = send_off('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 4 });
ok $server->metric_becomes('llmserve_model_requests{model_name="chat"}', 1), 'a request that its model does not answer';
is embed()->{status}, 200, '  does not hold up other models';
close $hangs;
ok $server->metric_becomes('llmserve_model_requests{model_name="chat"}', 0), '  ends with its client';
$hangs = send_off('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 4 });
ok $server->metric_becomes('llmserve_model_requests{model_name="chat"}', 1), 'another one';
kill 'KILL', $pid;
$answer = LlmServer::read_all($hangs);
like $answer, qr{\AHTTP/1.1 502 .*the process of the model \\"chat\\" ended}s, '  gets an error when the process dies';
is text_of(story()), $text, '  and the next request starts it again';
is $server->metric('llmserve_model_crashes_total{model_name="chat"}'), 1, '  which is counted';
is $server->stop, 0, 'the server ends well';
ok !kill(0, $pid), '  and its processes with it';
is_deeply [glob "$sockets/*"], [], '  and their sockets';

# ---- loading by requests to load alone ---------------------------------------------------

serve("autoload = false\nunload_after = 0\n");
is look('/props')->{models_autoload}, $false, 'without autoload';
$answer = story();
is_deeply [$answer->{status}, $answer->{json}{error}{code}], [400, 'model_is_not_running'], '  a request loads no model';
like says($answer), qr{"chat" is not loaded: POST /models/load}, '  and hears what does';
is state_of(), 'chat:unloaded embed:unloaded', '  none is loaded';
is $server->post('/models/load', { model => 'chat' })->{json}{success}, $true, '  which does';
is text_of(story()), $text, '  then it answers, or waits until it can';
kill 'KILL', pid_of('chat');
ok $server->log_becomes(qr{chat: its process was ended by Killed; POST /models/load starts it again}), '  a crash is not mended by requests, the log says';
becomes('chat:unloaded embed:unloaded', '  it is');
is $server->stop, 0, 'the server ends well';

# A model whose loading the test holds up, by a lease on one of its files.
SKIP: {
    my $slow = File::Temp->newdir;
    symlink $_, "$slow/" . s{.*/}{}r or die $! for grep { !m{/tokenizer\.json$} } glob "$stories/*";
    LlmServer::write_file("$slow/tokenizer.json", LlmServer::read_file("$stories/tokenizer.json"));
    local $SIG{IO} = 'IGNORE';
    open my $lease, '+<', "$slow/tokenizer.json" or die $!;
    skip "no leases on files in /tmp: $!", 4 unless fcntl $lease, F_SETLEASE, F_WRLCK;
    serve("slow = $slow\nautoload = false\nunload_after = 0\n");
    $server->post('/models/load', { model => 'slow' });
    my $waits = send_off('/v1/completions', { model => 'slow', prompt => 'Once', max_tokens => 4 });
    ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="slow"}', 1), 'a request waits for a load';
    is $server->post('/models/unload', { model => 'slow' })->{json}{success}, $true, '  which is given up';
    fcntl $lease, F_SETLEASE, F_UNLCK or die "$slow: $!";
    like LlmServer::read_all($waits), qr{\AHTTP/1.1 400 .*"slow\\" is not loaded: POST /models/load}s, '  the request does not have it loaded again';
    becomes('chat:unloaded embed:unloaded slow:unloaded', '  it is not');
    is $server->stop, 0, 'the server ends well';
}

# ---- names as Ollama has them -------------------------------------------------------------

serve("chat:0.6b = $stories\nllama/small:latest = $stories\nunload_after = 0\n[model.chat:0.6b]\nlora.tuned:v1 = $stories-lora/first\n");
is state_of(), 'chat:unloaded chat:0.6b:unloaded embed:unloaded llama/small:latest:unloaded', 'names with tags';
is text_of(story(model => $_)), $text, "  $_" for 'chat:0.6b', 'llama/small:latest', 'llama/small', 'chat:latest';
is story(model => 'chat:1b')->{status}, 404, '  another tag is another model';
is story(model => 'tuned:v1')->{status}, 200, '  an adapter with one';
is $server->stop, 0, 'the server ends well';

# ---- room -------------------------------------------------------------------------------

serve("max_loaded = 1\nunload_after = 0\n", "keep_alive = 50ms\n");
is story()->{status}, 200, 'one at a time: the first';
is embed()->{status}, 200, '  the second';
is state_of(), 'chat:unloaded embed:loaded', '  takes its place';
$pid = pid_of('embed');
kill 'STOP', $pid;
$hangs = send_off('/v1/embeddings', { model => 'embed', input => 'A text' });
ok $server->metric_becomes('llmserve_model_requests{model_name="embed"}', 1), 'a busy model';
my $waits = send_off('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 4, temperature => 0, stream => $true });
my $begun = LlmServer::read_until($waits, qr/: keep-alive.*: keep-alive/s);
like $begun, qr{\AHTTP/1.1 200 .*: keep-alive}s, '  a stream that waits for its room is kept alive';
my $lines = send_off('/api/generate', { model => 'chat', prompt => 'Once', options => { num_predict => 4, temperature => 0 } });
like LlmServer::read_until($lines, qr/\r\n\r\n1\r\n /), qr{application/x-ndjson}, '  in the way of its dialect';
my $bad = send_off('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => -4, stream => $true });
LlmServer::read_until($bad, qr/: keep-alive/);
my $leaves = send_off('/v1/completions', { model => 'chat', prompt => 'Once' });
ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="chat"}', 4), '  others wait with it';
close $leaves;
ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="chat"}', 3), '  and may leave';
is state_of(), 'chat:loading embed:loaded', '  the busy one stays';
kill 'CONT', $pid;
like LlmServer::read_all($hangs), qr{\AHTTP/1.1 200 }, '  until it has answered';
$begun .= LlmServer::read_all($waits);
is join('', $begun =~ /"text":"([^"]*)"/g), $text, '  then the stream goes on with the answer';
like $begun, qr/\[DONE\]/, '  to its end';
unlike $begun, qr/HTTP.*HTTP/s, '  which has one head';
like LlmServer::read_all($bad), qr/data: \{"error":\{"message":"[^"]*max_tokens.*\[DONE\]/s, '  an error becomes an event';
like LlmServer::read_all($lines), qr/"done":true/, '  lines go on, too';
is $server->stop, 0, 'the server ends well';

# Memory: sizes are as configured here, since what a process takes depends on the build.
serve("third = " . $stories . "\nmemory = 250MiB\nunload_after = 0\n"
    . join '', map { "[model.$_]\nmemory = 100MiB\n" . ($_ eq 'chat' ? "pinned = true\n" : '') } qw(chat embed third));
becomes('chat:loaded embed:unloaded third:unloaded', 'a pinned model is loaded at the start');
is embed()->{status}, 200, 'short of memory: there is room for two';
is story(model => 'third')->{status}, 200, '  and the third';
becomes('chat:loaded embed:unloaded third:loaded', '  takes the place of the one that is not pinned');
is $server->post('/models/unload', { model => 'chat' })->{status}, 400, '  which cannot be unloaded';

# ---- reload -----------------------------------------------------------------------------

my $both = "$common\[models]\nchat = $stories\nnew = $stories\n";
$server->configure("${both}unload_after = 0\n");
$server->signal('HUP');
becomes('chat:loaded new:unloaded', 'SIGHUP adds and removes models');
is text_of(story(model => 'new')), $text, '  the new one serves';
is embed()->{status}, 404, '  the old one does not';
$server->configure("${both}unload_after = 0\n[model.new]\nengine.max_sequences = 8\nlora.tuned = $stories-lora/first\n");
$server->signal('HUP');
becomes('chat:loaded new:unloaded', 'a model whose settings need a restart is unloaded once it is idle');
$answer = story(model => 'tuned');
is $answer->{status}, 200, '  and has an adapter with a name of its own';
isnt text_of($answer), $text, '  which has an effect';
is_deeply [map { "$_->{id} of " . ($_->{parent} // '') } @{ look('/v1/models')->{data} }], ['chat of ', 'new of ', 'tuned of new'], '  and is listed';
$server->configure("${both}unload_after = 100ms\n");
$server->signal('HUP');
becomes('chat:unloaded new:unloaded', 'models that are not used are unloaded');
$server->configure("$common\[models]\nchat = " . $stories . "\nmax_loaded = many\n");
$server->signal('HUP');
ok $server->log_becomes(qr/reload: refused/), 'a wrong file is refused';
is story()->{status}, 200, '  and the former goes on, for a model that is loaded later, too';

my ($copy) = glob("$sockets/models-*/config");
mkdir "$copy.new" or die "$copy.new: $!"; # in the place of the file that becomes the copy
$server->configure("$common\[models]\nother = $stories\n");
$server->signal('HUP');
ok $server->log_becomes(qr/reload: refused.*cannot be written/), 'a file that cannot be copied for the processes is refused';
is_deeply [map { $_->{id} } @{ look('/v1/models')->{data} }], ['chat', 'new'], '  and changes no model';

# The router is killed: so are its models.
serve("unload_after = 0\n");
story();
$pid = pid_of('chat');
$server->signal('KILL');
$server->wait_for_end;
$deadline = Time::HiRes::time() + $LlmServer::TIMEOUT;
Time::HiRes::sleep(0.01) while kill(0, $pid) && Time::HiRes::time() < $deadline;
ok !kill(0, $pid), 'a router that is killed takes its models with it';

# ---- keys, own settings, a state, and a model that does not load ------------------------

my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "secret tenant\nother\n");
mkdir "$folder/broken";
LlmServer::write_file("$folder/broken/config.json", '{"model_type": "none"}');
$server = LlmServer->serve("api_keys = $folder/keys\nstate = $folder/state\n$common\[models]\nfolder = $folder\n"
    . "chat = " . $stories . "\n[model.chat]\nplugins.scheduler = sarathi\nscheduler.sarathi.chunk = 64\n");
is story()->{status}, 401, 'a key is wanted';
my %key = (authorization => 'Bearer secret');
is $server->post('/models/load', { model => 'chat' })->{status}, 401, '  to load, too';
$answer = $server->post('/v1/responses', { model => 'chat', input => 'Once', max_output_tokens => 4 }, \%key);
is $answer->{status}, 200, 'a response' or diag $server->log;
my $id = $answer->{json}{id};
like $server->log, qr{chat/plugins: scheduler sarathi}, "  by the model's own scheduler, whose lines name the model";
$answer = $server->get("/v1/responses/$id", \%key);
is decode_json($answer->{content})->{id}, $id, '  is found by its id' or diag $answer->{content};
is $server->get("/v1/responses/$id", { authorization => 'Bearer other' })->{status}, 404, '  by its tenant alone';
$answer = $server->request('POST', '/v1/files?model=chat', join("\r\n", '--x', 'Content-Disposition: form-data; name="purpose"', '', 'batch',
    '--x', 'Content-Disposition: form-data; name="file"; filename="a.jsonl"', '', '{}', '--x--', ''), { %key, 'content-type' => 'multipart/form-data; boundary=x' });
is $answer->{status}, 200, 'a file is stored with the model of the query' or diag $answer->{content};
is $server->get('/v1/files/' . decode_json($answer->{content})->{id}, \%key)->{status}, 200, '  and found by its id';
$answer = $server->post('/v1/completions', { model => 'broken', prompt => 'Once' }, \%key);
is_deeply [$answer->{status}, $answer->{json}{error}{code}], [503, 'model_not_loaded'], 'a model that does not load';
like says($answer), qr/"broken".*status 1/, '  says so';
ok $answer->{headers}{'retry-after'}, '  and when it is tried again';
$answer = $server->post('/v1/completions', { model => 'broken', prompt => 'Once' }, \%key);
like says($answer), qr/tried again in/, '  not at once';
is $server->stop, 0, 'the server ends well';

# ---- the example -------------------------------------------------------------------------

my $example = LlmServer::read_file(LlmServer::source('etc/models/chat-and-embedder.ini'));
ok $example =~ s/^chat = .*/chat = $stories/m && $example =~ s/^embed = .*/embed = $encoder/m, 'the shipped example';
LlmServer::write_file("$folder/example.ini", $example);
my $said = qx(LLS_PLUGIN_PATH=@{[LlmServer::built('.libs')]} @{[LlmServer::built('llmserve')]} -c $folder/example.ini --check-config 2>&1);
is $?, 0, '  is right' or diag $said;
like $said, qr/^model chat: .*^model embed: /ms, '  model by model';
LlmServer::write_file("$folder/wrong.ini", "[models]\nchat = $stories\n[model.chat]\nengine.threads = x\nserver.listen = y\nengine.none = z\n[model.none]\n");
$said = qx(LLS_PLUGIN_PATH=@{[LlmServer::built('.libs')]} @{[LlmServer::built('llmserve')]} -c $folder/wrong.ini --check-config 2>&1);
is join(' ', $said =~ /wrong\.ini:(\d+): /g), '4 5 6 7', 'each wrong setting of a model is an error in its line' or diag $said;

done_testing;
