#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# With keys, cached prompts are found only by their own tenant, and with cache_salt only by requests
# with the same salt. Otherwise the number of cached tokens would reveal prompts of other tenants.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use Test::More;

my $demo   = LlmServer::source('share/demo-model');
my $model  = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n";
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "sk-ann ann\nsk-eve eve\nsk-ann-too ann\n");
my $secret = 'The number of the account is one, two, three, and nobody shall ever read it but the one who has it. ' x 3;
my $n = 0;

# Asks, and returns how much of the prompt was cached. Each fresh text begins like no other.
sub cached {
    my ($server, $key, $text, @more) = @_;
    my $answer = $server->post('/v1/completions', { prompt => $text, max_tokens => 1, temperature => 0, @more }, { authorization => "Bearer $key" });
    is $answer->{status}, 200, '  an answer' or diag $answer->{content};
    return $answer->{json}{usage}{prompt_tokens_details}{cached_tokens} // 0;
}
sub fresh { return "Text number ${\ ++$n}. $secret" }

for my $cache (qw(paged tiered)) {
    my $more   = "${model}[plugins]\ncache = $cache\n";
    my $server = LlmServer->serve("api_keys = $folder/keys\n$more");
    my $text   = fresh();
    is cached($server, 'sk-ann', $text), 0, "$cache: a prompt that nobody has sent";
    is cached($server, 'sk-eve', $text), 0, '  that another tenant has sent: nothing of it is found';
    cmp_ok cached($server, 'sk-ann', $text), '>=', 48, '  that the tenant has sent';
    cmp_ok cached($server, 'sk-ann-too', $text), '>=', 48, '  with another of its keys';
    is cached($server, 'sk-ann', $text, cache_salt => 'a'), 0, '  with a salt: nothing of the plain one';
    cmp_ok cached($server, 'sk-ann', $text, cache_salt => 'a'), '>=', 48, '  again: its own';
    is cached($server, 'sk-ann', $text, cache_salt => 'b'), 0, '  nothing of another salt';
    is cached($server, 'sk-eve', $text, cache_salt => 'a'), 0, '  nor of another tenant\'s equal one';

    # The same of chats and of stored answers, which are the same requests.
    my %chat = (messages => [{ role => 'user', content => $text }], max_tokens => 1);
    my $ask = sub { my $a = $server->post($_[0], $_[2], { authorization => "Bearer $_[1]" }); return $a->{json}{usage} };
    $ask->('/v1/chat/completions', 'sk-ann', \%chat);
    is $ask->('/v1/chat/completions', 'sk-eve', \%chat)->{prompt_tokens_details}{cached_tokens} // 0, 0, '  of a chat';
    cmp_ok $ask->('/v1/chat/completions', 'sk-ann', \%chat)->{prompt_tokens_details}{cached_tokens} // 0, '>=', 48, '  of its own';
    my %response = (input => fresh(), max_output_tokens => 16);
    $ask->('/v1/responses', 'sk-ann', \%response);
    is $ask->('/v1/responses', 'sk-eve', \%response)->{input_tokens_details}{cached_tokens} // 0, 0, '  of a response';
    cmp_ok $ask->('/v1/responses', 'sk-ann', \%response)->{input_tokens_details}{cached_tokens} // 0, '>=', 48, '  of its own';
    is $ask->('/v1/responses', 'sk-ann', { %response, cache_salt => 'r' })->{input_tokens_details}{cached_tokens} // 0, 0, '  with a salt';
    is $server->stop, 0, '  it ends well';
}

{
    my $server = LlmServer->serve("api_keys = $folder/keys\n${model}[cache]\nisolate = none\n");
    my $text   = fresh();
    cached($server, 'sk-ann', $text);
    cmp_ok cached($server, 'sk-eve', $text), '>=', 48, 'isolate = none: all find all';
    is cached($server, 'sk-eve', $text, cache_salt => 'x'), 0, '  but what is salted';
    $server->stop;
}

{
    my $server = LlmServer->serve($model);
    my $text   = fresh();
    cached($server, '', $text);
    cmp_ok cached($server, '', $text, user => 'ann'), '>=', 48, 'without keys all find all, whatever they call themselves';
    for my $wrong ('', 'x' x 257, 7, ['a']) {
        my $answer = $server->post('/v1/completions', { prompt => 'a', max_tokens => 1, cache_salt => $wrong });
        is $answer->{status}, 400, 'no salt: ' . (ref $wrong ? 'a list' : length $wrong > 9 ? 'too long' : "'$wrong'");
        is $answer->{json}{error}{param}, 'cache_salt', '  by name';
    }
    $server->stop;
    $server = LlmServer->serve("${model}[cache]\nisolate = tenant\n");
    cached($server, '', $text, user => 'ann');
    is cached($server, '', $text, user => 'eve'), 0, 'isolate = tenant without keys: by the name that requests give';
    cmp_ok cached($server, '', $text, user => 'ann'), '>=', 48, '  whose own are found';
    $server->stop;
}
done_testing;
