#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /openapi.json: it is valid, has every path of the router, and is true. Each field of each
# body is sent with a value of a wrong type, which must be an error that names the field: a
# field is never dropped in silence. One that is no field is named in x-llmserve-ignored, and
# one that is refused is a 400 by name.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $server = LlmServer->fake;
$server->{http} = HTTP::Tiny->new(timeout => $LlmServer::TIMEOUT, keep_alive => 1);    # thousands of requests
my $answer = $server->get('/openapi.json');
is_deeply [$answer->{status}, $answer->{headers}{'content-type'}], [200, 'application/json'], 'there is a description';
my $doc = decode_json($answer->{content});
like $doc->{openapi}, qr/\A3\.1\./, '  in a version of OpenAPI';
is $server->get('/openapi.json')->{content}, $answer->{content}, '  the same each time';

# ---- it is valid ------------------------------------------------------------------------------

my (@bad, %ids);
my %methods = map { $_ => 1 } qw(get post delete put patch head);

# Every "$ref" must lead to something.
sub refs {
    my ($value) = @_;
    return map { refs($_) } @$value if ref $value eq 'ARRAY';
    return () if ref $value ne 'HASH';
    return (exists $value->{'$ref'} ? $value->{'$ref'} : (), map { refs($_) } values %$value);
}

