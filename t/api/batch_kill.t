#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A server that is killed at any moment, or whose disk is full, loses no line of a batch and
# answers none twice, whatever its scheduler; the answers equal those of an undisturbed
# server. A damaged database loses no file.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

if (my ($why) = Batches::missing()) { plan skip_all => $why }
my $kills = $ENV{LLS_KILLS} // 5;
my $seed  = $ENV{LLS_SEED} // time;
srand $seed;
my $n     = 80;
my $lines = join '', map { Batches::line("k-$_", max_tokens => 10 + $_ % 50) } 1 .. $n;
$lines .= Batches::line("k-wrong-$_", max_tokens => -5) for 1 .. 10;

sub run_all {
    my ($server, $id) = @_;
    my $batch = Batches::wait_for($server, $id);
    my @output = Batches::results($server, $batch->{output_file_id});
    my @errors = Batches::results($server, $batch->{error_file_id});
    return ($batch, Batches::texts(@output), scalar keys %{ Batches::texts(@errors) });
}

# ---- undisturbed -----------------------------------------------------------------------

my $calm   = File::Temp->newdir;
my $server = LlmServer->serve(Batches::ini($calm));
my (undef, $wanted) = run_all($server, Batches::create($server, Batches::upload($server, $lines)->{id})->{id});
is $server->stop, 0, 'a server that nobody disturbs';
is scalar keys %$wanted, $n, '  answers every line';

# ---- killed at random moments -------------------------------------------------------------

my $state = File::Temp->newdir;
$server = LlmServer->serve(Batches::ini($state));
my $input = Batches::upload($server, $lines);
my @ids   = map { Batches::create($server, $input->{id})->{id} } 1 .. 2;
my @schedulers = map { "[plugins]\nscheduler = $_\n" } qw(sarathi mlfq vtc), "bros\ncache = bidirectional", qw(edf rr fcfs);
for my $turn (1 .. $kills) {
    sleep rand 0.4;
    $server->signal('KILL');
    is $server->wait_for_end, 'killed by signal 9', 'it is killed';
    open my $torn, '>', "$state/files/file-torn" or die $!;
    close $torn;
    $server = LlmServer->serve(Batches::ini($state, $schedulers[$turn % @schedulers]));
}
for my $id (@ids) {
    my ($batch, $texts, $failed) = run_all($server, $id);
    is $batch->{status}, 'completed', "a batch is completed after $kills kills (LLS_SEED=$seed)";
    is_deeply $batch->{request_counts}, { total => $n + 10, completed => $n, failed => 10 }, '  with its counts';
    is_deeply $texts, $wanted, '  and the same answers, each once';
    is $failed, 10, '  and errors, each once';
}
ok !-e "$state/files/file-torn", 'what a crash left is taken away';
is $server->stop, 0, 'the server ends well';

# ---- a damaged database ----------------------------------------------------------------------

{
    my $damaged = File::Temp->newdir;
    mkdir "$damaged/files";
    LlmServer::write_file("$damaged/files/file-kept", 'x');
    LlmServer::write_file("$damaged/llmserve.db", 'no database' x 1000);
    ok !eval { LlmServer->serve(Batches::ini($damaged)); 1 }, 'a damaged database ends the start';
    like $@, qr{\Q$damaged\E/llmserve\.db: file is not a database: repair it .* begin anew in another folder}, '  and what is to be done is said';
    ok -e "$damaged/files/file-kept", '  and no file is lost';
}

# ---- a full disk -----------------------------------------------------------------------------

SKIP: {
    skip 'prlimit is not installed (util-linux)', 5 if system('command -v prlimit >/dev/null 2>&1') != 0;
    my $full = File::Temp->newdir;
    $server = LlmServer->serve(Batches::ini($full));
    my $file = Batches::upload($server, $lines);
    my $id   = Batches::create($server, $file->{id})->{id};
    system("prlimit --pid $server->{pid} --fsize=4096:unlimited") == 0 or die 'prlimit';
    skip 'the batch was over before', 5 if Batches::is_over(Batches::get($server, "/v1/batches/$id"));
    ok $server->log_becomes(qr/cannot be written to .* batches stand still|database of .* batches stand still/), 'a full disk is said';
    my $answer = Batches::post_form($server, Batches::form('batch', 'x' x 10000));
    is $answer->{status}, 507, '  an upload is refused' or diag $answer->{content};
    system("prlimit --pid $server->{pid} --fsize=unlimited:unlimited") == 0 or die 'prlimit';
    my ($batch, $texts, $failed) = run_all($server, $id);
    is_deeply $texts, $wanted, '  and with room again the batch goes on: nothing is lost';
    is $failed, 10, '  nor answered twice';
    is $server->stop, 0, '  and the server ends well';
}
done_testing;
