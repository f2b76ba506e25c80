#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A draft model over HTTP: the answer is the one that a server without it gives, right guesses or wrong ones; a model
# with other tokens is refused; the log says where a drafter and a draft model do not meet.
use strict;
use warnings;
use File::Temp;
use FindBin;
use lib $FindBin::Bin;
use Script;
use Test::More;

my $text  = "for (int i = 0; i < n; i++)\n  sum += a[i];\nreturn sum;";
my $other = $text =~ s/sum/SUM/gr;
my $draft = Script->new(answers => [$text, $other]);
my @ask   = (messages => [{ role => 'user', content => 'x' }], max_tokens => 200);
my $drafts = sub { return "[plugins]\nscheduler = sarathi\ndrafter = $_[0]\ndraft_budget = 0\nmin_drafts = 7\n" . ($_[1] // "draft_model = @{[$draft->folder]}\n") . "[drafter.model]\ndepth = 3\n" };

# ---- a model with the same tokens -----------------------------------------------------
my $script = Script->new(answers => [$text, $text], rest => "[engine]\nmax_sequences = 4\n" . $drafts->('model')); # all cores, pinned
my $server = $script->server;
like $server->log, qr/draft model \S+: weights \d+ MiB, cache for \d+ tokens in 1024 MiB/, 'the log has its size';
my ($own, $its) = map { $server->log =~ /\b${_}cpu: \S+, (\d+ threads?)/ ? $1 : $_ } '(?<!draft model: )', 'draft model: ';
is $its, $own, '  and its device, with as many threads as the model\'s';
my $answer = $script->chat(0, { @ask })->{json};
is $answer->{choices}[0]{message}{content}, $text, 'the text is what the model says';
cmp_ok $answer->{usage}{completion_tokens_details}{accepted_prediction_tokens}, '>', 0, '  and the draft model guessed it';
is $script->chat(1, { @ask })->{json}{choices}[0]{message}{content}, $text, 'wrong guesses do not change it';
for my $temperature (0.7, 1.5) {
    is $script->chat(0, { @ask, temperature => $temperature, seed => 3 })->{json}{choices}[0]{message}{content}, $text, "  nor a temperature of $temperature";
}
like $server->get('/metrics')->{content}, qr/^llmserve_drafter\{instance="0",plugin="drafter model",figure="accepted"\} [1-9]/m, 'the drafter has figures';
is $server->post('/admin/reload', { set => { plugins => { drafter => 'auto' } } })->{status}, 200, 'a reload brings auto';
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, '  with the same text';
is $server->post('/admin/reload', { set => { plugins => { drafter => 'ngram' } } })->{status}, 200, 'a reload brings ngram';
like $server->log, qr/drafter ngram\S* does not ask the draft model/, '  and the log says that the draft model is idle';
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, '  with the same text';
is $server->stop, 0, 'the server ends';

# ---- no draft model -------------------------------------------------------------------
$script = Script->new(answers => [$text], rest => $drafts->('model', ''));
$server = $script->server;
like $server->log, qr/drafter model\S* has no draft model to ask: \[plugins\] draft_model names none that is used, and the model has no layer/, 'the log says that there is none';
is $script->chat(0, { @ask })->{json}{choices}[0]{message}{content}, $text, '  and the text is the same';
is $server->stop, 0, '  and the server ends';

# ---- other tokens ---------------------------------------------------------------------
my $words = Script->new(answers => [$text], words => ['return']);
my $place = File::Temp->newdir;
LlmServer::write_file("$place/llmserve.ini", LlmServer::whole("[model]\npath = @{[$words->folder]}\n" . $drafts->('model')));
my $said = qx(@{[LlmServer::under(), LlmServer::built('llmserve')]} --check-config -c $place/llmserve.ini 2>&1);
isnt $?, 0, 'a model with other tokens is refused';
like $said, qr/\[plugins\] draft_model: its tokens are not the model's, beginning with id \d+/, '  with a sentence';
done_testing;
