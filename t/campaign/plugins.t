#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Schedulers that write over their plans, and sane ones after them, by reloads under requests:
# every request is answered, the plugin is named and counted, and no restart is needed.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/../api");
use Campaign;
use LlmServer;
use Test::More;

my $end     = Campaign::begin;
my $garbage = LlmServer::built('t/fault/.libs/scheduler_garbage.so');
my $base    = '[model]' . "\npath = " . Campaign::model() . "\n[engine]\nthreads = 1\npin = false\n";
sub ini { my ($how) = @_; return "$base\[plugins]\nscheduler = " . (defined $how ? "$garbage\n[scheduler.garbage]\nhow = $how\n" : "fcfs\n") }

my $server = LlmServer->serve(ini());
my ($reloads, $answers, @wrong) = (0, 0);
sub expect_answers {
    my ($after) = @_;
    for (1 .. 3) {
        my $status = $server->post('/v1/completions', { prompt => [5, 6, 7], max_tokens => 8, ignore_eos => \1 })->{status};
        push @wrong, "$status after $after" if $status != 200;
        $answers++;
    }
}
sub reload_to {
    my ($how) = @_;
    $server->configure(ini($how));
    my $status = $server->post('/admin/reload', '')->{status};
    push @wrong, "reload $status" if $status != 200;
    $reloads++;
    expect_answers($how // 'fcfs');
}
do {
    for my $how (qw(zero fill)) {
        reload_to($how);
        my ($refused) = $server->get('/metrics')->{content} =~ /^llmserve_plugin_breaches_total\{plugin="scheduler garbage"\} (\d+)/m;
        push @wrong, "$how: no breach is counted" if !$refused;
        push @wrong, 'not switched off' if $server->get('/health')->{content} !~ /garbage was switched off/;
        reload_to();
        push @wrong, 'still switched off' if $server->get('/health')->{content} =~ /switched off/;
    }
} while Campaign::goes_on($end);
is "@wrong", '', 'all are answered, and sane policies serve after garbage';
like $server->log, qr/plugin-misbehaving scheduler garbage: plan of step \d+ refused: it overwrote size, max_items or items/, '  which the log names';
is $server->stop, 0, '  and the server ends in order';
Campaign::figure('answers', $answers, 'reloads to garbage and back', $reloads);
done_testing;
