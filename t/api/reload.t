#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Reloads with streaming clients: no answer changes, a broken configuration is refused
# with an error and changes nothing, and a rebuilt plugin is loaded anew.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Streams;
use File::Copy qw(copy);
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

my $demo   = LlmServer::source('share/demo-model');
my $other  = LlmServer::source('t/data/models/llama');
my $fault  = LlmServer::built('t/fault/.libs');
my $rest   = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n";
my @inis   = map { $rest . $_ } (
    "[plugins]\nscheduler = fcfs\ncache = paged\npredictor = none\n",
    "[plugins]\nscheduler = sarathi\ncache = null\npredictor = fixed\n[scheduler.sarathi]\nchunk = 64\n",
    "[plugins]\nscheduler = sarathi\ncache = paged\npredictor = fixed\n[predictor.fixed]\nlength = 40\n[cache.paged]\nprefix_sharing = off\n",
);
my $server = LlmServer->serve($inis[0]);
sub status { return decode_json($server->get('/admin/status')->{content}) }
sub plugins { my $p = status()->{plugins}; return join ' ', map { $p->{$_}{name} } qw(scheduler cache predictor) }

my $now = status();
is_deeply [@$now{qw(state model generation reloads reloads_refused last_reload)}], ['ok', 'demo-model', 1, 0, 0, undef], 'the status at the start';
is $now->{plugins}{scheduler}{version}, '1.0', '  with versions of the plugins';
is $now->{plugins}{scheduler}{parameters}{max_seqs}, '256', '  and their parameters';

# ---- live changes under clients -------------------------------------------------------

my @prompts = map { my $n = $_; [map { 3 + ($_ * 37 + $n * 11) % 500 } 1 .. 10 + 3 * $n] } 1 .. 8;
my $streams = Streams->new($server, clients => 12, tokens => 80, prompts => \@prompts);
$streams->learn;

# By signal or over HTTP, while the clients go on.
sub reload {
    my ($signal) = @_;
    my $before = status();
    my $asked  = time;
    if ($signal) {
        $server->signal('HUP');
    } else {
        $server->{asked} = $server->connect;
        syswrite $server->{asked}, LlmServer::raw_post('/admin/reload', '', 'Connection: close');
    }
    my $after;
    $streams->run(sub {
        $after = status();
        return 1 if $after->{reloads} + $after->{reloads_refused} > $before->{reloads} + $before->{reloads_refused};
        die "no reload\n" . $server->log if time > $asked + $LlmServer::TIMEOUT;
        return 0;
    });
    $server->{answer} = $signal ? '' : LlmServer::read_all($server->{asked});
    return $after;
}

my $recomputed = 0;
for my $turn (1 .. 18) {
    $server->configure($inis[$turn % 3]);
    my $after = reload($turn % 2);
    my $until = time + 0.03;
    $streams->run(sub { time > $until });
    next if $turn > 3;
    is $after->{generation}, $turn + 1, "generation $turn + 1";
    is plugins(), ('fcfs paged none', 'sarathi null fixed', 'sarathi paged fixed')[$turn % 3], '  has other plugins';
    like $after->{last_reload}{message}, qr/\bcache: (paged|null) \S+ (replaced by|has new)/, '  and says so' if $turn < 3;
    like $server->{answer}, qr/ 200 OK.*"status":"reloaded","generation":3/s, '  over HTTP too' if $turn == 2;
}
is status()->{reloads}, 18, 'every reload worked';

# ---- refused --------------------------------------------------------------------------

