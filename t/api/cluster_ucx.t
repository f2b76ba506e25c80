#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes that are started one by one and join a front end by UCX: they get work;
# one that is killed comes again under a new generation, a stopped one after it went on; one that
# leaves finishes what it has; all outlive the front end. Answers equal those of one process, and
# none is lost. Who does not belong is refused, with the reason at both ends.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Cluster;
use Golden;
use Streams;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Cluster::missing();
plan skip_all => $missing if defined $missing;

# UCX sends over any interface; those of tests that run beside this one (Spaces.pm, Machines.pm) vanish with them.
$ENV{UCX_NET_DEVICES} = 'lo';

my @golden = @Golden::ANSWERS;

sub config {
    my ($engine, $scheduler, $model) = @_;
    return "[model]\npath = " . ($model // $Golden::MODEL) . "\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n$engine"
        . "[cache]\ndevice_memory = 512KiB\nhost_memory = 1MiB\n[plugins]\nscheduler = $scheduler\n";
}

sub answers {
    my ($front, $name) = @_;
    my @ids = Golden::all_at_once($front, 4);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 4], "$name: \"$golden[$_]{prompt}\"" for 0 .. $#golden;
    return;
}

# Runs the streams until the instance has had this many steps more.
sub works {
    my ($streams, $front, $i, $name) = @_;
    my ($before, $deadline) = (Cluster::steps($front, $i), time + $LlmServer::TIMEOUT);
    $streams->run(sub { Cluster::steps($front, $i) > $before + 20 || time > $deadline });
    cmp_ok Cluster::steps($front, $i), '>', $before + 20, $name;
    return;
}

