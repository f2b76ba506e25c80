# SPDX-License-Identifier: Apache-2.0
# Reloads that do not wait for each other: every configuration is another triple of
# scheduler, cache manager and predictor, or a broken one, and some are asked for while
# another is under way or before a step was run with it.
#
#   my $storm = Storm->new($server, $streams, base => $ini, broken => [$ini, ...], seed => 1,
#       peace => 0.05);        # seconds at most between two bursts
#   $storm->turn while ...;    # streams go on meanwhile
#   $storm->counts             # of the log: reloads that were done, and refused
package Storm;

use strict;
use warnings;
use File::Basename qw(basename);
use List::Util qw(shuffle);
use LlmServer;
use Time::HiRes qw(time);

# All plugins of a kind that were built, but those of the tests.
sub plugins_of {
    my ($kind) = @_;
    return map { basename($_) =~ /\A${kind}_(\w+)\.so\z/ ? $1 : () } sort glob LlmServer::built(".libs/${kind}_*.so");
}

sub triples {
    my @triples;
    for my $scheduler (plugins_of('scheduler')) {
        for my $cache (plugins_of('cache')) {
            push @triples, map { "[plugins]\nscheduler = $scheduler\ncache = $cache\npredictor = $_\n" } plugins_of('predictor');
        }
    }
    return @triples;
}

sub new {
    my ($class, $server, $streams, %self) = @_;
    srand $self{seed};
    my @inis = shuffle(map { $self{base} . $_ } triples());
    return bless { %self, server => $server, streams => $streams, inis => \@inis, at => 0, sent => 0 }, $class;
}

sub pass { my ($self, $seconds) = @_; my $until = time + $seconds; $self->{streams}->run(sub { time >= $until }); return }

sub reload {
    my ($self) = @_;
    my @broken = @{ $self->{broken} };
    my $bad    = ++$self->{sent} % 7 == 0;
    $self->{server}->configure($bad ? $broken[$self->{sent} / 7 % @broken] : $self->{inis}[$self->{at}++ % @{ $self->{inis} }]);
    $self->{server}->signal('HUP');
    return;
}

# One to four reloads within a few milliseconds, so that the next is asked for before the
# step thread went on from the one before; then some steps in peace.
sub turn {
    my ($self) = @_;
    for (0 .. int rand 4) {
        $self->reload;
        Time::HiRes::sleep(rand 0.002);
    }
    $self->pass(rand $self->{peace});
    return;
}

sub counts {
    my ($self) = @_;
    my $log     = $self->{server}->log;
    my $done    = () = $log =~ / reload: generation \d+:/g;
    my $refused = () = $log =~ / reload: refused/g;
    return ($done, $refused);
}

1;
