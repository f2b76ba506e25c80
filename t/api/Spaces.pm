# SPDX-License-Identifier: Apache-2.0
# Network namespaces with an address each on one bridge, and faults of this network. Needs root.
package Spaces;

use strict;
use warnings;

# Why there can be none; undef if there can.
sub missing {
    return 'only root can make network namespaces' if $> != 0;
    return 'there is no ip or no bridge' if grep { system("command -v $_ >/dev/null 2>&1") != 0 } qw(ip bridge);
    return 'no network namespace can be made here' if system("unshare -n sh -c 'ip link add ba type bridge && ip link add va type veth peer name vb' 2>/dev/null") != 0;
    return;
}

sub run { my ($command) = @_; return system("$command >&2") == 0 || die "$command\n" }

sub new {
    my ($class, $n) = @_;
    my $self = bless { net => '10.97.' . $$ % 251, n => 0, owner => $$ }, $class;
    run("ip link add lb$$ type bridge && ip addr add $self->{net}.254/24 dev lb$$ && ip link set lb$$ up");
    $self->grow($n);
    return $self;
}

# Makes namespaces until there are so many.
sub grow {
    my ($self, $n) = @_;
    for (; $self->{n} < $n; $self->{n}++) {
        my ($space, $port) = ("lls-c$$-$self->{n}", "lv$$-$self->{n}");
        run("ip netns add $space && ip -n $space link set lo up && ip link add $port type veth peer name wire netns $space");
        run("ip link set $port master lb$$ up && ip -n $space addr add " . $self->address($self->{n}) . "/24 dev wire && ip -n $space link set wire up");
    }
    return;
}

sub address { my ($self, $i) = @_; return "$self->{net}." . ($i + 1) }

# Returns the words before a command which run it in the namespace.
sub within { my ($self, $i) = @_; return ('ip', 'netns', 'exec', "lls-c$self->{owner}-$i") }

# The bridge drops what comes from its port: the process sees no change of its network.
sub cut  { my ($self, $i) = @_; return run("bridge link set dev lv$self->{owner}-$i state 0") }
sub heal { my ($self, $i) = @_; return run("bridge link set dev lv$self->{owner}-$i state 3") }

# Frames between the two go to an address that nobody has; 0: no longer.
sub split {
    my ($self, $apart, @two) = @_;
    for ([@two], [reverse @two]) {
        my $whose = $self->address($_->[1]);
        my $what = $apart ? "replace $whose lladdr 02:00:00:00:00:fe nud permanent" : "del $whose";
        run("ip -n lls-c$self->{owner}-$_->[0] neigh $what dev wire");
    }
    return;
}

sub DESTROY {
    my ($self) = @_;
    return if $$ != $self->{owner};
    local ($?, $@);
    system "ip netns del lls-c$$-$_ 2>/dev/null" for 0 .. $self->{n} - 1;
    system "ip link del lb$$ 2>/dev/null";
    return;
}

1;
