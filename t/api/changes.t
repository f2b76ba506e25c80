#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# POST /admin/reload with settings: they take effect like a reload's, or all are refused;
# earlier settings stay; a reload of the file alone discards them; nothing is written. GET
# /admin/policies lists what can be set.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $model = LlmServer::source('t/data/models/stories260K');
my $ini   = "[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 512KiB\n"
    . "[plugins]\nscheduler = sarathi\ncache = paged\n[scheduler.sarathi]\nchunk = 256\n";
my $server = LlmServer->serve($ini);
my $file   = LlmServer::read_file("$server->{folder}/llmserve.ini");

sub policies { return decode_json($server->get('/admin/policies')->{content}) }
sub param { my ($all, $name) = @_; return (grep { $_->{name} eq $name } @{ $all->{scheduler}{parameters} })[0] }
sub change { my ($set) = @_; return $server->post('/admin/reload', { set => $set }) }

my $all = policies();
is_deeply [@{ $all->{scheduler} }{qw(name section)}, $all->{cache}{name}], [qw(sarathi scheduler.sarathi paged)], 'what runs';
is scalar(grep { $_ eq 'apt' } @{ $all->{scheduler}{found} }), 1, '  and what could';
my $budget = param($all, 'chunk');
is_deeply [@$budget{qw(type value set_by)}], ['int', '256', 'file'], 'a parameter with its value';
like $budget->{expected}, qr/whole number/, '  what it takes';
ok length $budget->{sentence} > 10, '  and what it does';
is scalar(grep { $_->{name} eq 'plan_budget' } @{ $all->{plugins} }), 1, '[plugins] too';

# ---- what is taken --------------------------------------------------------------------
my $client = $server->connect;
syswrite $client, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":390,"ignore_eos":true,"stream":true}');
LlmServer::read_until($client, qr/data: /);
my $answer = change({ 'scheduler.sarathi' => { chunk => 128 } });
is $answer->{status}, 200, 'a number is taken under load';
is $answer->{json}{generation}, 2, '  as a reload is';
is_deeply [@{ param(policies(), 'chunk') }{qw(value set_by)}], ['128', 'request'], '  and known';
is change({ plugins => { scheduler => 'fcfs', strikes => '7' } })->{status}, 200, 'another scheduler';
$all = policies();
is $all->{scheduler}{name}, 'fcfs', '  runs';
is_deeply [sort @{ $all->{changes} }], ['plugins.scheduler=fcfs', 'plugins.strikes=7', 'scheduler.sarathi.chunk=128'], '  on top of what was set before';
like LlmServer::read_until($client, qr/\[DONE\]/), qr/\[DONE\]/, '  under a request that goes on';

# ---- what is not ----------------------------------------------------------------------
for my $case (
    [{ 'scheduler.fcfs' => { nonsense => 1 } },    409, qr/request: unknown key 'nonsense'/,        'an unknown key'],
    [{ plugins => { strikes => -1 } },             409, qr/request: \[plugins\] strikes: /,         'a value out of range'],
    [{ plugins => { scheduler => 'absent' } },     409, qr/no scheduler 'absent'; there are: .*\bfcfs\b/,                                 'a scheduler that is not there'],
    [{ plugins => { scheduler => './x.so' } },     409, qr/is a path, which a request may not set/, 'a path'],
    [{ 'scheduler.././x.so' => { chunk => 1 } },   409, qr/is a path, which a request may not set/, 'a path in the name of a section'],
    [{ plugins => { scheduler => 'pipe' } },       409, qr/scheduler 'pipe' starts a program/,      'a scheduler that starts a program'],
    [{ 'scheduler.pipe' => { command => 'true' } }, 409, qr/scheduler 'pipe' starts a program/,     'the program'],
    [{ 'predictor.fixed' => { file => '/etc/passwd' } }, 409, qr/a request may set no path/,                           'a path of a plugin'],
    [{ server => { admin_keys => '/dev/null' } },  409, qr/a request may set \[plugins\]/,          'a key of [server]'],
    [{ plugins => ['x'] },                         400, qr/expected an object/,                     'no object'],
    [{ plugins => { strikes => [] } },             400, qr/a value is/,                             'no value'],
    [[],                                           400, qr/expected \{"set"/,                       'no sections'],
) {
    my ($set, $status, $why, $name) = @$case;
    my $refused = change($set);
    is $refused->{status}, $status, "$name is refused";
    like $refused->{json}{error}{message}, $why, '  with the reason';
}
is_deeply policies()->{changes}, $all->{changes}, 'nothing has changed by it';

# ---- the end of it ----------------------------------------------------------------------
is $server->post('/admin/reload', '')->{status}, 200, 'a reload of the file';
$all = policies();
is_deeply [$all->{scheduler}{name}, param($all, 'chunk')->{value}, $all->{changes}], ['sarathi', '256', []], '  is the file again';
is LlmServer::read_file("$server->{folder}/llmserve.ini"), $file, '  in which nobody wrote';
is $server->stop, 0, 'it ends well';
done_testing;
