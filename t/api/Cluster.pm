# SPDX-License-Identifier: Apache-2.0
# Processes of a [cluster] for tests: a front end, and others that join it by UCX.
package Cluster;

use strict;
use warnings;
use LlmServer;
use JSON::PP ();

sub missing {
    return 'configure found no UCX' unless -e LlmServer::built('.libs/ucx.so');
    return;
}

# The front end with these lines of [cluster], once its log has the pattern.
sub front {
    my ($config, $more, $said) = @_;
    return LlmServer->serve("$config\n[cluster]\nlisten = 127.0.0.1:0\n" . ($more // ''), $said);
}

sub port {
    my ($front) = @_;
    return $front->log =~ /other processes can join at \S+ port (\d+)/ ? $1 : die $front->log;
}

# A process that joins; {address} is its number. With a pattern: until its log has that.
sub member {
    my ($front, $config, $more, $said) = @_;
    return LlmServer->serve("$config\n[cluster]\njoin = 127.0.0.1:" . port($front) . "\n" . ($more // ''), $said // qr/it is instance (\d+) of/);
}

# The states of the instances, as in 'up lost absent'.
sub states {
    my ($front) = @_;
    return join ' ', map { $_->{status} } @{ JSON::PP::decode_json($front->get('/admin/status')->{content})->{instances} };
}

sub becomes {
    my ($front, $states) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.02) until states($front) eq $states || time > $deadline;
    Test::More::is(states($front), $states, "  they become: $states");
    return;
}

sub steps {
    my ($front, $i) = @_;
    return JSON::PP::decode_json($front->get('/admin/status')->{content})->{instances}[$i]{steps};
}

1;
