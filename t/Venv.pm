# SPDX-License-Identifier: Apache-2.0
# Virtual environments of Python in the build folder, each created once, for clients from
# other projects.
package Venv;
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;

# ($python, undef), or (undef, why there is none).
sub make {
    my ($name, @packages) = @_;
    my $venv   = LlmServer::built("t/$name-venv");
    my $why    = LlmServer::make_venv($venv, @packages);
    return defined $why ? (undef, $why) : ("$venv/bin/python", undef);
}

# Runs a script that prints TAP, and passes its lines on under the client's name; how many.
sub judge {
    my ($client, $command) = @_;
    open my $out, '-|', "timeout 600 $command 2>&1" or die $!;
    my ($n, @lines) = (0);
    while (<$out>) {
        push @lines, $_;
        if    (/^ok \d+ - (.*)/)     { Test::More::pass("$client: $1"); $n++ }
        elsif (/^not ok \d+ - (.*)/) { Test::More::fail("$client: $1"); $n++ }
    }
    close $out;
    Test::More::is($?, 0, "$client: all of it") or Test::More::diag(@lines);
    return $n;
}

1;
