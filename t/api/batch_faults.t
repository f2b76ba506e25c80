#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Lines of batches that fail or are refused repeatedly: they delay no other line, of their
# batch or another, and end in the error file. Uses the fake step loop, where a line's
# priority decides its fate (t/api/fake_loop.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

if (my ($why) = Batches::missing()) {
    plan skip_all => $why;
}

my %fate = (fails => 9001, rejected => 9002, full => 9003, once => 9004);
my $state  = File::Temp->newdir;
my $server = LlmServer->fake(state => $state);

# 200 lines, more than the runner has in hand, each of which fails, with good ones at the end.
sub batch {
    my (@lines) = @_;
    return Batches::create($server, Batches::upload($server, join '', @lines)->{id})->{id};
}

my %of;
for my $kind (qw(rejected full fails)) {
    $of{$kind} = batch((map { Batches::line("$kind-$_", priority => $fate{$kind}) } 1 .. 200), map { Batches::line("good-$_") } 1 .. 20);
}
my $other = batch(map { Batches::line("other-$_") } 1 .. 100);
my $batch = Batches::wait_for($server, $other);
is_deeply $batch->{request_counts}, { total => 100, completed => 100, failed => 0 }, 'beside them another batch is answered';
for my $kind (qw(rejected full fails)) {
    $batch = Batches::wait_for($server, $of{$kind}, sub { $_[0]{request_counts}{completed} == 20 });
    is $batch->{request_counts}{completed}, 20, "$kind: and the good lines of their own batch";
}

$batch = Batches::wait_for($server, $of{fails});
is $batch->{status}, 'completed', 'a batch with lines that fail is completed';
is_deeply $batch->{request_counts}, { total => 220, completed => 20, failed => 200 }, '  with its counts';
my %failed = map { $_->{custom_id} => $_ } Batches::results($server, $batch->{error_file_id});
is scalar keys %failed, 200, '  and each of them once in the error file';
is $failed{'fails-7'}{response}{status_code}, 500, '  with the status';
is $failed{'fails-7'}{response}{body}{error}{code}, 'engine_error', '  and the reason';

$batch = Batches::wait_for($server, batch(Batches::line('once', priority => $fate{once}), Batches::line('always')));
is_deeply $batch->{request_counts}, { total => 2, completed => 2, failed => 0 }, 'a line that failed once is run again';

$server->post("/v1/batches/$of{full}/cancel", {});
$batch = Batches::wait_for($server, $of{full});
is $batch->{status}, 'cancelled', 'lines that wait for another try can be cancelled';
my @rest = Batches::results($server, $batch->{error_file_id});
is scalar @rest, 200, '  and are named';
is_deeply [grep { $_->{error}{code} ne 'batch_cancelled' } @rest], [], '  with the reason';

is $server->stop, 0, 'the server ends while lines wait for another try';
$server = LlmServer->fake(state => $state);
$batch = Batches::get($server, "/v1/batches/$of{rejected}");
is_deeply $batch->{request_counts}, { total => 220, completed => 20, failed => 0 }, '  which the next one has in hand';
is $server->stop, 0, 'the server ends well';
done_testing;
