# SPDX-License-Identifier: Apache-2.0
# The parts of the campaign share how long they go on, the dice, and how they print.
#
#   LLS_CAMPAIGN_SECONDS   how long a part goes on (t/campaign/run gives each its share of
#                          MINUTES). The suite has none: each part does the least that it
#                          does, which is as much on a fast machine as on a slow one, so that
#                          nothing is found there by luck.
#   LLS_SEED               of the dice; 1 in the suite, so that what it finds it finds again
#
#   my $end = Campaign::begin;              # the dice are thrown from here on
#   ... while Campaign::goes_on($end);
#   Campaign::figure('kills', $n, 'of them during a reload', $m);
package Campaign;

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Test::More ();
use Time::HiRes qw(time);

my $began;

sub seconds { return $ENV{LLS_CAMPAIGN_SECONDS} // 0 }
sub seed    { return $ENV{LLS_SEED}             // 1 }

# Valgrind takes vectors apart, some thousand times as slow: a model of a tenth of the work there.
sub model { return LlmServer::source(LlmServer::under() ? 't/data/models/stories260K' : 'share/demo-model') }

# The least of what a part does, and that under valgrind, where a step takes tenths of a second.
sub least { my ($n, $under) = @_; return LlmServer::under() ? $under : $n }

sub begin {
    srand seed();
    $began = time;
    return $began + seconds();
}

sub goes_on { my ($end) = @_; return time < $end }

# The line that t/campaign/run collects.
sub figure {
    my (@pairs) = @_;
    my ($part) = $0 =~ m{(\w+)\.t\z};
    my $text = sprintf '%s: seed %s, %.0f s', $part // $0, seed(), time - $began;
    while (my ($name, $value) = splice @pairs, 0, 2) { $text .= ", $name $value" }
    Test::More::diag("figure $text") if $ENV{LLS_CAMPAIGN_SECONDS};
    Test::More::note("figure $text");
    return;
}

1;
