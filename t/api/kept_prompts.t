#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [cache] kept_prompts: cached prompts at the end of a server are cached after the next start, and
# the answers are the same; a file that is incomplete or does not match is not used.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use LlmServer;
use Test::More;

if (my ($why) = Batches::missing()) { plan skip_all => $why }
my $state = File::Temp->newdir;
my $file  = "$state/prompts-0";
my $model = "$state/model"; # a copy, which is changed
system('cp', '-r', LlmServer::source('share/demo-model'), $model) == 0 or die "cp: $?";
system('chmod', '-R', 'u+w', $model);
my @prompts = map { "Story $_. " . join ' ', map { "Once upon a time there was a cat with $_ hats." } 1 .. 8 } 1 .. 3;

sub start {
    my (%more) = @_;
    return LlmServer->serve("state = $state\n[model]\npath = $model\n@{[$more{model} // '']}" . "[engine]\nthreads = 1\npin = false\n"
          . "[cache]\ndevice_memory = 8MiB\nkept_prompts = @{[$more{room} // '64MiB']}\n@{[$more{cache} // '']}");
}

# The text after a prompt, and how much of that was in the cache.
sub ask {
    my ($server, $prompt) = @_;
    my $json = $server->post('/v1/completions', { prompt => $prompt, max_tokens => 12, temperature => 0, ignore_eos => JSON::PP::true })->{json};
    return ($json->{choices}[0]{text}, $json->{usage}{prompt_tokens_details}{cached_tokens}, $json->{usage}{prompt_tokens});
}

sub end { my ($server) = @_; is $server->stop, 0, 'the server ends well' }

my $server = start();
my (@texts, @tokens);
for my $prompt (@prompts) {
    my ($text, $cached, $tokens) = ask($server, $prompt);
    is $cached, 0, 'a prompt that is new';
    push @texts, $text;
    push @tokens, $tokens;
}
ok !-e $file, 'nothing is written while it serves';
end($server);
ok -s $file, 'at the end it is';
is((stat $file)[2] & 077, 0, '  for nobody else to read');

$server = start();
like $server->log, qr/ tokens of kept prompts are taken from /, 'the next start says so';
for my $i (0 .. 2) {
    my ($text, $cached) = ask($server, $prompts[$i]);
    cmp_ok $cached, '>=', $tokens[$i] - 16, 'a prompt of before is in the cache';
    is $text, $texts[$i], '  and the answer is the same';
}
my ($text, $cached) = ask($server, substr($prompts[0], 0, 100) . ' A dog.');
cmp_ok $cached, '>', 0, '  and so is the beginning of another';
end($server);

# ---- a server that is killed writes nothing: the file of before is there ----------------------

$server = start();
$server->signal('KILL');
$server->wait_for_end;
$server = start();
is((ask($server, $prompts[1]))[0], $texts[1], 'after a kill the file of before is used');
end($server);

# ---- files that are not used ---------------------------------------------------------------------

my $whole = LlmServer::read_file($file);
my $middle = length($whole) / 2;
my %broken = (
    'cut short' => [substr($whole, 0, $middle), qr/cut short/],
    'empty'     => ['', qr/cut short/],
    'no such'   => ["x$whole", qr/not a file of blocks/],
);
for my $how (sort keys %broken) {
    LlmServer::write_file($file, $broken{$how}[0]);
    $server = start();
    like $server->log, qr/warning cache: .*$broken{$how}[1].*; the cache begins empty/, "a file that is $how is told of";
    my ($text, $cached) = ask($server, $prompts[0]);
    is_deeply [$text, $cached], [$texts[0], 0], '  and not used';
    $server->signal('KILL');
    $server->wait_for_end;
}

# Each part of a block has a sum: what comes before the damage is good.
LlmServer::write_file($file, substr($whole, 0, $middle) . chr(ord(substr $whole, $middle, 1) ^ 1) . substr $whole, $middle + 1);
$server = start();
like $server->log, qr/warning cache: \S+prompts-0: damaged: [1-9]\d* blocks before the damage are taken/, 'a file that is damaged is told of';
my @found;
for my $i (0 .. 2) {
    my ($text, $cached) = ask($server, $prompts[$i]);
    push @found, $cached;
    is $text, $texts[$i], '  and the answer is the same';
}
my $sum = 0;
$sum += $_ for @found;
cmp_ok $sum, '>', 0, '  with what was before the damage';
cmp_ok $sum, '<', $tokens[0] + $tokens[1] + $tokens[2] - 64, '  and without what was behind';
$server->signal('KILL');
$server->wait_for_end;

for my $other ({ cache => "block_tokens = 8\n" }, { cache => "element = f32\n" }, { model => "weights = int8\n" }, { touched => 'weights' }) {
    LlmServer::write_file($file, $whole);
    utime 1, 1, "$model/model.safetensors" if $other->{touched};
    $server = start(%$other);
    like $server->log, qr/of another model, device, setting or version; the cache begins empty/, 'nor is one of other settings: ' . join ' ', map { s/\n/ /gr } values %$other;
    is((ask($server, $prompts[0]))[1], 0, '  the cache is empty');
    $server->signal('KILL');
    $server->wait_for_end;
}

unlink $file;

# ---- room, and who keeps none ------------------------------------------------------------------------

$server = start(room => '256KiB');
ask($server, $prompts[2]);
end($server);
cmp_ok -s $file, '<=', 256 << 10, 'no more than there is room for';
$server = start();
cmp_ok((ask($server, $prompts[2]))[1], '>', 0, '  of what was used last');
end($server);
$server = start(cache => "[plugins]\ncache = contiguous\n");
like $server->log, qr/kept_prompts: none are kept: this cache manager keeps none/, 'a cache without prefixes says so';
end($server);
done_testing;
