# SPDX-License-Identifier: Apache-2.0
# Virtual environments of Python in the build folder, each made once, for clients that are
# not ours.
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
    my $python = "$venv/bin/python";
    return ($python, undef) if -e "$venv/ready";
    return (undef, 'python3 is not installed') if system('command -v python3 >/dev/null 2>&1') != 0;
    return (undef, 'python3 has no venv (Debian: python3-venv)') if system("python3 -m venv '$venv' >/dev/null 2>&1") != 0;
    # one quick try: where no package index is reached, this is no reason to wait
    my $pip = "'$python' -m pip --disable-pip-version-check --timeout 10 --retries 0 install -q @packages";
    return (undef, 'no package index is reached') if system("timeout 300 $pip >'$venv/pip.log' 2>&1") != 0;
    open my $mark, '>', "$venv/ready" or return (undef, "$venv: $!");
    close $mark;
    return ($python, undef);
}

# Runs a script that prints TAP, and passes its lines on under the client's name; how many.
sub judge {
    my ($client, $command) = @_;
    open my $out, '-|', "timeout 120 $command 2>&1" or die $!;
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
