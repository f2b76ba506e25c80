# SPDX-License-Identifier: Apache-2.0
# Files and batches of a server under test.
package Batches;

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8->canonical;

# Why there are none, or nothing.
sub missing {
    return -e LlmServer::built('core/batch/store.lo') ? () : 'llmserve was built without SQLite (libsqlite3-dev)';
}

# A configuration with a state folder, on the demo model unless it says otherwise.
sub ini {
    my ($state, $more, $server) = @_;
    my $demo = LlmServer::source('share/demo-model');
    return ($server // '') . "state = $state\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n"
      . "[cache]\ndevice_memory = 8MiB\n" . ($more // '');
}

sub form {
    my ($purpose, $content, $boundary) = @_;
    $boundary //= 'x-boundary-x';
    return "--$boundary\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n$purpose\r\n"
      . "--$boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n"
      . "Content-Type: application/octet-stream\r\n\r\n$content\r\n--$boundary--\r\n";
}

sub post_form {
    my ($server, $body, $boundary, $headers) = @_;
    $boundary //= 'x-boundary-x';
    return $server->post('/v1/files', $body,
        { 'content-type' => "multipart/form-data; boundary=$boundary", %{ $headers // {} } });
}

sub upload {
    my ($server, $content, $headers) = @_;
    my $answer = post_form($server, form('batch', $content), undef, $headers);
    die "upload: $answer->{status} $answer->{content}" if $answer->{status} != 200;
    return $answer->{json};
}

# A line that completes a prompt greedily.
sub line {
    my ($id, %body) = @_;
    %body = (prompt => "Once upon a time $id", max_tokens => 8, temperature => 0, ignore_eos => JSON::PP::true, %body);
    return $json->encode({ custom_id => $id, method => 'POST', url => '/v1/completions', body => \%body }) . "\n";
}

sub create {
    my ($server, $file, %more) = @_;
    my $answer = $server->post('/v1/batches',
        { input_file_id => $file, endpoint => '/v1/completions', completion_window => '24h', %more });
    return $answer->{status} == 200 ? $answer->{json} : $answer;
}

sub get {
    my ($server, $path) = @_;
    my $answer = $server->get($path);
    return eval { $json->decode($answer->{content}) } // die "$path: $answer->{status} $answer->{content}";
}

sub is_over { return $_[0]{status} =~ /^(?:completed|failed|expired|cancelled)$/ }

# Looks until the batch is over, or the condition holds.
sub wait_for {
    my ($server, $id, $condition) = @_;
    $condition //= \&is_over;
    my $deadline = time + 4 * $LlmServer::TIMEOUT;
    while (time < $deadline) {
        my $batch = get($server, "/v1/batches/$id");
        return $batch if $condition->($batch);
        sleep 0.02;
    }
    die "batch $id: " . $json->encode(get($server, "/v1/batches/$id"));
}

# The lines of a file of results.
sub results {
    my ($server, $file) = @_;
    return if !defined $file;
    return map { $json->decode($_) } split /\n/, $server->get("/v1/files/$file/content")->{content};
}

# Their texts by custom_id; dies where one comes twice.
sub texts {
    my (@lines) = @_;
    my %text;
    for my $line (@lines) {
        die "$line->{custom_id} is answered twice\n" if exists $text{ $line->{custom_id} };
        $text{ $line->{custom_id} } = $line->{response}{body}{choices}[0]{text};
    }
    return \%text;
}

1;
