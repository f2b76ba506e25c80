#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The profile kept by llmserve-whatif: it is compared with the steps that the server ran, replaced if it
# belongs to another device, and learnt from those steps if nothing can be measured. The server is asked
# only for its history; a stand-in for llmserve-profile writes prepared values, so that nothing takes
# long.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api", "$FindBin::Bin/../sim";
use File::Copy qw(copy);
use JSON::PP;
use LlmServer;
use Sim;
use Sys::Hostname;
use Test::More;

$ENV{XDG_CACHE_HOME} = "$folder/cache";
my $server = LlmServer->serve("[model]\npath = $source/t/data/models/stories260K\n[engine]\nthreads = 1\npin = false\nmax_sequences = 1\n[plugins]\nscheduler = sarathi\n");
my $ini    = "$server->{folder}/llmserve.ini";
for my $n (1 .. 60) {
    $server->post('/v1/completions', { prompt => [map { 300 + ($n * $_) % 99 } 1 .. 2 + $n % 5 * $n], max_tokens => 4, ignore_eos => JSON::PP::true });
}
my $text  = $server->get('/admin/history')->{content};
my @steps = $text =~ /^T (.*)$/mg;
cmp_ok scalar(@steps), '>=', 48, 'a history tells of steps';
is scalar(grep { !/\A[1-9]\d*(?: \d+){6}\z/ } @steps), 0, '  each in numbers';
cmp_ok scalar(@steps), '<=', 480, '  and not of all';
my ($chunk) = grep { (split / /)[2] == 1 && (split / /)[5] == 0 } @steps;
my (undef, $drawn, undef, $tokens, $pairs) = split / /, $chunk;
is_deeply [$drawn, $pairs], [1, $tokens * ($tokens + 1) / 2], '  a prompt computed at once: its tokens, and the pairs of them';

