#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A model whose weights are NaN: each endpoint answers with a JSON error that says so, and the
# log has a line; a batch's files hold valid JSON.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Copy qw(copy);
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $json = JSON::PP->new->utf8->canonical;

# A copy of a model with f32 numbers in place of the first ones of a tensor.
sub damage {
    my ($from, $tensor, @numbers) = @_;
    my $folder = File::Temp->newdir;
    copy($_, $folder) or die "$_: $!" for glob "$from/*.json";
    my $weights = LlmServer::read_file("$from/model.safetensors");
    my $length = unpack 'Q<', $weights;
    my $entry = $json->decode(substr $weights, 8, $length)->{$tensor} // die "no $tensor";
    die "$tensor is $entry->{dtype}" if $entry->{dtype} ne 'F32';
    substr($weights, 8 + $length + $entry->{data_offsets}[0], 4 * @numbers) = pack 'f<*', @numbers;
    LlmServer::write_file("$folder/model.safetensors", $weights);
    LlmServer::write_file("$folder/chat_template.jinja", '{{ messages[0].content }}');
    return $folder;
}

my ($nan, $infinity) = (unpack('f<', pack 'V', 0x7fc00000), unpack('f<', pack 'V', 0x7f800000));
my $stories = LlmServer::source('t/data/models/stories260K');
my $model = damage($stories, 'model.norm.weight', $nan);
my $state = File::Temp->newdir;
my $keeps = Batches::missing() ? '' : "state = $state\n";
my $server = LlmServer->serve("log_level = info\n${keeps}[model]\npath = $model\npooling = mean\n[engine]\ndevice = cpu\nthreads = 1\n");

sub fails {
    my ($path, $body, $what) = @_;
    my $answer = $server->post($path, $body);
    is $answer->{status}, 500, "$what: 500" or diag $answer->{content};
    is $answer->{json}{error}{code}, 'not_a_number', '  by name';
    like $answer->{json}{error}{message}, qr/not a finite number.*its weights are damaged/, '  and why';
    return;
}

my @chat = (messages => [{ role => 'user', content => 'Once' }]);
my %asked = (
    '/v1/completions' => [[{ prompt => 'Once', max_tokens => 3 }, 'text'],
        [{ prompt => 'Once', max_tokens => 3, temperature => 0 }, 'greedy'],
        [{ prompt => 'Once', max_tokens => 3, logprobs => 2, temperature => 0.5, top_p => 0.9 }, 'with logprobs'],
        [{ prompt => 'Once', max_tokens => 3, guided_choice => ['a', 'b'] }, 'in a form'],
        [{ prompt => 'Once', max_tokens => 0, echo => JSON::PP::true, logprobs => 1 }, 'scores of a prompt']],
    '/v1/chat/completions' => [[{ @chat, max_tokens => 3 }, 'chat'], [{ @chat, max_tokens => 3, logprobs => JSON::PP::true }, 'chat with logprobs']],
    '/v1/responses'        => [[{ input => 'Once', max_output_tokens => 3, store => JSON::PP::false }, 'a response']],
    '/v1/embeddings'       => [[{ input => 'Once' }, 'vectors'], [{ input => ['Once', 'upon'], encoding_format => 'base64' }, 'vectors in base64']],
    '/v1/rerank'           => [[{ query => 'Once', documents => ['upon', 'a'] }, 'rerank']],
    '/v1/score'            => [[{ text_1 => 'Once', text_2 => ['upon', 'a'] }, 'score']],
);
for my $path (sort keys %asked) {
    fails($path, $_->[0], "$path, $_->[1]") for @{ $asked{$path} };
}
my $streamed = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 3, stream => JSON::PP::true });
like $streamed->{content}, qr/"code": ?"not_a_number"/, 'streamed: the error';
like $server->log, qr/not_a_number/, 'the log has it';
is $server->get('/health')->{status}, 200, 'the server lives on';

SKIP: {
    skip Batches::missing(), 4 if Batches::missing();
    my @lines = map { $json->encode({ custom_id => "line-$_", method => 'POST', url => '/v1/embeddings', body => { input => "Once $_" } }) . "\n" } 1 .. 3;
    my $file = Batches::upload($server, join '', @lines);
    my $batch = Batches::create($server, $file->{id}, endpoint => '/v1/embeddings');
    $batch = Batches::wait_for($server, $batch->{id});
    is $batch->{request_counts}{failed}, 3, 'a batch of vectors: all failed';
    my @results = Batches::results($server, $batch->{error_file_id});
    is scalar(@results), 3, '  which its error file says in JSON';
    is $results[0]{response}{body}{error}{code} // $results[0]{error}{code}, 'not_a_number', '  by name' or diag $json->encode($results[0]);
    is_deeply [Batches::results($server, $batch->{output_file_id})], [], '  and none has an answer';
}
is $server->stop, 0, 'it ends well';

# An infinite weight.
$server = LlmServer->serve('[model]' . "\npath = " . damage($stories, 'model.norm.weight', $infinity) . "\npooling = last\n[engine]\ndevice = cpu\nthreads = 1\n");
fails('/v1/embeddings', { input => 'Once' }, 'an infinite weight, vectors');
is $server->stop, 0, 'it ends well';
done_testing;