my $folder = $server->{folder};
sub copy_part { my ($from, $to, $bytes) = @_; open my $in, '<', $from or die $!; read $in, my($text), $bytes; LlmServer::write_file($to, $text) }
copy_part("$fault/twin_1.so", "$folder/scheduler_half.so", 4000);
my $running = decode_json($server->get('/admin/status')->{content});
my @broken = (
    ['a line that is none',  "$inis[0]what is this\n", qr{llmserve\.ini:14: expected 'key = value'}],
    ['an unknown key',       $inis[0] . "schedular = fcfs\n", qr/llmserve\.ini:14: unknown key 'schedular' in \[plugins\]; the nearest is 'scheduler'/],
    ['a missing plugin',     $rest . "[plugins]\nscheduler = nosuch\n", qr/llmserve\.ini:11: no scheduler 'nosuch': expected a file scheduler_nosuch\.so/],
    ['another ABI',          $rest . "[plugins]\nscheduler = $fault/scheduler_api_version.so\n", qr/api_version: expected 1, found 99/],
    ['a missing callback',   $rest . "[plugins]\nscheduler = $fault/scheduler_no_plan.so\n", qr/expected the callback plan, found NULL/],
    ['an undefined symbol',  $rest . "[plugins]\nscheduler = $fault/scheduler_undefined.so\n", qr/undefined symbol: lls_not_there/],
    ['half a file',          $rest . "[plugins]\nscheduler = $folder/scheduler_half.so\n", qr/the file ends before its contents/],
    ['a create that fails',  $rest . "[plugins]\nscheduler = $fault/scheduler_failing_create.so\ncache = null\n", qr/scheduler failing_create could not be created: this fixture never starts/],
    ['policies that do not fit', $rest . "[plugins]\nscheduler = $fault/scheduler_needs_roles.so\n", qr/scheduler needs_roles needs prefill and decode instances/],
    ['another model',        $inis[0] =~ s/\Q$demo\E/$other/r, qr/:4: \[model\] path: '\S+llama' instead of '\S+demo-model' needs a restart/],
    ['a key that needs a restart', $inis[0] =~ s/threads = 1/threads = 2/r, qr/\[engine\] threads: '2' instead of '1' needs a restart/],
);
for my $broken (@broken) {
    my ($name, $ini, $sentence) = @$broken;
    $server->configure($ini);
    my $answer = $server->post('/admin/reload', '');
    is_deeply [$answer->{status}, $answer->{json}{error}{code}], [409, 'reload_refused'], "$name: refused";
    like $answer->{json}{error}{message}, $sentence, '  with the sentence';
}
$now = status();
is_deeply [$now->{reloads_refused}, $now->{generation}, $now->{last_reload}{ok}], [scalar @broken, $running->{generation}, JSON::PP::false], 'the status counts them';
is_deeply $now->{plugins}, $running->{plugins}, 'and nothing has changed';
unlink "$folder/llmserve.ini";
reload(1);
like status()->{last_reload}{message}, qr/llmserve\.ini: .*No such file/, 'neither by a file that is gone';
$server->configure($inis[0]);
reload(0);

$streams->finish;
is_deeply $streams->{wrong}, [], "$streams->{done} answers, none failed, stopped or changed";
cmp_ok $streams->{done}, '>', 8, 'which are many';

# ---- what changes live beside policies -------------------------------------------------

my $greedy = { prompt => $prompts[0], max_tokens => 5, temperature => 0 };
is $server->post('/v1/completions', { %$greedy, n => 3 })->{status}, 200, 'three choices';
$server->configure("max_choices = 2\nlog_level = debug\nlog_format = json\n$inis[0]");
is $server->post('/admin/reload', '')->{json}{message}, 'policies as before', 'limits and logging';
is $server->post('/v1/completions', { %$greedy, n => 3 })->{status}, 400, '  three choices are too many now';
like $server->log, qr/\{"time":"[^"]+","level":"info","where":"reload","message":"generation \d+: policies as before"\}\n/, '  the log is JSON now';
$server->configure("log_level = error\n$inis[0]");
$server->post('/admin/reload', '');
my $quiet = length $server->log;
$server->post('/admin/reload', '');
is length $server->log, $quiet, '  and then says less';

# ---- the file of a plugin built anew ---------------------------------------------------

my $twin = "$folder/scheduler_twin.so";
$server->configure("${rest}[plugins]\nscheduler = $twin\n");
for my $version (1, 2, 1) {
    copy("$fault/twin_$version.so", $twin) or die $!;
    is $server->post('/admin/reload', '')->{status}, 200, 'a plugin is written over and loaded';
    is status()->{plugins}{scheduler}{version}, "$version.0", '  and is the new one';
}
$server->configure($inis[2]);
$server->post('/admin/reload', '');
is plugins(), 'sarathi paged fixed', 'and away again';
is $server->post('/v1/completions', { %$greedy, return_token_ids => JSON::PP::true, ignore_eos => JSON::PP::true })->{json}{choices}[0]{token_ids}[0],
    (split / /, $streams->{answers}[0])[0], 'the server still serves';

# ---- at the end -------------------------------------------------------------------------

$server->signal('HUP') for 1 .. 5;
is $server->stop, 0, 'the server ends well, reloading or not';
unlike $server->log, qr/misbehaving|strike/, 'no policy was caught at anything';
# ---- what the command line has set ----------------------------------------------------

$server = LlmServer->serve($inis[0], undef, 'sh', '-c', 'exec "$@" --set engine.threads=2 --set scheduler.fcfs.max_seqs=7', 'sh');
$server->configure($inis[0] . "[cache.paged]\nprefix_sharing = off\n");
$server->post('/admin/reload', '');
is_deeply [@{ status() }{qw(reloads reloads_refused)}], [1, 0], 'a reload counts the settings of the command line again';
is status()->{plugins}{scheduler}{parameters}{max_seqs}, '7', '  before those of the file';
$server->stop;

done_testing;
