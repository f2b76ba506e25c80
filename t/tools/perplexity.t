#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-perplexity: its figure equals the one computed from a server's prompt_logprobs, a
# model's distance from itself is 0, and inputs that cannot be scored are refused with an error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api", "$FindBin::Bin/../sim";
use JSON::PP;
use LlmServer;
use List::Util qw(sum);
use Sim;
use Test::More;

my $model  = "$source/t/data/models/stories260K";
my $number = qr/-?[\d.]+/;
my $story  = 'Once upon a time there was a little girl. She had a red ball and a big dog. ' x 2
  . "The dog ran after the ball. \"Stop!\" said the girl, but he did not hear her.\n" x 6;
my $text = write_file('story.txt', $story);

# The lines of the report, "name  value +- error", by their names.
sub measured {
    my ($status, $out, $err) = run('llmserve-perplexity', @_);
    is $status, 0, "@_[2 .. $#_]" or diag $err;
    is $err, '', '  nothing but the report: no terminal';
    return { out => $out, $out =~ /^(\S.*?)  +($number) \+- $number/mg };
}

sub refused {
    my ($sentence, @arguments) = @_;
    my ($status, $out, $err) = run('llmserve-perplexity', @arguments);
    is $status, 2, "refused: $sentence";
    like $err, qr/^llmserve-perplexity: [^\n]*$sentence[^\n]*\n\z/, '  and it says why';
    is $out, '', '  and nothing else';
    return;
}

# ---- against the server ---------------------------------------------------------------------

my $server = LlmServer->serve("[model]\npath = $model\n[engine]\nthreads = 1\n");
my @ids    = @{ $server->post('/tokenize', { prompt => $story })->{json}{tokens} };
my $bos    = $ids[0];

# -ln p of the tokens in the second half of each window, as the server sees them.
sub losses {
    my ($context, $chunks) = @_;
    my @losses;
    for my $chunk (0 .. $chunks - 1) {
        my @window = @ids[$chunk * $context .. ($chunk + 1) * $context - 1];
        $window[0] = $bos;
        my $answer = $server->post('/v1/completions', { prompt => \@window, max_tokens => 1, prompt_logprobs => 0 });
        my $list   = $answer->{json}{choices}[0]{prompt_logprobs};
        push @losses, map { -$list->[$_]{ $window[$_] }{logprob} } $context / 2 + 1 .. $context - 1;
    }
    return @losses;
}

for my $case ([64, 3], [200, 1]) {    # 200: more rows than one step has logits for
    my ($context, $chunks) = @$case;
    my @losses   = losses(@$case);
    my $expected = exp(sum(@losses) / @losses);
    my $got      = measured($model, $text, '--context', $context, '--chunks', $chunks, '--threads', 1);
    cmp_ok abs($got->{perplexity} / $expected - 1), '<', 1e-3, "  $got->{perplexity}: prompt_logprobs say $expected";
    like $got->{out}, qr/^scored tokens: ${\ scalar @losses};/m, '  of as many tokens';
    like $got->{out}, qr/: $chunks windows? of $context, BOS in the place of their first token;/, '  in as many windows';
}
is $server->stop, 0, 'the server ends';

# ---- against another ------------------------------------------------------------------------

my @few = ($model, $text, '--context', 64, '--chunks', 2);
my $same = measured(@few, '--weights', 'f32', '--against', 'f32');
cmp_ok $same->{'mean KL divergence'}, '==', 0, '  no divergence from itself';
cmp_ok $same->{'same likeliest token'}, '==', 100, '  and the same tokens';
cmp_ok $same->{'ratio to it'}, '==', 1, '  and the same perplexity';

my $coarse = measured(@few, '--weights', 'int4', '--against', 'f32');
is $coarse->{'its perplexity'}, $same->{perplexity}, '  the reference is the model in f32';
cmp_ok $coarse->{'mean KL divergence'}, '>', 0.001, '  from which 4 bits diverge';
cmp_ok $coarse->{'same likeliest token'}, '<', 100, '  and not always agree';
cmp_ok abs($coarse->{'ratio to it'} - $coarse->{perplexity} / $same->{perplexity}), '<', 2e-4, '  the ratio is theirs';

my $other = measured(@few, '--weights', 'f32', '--reference', $model, '--against', 'int4');
is $other->{'its perplexity'}, $coarse->{perplexity}, '  a reference by its path, in other weights';
is measured(@few, '--reference', $model)->{'ratio to it'}, '1.0000', '  or in its own';

my $cached = measured(@few, '--weights', 'f32', '--cache', 'int8', '--against', 'f32');
is $cached->{'its perplexity'}, $same->{perplexity}, '  the reference has K and V as they are';
cmp_ok $cached->{'mean KL divergence'}, '>', 1e-6, '  from which int8 diverges';
cmp_ok $cached->{'mean KL divergence'}, '<', $coarse->{'mean KL divergence'} / 50, '  by little: it is a cache of 8 bits';
like $cached->{out}, qr/^model: .*, cache int8$/m, '  and the report says so';

# ---- as JSON --------------------------------------------------------------------------------

my ($status, $out, $err) = run('llmserve-perplexity', @few, '--weights', 'int4', '--against', 'f32', '--json');
is "$status$err", '0', '--json';
my $json = decode_json($out);
is sprintf('%.4f', $json->{perplexity}), $coarse->{perplexity}, '  the same perplexity';
is sprintf('%.6f', $json->{kl_divergence}), $coarse->{'mean KL divergence'}, '  the same divergence';
is sprintf('%.3f', 100 * $json->{same_likeliest_token}), $coarse->{'same likeliest token'}, '  the same agreement, from 0 to 1';
is_deeply [@$json{qw(weights reference_weights windows context scored_tokens)}], ['int4', 'f32', 2, 64, 62], '  of the same windows';
is_deeply [grep { !exists $json->{"${_}_error"} } qw(perplexity reference_perplexity ratio kl_divergence same_likeliest_token)], [],
    '  each with one standard error';

# ---- what cannot be scored ------------------------------------------------------------------

refused('expected a MODEL and a FILE', $model);
refused('empty, or no file', $model, write_file('empty.txt', ''));
refused('3 tokens, and a window has 512: expected a longer text or a smaller --context', $model, write_file('short.txt', 'Once upon'));
refused('nowhere.txt: cannot be opened: No such file', $model, "$folder/nowhere.txt");
refused("$folder: there is no tokenizer", $folder, $text);
refused('has 512 positions, and --context asks for 513', $model, write_file('long.txt', $story x 4), '--context', 513);
refused("--against: expected one of none, auto, .*; found 'f23'", $model, $text, '--against', 'f23');
refused('--reference: a vocabulary of 2048, and the model\'s is 512', @few, '--reference', "$source/share/demo-model");
refused('did you mean --weights', $model, $text, '--weight', 'f32');

done_testing;
