#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Random requests in every dialect: a sound body gets random values of the fields that /openapi.json names, sound and
# wrong ones, and members are replaced, doubled or left out. Each request is answered, or refused in the dialect's
# shape; what a stream's events are together is the whole answer to the same body. The fake loop answers with the
# prompt, so that an answer has the calls and thoughts that the prompt has. LLS_RANDOM: requests of each dialect (12),
# LLS_SEED: the dice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use HTTP::Tiny;
use JSON::PP;
use LlmServer;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $json   = JSON::PP->new->utf8->canonical->allow_nonref;
my $n      = $ENV{LLS_RANDOM} // 12;
my $seed   = $ENV{LLS_SEED} // 40;
my $server = LlmServer->fake(period => 1, context => 2048, format => 'hermes');
$server->{http} = HTTP::Tiny->new(timeout => $LlmServer::TIMEOUT, keep_alive => 1);
my $doc = decode_json($server->get('/openapi.json')->{content});
srand $seed;

sub one_of { return $_[rand @_] }

# ---- sound bodies ---------------------------------------------------------------------------

my @pieces = ('<tool_call>{"name": "find", "arguments": {"text": "a b", "count": 3}}</tool_call>', '<tool_call>{"name": "find", "arg',
    '<think>', '</think>', 'Some text. ', "\n", '{"a": 1}', "\x{e9}\x{4e16}", '</tool_call>', 'STOP', ' ');
sub text { return join '', map { one_of(@pieces) } 1 .. 1 + rand 5 }
sub image { return { type => 'image_url', image_url => { url => 'data:image/png;base64,AAAA' } } }
sub schema { return { type => 'object', properties => { text => { type => 'string' }, count => { type => 'integer' } }, required => ['text'] } }
sub message { return one_of({ role => 'user', content => text() }, { role => 'user', content => [{ type => 'text', text => text() }] }) }
sub messages { return [(map { (message(), { role => 'assistant', content => text() }) } 1 .. rand 2), message()] }
sub maybe { my ($part, @pairs) = @_; return rand 100 < $part ? @pairs : () }
sub function { return { name => 'find', description => 'd', parameters => schema() } }
sub kwargs { return maybe(50, chat_template_kwargs => { only => $true }) }
my $length = sub { return 1 + int rand 120 };
my %sound = (
    '/v1/completions' => sub { (prompt => one_of(text(), [text(), text()], [1, 5, 6, 7]), max_tokens => $length->(), maybe(30, echo => $true), maybe(30, n => 2), maybe(30, logprobs => 2)) },
    '/v1/chat/completions' => sub { (messages => messages(), max_tokens => $length->(), kwargs(), maybe(60, tools => [{ type => 'function', function => function() }]), maybe(20, n => 2), maybe(20, logprobs => $true, top_logprobs => 2)) },
    '/v1/responses' => sub { (input => one_of(text(), [map { { %$_, content => text() } } @{ messages() }]), max_output_tokens => $length->(), kwargs(), maybe(60, tools => [{ type => 'function', %{ function() } }])) },
    '/v1/messages' => sub { (messages => messages(), max_tokens => $length->(), kwargs(), maybe(60, tools => [{ name => 'find', input_schema => schema() }]), maybe(30, thinking => { type => 'enabled', budget_tokens => 1024 }), maybe(30, stop_sequences => ['STOP'])) },
    '/api/chat' => sub { (messages => [map { { %$_, content => text() } } @{ messages() }], maybe(60, tools => [{ type => 'function', function => function() }]), maybe(30, think => one_of($true, $false)), options => { num_predict => $length->(), maybe(30, stop => ['STOP']) }) },
    '/api/generate' => sub { (prompt => text(), maybe(50, raw => $true), maybe(30, think => one_of($true, $false)), options => { num_predict => $length->() }) },
    '/completion' => sub { (prompt => text(), n_predict => $length->(), maybe(30, n_probs => 2), maybe(30, return_tokens => $true), maybe(30, stop => ['STOP'])) },
    '/generate' => sub { (inputs => text(), parameters => { max_new_tokens => $length->(), details => $true, maybe(30, return_full_text => $true), maybe(30, stop => ['STOP']), maybe(30, top_n_tokens => 2) }) },
    '/inference/v1/generate' => sub { (token_ids => [1, map { 3 + int rand 500 } 1 .. 9], sampling_params => { max_tokens => $length->(), maybe(30, logprobs => 1), maybe(30, prompt_logprobs => 1) }) },
    '/infill' => sub { (input_prefix => text(), input_suffix => text(), n_predict => $length->()) },
    '/v1/embeddings' => sub { (input => one_of(text(), [text(), text()], [5, 6]), maybe(30, encoding_format => 'base64'), maybe(30, dimensions => 2)) },
    '/pooling' => sub { (input => one_of(text(), [text(), text()]), maybe(50, task => 'embed')) },
    '/classify' => sub { (input => text()) },
    '/v1/rerank' => sub { (query => text(), documents => [text(), text()], maybe(30, top_n => 1)) },
    '/v1/score' => sub { (text_1 => text(), text_2 => one_of(text(), [text(), text()])) },
    '/api/embed' => sub { (input => one_of(text(), [text(), text()])) },
    '/api/embeddings' => sub { (prompt => text()) },
    '/v1/messages/count_tokens' => sub { (messages => messages()) },
    '/v1/chat/completions/input_tokens' => sub { (messages => messages()) },
    '/v1/responses/input_tokens' => sub { (input => text()) },
    '/v1/responses/compact' => sub { (input => [{ role => 'user', content => text() }]) },
    '/tokenize' => sub { one_of([prompt => text()], [messages => messages()], [content => text()])->@* },
    '/detokenize' => sub { (tokens => [5, 6, 7]) },
    '/apply-template' => sub { (messages => messages()) },
);
# Bodies that dice have found: text after a call; a call that breaks off in its first argument.
my @tools = (tools => [{ type => 'function', %{ function() } }], chat_template_kwargs => { only => $true });
my %found = ('/v1/responses' => [
        { @tools, input => "Some $pieces[0] more", max_output_tokens => 80 },
        { @tools, input => "Some $pieces[1]STOP$pieces[2] $pieces[1]$pieces[3]", max_output_tokens => 110 }]);
