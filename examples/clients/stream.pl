#!/usr/bin/perl
# Perl: an answer as it is written.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;

my $url  = $ARGV[0] // 'http://127.0.0.1:8080';
my $rest = '';
binmode STDOUT, ':utf8';
$| = 1;
my $answer = HTTP::Tiny->new->post("$url/v1/chat/completions", {
    headers => { 'content-type' => 'application/json' },
    content => encode_json({
        messages   => [{ role => 'user', content => 'List five animals.' }],
        max_tokens => 60,
        stream     => JSON::PP::true
    }),
    data_callback => sub {
        $rest .= shift;
        while ($rest =~ s/\Adata: (.*?)\n\n//s) {
            next if $1 eq '[DONE]';
            print decode_json($1)->{choices}[0]{delta}{content} // '';
        }
    },
});
print "\n";
die "$answer->{status} $answer->{reason}\n" if !$answer->{success};
