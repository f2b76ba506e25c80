#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Chat templates beside Jinja's and tokenisers beside Hugging Face's, both by the dice, where pip
# has them: the same text, the same ids. outside.py makes the cases.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/..");
use Campaign;
use JSON::PP;
use LlmServer;
use Test::More;
use Venv;

my ($python, $why) = Venv::make('outside', 'jinja2', 'tokenizers');
plan skip_all => "Jinja and tokenizers: $why" if defined $why;
Campaign::begin;
my %program = (templates => 'bench/template', tokenizers => 'bench/tokenizer');
my $script  = LlmServer::source('t/campaign/outside.py');
local $ENV{PYTHONUTF8} = 1;
for my $what (sort keys %program) {
  SKIP: {
        skip "$program{$what} is not built: make $program{$what}", 2 if !-x LlmServer::built($program{$what});
        my $seconds = int(Campaign::seconds() / 2);
        my $said    = qx('$python' '$script' $what '@{[LlmServer::source('')]}' '@{[LlmServer::built('')]}' @{[Campaign::seed()]} $seconds 2>&1);
        my ($last)  = $said =~ /([^\n]*)\n\z/;
        my $figures = eval { decode_json($last // '') };
        ok defined $figures, "$what were compared" or diag $said;
        is $figures->{different}, 0, '  and are the same' or diag $said;
        Campaign::figure("$what beside the reference" => '', map { ($_ => $figures->{$_}) } sort keys %{ $figures // {} });
    }
}
done_testing;
