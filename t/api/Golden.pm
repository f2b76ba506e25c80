# SPDX-License-Identifier: Apache-2.0
# The golden answers of stories260K: transformers' answers to some prompts, token by
# token, which no policy and no implementation may change.
package Golden;

use strict;
use warnings;
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
    my @which = map { ($_) x $copies } 0 .. $#ANSWERS;
    my @answers = $server->at_once(map { body($ANSWERS[$_]{prompt_ids}, $ANSWERS[$_]) } @which);
    my @ids;
    push @{ $ids[$which[$_]] }, $answers[$_]{choices}[0]{token_ids} for 0 .. $#which;
    return @ids;
}

1;
