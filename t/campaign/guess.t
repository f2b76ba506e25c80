#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# One tenant guesses another's prompt: it knows all of it but a code of two digits, sends every code, and
# looks which of its requests found more in the cache. Where prefixes are everybody's that is the code;
# where they are a tenant's own (the default where there are keys) every guess finds what the guesser has sent.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use LlmServer;
use File::Temp;
use Test::More;

Campaign::begin();
my $demo   = LlmServer::source('share/demo-model');
my $folder = File::Temp->newdir;
my $code   = sprintf '%02d', int rand 100;
LlmServer::write_file("$folder/keys", "sk-ann ann\nsk-eve eve\n");

sub prompt { my ($guess) = @_; return "The code of the safe is $guess and nobody but me may know it, since all that I have is in there and " . 'must stay there. ' x 4 }
sub cached {
    my ($server, $key, $guess) = @_;
    my $answer = $server->post('/v1/completions', { prompt => prompt($guess), max_tokens => 1 }, { authorization => "Bearer sk-$key" });
    return $answer->{json}{usage}{prompt_tokens_details}{cached_tokens} // 0;
}

# The code that finds most; of several the first, and how much more than the next best it finds.
sub guess {
    my ($isolate) = @_;
    my $server = LlmServer->serve("api_keys = $folder/keys\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\nisolate = $isolate\n");
    cached($server, 'ann', $code);
    my %found = map { my $guess = sprintf '%02d', $_; ($guess => cached($server, 'eve', $guess)) } 0 .. 99;
    my ($best, $next) = sort { $found{$b} <=> $found{$a} || $a cmp $b } keys %found;
    is $server->stop, 0, "isolate = $isolate: the server ends well";
    my $ahead = $found{$best} - $found{$next};
    print "# figure guess: isolate = $isolate: 100 guesses, the best finds $found{$best} tokens, $ahead more than the next\n";
    return ($best, $ahead);
}

my ($best, $ahead) = guess('none');
is $best, $code, '  the code is found where prefixes are everybody\'s';
cmp_ok $ahead, '>', 0, '  as the one guess that finds more';
(undef, $ahead) = guess('auto');
is $ahead, 0, '  where they are a tenant\'s own, no guess finds more than another';
done_testing;
