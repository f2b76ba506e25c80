# SPDX-License-Identifier: Apache-2.0
# Runs programs on a terminal, which script(1) makes.
package Terminal;
use strict;
use warnings;
use Exporter 'import';
use IPC::Open2;
our @EXPORT_OK = qw(has_terminal on_terminal);

sub has_terminal { return system('command -v script >/dev/null') == 0 }

# Runs a shell's command and returns what it has shown. Nobody presses a key (the pipe to script stays open) until what
# is shown matches `enough`, and then q.
sub on_terminal {
    my ($command, $enough) = @_;
    my ($shown, $pressed) = ('', 0);
    local $SIG{PIPE} = 'IGNORE'; # the program may end before the key
    my $pid = open2(my $out, my $keys, 'script', '-qec', $command, '/dev/null');
    while (sysread $out, $shown, 65_536, length $shown) {
        syswrite $keys, 'q' if defined $enough && $shown =~ $enough && !$pressed++;
    }
    close $keys;
    waitpid $pid, 0;
    return $shown;
}
1;
