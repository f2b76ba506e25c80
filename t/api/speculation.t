#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Guesses over HTTP: the answer is the one that a server without a drafter gives; usage and /metrics count
# guesses; `prediction` is one; a reload changes the drafter while requests run.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my $line = "for (int i = 0; i < n; i++) sum += a[i];\n";
my $text = 'int n = 10;' . $line x 4 . 'return sum;';
my @given = (answers => [$text, 'Something else.'], rest => "[plugins]\nscheduler = sarathi\ndrafter = ngram\ndraft_budget = 0\nmin_drafts = 7\n");
my $script = Script->new(@given);
my $server = $script->server;
my @ask    = (messages => [{ role => 'user', content => 'x' }], max_tokens => 400);

# True if the server says that a prediction has no effect.
sub ignores { return ($server->post('/v1/chat/completions', { @ask, max_tokens => 1, prediction => { type => 'content', content => 'x' } })->{headers}{'x-llmserve-ignored'} // '') eq 'prediction' }

sub series { my %v = $server->get('/metrics')->{content} =~ /^vllm:spec_decode_num_(\w+)_total(?:\{[^}]*\})? (\S+)$/mg; return \%v }

# ---- the text, and what is counted ----------------------------------------------------
my $answer = $script->chat(0, { @ask })->{json};
is $answer->{choices}[0]{message}{content}, $text, 'the text is what the model says';
my $usage = $answer->{usage};
my $of    = $usage->{completion_tokens_details};
cmp_ok $of->{accepted_prediction_tokens}, '>', 0, 'guesses were right';
is $usage->{completion_tokens}, length($text) + 1, '  tokens are counted once';
my $v = series();
cmp_ok $v->{drafts}, '>', 0, 'verifications are counted';
is $v->{draft_tokens}, $of->{accepted_prediction_tokens} + $of->{rejected_prediction_tokens}, '  and their tokens';
is $v->{accepted_tokens}, $of->{accepted_prediction_tokens}, '  and those that were right';
my %at = $server->get('/metrics')->{content} =~ /^vllm:spec_decode_num_accepted_tokens_per_pos_total\{.*?position="(\d+)".*?\} (\S+)$/mg;
my $sum = 0;
$sum += $_ for values %at;
is $sum, $v->{accepted_tokens}, '  by their places';
my @events = grep { ref } $script->streamed(0, { @ask });
is join('', map { $_->{choices}[0]{delta}{content} // '' } @events), $text, 'a stream has the same text';
my ($end) = grep { $_->{usage} } @events;
ok defined $end->{usage}{completion_tokens_details}{accepted_prediction_tokens}, '  and the usage';

# ---- prediction -----------------------------------------------------------------------
my $else = $script->chat(1, { @ask, prediction => { type => 'content', content => 'Something else.' } })->{json};
is $else->{choices}[0]{message}{content}, 'Something else.', 'a prediction does not change the answer';
$else = $script->chat(1, { @ask, prediction => { type => 'content', content => [{ type => 'text', text => 'Something ' }, { type => 'text', text => 'wrong.' }] } })->{json};
is $else->{choices}[0]{message}{content}, 'Something else.', '  nor does a wrong one';
for ([{ type => 'other', content => 'x' }, qr/'prediction\.type' must be 'content'/], [{ type => 'content' }, qr/'prediction\.content' must be a string/],
    [{ type => 'content', content => [{ type => 'image_url' }] }, qr/'prediction\.content' must be a string/]) {
    my $refused = $server->post('/v1/chat/completions', { @ask, prediction => $_->[0] });
    is $refused->{status}, 400, 'a bad prediction is refused';
    like $refused->{json}{error}{message}, $_->[1], '  and said to be';
}

ok !ignores(), 'a prediction has its effect';
my $more = $server->post('/v1/chat/completions', { @ask, max_tokens => 1, prediction => { type => 'content', content => [{ type => 'text', text => 'x', new => 1 }] } });
is $more->{headers}{'x-llmserve-ignored'}, 'prediction.content.new', '  but members that nobody knows';

# ---- what operators see ---------------------------------------------------------------
my $status = decode_json($server->get('/admin/policies')->{content});
is $status->{drafter}{name}, 'ngram', 'the console sees the drafter';
like $server->get('/metrics')->{content}, qr/^llmserve_drafter\{instance="0",plugin="drafter ngram",figure="accepted"\} [1-9]/m, 'the drafter has figures';
my $reload = $server->post('/admin/reload', { set => { plugins => { drafter => 'none' } } });
is $reload->{status}, 200, 'a reload without a drafter' or diag $reload->{content};
my $before = series()->{drafts};
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, '  gives the same text';
is series()->{drafts}, $before, '  and no guesses';
ok ignores(), '  a prediction has no effect, which the answer says';
is $server->post('/admin/reload', { set => { plugins => { drafter => 'ngram' }, 'drafter.ngram' => { min_match => '3' } } })->{status}, 200, 'and with it again';
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, '  the same text';
ok !ignores(), '  and predictions';
is $server->stop, 0, 'the server ends';

# ---- a server that began without one --------------------------------------------------
$script = Script->new(@given, rest => "[plugins]\nscheduler = sarathi\n");
$server = $script->server;
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, 'without a drafter: the same text';
is series()->{drafts}, 0, '  no guesses';
is $server->post('/admin/reload', { set => { plugins => { drafter => 'ngram' } } })->{status}, 200, 'a drafter that comes later';
like $server->log, qr/drafter ngram\S* is idle: llmserve began without a drafter/, '  is idle, and the log says so';
ok ignores(), '  as is a prediction';
is $server->stop, 0, 'it ends';

# ---- one that verifies none -----------------------------------------------------------
$script = Script->new(@given, rest => "[plugins]\nscheduler = sarathi\ndrafter = ngram\nmax_drafts = 0\n");
$server = $script->server;
ok ignores(), 'max_drafts = 0: a prediction has no effect';
is $server->stop, 0, '  and it ends';
done_testing;
