#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Bodies that clients have compressed: gzip and zstd, whole and in pieces; bombs, broken ones,
# unknown codings; and HEAD, which has the head of each GET.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IO::Compress::Gzip qw(gzip);
use JSON::PP;
use LlmServer;
use Test::More;

my $max    = 1 << 20;
my $folder = File::Temp->newdir;
my $server = LlmServer->serve("max_body = $max\nmax_bodies = 2MiB\nread_timeout = 2s\n[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n");
my $held   = $server->metric('llmserve_http_held_bytes');
my $path   = '/v1/completions';
my $body   = encode_json({ prompt => 'Once', max_tokens => 8, temperature => 0 });
my $text   = $server->post($path, $body)->{json}{choices}[0]{text};

sub gzipped { my ($data) = @_; gzip \$data => \my $out; return $out }

# zstd by its program, if that is here.
sub zstd {
    my ($data) = @_;
    LlmServer::write_file("$folder/data", $data);
    return scalar qx(zstd -q -c '$folder/data');
}
sub packed { my ($data, $coding) = @_; return $server->post($path, $data, { 'content-encoding' => $coding }) }
sub refused { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{error}{message} // $answer->{content}) }

my $unknown = packed('x', 'br');
my ($codings) = refused($unknown) =~ /\A415 the body's content-encoding is 'br': send it as it is, or in one of: (.*)\z/;
ok defined $codings, 'an unknown coding is 415, and the known ones are named' or diag refused($unknown);
like refused(packed('x', 'gzip, zstd')), qr/\A415 .*'gzip, zstd'/, '  so are two in a row';
is packed($body, 'identity')->{status}, 200, 'identity is none';

my %by = (gzip => \&gzipped, zstd => \&zstd);
for my $coding (sort keys %by) {
  SKIP: {
        skip "$coding is not built in", 1 if $codings !~ /\b$coding\b/;
        skip 'no program zstd', 1 if $coding eq 'zstd' && system('command -v zstd >/dev/null') != 0;
        my $pack = $by{$coding};
        my $good = $pack->($body);
        is packed($good, $coding)->{json}{choices}[0]{text}, $text, "$coding: the answer is the same";
        is packed($pack->(substr $body, 0, 9) . $pack->(substr $body, 9), uc $coding)->{status}, 200, '  of two parts in a row, in capitals';
        my $chunked = join '', map { sprintf "%x\r\n%s\r\n", length, $_ } split //, $good;
        like $server->exchange("POST $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Encoding: $coding\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}0\r\n\r\n"),
            qr/\AHTTP\/1.1 200 /, '  byte by byte';
        my $full = $pack->($body . ' ' x ($max - length $body));
        is packed($full, $coding)->{status}, 200, '  as large as max_body';
        my $bomb = $pack->($body . ' ' x ($max - length($body) + 1));
        like refused(packed($bomb, $coding)), qr/\A413 request body is too large: .* 1048576 bytes/, '  a byte more is 413';
        $bomb = $pack->(' ' x 20_000_000);
        cmp_ok length $bomb, '<', $max / 10, '  a bomb is small';
        like refused(packed($bomb, $coding)), qr/\A413 /, '  and 413';
        like refused(packed(substr($good, 0, -3), $coding)), qr/\A400 the body ends before its content-encoding does/, '  one that is cut off is 400';
        like refused(packed($body, $coding)), qr/\A400 the body is not what its content-encoding says: \w/, '  so is one that is not packed';
        like refused(packed($good . 'x' x 20, $coding)), qr/\A400 the body is not what/, '  and one with something behind it';
        srand 50;
        my %seen;
        for (1 .. 40) {
            my $broken = $pack->(join '', map { chr int rand 256 } 1 .. 3000);
            substr $broken, int rand length $broken, 1, chr int rand 256 for 1 .. 3;
            $seen{ packed($broken, $coding)->{status} }++;
        }
        is_deeply [ sort keys %seen ], [400], '  broken ones are all 400';
        is $server->request('POST', '/v1/files', $good, { 'content-encoding' => $coding, 'content-type' => 'multipart/form-data; boundary=x' })->{status} =~ /\A(404|415|501|503)\z/ ? 1 : 0, 1, '  an upload is not unpacked';
    }
}
my $both = "POST $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Encoding: zstd\r\nContent-Length: 1\r\n\r\nx";
like $server->exchange($both), qr/\AHTTP\/1.1 415 /, 'two headers are 415';
my $half = $server->connect;
syswrite $half, "POST $path HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n\x1f\x8b";
like LlmServer::read_all($half), qr/\AHTTP\/1.1 408 /, 'one that does not go on is given up';
ok $server->metric_becomes('llmserve_http_held_bytes', $held), 'nothing is held afterwards';

# ---- HEAD: the status and the headers of GET, and no body
for my $what (qw(/v1/models /models/demo-model /health /live /ready /metrics /version /load /props /slots /tokenizer_info /api/tags /api/ps /api/version
    /console /console/main.js /admin/status /admin/queues /admin/config /admin/history /admin/policies /admin/whatif /v1/files/none /nothing)) {
    my ($get, $head) = map { $server->request($_, $what) } qw(GET HEAD);
    my @seen = map { join ' ', $_->{status}, $_->{headers}{'content-type'} // 'no type', exists $_->{headers}{'content-length'} ? 'length' : 'none' } $get, $head;
    is "$seen[1], " . length($head->{content} // ''), "$seen[0], 0", "HEAD $what";
}
is $server->stop, 0, 'it ends well';
done_testing;