sub target {
    my ($ref) = @_;
    my $at = $doc;
    $at = ref $at eq 'HASH' ? $at->{$_} : undef for split m{/}, $ref =~ s{\A#/}{}r;
    return $at;
}

sub check_operation {
    my ($path, $method, $operation) = @_;
    push @bad, "$path: $method is no method" if !$methods{$method};
    push @bad, "$path: $method has no id of its own" if !$operation->{operationId} || $ids{ $operation->{operationId} }++;
    my %named = map { $_->{name} => 1 } grep { $_->{in} eq 'path' && $_->{required} } @{ $operation->{parameters} // [] };
    my @parts = $path =~ /\{(\w+)\}/g;
    push @bad, "$path: parameters" if join(' ', sort keys %named) ne join(' ', sort @parts);
    my $answers = $operation->{responses};
    push @bad, "$path: $method has no answers" if !%$answers || grep { !/\A(?:[1-5](?:\d\d|XX)|default)\z/ || !$answers->{$_}{description} } keys %$answers;
    return;
}
for my $path (sort keys %{ $doc->{paths} }) {
    push @bad, "$path: no path" if $path !~ m{\A/};
    check_operation($path, $_, $doc->{paths}{$path}{$_}) for sort keys %{ $doc->{paths}{$path} };
}
push @bad, grep { !defined target($_) } refs($doc);
push @bad, 'info' if grep { !$doc->{info}{$_} } qw(title version);
my %kinds = map { $_ => 1 } qw(string integer number boolean object array null);
for my $name (keys %{ $doc->{components}{schemas} }) {
    my $fields = $doc->{components}{schemas}{$name}{properties};
    push @bad, map { "$name.$_" } grep { grep { !$kinds{$_} } ref $fields->{$_}{type} ? @{ $fields->{$_}{type} } : $fields->{$_}{type} // () } keys %$fields;
}
is_deeply \@bad, [], 'it is valid';

# ---- it has each path ----------------------------------------------------------------------------

open(my $routes, '<', LlmServer::source('core/api/routes.h')) or die "routes.h: $!";
my @paths = map { m{"(/[^"]*)"} ? $1 : () } grep { !/define/ && !m{"/v1"} } <$routes>;
cmp_ok scalar @paths, '>', 60, 'paths of the router';
my @known = map { s/\{\w+\}.*//r } keys %{ $doc->{paths} };
is_deeply [grep { my $path = s/\*.*//r; $path = s{(?<=.)/\z}{}r if !/\*/; !grep { $_ eq $path } @known } @paths], [], '  are all described';

# ---- it is true ---------------------------------------------------------------------------------------

# A body that each schema's path answers.
my @chat = (messages => [{ role => 'user', content => 'x' }], max_tokens => 1);
my %good = (
    '/v1/completions' => { prompt => 'x', max_tokens => 1 },
    '/v1/chat/completions' => {@chat},
    '/v1/responses' => { input => 'x', max_output_tokens => 1 },
    '/v1/responses/input_tokens' => { input => 'x' },
    '/v1/responses/compact' => { input => 'x' },
    '/v1/messages' => {@chat},
    '/v1/embeddings' => { input => 'x' },
    '/pooling' => { input => 'x' },
    '/v1/rerank' => { query => 'x', documents => ['y'] },
    '/v1/score' => { text_1 => 'x', text_2 => 'y' },
    '/inference/v1/generate' => { token_ids => [1, 2], max_tokens => 1 },
    '/generate' => { inputs => 'x', parameters => { max_new_tokens => 1 } },
    '/api/chat' => { messages => [{ role => 'user', content => 'x' }], stream => $false, options => { num_predict => 1 } },
    '/api/generate' => { prompt => 'x', stream => $false, options => { num_predict => 1 } },
    '/api/embed' => { input => 'x' },
    '/api/embeddings' => { prompt => 'x' },
    '/completion' => { prompt => 'x', n_predict => 1 },
);
my %wrong = (string => 5, integer => 'x', number => 'x', boolean => 'x', object => 5, array => 5);

# Two values that the types do not include.
sub wrong_for {
    my (@types) = @_;
    my %types = map { $_ => 1 } @types;
    $types{integer} = 1 if $types{number};
    my %values = (string => 'x', integer => 5, boolean => $true, object => { x => 1 }, array => [{ x => 1 }]);
    return map { $values{$_} } grep { !$types{$_} } qw(integer boolean object array string);
}

for my $path (sort keys %good) {
    my $name = $doc->{paths}{$path}{post}{requestBody}{content}{'application/json'}{schema}{'$ref'} // '';
    my $schema = target($name) // die "$path has no schema";
    my $first = $server->post($path, $good{$path});
    is $first->{status}, 200, "$path answers" or diag $first->{content};
    my (@silent, @lost);
    my %fields = %{ $schema->{properties} };
    for my $field (sort keys %fields) {
        my $types = $fields{$field}{type};
        next if !defined $types;
        my ($value) = wrong_for(@$types);
        my $got = $server->post($path, { %{ $good{$path} }, $field => $value });
        push @silent, "$field: $got->{status} $got->{content}" if ($got->{status} != 400 || $got->{content} !~ /\Q$field/) && ($got->{headers}{'x-llmserve-ignored'} // '') !~ /\b\Q$field\E\b/;
    }
    is join("\n", map { substr $_, 0, 100 } @silent), "", "  and names each field of a wrong type";
    my @deep;
    for my $field (grep { $fields{$_}{properties} } sort keys %fields) {
        for my $member (sort keys %{ $fields{$field}{properties} }) {
            my ($value) = wrong_for(@{ $fields{$field}{properties}{$member}{type} // next });
            my $got = $server->post($path, { %{ $good{$path} }, $field => { type => 'content', content => 'x', $member => $value } });
            push @deep, "$field.$member: $got->{status} $got->{content}" if ($got->{status} != 400 || $got->{content} !~ /\Q$field/) && ($got->{headers}{'x-llmserve-ignored'} // '') !~ /\b\Q$field\E\b/;
        }
    }
    is join("\n", map { substr $_, 0, 100 } @deep), "", "  and each member of a field";
    my $unknown = $server->post($path, { %{ $good{$path} }, no_such_field => 1 });
    is_deeply [@$unknown{qw(status)}, $unknown->{headers}{'x-llmserve-ignored'}], [200, 'no_such_field'], '  and what is no field';
    # the other dialects refuse by the tables of these
    for my $refused ($path =~ m{\A/v1/(?:completions|chat/completions|embeddings)\z} ? @{ $schema->{'x-refused'} } : ()) {
        next if $fields{$refused};
        my $got = $server->post($path, { %{ $good{$path} }, $refused => 'x' });
        push @lost, "$refused: $got->{status} $got->{content}"
            if $got->{status} != 400 && ($got->{headers}{'x-llmserve-ignored'} // '') !~ /\b\Q$refused\E\b/;
    }
    is join("\n", map { substr $_, 0, 100 } @lost), "", "  and each that is refused";
    for my $needed (@{ $schema->{required} // [] }) {
        my %body = %{ $good{$path} };
        delete $body{$needed};
        is $server->post($path, \%body)->{status}, 400, "  and needs $needed";
    }
}
# ---- bodies that are no dialect's --------------------------------------------------------------------

my @posts = grep { $doc->{paths}{$_}{post} && m{\A/(?:v1/)?} } sort keys %{ $doc->{paths} };
is_deeply [grep { !$doc->{paths}{$_}{post}{requestBody} && !m{/cancel\z|\A/ping\z|\A/admin/(?:reload|drain)\z} } @posts], [], 'each POST with a body describes it';
is_deeply [grep { exists $doc->{paths}{$_}{post}{requestBody}{content}{'*/*'} } grep { $doc->{paths}{$_}{post}{requestBody} } @posts], [], '  with its members';
ok exists $doc->{paths}{$_}{get}{responses}{200}{content}{'text/event-stream'}, "GET $_ has events" for qw(/admin/kv_events /admin/events /v1/responses/{id});
is $server->stop, 0, 'the server ends well';

my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/template", '{{ messages[0].content }}');
$server = LlmServer->serve("state = $folder/state\n[model]\npath = " . LlmServer::source('t/data/models/stories260K') . "\nchat_template = $folder/template\n[engine]\nthreads = 1\npin = false\n"
    . "[cache]\ndevice_memory = 8MiB\n[lora]\nruntime = true\n");
my $made = $server->post('/v1/conversations', {});
my $id   = $made->{json}{id};
my $stored = $made->{status} == 200; # else there is no SQLite
my %plain  = (
    '/tokenize'      => { prompt => 'x' },
    '/detokenize'    => { tokens => [5] },
    '/apply-template' => { messages => [{ role => 'user', content => 'x' }] },
    '/api/show'      => { model => 'stories260K' },
    '/v1/load_lora_adapter'   => { lora_name => 'a', lora_path => '/none' },
    '/v1/unload_lora_adapter' => { lora_name => 'a' },
    '/admin/whatif'  => {},
    $stored ? ('/v1/batches' => { input_file_id => 'file-x', endpoint => '/v1/completions', completion_window => '24h' },
        '/v1/conversations' => {}, '/v1/conversations/{id}' => { metadata => {} }, '/v1/conversations/{id}/items' => { items => [] }) : ());
for my $path (sort keys %plain) {
    my $schema = $doc->{paths}{$path}{post}{requestBody}{content}{'application/json'}{schema} // {};
    my ($to, @silent) = $path =~ s/\{id\}/$id/r;
    for my $field (sort keys %{ $schema->{properties} }) {
        my $types = $schema->{properties}{$field}{type} // next;
        my ($value) = wrong_for(@$types);
        my $got = $server->post($to, { %{ $plain{$path} }, $field => $value });
        push @silent, "$field: $got->{status} $got->{content}" if ($got->{status} != 400 || $got->{content} !~ /\Q$field/) && ($got->{headers}{'x-llmserve-ignored'} // '') !~ /\b\Q$field\E\b/;
    }
    ok scalar keys %{ $schema->{properties} }, "$path has members";
    is join("\n", map { substr $_, 0, 120 } @silent), '', '  and names each of a wrong type';
    for my $needed (@{ $schema->{required} // [] }) {
        my %body = %{ $plain{$path} };
        delete $body{$needed};
        my $got = $server->post($to, \%body);
        is $got->{status}, 400, "  and needs $needed" or diag $got->{content};
    }
}
my $html = $server->request('GET', '/docs');
is $html->{status}, 200, 'a page shows it';
is $server->request('GET', "/$1")->{status}, 200, "  with $1" while $html->{content} =~ /(?:src|href)="(console\/[^"]+)"/g;
is $server->stop, 0, 'the server ends well';
done_testing;
