#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Every allocation that an answer takes fails once, in turn, for the forms of completions, chats, responses and messages, of
# tokens and of what is stored: what comes is the answer as ever, an error, or a stream that is cut. Never is it one that seems whole and has lost
# something; and the next answer is as ever. The suite takes some of them, by the dice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Faults;
use JSON::PP;
use List::Util qw(shuffle);
use LlmServer;
use Test::More;

if (my ($why) = Faults::missing()) { plan skip_all => $why }
use constant LEAST => 60;    # places of each form in the suite
my $end    = Campaign::begin;
my $demo   = LlmServer::source('share/demo-model');
my $faults = Faults->new(depth => 9);
my $state  = File::Temp->newdir;
my $stores = -e LlmServer::built('core/batch/store.lo');
my $server = LlmServer->serve(($stores ? "state = $state\n" : '') . "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n[plugins]\nscheduler = sarathi\ncache = tiered\n",
    undef, $faults->launcher);

my $json = JSON::PP->new->utf8->canonical;
my $yes  = JSON::PP::true();
my %all  = (temperature => 0, ignore_eos => $yes);
my %text = (%all, prompt => 'Once upon a time', max_tokens => 9, return_token_ids => $yes, logprobs => 2);
my $tool = { name => 'f', parameters => { type => 'object', properties => { a => { type => 'integer', minimum => 1, maximum => 9 } }, required => ['a'], additionalProperties => JSON::PP::false() } };
my %chat = (%all, messages => [{ role => 'user', content => 'Hi' }], max_tokens => 9, return_token_ids => $yes, logprobs => $yes, top_logprobs => 2);
my %call = (%chat, max_tokens => 60, ignore_eos => JSON::PP::false(), tools => [{ type => 'function', function => $tool }], tool_choice => 'required');
my %live = (stream => $yes);
my %usage = (%live, stream_options => { include_usage => $yes });
my $weather = { type => 'function', %$tool };
my %said = (temperature => 0, max_output_tokens => 9, instructions => 'Be kind.', metadata => { a => 'b' });
my @turns = ({ role => 'user', content => [{ type => 'input_text', text => 'Hi' }] }, { type => 'function_call', call_id => 'c1', name => 'f', arguments => '{"a": 1}' },
    { type => 'function_call_output', call_id => 'c1', output => '2' }, { role => 'user', content => 'And then?' });
my %use   = (name => 'f', input_schema => $tool->{parameters});
my %write = (temperature => 0, max_tokens => 9, system => 'Be kind.', metadata => { user_id => 'b' }, messages => [{ role => 'user', content => [{ type => 'text', text => 'Hi' }] },
    { role => 'assistant', content => [{ type => 'tool_use', id => 'c1', name => 'f', input => { a => 1 } }] }, { role => 'user', content => [{ type => 'tool_result', tool_use_id => 'c1', content => '2' }] }]);
my @forms = (
    ['completions, streamed', '/v1/completions', { %text, %usage }],
    ['completions, with stops', '/v1/completions', { %text, %live, stop => ['zzz'] }],
    ['completions, whole', '/v1/completions', { %text, prompt_logprobs => 1 }],
    ['chat, streamed', '/v1/chat/completions', { %chat, %usage }],
    ['chat, whole', '/v1/chat/completions', \%chat],
    ['calls, streamed', '/v1/chat/completions', { %call, %live }],
    ['calls, whole', '/v1/chat/completions', \%call],
    ['a response, streamed', '/v1/responses', { %said, %live, input => 'Hi' }],
    ['a response, whole', '/v1/responses', { %said, input => \@turns }],
    ['a call of a response, streamed', '/v1/responses', { %said, %live, max_output_tokens => 60, input => 'Hi', tools => [$weather], tool_choice => 'required' }],
    ['a call of a response, whole', '/v1/responses', { %said, max_output_tokens => 60, input => \@turns, tools => [$weather], tool_choice => 'required' }],
    ['a message, streamed', '/v1/messages', { %write, %live }],
    ['a message, whole', '/v1/messages', \%write],
    ['a call of a message, streamed', '/v1/messages', { %write, %live, max_tokens => 60, tools => [\%use], tool_choice => { type => 'any' } }],
    ['a call of a message, whole', '/v1/messages', { %write, max_tokens => 60, tools => [\%use], tool_choice => { type => 'any' } }],
    ['tokens of a message', '/v1/messages/count_tokens', \%write],
    ['tokens', '/tokenize', { content => "Once upon a time \x{4eac}", with_pieces => $yes, return_token_strs => $yes }],
    ['text of tokens', '/detokenize', { tokens => [1, 403, 407, 261, 378] }],
    ['a refusal', '/v1/completions', { %text, temperature => -1 }, 400],
);

