# SPDX-License-Identifier: Apache-2.0
# The other side of fail_once.c: which call of a server is to fail, and which there are.
#
#   my $faults = Faults->new;                        # the file that both map; depth => 9: so many callers
#                                                    # tell places apart, and not six
#   $faults->record(Faults::ALLOC);                  # before a server starts, or while it runs
#   my @places = $faults->places;
#   $faults->fail(Faults::ALLOC, $place); ... $faults->off;
#   $faults->failed                                  # true if the place was come by
#   LlmServer->serve($ini, undef, $faults->launcher)
#
# LLS_FAIL_PLACE=KIND:PLACE,... tries these alone, and has the log with the callers of each
# failure printed: what a finding names is found again so. LLS_FAIL_PART=2/4 has the second quarter
# of all tried: a long run is done in four.
package Faults;

use strict;
use warnings;
use File::Temp;
use LlmServer;

use constant { ALLOC => 1, IO => 2, SHORT => 4 };
use constant { OFF   => 0, RECORD => 1, FAIL => 2 };
use constant { DEPTH => 6, HEAD   => 48, PLACES => 65536 };

our %NAME = (ALLOC, 'an allocation', IO, 'a call of the system', SHORT, 'half a read or write');

# [kind, place] of the environment.
sub chosen { return map { my ($kind, $place) = split /:/; no warnings 'portable'; [$kind, hex $place] } split /,/, $ENV{LLS_FAIL_PLACE} // '' }
sub name { my ($kind, $place) = @_; return sprintf '%s (%d:%x)', $NAME{$kind}, $kind, $place }
# Those that are this run's.
sub part {
    my ($i, $n) = ($ENV{LLS_FAIL_PART} // '1/1') =~ m{\A(\d+)/(\d+)\z};
    return @_[grep { $_ % $n == $i - 1 } 0 .. $#_];
}
# The end of a log, which is where what went wrong is, without the answers meanwhile.
sub end_of { my ($log) = @_; my @lines = grep { !/: outcome \w+,/ } split /\n/, $log; return join "\n", @lines > 30 ? @lines[-30 .. -1] : @lines }
sub show { my ($name, $log) = @_; Test::More::diag("$name:\n$log") if chosen(); return }

# Why there can be none.
sub missing {
    my $library = LlmServer::built('t/campaign/.libs/fail_once.so');
    return "$library was not built" if !-e $library;
    return 'a sanitizer has its own allocator' if LlmServer::sanitized();
    return 'valgrind has its own allocator' if LlmServer::under();
    return 'setarch -R is not to be had (util-linux)' if system('setarch -R true >/dev/null 2>&1') != 0;
    return;
}

sub new {
    my ($class, %self) = @_;
    my $self = bless { depth => DEPTH, %self, file => File::Temp->new }, $class;
    $self->put(OFF, 0, 0);
    return $self;
}

# Addresses stay as they are from one start to the next, and so do places.
sub launcher {
    my ($self) = @_;
    my $library = LlmServer::built('t/campaign/.libs/fail_once.so');
    return ('setarch', '-R', 'env', "LD_PRELOAD=$library", "LLS_FAIL=$self->{file}");
}

# In place: a server may have it mapped. `live` stays; the mode is what changes last.
sub put {
    my ($self, $mode, $kinds, $wanted) = @_;
    my $path = $self->{file}->filename;
    open my $out, '+<:raw', $path or die "$path: $!";
    truncate $out, HEAD + 8 * PLACES;
    $self->write_at($out, 0, pack('L', OFF));
    $self->write_at($out, 4, pack('L3 Q', $kinds, $self->{depth}, 0, $wanted));
    $self->write_at($out, 32, pack('L2', 0, chosen() ? 1 : 0));
    $self->write_at($out, HEAD, "\0" x (8 * PLACES)) if $mode == RECORD;
    $self->write_at($out, 0, pack('L', $mode));
    close $out;
    return;
}

sub write_at {
    my ($self, $out, $at, $bytes) = @_;
    sysseek $out, $at, 0;
    syswrite($out, $bytes) == length $bytes or die "write: $!";
    return;
}

sub record { my ($self, $kinds) = @_; $self->put(RECORD, $kinds, 0); return }
sub fail { my ($self, $kinds, $place) = @_; $self->put(FAIL, $kinds, $place); return }

sub off {
    my ($self) = @_;
    open my $out, '+<:raw', $self->{file}->filename or die "$!";
    $self->write_at($out, 0, pack('L', OFF));
    close $out;
    return;
}

sub head {
    my ($self) = @_;
    my %head;
    @head{qw(mode kinds depth failed wanted live n shows owner)} = unpack 'L4 Q q L2 Q', LlmServer::read_file($self->{file}->filename);
    return \%head;
}

sub failed { my ($self) = @_; return $self->head->{failed} }
sub live   { my ($self) = @_; return $self->head->{live} }

# For another process: what the one before has left is not its.
sub forget_live {
    my ($self) = @_;
    open my $out, '+<:raw', $self->{file}->filename or die "$!";
    $self->write_at($out, 24, pack('q', 0));
    $self->write_at($out, 40, pack('Q', 0));
    close $out;
    return;
}

sub places {
    my ($self) = @_;
    my $all = LlmServer::read_file($self->{file}->filename);
    return sort { $a <=> $b } grep { $_ } unpack 'Q*', substr $all, HEAD;
}

1;
