#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Where llama-server differs from OpenAI on the same paths: [server] llamacpp; return_progress in every dialect that
# has it; [server] closed_paths.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $folder = File::Temp->newdir;
my $keys   = "$folder/keys";
LlmServer::write_file($keys, "sk-one\n");
my %key = (authorization => 'Bearer sk-one');
LlmServer::write_file("$folder/template", q({% for m in messages %}{{ m.role[0] }}{{ m.content }}{% if not loop.last or add_generation_prompt %};{% endif %}{% endfor %}));
my $rest = "[model]\npath = " . LlmServer::source('t/data/models/stories260K') . "\nchat_template = $folder/template\n"
    . "[engine]\nthreads = 1\npin = false\nmax_context = 256\n[cache]\ndevice_memory = 8MiB\n[plugins]\nscheduler = sarathi\n[scheduler.sarathi]\nchunk = 32\n";
my $server = LlmServer->serve("api_keys = $keys\nadmin_keys = $keys\nclosed_paths = /slots /metrics\nallowed_origins = *\nllamacpp = true\n$rest");

sub ask { my ($path, $body, @more) = @_; return $server->post($path, { temperature => 0, %$body }, { %key, @more }) }
sub chat { my ($messages, %more) = @_; return ask('/v1/chat/completions', { messages => $messages, max_tokens => 3, %more }) }
sub events_of { my ($answer) = @_; return map { /^data: (\{.*)/m ? decode_json($1) : () } split /\n\n/, $answer->{content} }

# ---- progress -------------------------------------------------------------------------
my $text   = 'Once upon a time there was a cat. ' x 9;
my %bodies = (
    '/v1/completions'      => { prompt => "a$text", max_tokens => 3, timings_per_token => $true },
    '/completion'          => { prompt => "b$text", n_predict => 3 },
    '/v1/chat/completions' => { messages => [{ role => 'user', content => "c$text" }], max_tokens => 3 },
    '/v1/responses'        => { input => "d$text", max_output_tokens => 3, timings_per_token => $true },
);
for my $path (sort keys %bodies) {
    my %body     = (%{ $bodies{$path} }, stream => $true, return_progress => $true);
    my @events   = events_of(ask($path, \%body));
    my @progress = map { $_->{prompt_progress} // () } @events;
    my $total    = $progress[0]{total};
    my @steps    = ((map { $_ * 32 } 0 .. ($total - 1) / 32), $total);
    is_deeply [map { $_->{processed} } @progress], \@steps, "$path: the prompt's steps";
    is_deeply [map { [@$_{qw(total cache)}] } @progress], [([$total, 0]) x @steps], '  of as many tokens';
    ok !(grep { $_->{prompt_progress} } @events[@progress + ($path eq '/v1/responses') .. $#events]), '  before the text';
    my @again = map { $_->{prompt_progress} // () } events_of(ask($path, \%body));
    is_deeply [@{ $again[0] }{qw(cache processed)}], [($again[-1]{cache}) x 2], '  again: it begins with what the cache has';
    cmp_ok $again[0]{cache}, '>', 32, '  which is much';
    is ask($path, { %body, stream => $false })->{json}{prompt_progress}, undef, '  a whole answer has none';
    is ask($path, { %body, return_progress => $false })->{content} =~ /prompt_progress/, '', '  nor a stream that asks for none';
}
my @timed = map { $_->{timings} } grep { $_->{prompt_progress} } events_of(ask('/v1/completions', { %{ $bodies{'/v1/completions'} }, prompt => "e$text", stream => $true, return_progress => $true }));
is_deeply [@{ $timed[0] }{qw(prompt_n prompt_ms predicted_n)}], [0, 0, 0], 'timings begin with nothing';
is_deeply [map { $_->{prompt_n} } @timed[1 .. 2]], [32, 64], '  and count the prompt';
my @timed_events = grep { $_->{timings} } events_of(ask('/v1/responses', { %{ $bodies{'/v1/responses'} }, stream => $true }));
is_deeply [scalar(grep { $_->{type} eq 'response.output_text.delta' } @timed_events) > 0, $timed_events[-1]{type}], [1, 'response.incomplete'], 'timings of a response';
is ask('/v1/responses', $bodies{'/v1/responses'})->{json}{timings}{predicted_n}, 3, '  and of a whole one';
is ask('/v1/messages', { messages => [{ role => 'user', content => 'x' }], max_tokens => 1, return_progress => $true })->{headers}{'x-llmserve-ignored'},
    'return_progress', 'a dialect without progress says so';

# ---- as llama-server has it ------------------------------------------------------------
is ask('/completions', { prompt => 'x', n_predict => 2 })->{json}{stop_type}, 'limit', '/completions is /completion';
is ask('/v1/completions', { prompt => 'x', max_tokens => 2 })->{json}{object}, 'text_completion', '  and /v1/completions is OpenAI\'s';
my @said = ({ role => 'user', content => 'Hi' }, { role => 'assistant', content => 'Wh' });
like chat(\@said, verbose => $true)->{json}{__verbose}{prompt}, qr/uHi;aWh\z/, 'a last message of the assistant is continued';
like chat(\@said, verbose => $true, add_generation_prompt => $true)->{json}{__verbose}{prompt}, qr/aWh;\z/, '  unless the client says otherwise';
is chat([@said, $said[1]])->{json}{error}{param}, 'messages', '  two of them are refused';
my $verbose = chat([$said[0]], verbose => $true)->{json};
is $verbose->{__verbose}{content}, $verbose->{choices}[0]{message}{content}, 'verbose shows the answer, too';
ok !exists chat([$said[0]])->{json}{__verbose}, '  where it is wanted';
my @events = events_of(chat([$said[0]], stream => $true, verbose => $true));
is_deeply $events[0]{choices}[0]{delta}, { role => 'assistant', content => undef }, 'a stream begins without text';
is_deeply [map { exists $_->{__verbose} ? 1 : 0 } @events], [(0) x $#events, 1], '  and ends with the details';
is_deeply [map { @{ $_->{choices}[0] }{qw(delta finish_reason)} } $events[-1]], [{}, 'length'], '  in an event of its own, without text';
is join('', map { $_->{choices}[0]{delta}{content} // '' } @events), $verbose->{choices}[0]{message}{content}, '  after the text of a whole answer';
is_deeply [grep { defined $_->{choices}[0]{finish_reason} } @events[0 .. $#events - 1]], [], '  which ends once';
like $verbose->{system_fingerprint}, qr/\Ab0-[0-9a-f]{16}\z/, 'a fingerprint like the number of a build';
my $long = chat([{ role => 'user', content => 'x' x 500 }]);
is_deeply [$long->{status}, @{ $long->{json}{error} }{qw(type code n_ctx)}], [400, 'exceed_context_size_error', 400, 256], 'a prompt that is too long';
cmp_ok $long->{json}{error}{n_prompt_tokens}, '>', 256, '  with its tokens';
is $server->post('/completions', { prompt => 'x' })->{json}{error}{type}, 'authentication_error', 'a missing key';
my $page = $server->request('OPTIONS', '/completions', undef, { origin => 'https://a.example', 'access-control-request-method' => 'POST' });
is_deeply [@{ $page->{headers} }{map { "access-control-allow-$_" } qw(origin methods credentials)}], ['https://a.example', 'GET, POST, DELETE, OPTIONS', undef], 'CORS';
ok !exists decode_json($server->get('/health')->{content})->{error}, 'health has no error';

# ---- closed paths ----------------------------------------------------------------------
is $server->get($_, \%key)->{status}, 501, "$_ is closed" for qw(/slots /metrics);
is $server->get('/props', \%key)->{status}, 200, '/props is not';
is $server->stop, 0, 'the server ends well';

# ---- without it ------------------------------------------------------------------------
$server = LlmServer->serve($rest);
%key    = ();
is ask('/completions', { prompt => 'x', max_tokens => 2 })->{json}{object}, 'text_completion', '/completions is OpenAI\'s';
like chat(\@said, verbose => $true)->{headers}{'x-llmserve-ignored'}, qr/verbose/, 'verbose is not known';
is chat([@said, $said[1]])->{status}, 200, 'two messages of the assistant are rendered';
is $server->get('/slots')->{status}, 200, 'nothing is closed';
is $server->stop, 0, 'the server ends well';
done_testing;
