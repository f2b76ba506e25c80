#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Requests of vLLM's own tests: times of a request, the end of a prompt that is cut, an empty grammar. A model that
# replays a script answers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my $true   = JSON::PP::true;
my $script = Script->new(answers => ['Well, yes.', 'N'], front => "request_metrics = true\n");
my @times  = qw(generation_time_ms mean_itl_ms queue_time_ms time_to_first_token_ms tokens_per_second);

# ---- the times of a request --------------------------------------------------------------
my @ask = (messages => [{ role => 'user', content => 'x' }], temperature => 0);
my $metrics = $script->chat(0, {@ask})->{json}{metrics};
is_deeply [sort keys %$metrics], \@times, 'a chat';
is((grep { $metrics->{$_} < 0 } @times), 0, '  no time is negative');
my $told = $script->server->post('/v1/completions', { prompt => 'x', max_tokens => 3, min_tokens => 3 })->{json}{metrics};
is_deeply [sort keys %$told], \@times, 'a completion';
for my $path ('chat/completions', 'completions') {
    my @prompt = $path eq 'completions' ? (prompt => 'x') : @ask;
    my @events = map { /\Adata: (\{.*)/ ? decode_json($1) : () } split /\n\n/,
        $script->server->post("/v1/$path", { @prompt, max_tokens => 1, stream => $true, stream_options => { include_usage => $true } })->{content};
    is_deeply [map { exists $_->{metrics} ? 1 : 0 } @events], [(0) x $#events, 1], "$path: of a stream the last chunk";
    is_deeply [sort keys %{ $events[-1]{metrics} }], [grep { $_ ne 'mean_itl_ms' } @times], '  one token has no mean between tokens';
}

# ---- a prompt that is cut ----------------------------------------------------------------
my $server = $script->server;
sub kept {
    my ($side) = @_;
    return $server->post('/v1/completions', { prompt => [5 .. 12], max_tokens => 1, return_token_ids => $true, truncate_prompt_tokens => 4, truncation_side => $side })->{json};
}
is_deeply kept('right')->{choices}[0]{prompt_token_ids}, [5 .. 8], 'truncation_side right keeps the beginning';
is_deeply kept('left')->{choices}[0]{prompt_token_ids}, [9 .. 12], '  and left the end';
is kept('up')->{error}{param}, 'truncation_side', '  there is no other side';

# ---- an empty grammar --------------------------------------------------------------------
my $answer = $server->post('/v1/chat/completions', { @ask, max_tokens => 3, structured_outputs => { grammar => '' } });
is_deeply [$answer->{status}, $answer->{json}{error}{param}], [400, 'structured_outputs.grammar'], 'an empty grammar in structured_outputs';
is $server->post('/v1/chat/completions', { @ask, max_tokens => 3, grammar => '' })->{status}, 200, "  llama.cpp's is none";

is $server->stop, 0, 'the server ends well';
done_testing;
