# SPDX-License-Identifier: Apache-2.0
# The golden answers of stories260K: what transformers answers to some prompts, token by
# token, which no policy and no way of computing may change.
package Golden;

use strict;
use warnings;
use IO::Select;
use JSON::PP;
use LlmServer;

our $MODEL = LlmServer::source('t/data/models/stories260K');

open my $file, '<', "$MODEL/golden.jsonl" or die $!;
our @ANSWERS = map { decode_json($_) } <$file>;

# The request for such an answer, by text or by ids.
sub body {
    my ($prompt, $golden) = @_;
    return { prompt => $prompt, max_tokens => scalar @{ $golden->{greedy_ids} }, temperature => 0,
        return_token_ids => JSON::PP::true, ignore_eos => JSON::PP::true };
}

# All golden prompts at once, each on its own connection; the token ids by prompt.
sub all_at_once {
    my ($server, $copies) = @_;
    my $select = IO::Select->new;
    my (%which, %got, @ids);
    for my $i (map { ($_) x $copies } 0 .. $#ANSWERS) {
        my $socket = $server->connect;
        syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json(body($ANSWERS[$i]{prompt_ids}, $ANSWERS[$i])), 'Connection: close');
        $which{$socket} = $i;
        $got{$socket} = '';
        $select->add($socket);
    }
    while ($select->count) {
        for my $socket ($select->can_read($LlmServer::TIMEOUT)) {
            next if sysread $socket, $got{$socket}, 65536, length $got{$socket};
            $select->remove($socket);
            my (undef, $text) = split /\r\n\r\n/, $got{$socket}, 2;
            push @{ $ids[$which{$socket}] }, decode_json($text)->{choices}[0]{token_ids};
        }
    }
    return @ids;
}

1;
