#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# examples/: each client gets an answer from a server, each configuration starts one.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use Encode qw(encode_utf8);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use JSON::PP;
use POSIX ();
use Test::More;
use Time::HiRes;

my $examples = LlmServer::source('examples');
my $model    = abs_path(LlmServer::source('share/demo-model'));
my $dir      = tempdir(CLEANUP => 1);
$ENV{LLS_PLUGIN_PATH} //= abs_path(LlmServer::built('.libs'));

sub have { my ($command) = @_; return system("$command >/dev/null 2>&1") == 0 }

# The command that finds out whether a client can be run, and a pattern of its output.
my %needs = (
    'anthropic_chat.py' => 'python3 -c "import anthropic"',
    'chat.c'            => 'pkg-config --exists libcurl jansson',
    'langchain_chat.py' => 'python3 -c "import langchain_openai"',
    'ollama_chat.py'    => 'python3 -c "import ollama"',
    'openai_tools.py'   => 'python3 -c "import openai"',
    'stdlib.py'         => 'python3 -c "import sys; assert sys.version_info >= (3, 9)"',
    'stream.mjs'        => q{node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'},
);
my %shows = (
    'batch.sh'        => qr/\A(?:\{.*"custom_id": *"(?:dog|cat|bird)".*"status_code": *200.*\}\n){3}\z/,
    'chat.sh'         => qr/\A(?:data: \{.*\}\n\n)+data: \[DONE\]\n/,
    'form.sh'         => \&is_book,
    'openai_tools.py' => qr/\Aweather\((?:Bern|Oslo)\)\n.*\S/,
    'session.sh'      => qr/"cached_tokens": *0\b.*"cached_tokens": *[1-9]/s,
);

sub is_book {
    my $book = eval { decode_json(encode_utf8(decode_json($_[0])->{choices}[0]{message}{content})) };
    return ref $book eq 'HASH' && $book->{title} ne '' && $book->{pages} =~ /\A\d+\z/;
}
sub is_right { my ($shows, $out) = @_; return ref $shows eq 'CODE' ? $shows->($out) : $out =~ $shows }

sub listed { my ($folder) = @_; return sort grep { $_ !~ /\.keys\z/ } map { m{([^/]+)\z} } glob "$examples/$folder/*" }
my $readme = LlmServer::read_file("$examples/README");
is_deeply [sort $readme =~ /^    (\S+\.\w+)  /mg], [sort map { listed($_) } qw(clients policies settings)], 'README lists them all';

# ---- clients --------------------------------------------------------------------------

my $server = LlmServer->serve("state = $dir/state\n[model]\npath = $model\n[plugins]\nscheduler = worth\ncache = tiered\n");
for my $client (listed('clients')) {
  SKIP: {
        skip "$client: without '$needs{$client}'", 1 if exists $needs{$client} && !have($needs{$client});
        my $command = "$examples/clients/$client";
        if ($client =~ /\.c\z/) {
            my $compiler = $ENV{CC} // 'cc';
            system("$compiler -Wall -Wextra -Werror '$command' -o '$dir/chat' \$(pkg-config --cflags --libs libcurl jansson)") == 0 or diag 'not compiled';
            $command = "$dir/chat";
        }
        my $out = qx('$command' http://$server->{address} 2>&1);
        ok $? == 0 && is_right($shows{$client} // qr/\w\W+\w/, $out), $client or diag $out;
    }
}
is $server->stop, 0, 'the server ends well';

# ---- configurations ---------------------------------------------------------------------

sub write_certificate { return system("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout '$dir/server.key' -out '$dir/server.pem' >/dev/null 2>&1") == 0 }
copy("$examples/settings/$_", $dir) for qw(api.keys admin.keys);
my $certified = have("openssl version") && write_certificate();

for my $name (listed('settings')) {
  SKIP: {
        skip "$name: without openssl", 1 if $name eq 'tls.ini' && !$certified;
        my $ini = LlmServer::read_file("$examples/settings/$name");
        $ini =~ s{\.\./\.\./share/demo-model}{$model}g;
        $ini =~ s{/tmp/llmserve-example}{$dir/example}g;
        $ini =~ s/^(listen = .*):\d+$/$1:0/m or $ini =~ s/^\[server\]\n/[server]\nlisten = 127.0.0.1:0\n/m or $ini = "[server]\nlisten = 127.0.0.1:0\n$ini";
        LlmServer::write_file("$dir/$name", $ini);
        my $log = "$dir/$name.log";
        my $pid = fork // die "fork: $!";
        if ($pid == 0) {
            open STDOUT, '>', $log;
            open STDERR, '>&', \*STDOUT;
            exec LlmServer::built('llmserve'), '-c', "$dir/$name" or die "exec: $!";
        }
        my $one = LlmServer->new(pid => $pid, folder => $dir, address => '');
        my $deadline = time + $LlmServer::TIMEOUT;
        Time::HiRes::sleep(.02) until LlmServer::read_file($log) =~ /listening on/ || time > $deadline || waitpid($pid, POSIX::WNOHANG()) != 0;
        my $text = LlmServer::read_file($log);
        ok $text =~ /listening on/ && $text !~ /\b(?:error|warning) /, $name or diag $text;
        is $one->stop, 0, '  and ends';
    }
}
done_testing;
