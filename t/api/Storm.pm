# SPDX-License-Identifier: Apache-2.0
# Reloads in quick succession: every configuration is another triple of scheduler, cache
# manager and predictor, or a broken one. Some reloads are requested while another is
# under way, or before the new policies have run a step.
#
#   my $storm = Storm->new($server, $streams, base => $ini, broken => [$ini, ...], seed => 1,
#       peace => 0.05,         # seconds at most between two bursts
#       starve => 0);          # the step thread gets next to no time during one (Linux, chrt)
#   $storm->turn while ...;    # streams go on meanwhile
#   $storm->counts             # of the log: reloads that were done, and refused
package Storm;

use strict;
use warnings;
use File::Basename qw(basename);
use List::Util qw(shuffle);
use LlmServer;
use Time::HiRes qw(time);

# All plugins of a kind that were built, but those of the tests, and pipe, whose policy is a program (t/tools/pipe.t).
sub plugins_of {
    my ($kind) = @_;
    return grep { $_ ne 'pipe' } map { basename($_) =~ /\A${kind}_(\w+)\.so\z/ ? $1 : () } sort glob LlmServer::built(".libs/${kind}_*.so");
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

# The step thread's class: beside busy processors one of "idle" waits for tenths of a second.
sub step_class {
    my ($self, $class) = @_;
    for my $comm (glob "/proc/$self->{server}{pid}/task/*/comm") {
        my ($thread) = $comm =~ m{(\d+)/comm\z};
        system('chrt', "--$class", '--pid', 0, $thread) == 0 or die 'chrt failed'
            if LlmServer::read_file($comm) eq "llmserve-step\n";
    }
    return;
}

# One to four reloads within a few milliseconds, so that the next is asked for before the
# step thread went on from the one before; then some steps in peace. Reading a file and
# trying its plugins takes longer than the step thread needs to wake, unless it is starved.
sub turn {
    my ($self) = @_;
    my $before = $self->outcomes;
    $self->step_class('idle') if $self->{starve};
    for (0 .. int rand 4) {
        $self->reload;
        Time::HiRes::sleep(rand 0.002);
    }
    if ($self->{starve}) {
        my $until = time + 3;
        $self->{streams}->run(sub { $self->outcomes >= $before + 2 || time >= $until });
        $self->step_class('other');
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

sub outcomes { my ($self) = @_; my ($done, $refused) = $self->counts; return $done + $refused }

1;
