#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# etc/grafana: the dashboard asks for series that the server has, and a Prometheus that scrapes the server answers
# every expression of it with values.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use IO::Socket::INET;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes;

my $folder = LlmServer::source('etc/grafana');
my $board  = decode_json(LlmServer::read_file("$folder/llmserve.json"));
my @panels = grep { $_->{type} ne 'row' } @{ $board->{panels} };
my @asked;    # [title, expression]
for my $panel (@panels) {
    push @asked, [$panel->{title}, $_->{expr}] for @{ $panel->{targets} };
}
push @asked, map { [$_->{name}, $_->{expr}] } @{ $board->{annotations}{list} };
cmp_ok scalar @asked, '>', 40, 'expressions';

my $server = LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[plugins]\nscheduler = worth\ncache = tiered\npredictor = none\ndrafter = ngram\n");

sub answer {
    my ($n) = @_;
    $server->post('/v1/completions', { prompt => 'Once upon a time' . ' the' x $_, max_tokens => 4, slo => { ttft_ms => 1e6 } }) for 1 .. $n;
}
answer(2);

# ---- the names, without Prometheus ----------------------------------------------------

my $page = $server->get('/metrics')->{content};
my %there = map { $_ => 1 } $page =~ /^([\w:]+)[{ ]/mg;
my %names = map { $_ => 1 } map { $_->[1] =~ /\b((?:vllm:|llmserve_|process_|http_)\w+)/g } @asked;
is_deeply [grep { !$there{$_} } sort keys %names], [], 'every series is on /metrics';
like $page, qr/^llmserve_build_info\{version="\S+",plugin_api="\d+"\} 1$/m, 'llmserve_build_info';

# ---- the expressions, by Prometheus ----------------------------------------------------

# Returns a port that was free a moment ago.
sub free_port { return IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport }

sub start_prometheus {
    my ($port, $dir) = @_;
    my $config = LlmServer::read_file("$folder/prometheus.yml");
    $config =~ s/127\.0\.0\.1:8080/$server->{address}/ or die 'prometheus.yml names no server';
    $config =~ s/scrape_interval: \w+/scrape_interval: 200ms, scrape_timeout: 200ms/;
    LlmServer::write_file("$dir/prometheus.yml", $config);
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$dir/log";
        open STDERR, '>&', \*STDOUT;
        exec 'prometheus', "--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/data", "--web.listen-address=127.0.0.1:$port";
        die "exec: $!";
    }
    return $pid;
}

# Returns the values that Prometheus has for an expression, or the error's text.
sub value_of {
    my ($port, $expression) = @_;
    $expression =~ s/\$__rate_interval/1m/g;
    $expression =~ s/\$(?:job|server)\b/.*/g;
    my $answer = HTTP::Tiny->new->post_form("http://127.0.0.1:$port/api/v1/query", { query => $expression });
    my $json = eval { decode_json($answer->{content}) };
    return $json && $json->{data} ? scalar @{ $json->{data}{result} } : $json ? $json->{error} : 0;
}

SKIP: {
    skip 'prometheus is not installed (Debian: prometheus)', 1 if system('command -v prometheus >/dev/null 2>&1') != 0;
    my ($port, $dir) = (free_port(), File::Temp->newdir);
    my $pid      = start_prometheus($port, $dir);
    my $deadline = Time::HiRes::time() + 2 * $LlmServer::TIMEOUT;
    my @missing  = grep { $_->[0] ne 'Reloads' } @asked;    # there were none
    while (@missing && Time::HiRes::time() < $deadline) {
        answer(2);
        @missing = grep { value_of($port, $_->[1]) !~ /\A[1-9]\d*\z/ } @missing;
        Time::HiRes::sleep(.2);
    }
    is_deeply [map { "$_->[0]: $_->[1]: " . value_of($port, $_->[1]) } @missing], [], 'every expression has a value';
    kill 'TERM', $pid;
    waitpid $pid, 0;
}
is $server->stop, 0, 'the server ends well';
done_testing;
