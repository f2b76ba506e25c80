#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Address space, descriptors, the size of a file and the disk run out, and clocks jump.
# A server ends with a sentence before it has begun, or it serves: who asks gets an answer or an
# error, and when there is room again everything is as before.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Batches;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'sanitizers take address space and descriptors of their own' if LlmServer::sanitized() || LlmServer::under();
my $end  = Campaign::begin;
my $demo = LlmServer::source('share/demo-model');
my $has_state = -e LlmServer::built('core/batch/store.lo');
my %count;
$SIG{PIPE} = 'IGNORE';

sub ini {
    my ($state, @server) = @_;
    return join('', @server) . ($state && $has_state ? "state = $state\n" : '') . ($state ? "decisions = $state/decisions\n" : '')
      . "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n[plugins]\nscheduler = sarathi\ncache = paged\n";
}
my $ask = { prompt => 'Once upon a time', max_tokens => 8, temperature => 0 };
sub text_of { my ($server) = @_; return $server->post('/v1/completions', $ask)->{json}{choices}[0]{text} // 'no answer' }
my $wanted = do { my $server = LlmServer->serve(ini()); text_of($server) };

# With a launcher: it serves as ever, or ends with a sentence. What was wrong, if anything was.
sub starts {
    my ($name, $ini, @launcher) = @_;
    my $server = eval { LlmServer->serve($ini, undef, @launcher) };
    if (!$server) {
        my ($status, $log) = ($?, $@);
        $count{"$name: refused"}++;
        return if !($status & 127) && $log =~ /\w+ \w+[^\n]*\n*\z/ && $log !~ /\(null\)/;
        return "$name: status $status: $log";
    }
    $count{"$name: served"}++;
    my $text = text_of($server);
    my $status = $server->stop;
    return if $text eq $wanted && $status eq '0';
    # a request may be refused for lack of memory, in which case the server says so
    return if $text eq 'no answer' && $status eq '0' && $server->log =~ /memory/i;
    return "$name: '$text', status $status: " . $server->log;
}

sub memory_limit { my $kib = 20_000 + int rand 2_000_000; return starts('address space', ini(), 'sh', '-c', "ulimit -v $kib; exec \"\$@\"", 'sh') }
sub few_descriptors { my $n = 3 + int rand 60; return starts('descriptors', ini(), 'sh', '-c', "ulimit -n $n; exec \"\$@\"", 'sh') }
sub few_threads { return starts('stacks', ini(), 'sh', '-c', 'ulimit -s ' . (512 + int rand 1000) . '; exec "$@"', 'sh') }

# More clients than descriptors: those that got in are served, the others wait or are refused.
sub crowd {
    my $server = LlmServer->serve(ini(), undef, 'sh', '-c', 'ulimit -Hn 64; ulimit -n 64; exec "$@"', 'sh');
    my @many = grep { $_ } map { eval { $server->connect(Timeout => 1) } } 1 .. 120;
    my $some = () = @many;
    sleep 0.05;
    close $_ for @many;
    my $until = time + $LlmServer::TIMEOUT;
    my $text;
    do { $text = text_of($server) } while $text ne $wanted && time < $until;
    $count{'crowds'}++;
    return "crowd: after $some connections: $text: " . $server->log if $text ne $wanted;
    return $server->stop eq '0' ? () : 'crowd: ' . $server->log;
}

# A file may not grow, or the disk has some KiB left: decisions, files, batches, responses.
sub full {
    my ($name, $state, $largest, @launcher) = @_;
    my $server = eval { LlmServer->serve(ini($state), undef, @launcher) };
    $count{ $server ? "$name: served" : "$name: refused" }++;
    return if !$server && $@ =~ /\w+ \w+[^\n]*\n*\z/ && !($? & 127);
    return "$name: no start: $@" if !$server;
    my %files;
    for (1 .. 12) {
        my $content = 'x' x (1000 + int rand $largest);
        my $answer = $has_state ? Batches::post_form($server, Batches::form('batch', $content)) : undef;
        last if !$answer;
        $files{ $answer->{json}{id} } = $content if $answer->{status} == 200;
        return "$name: an upload: $answer->{status} $answer->{content}" if $answer->{status} != 200 && $answer->{status} !~ /\A(?:413|5\d\d)\z/;
        $count{"$name: uploads refused"}++ if $answer->{status} != 200;
    }
    my $text = text_of($server);
    return "$name: it does not serve: $text: " . $server->log if $text ne $wanted;
    for my $id (sort keys %files) {
        return "$name: file $id has changed" if $server->get("/v1/files/$id/content")->{content} ne $files{$id};
    }
    my $status = $server->stop;
    return "$name: status $status: " . $server->log if $status ne '0';
    # with room again, what was acknowledged is there
    $server = eval { LlmServer->serve(ini($state)) } or return "$name: no start with room: $@";
    for my $id (sort keys %files) {
        return "$name: file $id is lost" if $server->get("/v1/files/$id/content")->{content} ne $files{$id};
    }
    return;
}
sub short_files { my $state = File::Temp->newdir; return full('size of a file', $state, 4_000_000, 'sh', '-c', 'ulimit -f ' . (rand() < 0.2 ? int rand 400 : 2400 + int rand 4000) . '; exec "$@"', 'sh') }

my $can_mount = $> == 0 && system('unshare -m true >/dev/null 2>&1') == 0;
sub full_disk {
    return if !$can_mount;
    my $state = File::Temp->newdir;
    # its own view of the folders: a disk of so many KiB, with what is written copied back at the end
    my $kib = 100 + int rand 400;
    return full('disk', $state, 60_000, 'unshare', '-m', 'sh', '-c',
        "mount -t tmpfs -o size=${kib}k none $state/. || exit 1; \"\$@\" & p=\$!; trap 'kill -TERM \$p' TERM; wait \$p; wait \$p; r=\$?; mkdir -p /tmp/.lls-\$\$; cp -a $state/. /tmp/.lls-\$\$; umount $state; cp -a /tmp/.lls-\$\$/. $state; rm -rf /tmp/.lls-\$\$; exit \$r", 'sh');
}

# Hours forth and back while requests and a batch run: each ends once, none is late or lost.
sub clocks {
    my $library = LlmServer::built('t/campaign/.libs/jump_clock.so');
    return if !-e $library;
    my $file = File::Temp->new;
    my $set  = sub { sysseek $file, 0, 0; syswrite $file, pack 'q2', @_ };
    $set->(0, 0);
    my $state  = File::Temp->newdir;
    my $server = LlmServer->serve(ini($state), undef, 'env', "LD_PRELOAD=$library", "LLS_JUMP=$file");
    my $batch  = $has_state ? Batches::create($server, Batches::upload($server, join '', map { Batches::line("k-$_", max_tokens => 20) } 1 .. 10)->{id}) : undef;
    my $steady = 0;
    for (1 .. 6) {
        $steady += int rand 3600 if rand() < 0.3;
        $set->(int(rand 2e9) - 1_000_000_000, $steady) if !$has_state || rand() < 0.7;
        my $text = text_of($server);
        $count{'jumps of clocks'}++;
        return "clocks: $text: " . $server->log if $text ne $wanted;
    }
    $set->(0, $steady);
    if ($batch) {
        my $whole = Batches::wait_for($server, $batch->{id});
        my $n = $whole->{request_counts};
        return 'clocks: the batch has ' . encode_json($n) if $n->{completed} + $n->{failed} > 10 || ($whole->{status} eq 'completed' && $n->{completed} != 10);
        $count{"batches $whole->{status}"}++;
    }
    my $status = $server->stop;
    return $status eq '0' ? () : "clocks: status $status: " . $server->log;
}

my @parts = (\&memory_limit, \&few_descriptors, \&few_threads, \&crowd, \&short_files, \&full_disk, \&clocks);
my @wrong;
my $rounds = 0;
do {
    push @wrong, grep { defined } map { $_->() } @parts;
    $rounds++;
} while Campaign::goes_on($end) && !@wrong;
is_deeply \@wrong, [], "$rounds rounds of what runs out";
note "$_: $count{$_}" for sort keys %count;
Campaign::figure(rounds => $rounds, map { ($_ => $count{$_}) } sort keys %count);
done_testing;
