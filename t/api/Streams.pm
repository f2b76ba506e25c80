# SPDX-License-Identifier: Apache-2.0
# Many streaming clients of one server, driven from one loop: each sends a greedy request,
# records the ids and times of its tokens, and sends the next request after its answer.
#
#   my $streams = Streams->new($server, clients => 64, prompts => [...], tokens => 100);
#   $streams->learn;                    # each prompt once: the answers that must come
#   $streams->run(sub { time > $end }); # until it says so; again asks what ended
#   $streams->finish;                   # no new requests, until the last answer is there
# With from_ask => 1 the wait for a first token is one of the gaps.
#   $streams->{wrong}                   # sentences: answers that differ, failed, or stopped
package Streams;

use strict;
use warnings;
use IO::Select;
use JSON::PP ();
use LlmServer;
use Time::HiRes ();

sub new {
    my ($class, $server, %self) = @_;
    %self = (%self, server => $server, select => IO::Select->new, live => {}, next => 0,
        answers => [], wrong => [], gaps => [], tokens_seen => 0, done => 0);
    return bless \%self, $class;
}

sub ask {
    my ($self) = @_;
    my $i      = $self->{next}++ % @{ $self->{prompts} };
    my $socket = $self->{server}->connect;
    my $body   = JSON::PP::encode_json({ prompt => $self->{prompts}[$i], max_tokens => $self->{tokens}, temperature => 0,
        stream => JSON::PP::true, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true });
    syswrite $socket, LlmServer::raw_post('/v1/completions', $body, 'Connection: close');
    $self->{live}{$socket} = { socket => $socket, prompt => $i, buffer => '', ids => [], last => $self->{from_ask} ? Time::HiRes::time() : undef };
    $self->{select}->add($socket);
    return;
}

# Every whole event there is; the times between tokens go to `gaps` (seconds).
sub take {
    my ($self, $c) = @_;
    my $now = Time::HiRes::time();
    while ($c->{buffer} =~ s/\A.*?data: ([^\n]*)\n\n//s) {
        my $event = $1;
        my ($ids) = $event =~ /"token_ids": ?\[([-\d, ]*)\]/;
        $c->{finish} = $1 if $event =~ /"finish_reason": ?"(\w+)"/;
        $c->{done}   = 1  if $event eq '[DONE]';
        $c->{error}  = $event if $event =~ /\A\{"error"/;
        my @ids = split /, */, $ids // '';
        next unless @ids;
        push @{ $c->{ids} }, @ids;
        push @{ $self->{gaps} }, $now - $c->{last} if defined $c->{last} && !$self->{blind};
        $c->{last} = $now;
        $self->{tokens_seen} += @ids;
    }
    return;
}

sub end {
    my ($self, $c) = @_;
    $self->{select}->remove($c->{socket});
    delete $self->{live}{ $c->{socket} };
    $self->{done}++;
    my $ids    = join ' ', @{ $c->{ids} };
    my $wanted = $self->{answers}[$c->{prompt}] //= $ids;
    my $why
        = !$c->{done}                          ? 'stopped: ' . ($c->{error} // substr($c->{buffer}, 0, 200))
        : ($c->{finish} // '') ne 'length'     ? 'ended with ' . ($c->{finish} // $c->{error} // 'nothing')
        : @{ $c->{ids} } != $self->{tokens}    ? 'has ' . @{ $c->{ids} } . " tokens of $self->{tokens}"
        : $ids ne $wanted                      ? "has other tokens: $ids, not $wanted"
        :                                        undef;
    push @{ $self->{wrong} }, "answer $self->{done} to prompt $c->{prompt} $why" if defined $why;
    return;
}

sub pump {
    my ($self, $timeout) = @_;
    for my $socket ($self->{select}->can_read($timeout)) {
        my $c = $self->{live}{$socket};
        my $n = sysread $socket, $c->{buffer}, 65536, length $c->{buffer};
        $self->take($c);
        $self->end($c) unless $n;
    }
    return;
}

sub run {
    my ($self, $enough) = @_;
    until ($enough->()) {
        $self->ask while keys %{ $self->{live} } < $self->{clients};
        $self->pump(0.01);
    }
    return;
}

sub finish {
    my ($self) = @_;
    my $deadline = Time::HiRes::time() + $LlmServer::TIMEOUT;
    $self->pump(0.1) while %{ $self->{live} } && Time::HiRes::time() < $deadline;
    push @{ $self->{wrong} }, keys(%{ $self->{live} }) . ' answers never ended' if %{ $self->{live} };
    return;
}

sub learn {
    my ($self) = @_;
    local $self->{blind} = 1;
    for (@{ $self->{prompts} }) { $self->ask; $self->finish }
    return;
}

1;
