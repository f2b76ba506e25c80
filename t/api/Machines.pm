# SPDX-License-Identifier: Apache-2.0
# Emulates two machines on one: network namespaces with separate host names, and a link
# between them with the requested bandwidth, latency and loss; mpirun starts processes on
# both. The tests' own namespace reaches the first machine by a separate link. Needs root.
package Machines;

use strict;
use warnings;
use File::Temp;
use Mpi;

# Why there can be none; undef if there can.
sub missing {
    return 'only root can make network namespaces' if $> != 0;
    for my $program (qw(ip tc unshare)) {
        return "there is no $program" if system("command -v $program >/dev/null 2>&1") != 0;
    }
    return 'no network namespace can be made here' if system("unshare -n sh -c 'ip link add va type veth peer name vb && tc qdisc add dev va root tbf rate 1mbit burst 32kb latency 1s' 2>/dev/null") != 0;
    return;
}

# True where links can have a delay and lose packets.
sub has_netem { return system("unshare -n sh -c 'ip link set lo up && tc qdisc add dev lo root netem delay 1ms' 2>/dev/null") == 0 }

sub run { my ($command) = @_; return system("$command >&2") == 0 || die "$command\n" }

# mbit => of each direction, 0 = as fast as it is; netem => 'delay 5ms loss 1%', or undef
sub new {
    my ($class, %self) = @_;
    my $self = bless { %self, names => ["lls-$$-0", "lls-$$-1"], folder => File::Temp->newdir, owner => $$ }, $class;
    my ($first, $second) = @{ $self->{names} };
    run("ip netns add $_ && ip -n $_ link set lo up") for $first, $second;
    run("ip -n $first link add wire type veth peer name wire netns $second");
    my $i = 0;
    run("ip -n $_ addr add 10.98.0." . ++$i . "/24 dev wire && ip -n $_ link set wire up") for $first, $second;
    $self->{net} = '10.99.' . $$ % 251;
    run("ip link add lls$$ type veth peer name front netns $first && ip addr add $self->{net}.2/30 dev lls$$ && ip link set lls$$ up");
    run("ip -n $first addr add $self->{net}.1/30 dev front && ip -n $first link set front up");
    $self->slow(%self);
    LlmServer::write_file("$self->{folder}/agent", "#!/bin/sh\n# HOST COMMAND...\nshift\nexec ip netns exec $second unshare --uts sh -c 'hostname $second; exec sh -c \"\$*\"' x \"\$*\"\n");
    chmod 0755, "$self->{folder}/agent";
    return $self;
}

sub slow {
    my ($self, %link) = @_;
    for my $name (@{ $self->{names} }) {
        system("tc -n $name qdisc del dev wire root 2>/dev/null");
        run("tc -n $name qdisc add dev wire root netem $link{netem}" . ($link{mbit} ? " rate $link{mbit}mbit" : '') . ' limit 20000') if $link{netem};
        run("tc -n $name qdisc add dev wire root tbf rate $link{mbit}mbit burst " . ($link{mbit} > 200 ? 256 : 32) . "kb latency 2s") if $link{mbit} && !$link{netem};
    }
    return;
}

# [server] listen, where clients reach it.
sub address { my ($self) = @_; return "$self->{net}.1:0" }

# Starts so many processes on the first, and on the second, of what follows.
sub launcher {
    my ($self, $here, $there, @more) = @_;
    my $first = $self->{names}[0];
    return ('ip', 'netns', 'exec', $first, 'unshare', '--uts', 'sh', '-c', "hostname $first; exec \"\$\@\"", 'x',
        Mpi::run($here + $there, @more, '-host', "10.98.0.1:$here,10.98.0.2:$there", '--mca', 'plm_rsh_agent', "$self->{folder}/agent",
            '--mca', 'btl', 'tcp,vader,self', '--mca', 'btl_tcp_if_include', '10.98.0.0/24', '--mca', 'oob_tcp_if_include', '10.98.0.0/24',
            map { ('-x', $_) } grep { /\ALLS_/ } keys %ENV));
}

sub DESTROY {
    my ($self) = @_;
    return if $$ != $self->{owner};
    local ($?, $@);
    system("ip netns del $_ 2>/dev/null") for @{ $self->{names} };
    system("ip link del lls$$ 2>/dev/null");
    return;
}

1;
