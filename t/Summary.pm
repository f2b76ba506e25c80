# SPDX-License-Identifier: Apache-2.0
# prove's formatter, which says before prove's own summary what somebody needs who sees only the
# end of the output: what was skipped and why, and of each test file that failed the failing tests
# with what they printed, and the command that repeats them.
package Summary;

use strict;
use warnings;

use base -t STDOUT ? 'TAP::Formatter::Console' : 'TAP::Formatter::File';

use constant {
    MOST_LINES => 120,    # of one failing file
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
    $self->list_skipped;
    $self->show_failure($_) for grep { $_->{parser}->has_problems } @{ $self->{lls_files} };
    return $self->SUPER::summary(@arguments);
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
