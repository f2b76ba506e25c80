#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Encoders as served models: vectors and scores equal transformers' for the same texts
# (t/data/encoder), with every scheduler, on ranks, and for a truncated text; requests for
# text are refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use List::Util qw(max sum);
use Test::More;

my $server;

sub model { return LlmServer::source("t/data/encoder/$_[0]") }
sub reference { return decode_json(LlmServer::read_file(model($_[0]) . '/reference.json')) }

# max_step_tokens = 100: several steps for nine texts, and one for the longest.
sub serve {
    my ($name, $more, $engine) = @_;
    $engine //= "max_step_tokens = 100\nthreads = 1\npin = false\n";
    return $server = LlmServer->serve("[model]\npath = " . model($name) . "\n[engine]\ndevice = cpu\n$engine" . ($more // ''));
}

sub vectors_of {
    my ($texts, %more) = @_;
    my $answer = $server->post('/v1/embeddings', { input => $texts, truncate_prompt_tokens => -1, %more });
    return map { $_->{embedding} } @{ $answer->{json}{data} // [] };
}

sub furthest { my ($got, $want) = @_; return @$got == @$want ? max map { abs($got->[$_] - $want->[$_]) } 0 .. $#$want : 9 }

sub are_vectors {
    my ($got, $want, $name) = @_;
    return is scalar @$got, scalar @$want, $name if @$got != @$want;
    return cmp_ok max(map { furthest($got->[$_], $want->[$_]) } 0 .. $#$want), '<', 1e-4, $name;
}

sub message { return $_[0]{json}{error}{message} // '' }

# ---- vectors ---------------------------------------------------------------------------

for my $name (qw(mean cls roberta xlmr)) {
    my $reference = reference($name);
    my @texts = @{ $reference->{texts} };
    serve($name);
    are_vectors [vectors_of(\@texts)], $reference->{vectors}, "$name: vectors, all at once";
    are_vectors [map { vectors_of($_) } @texts], $reference->{vectors}, '  and each alone';
    my @short = grep { @{ $reference->{ids}[$_] } < 60 } 0 .. $#texts;
    is_deeply [map { $server->post('/tokenize', { prompt => $texts[$_] })->{json}{tokens} } @short],
        [@{ $reference->{ids} }[@short]], '  from the same tokens';
    my $long = $server->post('/v1/embeddings', { input => $texts[-1] });
    is $long->{status}, 400, '  a text longer than those it was trained with is refused';
    is $long->{json}{error}{code}, 'context_length_exceeded', '  by the code that clients know';
    is $server->stop, 0, '  the server ends well';
}

# Other families: windows, rotation, numbers by distance, Dense modules; on ranks where heads
# can be shared.
for my $name (qw(modernbert nomic gte mpnet gemma)) {
    my $reference = reference($name);
    serve($name, undef, $name eq 'gemma' ? undef : "tensor_parallel_size = 2\n");
    are_vectors [vectors_of($reference->{texts})], $reference->{vectors}, "$name: vectors";
    is $server->stop, 0, '  the server ends well';
}

# GGUF files do not say how long the texts were that a model was trained with.
for my $name (qw(cls roberta xlmr)) {
    my $reference = reference($name);
    my @short = grep { @{ $reference->{ids}[$_] } < 60 } 0 .. $#{ $reference->{ids} };
    serve("$name.gguf");
    are_vectors [vectors_of([@{ $reference->{texts} }[@short]])], [@{ $reference->{vectors} }[@short]], "$name.gguf: vectors";
    is_deeply [map { $server->post('/tokenize', { prompt => $reference->{texts}[$_] })->{json}{tokens} } @short],
        [@{ $reference->{ids} }[@short]], '  from the same tokens';
    is $server->stop, 0, '  the server ends well';
}

my $reference = reference('mean');
my @texts     = @{ $reference->{texts} };
for my $scheduler (qw(sarathi fastgen orca mlfq vtc apt alise accelgen worth bros aligned sjf srpt edf rr random)) {
    my %more = (sarathi => "[scheduler.sarathi]\nchunk = 32\n", fastgen => "[scheduler.fastgen]\nbudget = 64\n", accelgen => "[scheduler.accelgen]\nlong_tokens = 32\n");
    serve('mean', "[plugins]\nscheduler = $scheduler\n" . ($more{$scheduler} // ''));
    are_vectors [vectors_of([@texts, @texts])], [(@{ $reference->{vectors} }) x 2], "$scheduler: the same";
    unlike $server->log, qr/strike/, '  and every plan was good';
    $server->stop;
}

# Plans that cut prompts, and worse: the built-in order goes on.
for my $seed (1 .. 3) {
    serve('mean', "[plugins]\nscheduler = " . LlmServer::built('t/plugin/.libs/scheduler_hostile.so')
        . "\nstrikes = 4\n[scheduler.hostile]\nmode = illegal\nrejects = 0\nseed = $seed\n");
    my %of = map { $texts[$_] => $reference->{vectors}[$_] } 0 .. $#texts;
    # How many plans a batch takes is the machine's affair, and not each seed's plans are bad.
    my @batches = map { [@texts[map { int rand @texts } 1 .. 6]] } 1 .. 8;
    my @got     = map { vectors_of($_) } @batches;
    while ($server->log !~ /switched off after/ && @batches < 200) {
        push @batches, [@texts[map { int rand @texts } 1 .. 6]];
        push @got, vectors_of($batches[-1]);
    }
    are_vectors \@got, [map { @of{@$_} } @batches], "bad plans, seed $seed: the same";
    like $server->log, qr/switched off after 4 strikes/, '  and four were bad';
    is $server->stop, 0, '  the server ends well';
}

my %elsewhere = (
    'two ranks'            => "tensor_parallel_size = 2\n",
    'prefill for a decode' => "roles = prefill, decode\n[plugins]\nscheduler = distserve\n",
    'two instances, tiered' => "instances = 2\n[cache]\nhost_memory = 1MiB\n[plugins]\ncache = tiered\n",
);
for my $where (sort keys %elsewhere) {
    serve('mean', undef, $elsewhere{$where});
    are_vectors [vectors_of(\@texts)], $reference->{vectors}, "$where: the same";
    is $server->stop, 0, '  the server ends well';
}

serve('mean', undef, "max_step_tokens = 20\n");
like $server->log, qr/max_step_tokens.*texts may have 20 tokens, of the 80 that the model takes/, 'small steps: a warning';
is $server->post('/v1/embeddings', { input => 'one two ' x 12 })->{status}, 400, '  what no step holds is refused at the door';
is scalar(vectors_of('one two ' x 12)), 1, '  or cut';
$server->stop;

# ---- what it is not for ----------------------------------------------------------------

my %text = (
    '/v1/completions'      => { prompt => 'hello' },
    '/v1/chat/completions' => { messages => [{ role => 'user', content => 'hello' }] },
    '/v1/responses'        => { input => 'hello' },
);
serve('mean');
for my $path (sort keys %text) {
    my $answer = $server->post($path, $text{$path});
    is $answer->{status}, 400, "$path: refused";
    like message($answer), qr{makes no text, it is an encoder: use /v1/embeddings}, '  with the way that there is';
}
unlike $server->log, qr/warning/, 'that it has no chat template is no news';
my $score = $server->post('/v1/score', { text_1 => $texts[1], text_2 => [@texts[1, 3]] })->{json}{data};
my $cosine = sum map { $reference->{vectors}[1][$_] * $reference->{vectors}[3][$_] } 0 .. 63;
cmp_ok abs($score->[0]{score} - 1) + abs($score->[1]{score} - $cosine), '<', 1e-4, 'scores are cosines of vectors';
like message($server->post('/v1/embeddings', { input => 'a', dimensions => 8 })), qr/cannot be cut/, 'vectors cannot be cut';
$server->stop;

# ---- cross-encoders --------------------------------------------------------------------

for my $name (qw(pair roberta-pair xlmr-pair xlmr-pair.gguf modernbert-pair modernbert-pair.gguf modernbert-cls-pair modernbert-cls-pair.gguf)) {
    my $pairs = reference($name =~ s/\.gguf$//r);
    my @want = map { $name eq 'roberta-pair' ? $_ : 1 / (1 + exp -$_) } @{ $pairs->{scores} };
    my ($first, $second) = map { my $i = $_; [map { $_->[$i] } @{ $pairs->{pairs} }] } 0, 1;
    serve($name);
    my $answer = $server->post('/v1/score', { text_1 => $first, text_2 => $second });
    cmp_ok furthest([map { $_->{score} } @{ $answer->{json}{data} }], \@want), '<', 1e-4, "$name: scores of pairs";
    is $answer->{json}{usage}{prompt_tokens}, sum(map { scalar @$_ } @{ $pairs->{ids} }), '  from as many tokens';
    my $texts = $server->post('/rerank', { query => $first->[1], texts => [@$second[0, 1, 4]], return_text => JSON::PP::true })->{json};
    my %of = map { ($_->{index} => $_) } @{ $server->post('/rerank', { query => $first->[1], documents => [@$second[0, 1, 4]] })->{json}{results} };
    is_deeply [map { [@$_{qw(index score text)}] } @$texts], [map { [$_, $of{$_}{relevance_score}, $of{$_}{document}{text}] } sort { $of{$b}{relevance_score} <=> $of{$a}{relevance_score} } keys %of],
        'TEI\'s form of a ranking';
    my @ranking = @{ $server->post('/v1/rerank', { query => $first->[1], documents => [@$second[0, 1, 4]], top_n => 3 })->{json}{results} };
    my ($own) = grep { $_->{index} == 1 } @ranking;
    cmp_ok abs($own->{relevance_score} - $want[1]), '<', 1e-4, '  and in a ranking';
    is $own->{document}{text}, $second->[1], '  with its text';
    is_deeply [map { $_->{relevance_score} } @ranking], [sort { $b <=> $a } map { $_->{relevance_score} } @ranking], '  the best first';
    $answer = $server->post('/v1/embeddings', { input => 'a' });
    is $answer->{status}, 400, '  it makes no vectors';
    like message($answer), qr{scores pairs of texts: use /v1/rerank or /v1/score}, '  and says what it does';
    like message($server->post('/v1/completions', { prompt => 'a' })), qr{makes no text.*use /v1/rerank}, '  nor text';
    my %long = (text_1 => 'dog ' x 120, text_2 => 'fox');
    is $server->post('/v1/score', \%long)->{json}{error}{code}, 'context_length_exceeded', '  a long pair is refused';
    is $server->post('/v1/score', { %long, truncate_prompt_tokens => 40 })->{json}{usage}{prompt_tokens}, 40, '  or cut';
    is $server->stop, 0, '  the server ends well';
}
done_testing;
