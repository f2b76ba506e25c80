#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Reloads while a linker writes the plugin's file: each is done or refused, and never
# ends the server. LLS_SOAK=SECONDS repeats this for that time, with all available
# linkers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

my $demo   = LlmServer::source('share/demo-model');
my $fault  = LlmServer::built('t/fault/.libs');
my $folder = File::Temp->newdir;
my $file   = "$folder/scheduler_twin.so";
my @whole  = map { LlmServer::read_file(LlmServer::built('.libs') . "/scheduler_$_.so") } qw(fcfs sarathi);
my $ini    = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[plugins]\nscheduler = $file\n";
LlmServer::write_file($file, $whole[0]);
my $server = LlmServer->serve($ini);

# In place, in pages and in any order, as a linker that maps its output; or by cp.
sub write_in_place {
    my ($bytes, $in_order) = @_;
    open my $out, '+<:raw', $file or die $!;
    truncate $out, 0;
    truncate $out, length $bytes unless $in_order;
    my @pages = 0 .. (length($bytes) - 1) / 4096;
    @pages = sort { rand() <=> 0.5 } @pages unless $in_order;
    for my $page (@pages) {
        sysseek $out, 4096 * $page, 0;
        syswrite $out, substr $bytes, 4096 * $page, 4096;
        sleep 0.0005 if $page % 4 == 0;
    }
    close $out;
}

sub writer {
    my ($seconds, $work) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid > 0;
    srand 7;
    my $until = time + $seconds;
    for (my $turn = 0; time < $until; $turn++) { $work->($turn); sleep 0.03 }
    POSIX::_exit(0);
}

# Reloads until the writer is done; how many were taken, and why the others were not.
sub reload_beside {
    my ($pid) = @_;
    my ($taken, %refused) = (0);
    until (waitpid $pid, POSIX::WNOHANG()) {
        my $answer = $server->post('/admin/reload', '');
        if ($answer->{status} == 200) { $taken++; next }
        my ($why) = ($answer->{json}{error}{message} // "status $answer->{status}") =~ /cannot load: (.*)/;
        $refused{ $why // $answer->{json}{error}{message} // "status $answer->{status}" }++;
        last if $answer->{status} == 599;
    }
    return ($taken, \%refused);
}

sub lives {
    my ($name, $work) = @_;
    my ($taken, $refused) = reload_beside(writer($ENV{LLS_SOAK} // 2, $work));
    my $why = join '', map { "\n  $refused->{$_} x $_" } sort keys %$refused;
    is $server->get('/health')->{status}, 200, "$name: the server lives";
    note "$name: $taken reloads, refused:$why";
    is scalar(grep { !/being written|file too short|ELF header|No such file/ } keys %$refused), 0, '  each refusal says what it found' or diag $why;
}

lives('written in place', sub { write_in_place($whole[ $_[0] % 2 ], $_[0] % 4 < 2) });

if ($ENV{LLS_SOAK}) {
    LlmServer::write_file("$folder/p.c", LlmServer::read_file(LlmServer::source('share/sdk/scheduler.c')));
    my $include = LlmServer::source('include');
    system("cc -std=c17 -I$include -fPIC -fvisibility=hidden -g -c -o $folder/p.o $folder/p.c") == 0 or die;
    my $objects = "$folder/p.o " . LlmServer::built('libllmserve-policy.a');
    for my $linker (grep { system("command -v ld.$_ >/dev/null") == 0 } qw(bfd gold lld)) {
        lives("linked by $linker", sub { system "cc -shared -fuse-ld=$linker -o $file $objects" });
    }
    lives('copied over', sub { system 'cp', LlmServer::built('.libs') . '/scheduler_' . ($_[0] % 2 ? 'apt' : 'vtc') . '.so', $file });
}

# ---- and whole again
LlmServer::write_file($file, $whole[1]);
my $answer = $server->post('/admin/reload', '');
is $answer->{status}, 200, 'a whole file is taken' or diag $answer->{content};
is $server->stop, 0, 'and the server ends by itself';
done_testing;
