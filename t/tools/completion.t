#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Completion of the command lines, asked of the shells themselves; a shell that is not installed is left out. zsh
# only checks the grammar of its files.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Test::More;

my $folder   = LlmServer::built('share/completion');
my @programs = map { m{/([^/]+)$} } glob "$folder/bash/*";
cmp_ok scalar @programs, '>', 5, 'files of programs';

sub have { my ($shell) = @_; return system("command -v $shell >/dev/null 2>&1") == 0 }

# Returns the words that bash offers for the last of these.
sub bash {
    my ($program, @words) = @_;
    my ($list, $at) = (join(' ', map { "'$_'" } $program, @words), scalar @words);
    (my $function = "_$program") =~ tr/-/_/;
    open my $pipe, '-|', 'bash', '--norc', '-c', "source $folder/bash/$program; COMP_WORDS=($list) COMP_CWORD=$at; $function; echo \"\${COMPREPLY[\@]}\"" or die $!;
    my $out = <$pipe>;
    return [sort split ' ', $out];
}

SKIP: {
    skip 'bash is not installed', 7 if !have('bash');
    is_deeply [grep { system("bash -n $folder/bash/$_") != 0 } @programs], [], 'bash reads all of them';
    is_deeply bash('llmserve-ctl', 'st'), ['status'], 'bash: a command';
    is_deeply bash('llmserve-ctl', '--js'), ['--json'], '  an option';
    is_deeply bash('llmserve-bench', '--backend', ''), [qw(openai openai-chat vllm)], '  values';
    is_deeply bash('llmserve-bench', '--backend', '=', 'v'), ['vllm'], '  values behind "="';
    is_deeply bash('llmserve', '--new-plugin', 's'), ['scheduler'], '  kinds of plugins';
    my $here = LlmServer::source('README');
    is_deeply bash('llmserve', '-c', substr $here, 0, -2), [$here], '  files';
}
SKIP: {
    skip 'fish is not installed', 2 if !have('fish');
    local $ENV{HOME} = File::Temp->newdir;
    is_deeply [grep { system("fish -n $folder/fish/$_.fish") != 0 } @programs], [], 'fish reads all of them';
    like qx(fish --no-config -c 'source $folder/fish/llmserve-ctl.fish; complete -C "llmserve-ctl dr"'), qr/^drain\ttake no new requests/m, 'fish: a command with its text';
}
SKIP: {
    skip 'zsh is not installed', 1 if !have('zsh');
    is_deeply [grep { system("zsh -n $folder/zsh/_$_") != 0 } @programs], [], 'zsh reads all of them';
}
done_testing;
