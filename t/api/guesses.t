#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Guesses change no answer where several engines compute it, or several models: with ranks, with instances that hand
# it over, with adapters, and n answers of a prompt; by a drafter that guesses what the text repeats and by one that
# lies (t/plugin/drafter_hostile.c). Each server's answers are those of the same server without a drafter.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $models  = LlmServer::source('t/data/models');
my $stories = "$models/stories260K";
my $true    = JSON::PP::true;
my $states  = File::Temp->newdir; # the model lacks a tokenizer
symlink "$models/qwen3.5/$_", "$states/$_" or die $! for 'config.json', 'model.safetensors';
symlink "$stories/$_", "$states/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';

my @servers = (
    { name => 'ranks and states',    engine => 'tensor_parallel_size = 2', model => $states },
    { name => 'hand-over of states', engine => 'roles = prefill, decode', scheduler => 'distserve', model => $states },
    { name => 'adapters',            lora   => "first = $stories-lora/first\nsecond = $stories-lora/second\n", models => [qw(stories260K first second)] },
);

sub config {
    my ($s, $drafter) = @_;
    return "[model]\npath = " . ($s->{model} // $stories) . "\nweights = f32\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 64\nmax_sequences = 16\n"
        . ($s->{engine} // '') . "\n[cache]\nelement = f32\ndevice_memory = 1MiB\n" . ($s->{lora} ? "[lora]\n$s->{lora}" : '')
        . "[plugins]\ndrafter = $drafter\ndraft_budget = 0\nmin_drafts = 7\nscheduler = " . ($s->{scheduler} // 'sarathi') . "\n";
}

# Prompts that repeat themselves, drawn in several ways, all at once.
sub bodies {
    my ($s) = @_;
    my @bodies;
    for my $i (0 .. 3) {
        my @prompt = map { 3 + ($_ % (5 + $i)) * 7 } 1 .. 40;
        push @bodies, { prompt => \@prompt, max_tokens => 32, ignore_eos => $true, return_token_ids => $true, seed => $i, %$_ }
            for { temperature => 0 }, { temperature => 0.8, top_p => 0.9, n => 2 }, { temperature => 0.3, frequency_penalty => 0.2 };
    }
    if (my $names = $s->{models}) { $bodies[$_]{model} = $names->[ $_ % @$names ] for 0 .. $#bodies }
    return @bodies;
}

sub ids { return [map { [map { $_->{token_ids} } sort { $a->{index} <=> $b->{index} } @{ $_->{choices} }] } @_] }

sub counted {
    my ($server, $name) = @_;
    my $sum = 0;
    $sum += $_ for $server->get('/metrics')->{content} =~ /^vllm:spec_decode_num_${name}_total(?:\{[^}]*\})? (\S+)$/mg;
    return $sum;
}

my %all; # of each drafter, over all servers
for my $s (@servers) {
    my $plain = LlmServer->serve(config($s, 'none'));
    my $right = ids($plain->at_once(bodies($s)));
    is scalar(grep { @$_ != 32 } map { @$_ } @$right), 0, "$s->{name}: whole answers";
    is $plain->stop, 0, '  the server ends well';
    for my $name ('ngram', 'hostile') {
        my $server = LlmServer->serve(config($s, $name));
        is_deeply ids($server->at_once(bodies($s))), $right, "  $name: the same tokens";
        $all{$name}{$_} += counted($server, $_) for 'draft_tokens', 'accepted_tokens';
        unlike $server->log, qr/host misbehav/i, '  nor the host';
        is $server->stop, 0, '  the server ends well';
    }
}
cmp_ok $all{$_}{accepted_tokens}, '>', 0, "some guesses of $_ were right: $all{$_}{accepted_tokens} of $all{$_}{draft_tokens}" for sort keys %all;
done_testing;