# ---- processes come and go under clients ---------------------------------------------------
{
    my $config = config("instances = 3\n", 'sarathi');
    my $front = Cluster::front($config);
    is Cluster::states($front), 'up absent absent', 'the front end serves alone';
    is $front->get('/health')->{status}, 200, '  which is no fault';
    is_deeply [$front->get('/metrics')->{content} =~ /^llmserve_instance_up\{instance="(\d+)".*\} (\d)$/mg], [0, 1], '  nor one for an alert';
    answers($front, '  by itself');
    my @members = map { Cluster::member($front, $config) } 1, 2;
    is_deeply [sort map { $_->{address} } @members], [1, 2], 'two processes join';
    @members = sort { $a->{address} <=> $b->{address} } @members;
    Cluster::becomes($front, 'up up up');
    answers($front, '  of three');
    my $streams = Streams->new($front, clients => 12, tokens => 80, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    works($streams, $front, $_, "instance $_ works") for 1, 2;
    $members[0]->signal('KILL');
    $members[0]->wait_for_end;
    $streams->run(sub { Cluster::states($front) eq 'up lost up' });
    works($streams, $front, 2, 'one is killed: the other works on');
    $members[0] = Cluster::member($front, $config);
    is $members[0]{address}, 1, '  it comes again and gets its place';
    $streams->run(sub { Cluster::states($front) eq 'up up up' });
    works($streams, $front, 1, '  and work');
    my $steps = Cluster::steps($front, 1);
    $members[1]->signal('STOP');
    $streams->run(sub { Cluster::states($front) eq 'up up silent' });
    works($streams, $front, 1, 'one is stopped: the other works on');
    $members[1]->signal('CONT');
    $streams->run(sub { Cluster::states($front) eq 'up up up' });
    works($streams, $front, 2, '  it goes on, and works');
    $front->configure("$config" . "[scheduler.sarathi]\nchunk = 64\n[cluster]\nlisten = 127.0.0.1:0\n");
    $front->signal('HUP');
    $streams->run(sub { $front->log =~ /reload/ });
    $members[1]->signal('TERM');
    $streams->run(sub { Cluster::states($front) eq 'up up absent' });
    is $members[1]->wait_for_end, 0, 'one is told to leave: it ends well';
    like $members[1]->log, qr/instance 2 leaves: finishing what runs/, '  and says so';
    like $front->log, qr/instance 2 \(mixed\): its process has left/, '  as the front end does';
    $members[1] = Cluster::member($front, $config);
    $streams->run(sub { Cluster::states($front) eq 'up up up' });
    works($streams, $front, 2, '  another takes its place, and works, with the configuration that runs');
    $streams->finish;
    is_deeply $streams->{wrong}, [], 'no answer differs, fails or stops';
    cmp_ok $streams->{done}, '>', 12, '  of some';
    is $front->get('/metrics')->{status}, 200;
    my $port = Cluster::port($front);
    $members[1]->signal('STOP');
    is $front->stop, 0, 'the front end ends well';
    $members[1]->signal('CONT');    # it finds all that it missed at once
    ok $_->log_becomes(qr/instance \d ends: /), '  the others notice' for @members;    # by its last message, or by the end of the connection
    $front = LlmServer->serve("$config\n[cluster]\nlisten = 127.0.0.1:$port\n");
    Cluster::becomes($front, 'up up up');
    answers($front, '  and join the next one');
    is $_->stop, 0, '  and end well' for @members, $front;
}

# ---- silent twice --------------------------------------------------------------------------
# Two members stop one second apart, so that requests of the first, which have no token yet, are with
# the second when that is silent, too. It is no process's death, so they are not what processes die of.
{
    my $config = config("instances = 3\n", 'sarathi');
    my $front = Cluster::front($config);
    my @members = map { Cluster::member($front, $config) } 1, 2;
    Cluster::becomes($front, 'up up up');
    $members[0]->signal('STOP');
    my @sockets = map {
        my $socket = $front->connect;
        syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json(Golden::body($golden[$_ % @golden]{prompt_ids}, $golden[$_ % @golden])), 'Connection: close');
        $socket;
    } 0 .. 23;
    $members[1]->signal('STOP');
    Cluster::becomes($front, 'up silent silent');
    my @answers = map { LlmServer::read_all($_) =~ s/\s//gr } @sockets;
    my @wrong = grep { my $ids = join ',', @{ $golden[$_ % @golden]{greedy_ids} }; $answers[$_] !~ /"token_ids":\[\Q$ids\E\]/ } 0 .. $#answers;
    is_deeply [map { $answers[$_] } @wrong], [], 'requests of two processes that stop one after the other go on';
    $_->signal('CONT') for @members;
    Cluster::becomes($front, 'up up up');
    is $_->stop, 0, '  and all end well' for @members, $front;
}

# ---- prefill and decode --------------------------------------------------------------------
{
    my $config = config("roles = prefill, decode, decode\n", 'distserve');
    my $front = Cluster::front($config, '', qr{until then http://([\w.:]+) answers 503});
    ok $front->log_becomes(qr/other processes can join/);
    is $front->get('/v1/models')->{status}, 503, 'without a process that decodes there is no service';
    my $member = Cluster::member($front, $config, "role = decode\n");
    ok $front->log_becomes(qr/server: listening on/), '  one joins, and it begins';
    answers($front, '  with it');
    my $other = Cluster::member($front, $config);
    Cluster::becomes($front, 'up up up');
    answers($front, '  with two');
    my $streams = Streams->new($front, clients => 8, tokens => 80, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    works($streams, $front, $_, "instance $_ decodes") for 1, 2;
    my %by = map { $_->{address} => $_ } $member, $other;
    $by{1}->signal('KILL');
    $by{1}->wait_for_end;
    works($streams, $front, 2, 'one that decodes is killed: the other goes on');
    $by{1} = Cluster::member($front, $config);
    $streams->run(sub { Cluster::states($front) eq 'up up up' });
    works($streams, $front, 1, '  it comes again, and decodes');
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  no answer differs, fails or stops';
    is $_->stop, 0, '  it ends well' for @by{1, 2}, $front;
}

# ---- refusals ------------------------------------------------------------------------------
{
    my $config = config("instances = 2\n", 'sarathi');
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/$_", "$_\n") for qw(a b);
    my $front = Cluster::front($config, "secret = $folder/a\n");
    for my $case (
        [$config, "secret = $folder/b\n", qr/it does not know \[cluster\] secret/, 'another secret'],
        [$config, '', qr/it does not know \[cluster\] secret/, 'no secret'],
        [config("instances = 3\n", 'sarathi'), "secret = $folder/a\n", qr/\[engine\] roles and instances have to be the same/, 'another number of instances'],
        [config("roles = prefill, decode\n", 'distserve'), "secret = $folder/a\n", qr/\[engine\] roles and instances have to be the same/, 'another role'],
        [config("instances = 2\n", 'sarathi', LlmServer::source('t/data/models/bloom')), "secret = $folder/a\n", qr/it has another model/, 'another model'],
        [config("instances = 2\nmax_requests = 64\n", 'sarathi'), "secret = $folder/a\n", qr/max_requests have to be the same/, 'another shape'],
        ) {
        my ($other, $more, $why, $name) = @$case;
        my $member = Cluster::member($front, $other, $more, qr/(?:does not let this process \w+: )(.*)/);
        is $member->wait_for_end, 1, "$name is refused";
        like $member->log, $why, '  with the reason';
        ok $front->log_becomes($why), '  which the front end logs';
    }
    my $member = Cluster::member($front, $config, "secret = $folder/a\n");
    Cluster::becomes($front, 'up up');
    my $late = Cluster::member($front, $config, "secret = $folder/a\n", qr/(all places are taken)/);
    is $late->{address}, 'all places are taken', 'one too many waits';
    is $member->stop, 0, '  until one leaves';
    ok $late->log_becomes(qr/it is instance 1 of 2/), '  and takes its place';
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . Cluster::port($front), Proto => 'tcp');
    print $socket pack('C*', map { int rand 256 } 1 .. 4096);
    close $socket;
    answers($front, 'who sends anything else does no harm');
    is $_->stop, 0, '  it ends well' for $late, $front;
}

# ---- a process that does not get ready -----------------------------------------------------
{
    my $config = config("instances = 2\n", 'sarathi');
    my $folder = File::Temp->newdir;
    my $slow = $config =~ s{scheduler = sarathi}{scheduler = @{[LlmServer::built('t/fault/.libs/scheduler_slow_create.so')]}\n[scheduler.slow_create]\nuntil = $folder/go}r;
    my $front = Cluster::front($config, "load_timeout = 3s\n");
    my $stuck = Cluster::member($front, $slow);
    $stuck->signal('STOP');
    # a slow machine starts it after load_timeout: then it does not wait
    my $other = Cluster::member($front, $config, '', qr/(all places are taken|it is instance 1 of 2)/);
    ok $other->{address}, 'a process is stopped while it loads: another one waits';
    ok $front->log_becomes(qr/instance 1 \(mixed\): its process was not ready 3 s after it had joined/), '  until load_timeout is over';
    ok $other->log_becomes(qr/it is instance 1 of 2/), '  and takes its place';
    Cluster::becomes($front, 'up up');
    answers($front, '  and works');
    LlmServer::write_file("$folder/go", '');
    $stuck->signal('CONT');
    ok $stuck->log_becomes(qr/instance 1 ends: .*all places are taken/s), '  the first one goes on, and waits';
    is $other->stop, 0, '  until there is a place';
    ok $stuck->log_becomes(qr/(?:it is instance 1 of 2.*){2}/s), '  which it takes';
    is $_->stop, 0, '  it ends well' for $stuck, $front;
}

# ---- several front ends --------------------------------------------------------------------
{
    my $config = config("instances = 2\n", 'sarathi');
    my @fronts = map { Cluster::front($config) } 1, 2;
    my $to_both = join ', ', map { '127.0.0.1:' . Cluster::port($_) } @fronts;
    my @members = map { LlmServer->serve("$config\n[cluster]\njoin = $to_both\n", qr/it is instance (\d+) of/) } 1, 2;
    Cluster::becomes($_, 'up up') for @fronts;
    answers($fronts[$_], "front end $_ of two, with a process that joined where there was a place") for 0, 1;
    $members[1]->stop;
    $fronts[0]->signal('KILL');
    $fronts[0]->wait_for_end;
    Cluster::becomes($fronts[1], 'up up');
    ok $members[0]->log_becomes(qr/it is instance 1 of 2.*it is instance 1 of 2/s), 'one is killed: its process joins the other';
    answers($fronts[1], '  and works there');
    is $_->stop, 0, '  it ends well' for $members[0], $fronts[1];
}

# ---- configurations ------------------------------------------------------------------------
sub refused {
    my ($engine, $cluster, $why, $name) = @_;
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/empty", "\n");
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n" . config($engine, 'fcfs') . "[cluster]\n$cluster");
    my $log = qx('@{[LlmServer::built('llmserve')]}' -c $folder/llmserve.ini 2>&1);
    isnt $? >> 8, 0, $name;
    like $log, $why, '  with the reason';
    return;
}

refused("instances = 2\n", "listen = 127.0.0.1:0\njoin = 127.0.0.1:1\n", qr/\[cluster\] join: the front end listens and all others join/, 'both keys');
refused('', "listen = 127.0.0.1:0\n", qr/\[cluster\] listen: \[engine\] instances or roles says how many/, 'one instance');
refused("roles = decode, prefill\n", "listen = 127.0.0.1:0\n", qr/\[engine\] roles: the front end of a cluster has the first role/, 'a front end that decodes');
refused("instances = 2\n", "join = nowhere\n", qr/'nowhere' is no HOST:PORT/, 'no address');
refused("instances = 2\n", "join = ,\n", qr/',' is no HOST:PORT/, 'no address in a list');
refused("instances = 2\n", "listen = 127.0.0.1:0\nsecret = empty\n", qr/\[cluster\] secret: .* is empty/, 'an empty secret');
done_testing;