# Asks, and returns what a client sees but for ids and times; undef where it is told of a failure.
sub seen {
    my ($path, $body, $status) = @_;
    my $answer = $server->post($path, $json->encode($body));
    my $text = $answer->{content};
    return "no end: $text" if $answer->{status} == 599 && $text =~ /timed out/i;
    return undef if $answer->{status} != ($status // 200);
    return undef if $body->{stream} && ($text =~ /^data: \{"error"|^event: (?:response.failed|error)$/m || $text !~ /^data: \[DONE\]$|^event: (?:response\.(?:completed|incomplete)|message_stop)$/m);
    return undef if $stores && $path eq '/v1/responses' && $text =~ /"store":false/; # it says that it could not be stored
    $text =~ s/"(?:id|item_id|call_id)": ?"[^"]*"/ID/g;
    # a prefix that the cache could not look up without memory is computed, and counted as such
    $text =~ s/"input_tokens":\d+,"cache_creation_input_tokens":\d+,"cache_read_input_tokens":\d+/COUNTS/g if $path eq '/v1/messages';
    $text =~ s/"created(?:_at)?": ?\d+/CREATED/g;
    my %headers = %{ $answer->{headers} };
    delete @headers{qw(date x-request-id request-id)};
    delete $headers{'content-length'} if $path eq '/v1/messages';
    return join("\n", map { "$_: $headers{$_}" } grep { !ref $headers{$_} } sort keys %headers) . "\n\n$text";
}

# Where they begin to differ.
sub difference {
    my ($wanted, $got) = @_;
    my $same = length(($wanted ^ $got) =~ /\A(\0*)/ ? $1 : '');
    my $from = $same > 60 ? $same - 60 : 0;
    return '... ' . substr($got, $from, 240) . "\n    and not ... " . substr($wanted, $from, 240);
}

# The places of a form that come each time, and its answer.
sub learn {
    my (undef, @ask) = @{ $_[0] };
    my (%seen, $wanted);
    seen(@ask) for 1 .. 2;
    for (1 .. 3) {
        $faults->record(Faults::ALLOC);
        $wanted = seen(@ask);
        $faults->off;
        $seen{$_}++ for $faults->places;
    }
    return ($wanted, grep { $seen{$_} == 3 } sort { $a <=> $b } keys %seen);
}

my %count = (places => 0, tried => 0, 'as ever' => 0, told => 0);

sub try_place {
    my ($form, $wanted, $place) = @_;
    my (undef, @ask) = @$form;
    my $name = Faults::name(Faults::ALLOC, $place);
    $faults->fail(Faults::ALLOC, $place);
    my $got = seen(@ask);
    $faults->off;
    Faults::show($name, Faults::end_of($server->log));
    $count{tried}++;
    $count{ defined $got ? 'as ever' : 'told' }++;
    return "$name: seems whole, " . difference($wanted, $got) if defined $got && $got ne $wanted;
    my $next = seen(@ask);
    return !defined $next ? "$name: no next answer: " . Faults::end_of($server->log) : $next ne $wanted ? "$name: the next answer is " . difference($wanted, $next) : ();
}

my $n = 0;
for my $form (@forms) {
    my ($wanted, @places) = learn($form);
    ok defined $wanted && @places > 20, "$form->[0]: comes by " . @places . ' places' or last;
    $count{places} += @places;
    my $share = time + ($end - time) / (@forms - $n++);
    my ($tried, @wrong) = (0);
    for my $place (Faults::chosen() ? map { $_->[1] } Faults::chosen() : shuffle(@places)) {
        last if !Campaign::goes_on($share) && $tried >= LEAST;
        push @wrong, try_place($form, $wanted, $place);
        $tried++;
        last if @wrong && $wrong[-1] =~ m{no end|no next};
    }
    is join("\n", @wrong), '', "$form->[0]: $tried allocations fail, and nothing is lost in silence";
}
cmp_ok $count{told}, '>', 0, 'some failures were told';
is $server->stop, 0, 'the server ends well';
Campaign::figure(%count);
done_testing;
