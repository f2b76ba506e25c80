#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# x-llmserve-prefix-hash: equals the definition in etc/proxy/README, computed here by perl's
# own SHA-256 and by sha256sum; and llmserve-bench sends the same value that the server
# answers.
use strict;
use warnings;
use utf8;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Digest::SHA qw(sha256_hex);
use Encode qw(encode_utf8);
use File::Temp;
use JSON::PP;
use Test::More;

my $name   = 'x-llmserve-prefix-hash';
my $server = LlmServer->fake;
my $folder = File::Temp->newdir;

sub hash_of { my ($text) = @_; return substr sha256_hex(substr encode_utf8($text), 0, 1024), 0, 16 }

sub hash_is {
    my ($path, $body, $text, $what) = @_;
    return is $server->post($path, $body)->{headers}{$name}, hash_of($text), $what;
}

# ---- prompts ------------------------------------------------------------------------
my $long = 'Once upon a time there was an owl. ' x 40;
hash_is('/v1/completions', { prompt => 'Once upon a time' }, 'Once upon a time', 'a text');
hash_is('/v1/completions', { prompt => "Füchse\n" }, "Füchse\n", '  in UTF-8');
hash_is('/v1/completions', { prompt => $long }, $long, '  its first 1024 bytes');
hash_is('/v1/completions', { prompt => [1, 403, 407] }, '1,403,407', 'ids');
hash_is('/v1/completions', { prompt => [[1, 403], [1, 404]] }, '1,403', 'of several prompts the first');
hash_is('/v1/completions', { prompt => ['Once', 'upon'] }, 'Once', '  of texts, too');
hash_is('/v1/completions', { prompt => 'x', stream => JSON::PP::true }, 'x', 'a stream');
my $other = $server->post('/v1/completions', { prompt => "$long and then" })->{headers}{$name};
is $other, hash_of($long), 'what comes after them changes nothing';
is $server->post('/v1/completions', { prompt => 7 })->{headers}{$name}, undef, 'a request that is none has none';

# ---- messages -----------------------------------------------------------------------
my @first = ({ role => 'system', content => 'Be brief.' }, { role => 'user', content => 'Hello' });
my $text = "system\nBe brief.\nuser\nHello\n";
hash_is('/v1/chat/completions', { messages => \@first }, $text, 'messages up to the first of a user');
hash_is('/v1/chat/completions', { messages => [@first, { role => 'assistant', content => 'Hi' }, { role => 'user', content => 'More' }] },
    $text, '  each turn has that hash');
my $parts = [map { { type => 'text', text => $_ } } qw(one two)];
hash_is('/v1/chat/completions', { messages => [{ role => 'user', content => $parts }] }, "user\none\ntwo\n", 'parts');
hash_is('/v1/responses', { input => 'Hello', instructions => 'Be brief.' }, $text, 'a response is the chat that it stands for');

# ---- others who compute it ----------------------------------------------------------
SKIP: {
    skip 'sha256sum is not installed', 1 if system('command -v sha256sum >/dev/null 2>&1') != 0;
    my ($line) = LlmServer::read_file(LlmServer::source('etc/proxy/README')) =~ /^ +(printf .*sha256sum.*)$/m;
    local $ENV{prompt} = $long;
    chomp(my $shell = qx(sh -c '$line'));
    is $shell, hash_of($long), 'the line of shell in etc/proxy/README';
}
LlmServer::write_file("$folder/texts.jsonl", encode_json({ prompt => $long }) . "\n");
for my $how ([qw(--random-input-len 400)], [qw(--random-input-len 120 --backend openai-chat)],
    [qw(--dataset-name custom --output-len 3 --tokenizer), LlmServer::source("t/data/models/stories260K"), "--dataset-path", "$folder/texts.jsonl"]) {
    my @command = (LlmServer::built('llmserve-bench'), '--base-url', "http://$server->{address}", qw(--num-prompts 1 --random-output-len 3 --dry-run), @$how);
    my $said = qx(@command 2>&1);
    my ($path, $headers, $body) = $said =~ m{^POST (\S+) HTTP/1\.1\r\n(.*?)\r\n\r\n(\{.*\})}ms;
    $body =~ s{"model":""}{"model":"fake/model"};    # a dry run asks nobody for it
    my ($sent) = ($headers // '') =~ /^$name: (\S+)/m;
    ok defined $sent, "llmserve-bench @$how[0 .. 1] sends one" or diag($said), next;
    is $server->post($path, $body)->{headers}{$name}, $sent, '  which is the answer\'s';
    unlike scalar(qx(@command --send-prefix-hash=false 2>&1)), qr/$name/, '  but where it is turned off';
}
done_testing;