# T <ns> <drawn> <chunks> <tokens of the chunks> <pairs> <decodes> <tokens cached>
sub law { my (undef, $drawns, undef, $chunked, $pair, $decodes, $cached) = @_; return 60_000 + 4_000 * ($chunked + $decodes) + 1_000 * $drawns + 2 * ($pair + $cached) }
@steps = map { s/\A\d+/law(split q( ))/er } @steps;
my $history = write_file('history', $text =~ s/^T .*\n//mgr . join '', map { "T $_\n" } @steps);
my $few     = write_file('few', $text =~ s/^T .*\n//mgr . join '', map { "T $_\n" } @steps[0 .. 9]);

# ---- learnt ------------------------------------------------------------------------------------
my ($status, $out, $err) = run('llmserve-profile', '-c', $ini, '--served', $history, '--output', "$folder/learnt.ini");
is $status, 0, 'a profile is learnt of them' or diag $err;
my $learnt = read_file("$folder/learnt.ini");
like $learnt, qr/\A; Learnt /, '  and says so';
like $out, qr/^held out\s+\d+\s+[\d.]+/m, '  and how far it is off on steps that it has not seen';
sub served { return simulate('-c', $ini, '--trace', $history, '--dataset-name', 'decisions', '--profile', @_)->{machine}{served_steps} }
my $fit = served("$folder/learnt.ini");
is $fit->{steps}, scalar(@steps), 'llmserve-sim lays the profile beside them';
cmp_ok $fit->{times}, '>', 1 / 1.5, '  which are as long as they were';
cmp_ok $fit->{times}, '<', 1.5, '  and no longer';
($status, undef, $err) = run('llmserve-profile', '-c', $ini, '--served', $few, '--output', "$folder/none.ini");
isnt $status, 0, 'ten steps are too few';
like $err, qr/tells of 10 steps, and 48 are needed/, '  as it says';
ok !-e "$folder/none.ini", '  and nothing is written';
($status, undef, $err) = run('llmserve-profile', '-c', $ini, '--served', write_file('odd', "H 2 fcfs paged none\nT 5 1 x 4 4 0 0\n"));
like $err, qr/odd:2: chunks: expected a whole number from 0 to \d+, found 'x'/, 'a step that is none is refused with its line';

# ---- whatif, with a profiler that costs no time --------------------------------------------------
sub times_longer {    # every time of a profile
    my ($times) = @_;
    return $learnt =~ s/^(step|sequence|row|token|layer) = (\d+)ns/"$1 = " . $2 * $times . 'ns'/gemr =~ s/^(ns_per_million =)(.*)/$1 . join '', map { ' ' . $_ * $times } split q( ), $2/emr
      =~ s/^(bandwidth|matrix) = ([\d.e+-]+)$/"$1 = " . $2 \/ $times/gemr;
}
my $bad = times_longer(1000);
cmp_ok served(write_file('bad.ini', $bad))->{times}, '>', 300, 'a profile whose steps are a thousand times as long';

mkdir "$folder/bin";
copy("$Sim::build/llmserve-whatif", "$folder/bin/llmserve-whatif") or die "llmserve-whatif: $!";
chmod 0755, "$folder/bin/llmserve-whatif";
symlink "$Sim::build/llmserve-sim", "$folder/bin/llmserve-sim" or die;
write_file('bin/llmserve-profile', <<"SH");
#!/bin/sh
echo "\$3" >> $folder/calls
test "\$3" = --served && exec $Sim::build/llmserve-profile "\$@"
exec cp $folder/device.ini "\$6"
SH
sub stand_ready { my ($device, $name) = @_; write_file('device.ini', $device); chmod 0755, "$folder/bin/llmserve-profile"; unlink "$folder/calls"; return }

my $number = 0xcbf29ce4 << 32 | 0x84222325;
{
    use integer;
    $number = ($number ^ ord) * (1 << 40 | 0x1b3) for split //, read_file($ini) . hostname();
}
my $kept = sprintf '%s/cache/llmserve/profile-%016x', $folder, $number;
mkdir $_ for "$folder/cache", "$folder/cache/llmserve";
sub keep { write_file("cache/llmserve/" . sprintf('profile-%016x%s.ini', $number, $_[1] // q()), $_[0]); return }
sub kept { return join ' ', map { /profile-[0-9a-f]+(.*)\.ini\z/ } sort glob "$folder/cache/llmserve/*" }

my $sections = { plugins => { scheduler => 'sarathi', cache => 'paged', predictor => 'none' }, 'scheduler.sarathi' => {}, engine => {} };
my %runs = map { $_ => write_file("$_.json", encode_json({ path => $ini, idle => $_ eq 'idle' ? JSON::PP::true : JSON::PP::false, sections => $sections })) } qw(idle busy);
sub whatif {
    my ($is, @arguments) = @_;
    local $Sim::build = "$folder/bin";
    unlink "$folder/answer.json";
    my ($code, $said, $why) = run('llmserve-whatif', '--quiet', '--json', "$folder/answer.json", '-c', $ini, '--history', $history, ($is ? ('--running', $runs{$is}) : ()), '--policies', 'fcfs', @arguments);
    return { status => $code, out => $said, err => $why, $code == 0 ? %{ decode_json(read_file("$folder/answer.json")) } : () };
}
sub calls { return -e "$folder/calls" ? join q( ), split /\n/, read_file("$folder/calls") : q() }

keep($bad);
stand_ready($learnt);
my $idle = whatif('idle');
is $idle->{status}, 0, 'kept, of a server that is idle' or diag $idle->{err};
like $idle->{err}, qr/^llmserve-whatif: \S+ is not of the device that serves: its steps are \S+ times as long as those that were run$/m, '  it is said that it is not of this device';
is_deeply [$idle->{profile}{from}, $idle->{profile}{fits}, calls()], ['measured', JSON::PP::true, '--time'], '  and measured again in the same question, once';
like $idle->{profile}{said}, qr/is not of the device .*; it is removed/, '  which the answer tells';
is read_file("$kept.ini"), $learnt, '  the new one is kept';
cmp_ok $idle->{margin}, '<', 50, '  and simulated and served are near each other again';
is whatif('idle')->{profile}{said}, q(), '  and that is all';

keep($bad);
stand_ready($learnt);
my $busy = whatif('busy');
is_deeply [$busy->{status}, $busy->{profile}{from}, calls(), kept()], [0, 'learnt', '--served', '-learnt'], 'of one that is never idle it is learnt' or diag $busy->{err};
like $busy->{profile}{said}, qr/is not of the device .*; it is removed; .* learnt from the steps/, '  as the answer tells';
like $busy->{out}, qr/^What the device can do: learnt, .*\n.*is not of the device/m, '  to people too';
is whatif('idle')->{profile}{from}, 'measured', '  until it is idle';
is kept(), q(), '  when the measured one takes its place';

keep($bad);
stand_ready($bad);
my $other = whatif('idle');
is_deeply [$other->{status}, $other->{profile}{from}, calls(), kept()], [0, 'learnt', '--time --served', '-learnt -unfit'], 'measured and again not of this device: it is learnt' or diag $other->{err};
whatif('idle');
is calls(), '--time --served --served', '  and not measured again today';

unlink glob "$kept*";
keep($bad);
stand_ready($learnt);
my $foreign = whatif(undef);
is_deeply [$foreign->{profile}{fits}, kept(), calls()], [JSON::PP::false, q(), q()], "a file's traffic may be of another machine: it is said, and nothing is removed";
my $named = whatif('idle', '--profile', "$folder/bad.ini");
is_deeply [$named->{profile}{from}, $named->{profile}{fits}, calls()], ['named', JSON::PP::false, q()], 'nor is one that its owner has named';
like $named->{err}, qr/bad\.ini is not of the device that serves: .*; name another, or none/, '  who is told';
ok -e "$folder/bad.ini", '  and has it';
keep(substr $learnt, 0, 90);
is whatif('idle')->{profile}{from}, 'measured', 'a kept one that was cut off';
is read_file("$kept.ini"), $learnt, '  is measured again';
unlink glob "$kept*";
$history = $few;
my $unknown = whatif('busy');
isnt $unknown->{status}, 0, 'neither idle nor enough steps';
like $unknown->{err}, qr/cannot be measured while the server has requests \(.*10 steps, and 48 are needed.*\): ask again/, '  says both';

# ---- others have the cores -----------------------------------------------------------------------
SKIP: {
    my ($ran, $waited) = -r "/proc/$$/schedstat" ? split / /, read_file("/proc/$$/schedstat") : (0, 0);
    skip 'the kernel does not tell who waited for a core', 3 if !$ran || LlmServer::sanitized();
    my ($core) = qx(taskset -cp $$) =~ /: (\d+)/;
    my @burners = map { my $pid = fork // die; if (!$pid) { exec 'taskset', '-c', $core, $^X, '-e', 'alarm 60; 1 while 1' } $pid } 1 .. 2;
    my $measured = "$folder/disturbed.ini";
    open my $saved, '>&', \*STDERR or die;
    my $said = qx(taskset -c $core $Sim::build/llmserve-profile -c $ini --time 1s --output $measured 2>&1 >/dev/null);
    kill 'KILL', @burners;
    waitpid $_, 0 for @burners;
    like $said, qr/^llmserve-profile: other processes had the cores for \d+ % of the time .*: measuring once more$/m, 'others have the core: it is measured once more';
    like $said, qr/^llmserve-profile: still disturbed: /m, '  and said if it was no better';
    like read_file($measured), qr/\A; Measured .* Disturbed: /, '  in the profile too';
}
# ---- a server that is not idle, asked itself --------------------------------------------------------
my @clients = map { my $c = $server->connect; syswrite $c, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":450,"ignore_eos":true,"stream":true}'); $c } 1 .. 60;
LlmServer::read_until($clients[0], qr/data: /);
is $server->post('/admin/whatif', { policies => ['fcfs'] })->{status}, 202, 'a busy server is asked';
my $state;
for (1 .. 1500) { $state = decode_json($server->get('/admin/whatif')->{content}); last if $state->{state} ne 'running'; select undef, undef, undef, .1 }
if ($state->{state} eq 'done') {
    is $state->{result}{profile}{from}, 'learnt', '  and learns by itself what its device can do' or diag explain $state;
} else {    # the times of these steps are real
    like encode_json($state), qr/the steps that the server has run fit no device/, '  and learns that others had its cores' or diag explain $state;
}
close $_ for @clients;
is $server->stop, 0, 'the server ends well';
done_testing;