my $generation = qr{\A/(?:v1/(?:completions|chat/completions|responses|messages)|api/(?:chat|generate)|completion|generate|inference/v1/generate)\z};

# ---- random ones ----------------------------------------------------------------------------

my @junk = (undef, $true, $false, 0, 1, 2, -1, 0.5, 1e300, 7, '', 'text', 'auto', 'find', 'low', 'json', '{"type": "object"}', [], {}, [[]], [1, 2], ['x'], { type => 'text' },
    { type => 'json_object' }, { type => 'object' }, { include_usage => $true }, 'x' x 300, "\x{0}", { type => 'image' }, { 5 => -100 });
my %of_type = (string => [grep { defined && !ref } @junk], integer => [0, 1, 2, 5, 20, -1], number => [0, 0.5, 1, 1.5], boolean => [$true, $false],
    array => [grep { ref eq 'ARRAY' } @junk], object => [grep { ref eq 'HASH' } @junk], null => [undef]);

sub places {
    my ($value) = @_;
    my @inner = ref $value eq 'HASH' ? (map { \$value->{$_} } sort keys %$value) : ref $value eq 'ARRAY' ? (map { \$_ } @$value) : ();
    return (@inner, map { places($$_) } @inner);
}

sub disturb {
    my ($body) = @_;
    my @all   = places($body) or return;
    my $place = one_of(@all);
    my $mode  = int rand 3;
    my $junk  = $json->decode($json->encode(one_of(@junk)));    # of its own: lists grow
    if    ($mode == 1 && ref $$place eq 'ARRAY') { push @$$place, @$$place }
    elsif ($mode == 2 && ref $$place eq 'HASH')  { delete $$place->{ one_of(sort keys %$$place) // '' } }
    else                                         { $$place = $junk }
    return;
}

sub fields_of {
    my ($path) = @_;
    my $ref = $doc->{paths}{$path}{post}{requestBody}{content}{'application/json'}{schema}{'$ref'} // return {};
    return $doc->{components}{schemas}{ $ref =~ s{.*/}{}r }{properties};
}

# Returns a body: sound, with fields of its schema, or disturbed.
sub body {
    my ($path) = @_;
    my $body   = $json->decode($json->encode({ $sound{$path}->() }));
    my $fields = fields_of($path);
    my @names  = sort grep { !/\A(?:stream|stream_options|background|store)\z/ } keys %$fields;
    for (1 .. rand 4) {
        my $name = one_of(@names) // last;
        $body->{$name} = $json->decode($json->encode(one_of(@{ $of_type{ one_of(@{ $fields->{$name}{type} // ['string'] }) } }))) if rand 4 < 3 || !exists $body->{$name};
    }
    disturb($body) for 1 .. (rand 3 < 1 ? 1 + rand 2 : 0);
    return ref $body eq 'HASH' ? $body : { $sound{$path}->() };
}

# ---- what a stream is together --------------------------------------------------------------

my %set = map { $_ => 1 } qw(finish_reason stop_reason stop_type stopping_word role type id index object model token logprob name done_reason created_at timings service_tier);

# Adds a delta: texts and lists grow, calls by their index, the last of other values stays.
sub merge {
    my ($whole, $delta) = @_;
    for my $name (grep { defined $delta->{$_} } keys %$delta) {
        my $value = $delta->{$name};
        if ($name eq 'tool_calls' && grep { defined $_->{index} } @$value) { merge($whole->{$name}[ $_->{index} ] //= {}, $_) for @$value }
        elsif (ref $value eq 'ARRAY')                                      { push @{ $whole->{$name} }, @$value }
        elsif (ref $value eq 'HASH' && $name =~ /\A(?:function|logprobs)\z/) { merge($whole->{$name} //= {}, $value) }
        elsif (ref $value || $set{$name} || $value =~ /\A-?\d/ && $name !~ /text|content|arguments|reasoning|thinking|response/) { $whole->{$name} = $value }
        else                                                               { $whole->{$name} = ($whole->{$name} // '') . $value }
    }
    return $whole;
}

# Leaves out what two answers to the same request may differ in, and what is empty.
sub plain {
    my ($value) = @_;
    return [map { plain($_) } @$value] if ref $value eq 'ARRAY';
    return $value if ref $value ne 'HASH';
    my %plain;
    for my $name (keys %$value) {
        next if $name =~ /\A(?:id|created|created_at|object|timings|\w+_duration|system_fingerprint|request_id|item_id|call_id|metrics|index|role|signature)\z/;
        my $inner = plain($value->{$name});
        next if !defined $inner || (ref $inner eq 'ARRAY' && !@$inner) || (ref $inner eq 'HASH' && !%$inner) || (!ref $inner && $inner eq '');
        $plain{$name} = $inner;
    }
    return \%plain;
}

sub data { my ($answer) = @_; return map { /^data: (\{.*)/m ? decode_json($1) : () } split /\n\n/, $answer->{content} }

# Choices of OpenAI's form, put together.
sub choices {
    my ($answer) = @_;
    my %whole;
    for my $event (data($answer)) {
        return $event if $event->{error};
        $whole{usage} = $event->{usage} if $event->{usage};
        defined $event->{$_} && ($whole{$_} = $event->{$_}) for qw(prompt_token_ids prompt_logprobs model service_tier);
        for my $choice (@{ $event->{choices} // [] }) {
            my %delta = %$choice;
            $delta{message} = delete $delta{delta} if $delta{delta};
            my $of = $whole{choices}[ $choice->{index} ] //= {};
            merge($of->{message} //= {}, delete $delta{message}) if $delta{message};
            merge($of, \%delta);
        }
    }
    return \%whole;
}

sub lines {
    my ($answer) = @_;
    my %whole;
    for my $line (map { decode_json($_) } split /\n/, $answer->{content}) {
        merge($whole{message} //= {}, delete $line->{message}) if $line->{message};
        merge(\%whole, $line);
    }
    return \%whole;
}

# Returns the response of the last event; the deltas of its texts, thoughts and calls must be these.
sub response {
    my ($answer) = @_;
    my @events = data($answer);
    my $last   = $events[-1]{response} // return $events[-1];
    my %deltas;
    for my $event (grep { ($_->{type} // '') =~ /\.delta\z/ } @events) {
        $deltas{"$event->{output_index} $event->{type}"} .= $event->{delta};
    }
    for my $i (0 .. $#{ $last->{output} // [] }) {
        my $item = $last->{output}[$i];
        my $text = join '', map { $_->{text} // '' } @{ $item->{content} // [] };
        my %is   = ('response.output_text.delta' => $item->{type} eq 'message' ? $text : '', 'response.function_call_arguments.delta' => $item->{arguments} // '');
        for my $type (keys %is) {
            my $got = $deltas{"$i $type"} // '';
            return { differs => "$type of $i: '$got', not '$is{$type}'" } if $got ne $is{$type};
        }
    }
    return $last;
}

sub blocks {
    my ($answer) = @_;
    my ($message, @json);
    for my $event (data($answer)) {
        my ($type, $index, $delta) = @$event{qw(type index delta)};
        return $event if $type eq 'error';
        if    ($type eq 'message_start')       { $message = $event->{message} }
        elsif ($type eq 'content_block_start') { $message->{content}[$index] = $event->{content_block} }
        elsif ($type eq 'message_delta')       { @$message{ keys %$delta } = values %$delta; $message->{usage} = $event->{usage} }
        elsif ($type eq 'content_block_delta') {
            if ($delta->{type} eq 'input_json_delta') { $json[$index] .= $delta->{partial_json} }
            else                                      { merge($message->{content}[$index], $delta->{type} eq 'text_delta' ? { text => $delta->{text} } : do { my %d = %$delta; delete $d{type}; \%d }) }
        }
    }
    for my $i (grep { length($json[$_] // '') } 0 .. $#json) {
        my $input = eval { $json->decode($json[$i]) };
        $message->{content}[$i]{input} = $input if defined $input;
        $message->{content}[$i]{cut}   = 1 if !defined $input;
    }
    return $message;
}

sub tokens_of {
    my ($answer) = @_;
    my @events = data($answer) or return {};
    return $events[-1] if $events[-1]{error};
    my %whole = (generated_text => $events[-1]{generated_text}, details => { %{ $events[-1]{details} // {} }, tokens => [map { $_->{token} } @events] });
    my $text  = join '', map { $_->{token}{text} } @events;
    $whole{differs} = $text if $text ne substr $whole{generated_text}, -length $text;
    $whole{details}{top_tokens} = [map { $_->{top_tokens} } @events] if grep { $_->{top_tokens} } @events;
    return \%whole;
}

sub completion {
    my ($answer) = @_;
    my %whole;
    for my $event (data($answer)) {
        return $event if $event->{error};
        merge(\%whole, $event);
    }
    return \%whole;
}

my %together = ('/v1/completions' => \&choices, '/v1/chat/completions' => \&choices, '/v1/responses' => \&response, '/v1/messages' => \&blocks,
    '/api/chat' => \&lines, '/api/generate' => \&lines, '/completion' => \&completion, '/generate' => \&tokens_of, '/inference/v1/generate' => \&choices);

# Makes a whole answer and a stream of it comparable in what the dialect shows in one of them alone.
sub level {
    my ($path, $whole, $stream) = @_;
    delete $stream->{details} if !$whole->{details};
    for my $answer ($whole, $stream) {
        delete @$answer{qw(generation_settings stop tokens prompt_progress)} if $path eq '/completion';
        delete $answer->{usage} if $path =~ m{/inference/};
        # an event has the text that is sure to be of the answer, a list the text of its token alone
        if ($path eq '/generate') { $_->{token} = delete $_->{id}, delete $_->{text} for @{ $answer->{details}{tokens} // [] } }
    }
    # of a call that was cut, a whole answer has the values that are complete
    for my $i ($path eq '/v1/messages' ? (grep { $stream->{content}[$_]{cut} } 0 .. $#{ $stream->{content} }) : ()) {
        delete @{ $_->{content}[$i] }{qw(input cut)} for $whole, $stream;
    }
    return;
}

# ---- the requests ----------------------------------------------------------------------------

# Returns whether a refusal has the dialect's shape.
sub is_refusal {
    my ($path, $told) = @_;
    return 0 if ref $told ne 'HASH';
    return !ref $told->{error} && length $told->{error} if $path =~ m{\A/(?:api/|generate)};
    return ref $told->{error} eq 'HASH' && length($told->{error}{message} // '') && ($path !~ /messages/ || $told->{type} eq 'error');
}

sub send_body {
    my ($path, $body, $stream) = @_;
    my %sent = %$body;
    my $to   = $path;
    if ($path eq '/generate') { $to = '/generate_stream' if $stream }
    elsif ($path =~ $generation) {
        $sent{stream} = $stream ? $true : $false;
        $sent{stream_options} = { include_usage => $true } if $stream && $path =~ m{\A/v1/(?:chat/)?completions\z};
    }
    return $server->post($to, \%sent, rand 2 < 1 ? { 'x-request-id' => 'burst-' . int rand 1e9 } : {});
}

for my $path (sort keys %sound) {
    my (@wrong, @differ, %statuses, $compared);
    for my $body (@{ $found{$path} // [] }, map { body($path) } 1 .. $n) {
        my $reply = send_body($path, $body, 0);
        my $ok    = $reply->{status} == 200 ? defined $reply->{json} : is_refusal($path, $reply->{json});
        $statuses{ $reply->{status} }++;
        push @wrong, "$reply->{status} " . $json->encode($body) . " $reply->{content}" if !$ok || $reply->{status} >= 500 && $reply->{status} != 501 || $reply->{status} < 200;
        # response_fields chooses members of a whole answer, and of a stream's last event alone
        next if !$together{$path} || ref $reply->{json} ne 'HASH' || $path eq '/completion' && $body->{response_fields};
        my $events = send_body($path, $body, 1);
        if ($reply->{status} != 200 || $events->{status} != 200) {
            push @differ, "$reply->{status}, $events->{status} " . $json->encode($body) . " $reply->{content} $events->{content}" if $events->{status} != $reply->{status} && $events->{content} !~ /is not for requests with 'stream'/;
            next;
        }
        my ($whole, $stream) = ($reply->{json}, $together{$path}->($events));
        level($path, $whole, $stream);
        my ($left, $right) = map { $json->encode(plain($_)) } $whole, $stream;
        push @differ, $json->encode($body) . "\n  $left\n  $right" if $left ne $right;
        $compared++;
    }
    is_deeply \@wrong, [], "$path: $n requests (seed $seed) are answered or refused in the shape";
    next if !$together{$path};
    is scalar @differ, 0, "  and streamed as whole, in $compared cases" or diag join "\n", @differ[0 .. ($#differ < 5 ? $#differ : 5)];
}
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';
done_testing;
