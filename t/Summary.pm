# SPDX-License-Identifier: Apache-2.0
# prove's formatter. Before prove's own summary it prints what a reader of the end of the output needs: the
# tests that used most processor time, the skipped tests with their reasons, and for each failed test file its
# failing tests with their output and the command that repeats them. LLS_SECONDS names a file that gets each
# test's seconds of processor time, for t/budget.
package Summary;

use strict;
use warnings;

use base -t STDOUT ? 'TAP::Formatter::Console' : 'TAP::Formatter::File';

use constant {
    MOST_LINES => 120,    # of one failing file
    LONGEST    => 15,     # files in the table of seconds, where there are more
    LAST_LINES => 20,     # of one that failed, but not in a test: it crashed, or its plan is wrong
};

sub open_test {
    my ($self, $test, $parser) = @_;
    my $seen = { name => relative($test), parser => $parser, skipped => {}, failing => [], between => [] };
    push @{ $self->{lls_files} }, $seen;
    $parser->callback(ALL => sub { notice($seen, $_[0]) });
    return $self->SUPER::open_test($test, $parser);
}

# A test's output may come before its line or after it: both are kept with one that fails.
sub notice {
    my ($seen, $line) = @_;
    return if $line->is_plan;
    if ($line->raw =~ /\A# processor: ([\d.]+) s\z/) {
        $seen->{seconds} = $1;
        return;
    }
    if (!$line->is_test) {
        push @{ $seen->{between} }, $line->raw if $line->raw =~ /\S/ && $line->raw !~ /\A\s+ok /;
        return;
    }
    push @{ $seen->{failing} }, splice @{ $seen->{between} } if $seen->{failed} || !$line->is_ok;
    push @{ $seen->{failing} }, $line->raw if !$line->is_ok;
    $seen->{failed}  = !$line->is_ok;
    $seen->{between} = [];
    $seen->{skipped}{ $line->explanation || 'no reason given' }++ if $line->has_skip;
    return;
}

sub summary {
    my ($self, @arguments) = @_;
    $self->list_seconds;
    $self->list_skipped;
    $self->show_failure($_) for grep { $_->{parser}->has_problems } @{ $self->{lls_files} };
    return $self->SUPER::summary(@arguments);
}

# The files that computed longest, and all of them to LLS_SECONDS: a name and its seconds a line.
sub list_seconds {
    my ($self) = @_;
    my @files = sort { $b->{seconds} <=> $a->{seconds} || $a->{name} cmp $b->{name} } grep { defined $_->{seconds} } @{ $self->{lls_files} };
    my $sum = 0;
    $sum += $_->{seconds} for @files;
    if (@files > LONGEST) {
        $self->_output(sprintf "\nSeconds of processor time, %.0f in all:\n", $sum);
        $self->_output(sprintf "  %8.2f  %s\n", @$_{qw(seconds name)}) for @files[0 .. LONGEST - 1];
    }
    return if ($ENV{LLS_SECONDS} // '') eq '';
    open my $out, '>', $ENV{LLS_SECONDS} or die "$ENV{LLS_SECONDS}: $!\n";
    print $out map { "$_->{name} $_->{seconds}\n" } @files;
    close $out or die "$ENV{LLS_SECONDS}: $!\n";
    return;
}

sub list_skipped {
    my ($self) = @_;
    my @lines = ($ENV{LLS_LEFT_OUT} // '') =~ /([^;\s][^;]*)/g;
    for my $seen (@{ $self->{lls_files} }) {
        my $all = $seen->{parser}->skip_all;
        push @lines, "$seen->{name}: $all" if $all;
        push @lines, "$seen->{name}, $seen->{skipped}{$_} of " . $seen->{parser}->tests_run . ": $_"
            for sort keys %{ $seen->{skipped} };
    }
    $self->_output("\nSkipped:\n", map { "  $_\n" } @lines) if @lines;
    return;
}

sub show_failure {
    my ($self, $seen) = @_;
    my ($failing, $last) = @$seen{qw(failing between)};
    splice @$last, 0, -LAST_LINES if @$last > LAST_LINES;
    my @lines = (@$failing, @$last);
    splice @lines, MOST_LINES / 2, -MOST_LINES / 2, '...' if @lines > MOST_LINES;
    $self->_failure_output("\nFAILED: $seen->{name}\n", map { "  $_\n" } @lines);
    my $under = defined $ENV{LLS_UNDER} ? "LLS_UNDER='$ENV{LLS_UNDER}' " : '';
    $self->_output("  Repeat it: ${under}make -C $ENV{LLS_BUILDDIR} check TESTS='$seen->{name}'\n\n");
    return;
}

# As TESTS= takes it: t/unit/test_loop.
sub relative {
    my ($test) = @_;
    for my $folder (sort { length $b <=> length $a } @ENV{qw(LLS_BUILDDIR LLS_SRCDIR)}) {
        last if $test =~ s{\A\Q$folder\E/}{};    # the longest: one may be in the other
    }
    return $test;
}

1;
