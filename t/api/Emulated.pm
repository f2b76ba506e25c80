# SPDX-License-Identifier: Apache-2.0
# Servers whose instances are processes, each with its own GPUs: the emulated ones of t/simt, and its NCCL.
package Emulated;

use strict;
use warnings;
use File::Copy;
use File::Temp;
use Golden;
use JSON::PP;
use LlmServer;
use Mpi;
use Test::More;

our $folder = File::Temp->newdir;
our $TOKENS = LlmServer::sanitized() ? 4 : 12;    # of an answer
my @golden = @Golden::ANSWERS;

# The device's module where servers find it.
sub install {
    my $module = LlmServer::built('t/simt/.libs/device_cuda.so');
    copy($module, "$folder/device_cuda.so") or die "$module: $!";
    $ENV{LLS_PLUGIN_PATH} = "$folder:$ENV{LLS_PLUGIN_PATH}";
    $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
    $ENV{ASAN_OPTIONS}    = ($ENV{ASAN_OPTIONS} // '') . ':verify_asan_link_order=0';
    return;
}

# A program that runs what follows after these lines of shell.
sub before {
    my ($name, $lines) = @_;
    my $path = "$folder/$name";
    LlmServer::write_file($path, "#!/bin/sh\n$lines\nexec \"\$@\"\n");
    chmod 0755, $path;
    return $path;
}

# roles, int8, blocks_by, gpus (each the same), ranks (1), more (lines of [engine]), weights, cache, under (a program).
sub serve {
    my (%o) = (int8 => 'off', ranks => 1, more => '', weights => '', cache => '', under => [], @_);
    my $n = $o{ranks} * (() = $o{roles} =~ /(?:mixed|prefill|decode)/g);
    my $gpus = defined $o{gpus} ? "gpus = $o{gpus}\n" : '';
    my $size = $o{ranks} > 1 ? "tensor_parallel_size = $o{ranks}\n" : '';
    return LlmServer->serve("[model]\npath = $Golden::MODEL\n$o{weights}" . "[engine]\ndevice = cuda\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n"
        . "max_step_tokens = 64\nmax_sequences = 8\nroles = $o{roles}\nblocks_by = $o{blocks_by}\n$gpus$size$o{more}"
        . "[cache]\ndevice_memory = 2MiB\nblock_tokens = 16\nint8 = $o{int8}\n$o{cache}" . "[plugins]\nscheduler = " . ($o{roles} =~ /decode/ ? 'distserve' : 'sarathi') . "\ncache = tiered\n",
        undef, Mpi::run($n, Mpi::recovery()), @{ $o{under} });
}

sub body { my ($i) = @_; return { prompt => $golden[$i % @golden]{prompt_ids}, max_tokens => $TOKENS, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true } }

sub golden_ids { return map { [@{ $_->{greedy_ids} }[0 .. $TOKENS - 1]] } @golden }

# The tokens of each prompt twice, all at once.
sub answers { my ($server) = @_; return map { $_->{choices}[0]{token_ids} } $server->at_once(map { body($_) } 0 .. 2 * @golden - 1) }

sub answers_well {
    my ($server, @expected) = @_;
    my @ids = answers($server);
    is_deeply $ids[$_], $expected[$_ % @golden], "  \"$golden[$_ % @golden]{prompt}\"" for 0 .. $#ids;
    return;
}

# Requests on sockets of their own.
sub begin {
    my ($server, $n) = @_;
    my @sockets = map { $server->connect } 1 .. $n;
    syswrite $sockets[$_], LlmServer::raw_post('/v1/completions', encode_json(body($_)), 'Connection: close') for 0 .. $#sockets;
    return @sockets;
}

# A new folder for the mail of NCCL between processes that are started from now on.
sub new_mail {
    my ($gpus) = @_;
    $ENV{SIMT_GPUS} = $gpus;
    $ENV{SIMT_NCCL} = File::Temp::tempdir(DIR => "$folder");
    return;
}

# Bytes that have been received by ncclRecv, but numbers.
sub mailed {
    my $bytes = 0;
    for my $path (glob "$ENV{SIMT_NCCL}/*/taken") {
        $bytes += $_ for split ' ', LlmServer::read_file($path);
    }
    return $bytes;
}

1;
