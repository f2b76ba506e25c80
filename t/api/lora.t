#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# LoRA adapters over HTTP: a model and its adapters, chosen by `model`, answer with PEFT's tokens beside each
# other; prefixes are shared within an adapter only; adapters are listed, loaded, unloaded, replaced when memory
# is bounded, and changed by a reload. tools/make_adapters.py made the adapters and the expected tokens.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $true   = JSON::PP::true;
my $models = LlmServer::source('t/data/models');
my $made   = "$models/stories260K-lora";
my @wanted = @{ decode_json(LlmServer::read_file("$made/reference.json"))->{prompts} }; # of: none, first, second
my @names  = qw(stories260K first second);
my $folder = File::Temp->newdir;

sub config {
    my ($lora, $more) = @_;
    return "[model]\npath = $models/stories260K\nweights = f32\n[cache]\nelement = f32\n"
        . "[engine]\ndevice = cpu\nthreads = 1\npin = false\n" . ($more // '') . "[lora]\n$lora";
}
sub listed { my ($server) = @_; return decode_json($server->get('/v1/models')->{content})->{data} }
sub body {
    my ($i, %more) = @_;
    return { model => $names[$i], prompt => $wanted[$i]{ids}, max_tokens => 64, temperature => 0, ignore_eos => $true,
        return_token_ids => $true, %more };
}
sub ids { my ($answer) = @_; return $answer->{json}{choices}[0]{token_ids} }

my $file   = "first = $made/first\nsecond = $made/second\n";
my $server = LlmServer->serve(config($file));

# ---- each answers as PEFT does, alone and beside the others
is_deeply ids($server->post('/v1/completions', body($_))), $wanted[$_]{greedy}, "the tokens of $names[$_]" for 0 .. 2;
my @answers = $server->at_once(map { body($_ % 3) } 0 .. 8);
is_deeply ids({ json => $answers[$_] }), $wanted[ $_ % 3 ]{greedy}, "  beside others: $names[$_ % 3]" for 0 .. 8;
is $server->post('/v1/completions', body(1))->{json}{model}, 'first', 'an answer names its adapter';

# ---- prefixes: the same prompt is cached within an adapter only
my $prompt = $wanted[2]{ids};
my %cached;
for my $name (@names, @names) {
    my $answer = $server->post('/v1/completions', body(0, model => $name, prompt => [@$prompt, 7], max_tokens => 1));
    push @{ $cached{$name} }, $answer->{json}{usage}{prompt_tokens_details}{cached_tokens};
}
is_deeply [map { $cached{$_}[0] } qw(stories260K first)], [0, 0], 'no blocks of another adapter are found';
cmp_ok $cached{$_}[1], '>=', 64, "  but those of its own: $_" for @names;

# ---- listed
my $list = listed($server);
is_deeply [map { $_->{id} } @$list], \@names, 'the list of models';
is_deeply [map { $_->{parent} } @$list], [undef, ('stories260K') x 2], '  with their parent';
is $list->[1]{root}, "$made/first", '  and path';
is decode_json($server->get('/v1/models/second')->{content})->{parent}, 'stories260K', 'one of them';
is_deeply [map { [@$_{qw(id name path scale)}] } @{ decode_json($server->get('/lora-adapters')->{content}) }],
    [[0, 'first', "$made/first", 0], [1, 'second', "$made/second", 0]], 'llama.cpp\'s list';
for my $case ([[{ id => 1, scale => 1 }], 2], [[{ id => 0, scale => 0 }, { id => 1, scale => 1.0 }], 2], [[{ id => 0, scale => 0 }], 0], [[], 1]) {
    my $answer = $server->post('/v1/completions', body(1, lora => $case->[0], prompt => $wanted[ $case->[1] ]{ids}));
    is_deeply ids($answer), $wanted[ $case->[1] ]{greedy}, "  chosen by its number: $names[$case->[1]]";
}
for my $wrong ([{ id => 2, scale => 1 }], [{ id => 0, scale => '0.5' }], [{ id => 0, scale => 1e300 }], [{ id => 0, scale => 1 }, { id => 1, scale => 1 }], [{ id => 'x', scale => 1 }], [{ id => 0 }], [7], 'first') {
    my $answer = $server->post('/completion', { prompt => 'x', n_predict => 1, lora => $wrong });
    is_deeply [$answer->{status}, $answer->{json}{error}{param}], [400, 'lora'], '  or refused by name';
}
is $server->post('/v1/completions', body(0, model => 'third'))->{status}, 404, 'an adapter that is not there';

# ---- scales: PEFT's tokens, also beside each other; prefixes of one scale are not found with another
my @scales = ([0, 0.5], [0, 1], [1, -1.5]);
my @scaled = @{ decode_json(LlmServer::read_file("$made-scaled/reference.json"))->{prompts} };
sub scaled {
    my ($i, %more) = @_;
    return body(0, prompt => $scaled[$i]{ids}, lora => [{ id => $scales[$i][0], scale => $scales[$i][1] }], %more);
}
@answers = $server->at_once(map { scaled($_ % 3) } 0 .. 5);
is_deeply ids({ json => $answers[$_] }), $scaled[ $_ % 3 ]{greedy}, "  $names[$scales[$_ % 3][0] + 1] times $scales[$_ % 3][1]" for 0 .. 5;
my @found = map {
    $server->post('/v1/completions', scaled(2, max_tokens => 1, lora => [{ id => 1, scale => $_ }]))
        ->{json}{usage}{prompt_tokens_details}{cached_tokens}
} 0.25, 0.75, 0.25;
is_deeply [@found[0, 1]], [0, 0], 'no blocks of another scale are found';
cmp_ok $found[2], '>', 0, '  but those of its own';
is $server->post('/lora-adapters', [{ id => 0, scale => 1 }])->{status}, 403, 'a scale for all needs runtime = true';
like $server->get('/metrics')->{content}, qr/^vllm:lora_requests_info\{[^}]*max_lora="16"/m, 'metrics';

# ---- requests change nothing unless the file allows it
my $refused = $server->post('/v1/load_lora_adapter', { lora_name => 'third', lora_path => "$made/first" });
is $refused->{status}, 403, 'no adapters from requests';
like $refused->{content}, qr/set \[lora\] runtime = true/, '  and why';

# ---- a reload
sub reload {
    my ($lora) = @_;
    $server->configure(config($lora));
    return $server->post('/admin/reload');
}
is reload("second = $made/second\nthird = $made/first\n")->{status}, 200, 'a reload with other adapters';
is_deeply [map { $_->{id} } @{ listed($server) }], [qw(stories260K second third)], '  lists them';
is_deeply ids($server->post('/v1/completions', body(1, model => 'third'))), $wanted[1]{greedy}, '  the new one answers';
is $server->post('/v1/completions', body(1))->{status}, 404, '  the old one is gone';
my $bad = reload("second = $models/stories260K\n");
isnt $bad->{status}, 200, 'a reload with what is no adapter is refused';
like $bad->{content}, qr/adapter_config\.json/, '  with the reason';
is_deeply ids($server->post('/v1/completions', body(2))), $wanted[2]{greedy}, '  and changes nothing';
is reload("second = $made/second:-1.5\n")->{status}, 200, 'a reload with another scale';
is_deeply ids($server->post('/v1/completions', body(2, prompt => $scaled[2]{ids}))), $scaled[2]{greedy}, '  which requests have then';
is $server->stop, 0, 'the server ends well';

# ---- requests load and unload; two of three fit
$server = LlmServer->serve(config("runtime = true\nmax_loaded = 2\nsecond = $made/second\n"));
for my $case (['lora_path'], ['lora_name', lora_path => 'x'], ['lora_name', lora_name => 'stories260K', lora_path => 'x']) {
    my ($param, %body) = @$case;
    my $answer = $server->post('/v1/load_lora_adapter', { ($param eq 'lora_path' ? (lora_name => 'x') : ()), %body });
    is $answer->{status}, 400, "a load without a good $param";
}
my $loaded = $server->post('/v1/load_lora_adapter', { lora_name => 'first', lora_path => "$made/first" });
is $loaded->{content}, "Success: LoRA adapter 'first' added successfully.", 'a load, as vLLM answers';
is $server->post('/v1/load_lora_adapter', { lora_name => 'first', lora_path => "$made/first" })->{status}, 400, 'a second time';
is $server->post('/v1/load_lora_adapter', { lora_name => 'first', lora_path => "$made/first", load_inplace => $true })->{status}, 200, '  in place';
is $server->post('/v1/load_lora_adapter', { lora_name => 'none', lora_path => "$made/none" })->{status}, 404, 'a path that is not there';
is $server->post('/v1/load_lora_adapter', { lora_name => 'third', lora_path => "$made/first" })->{status}, 200, 'a third';
for my $round (1, 2) {
    is_deeply ids($server->post('/v1/completions', body($_->[0], model => $_->[1]))), $wanted[ $_->[0] ]{greedy}, "$_->[1], round $round"
        for [1, 'first'], [2, 'second'], [1, 'third'];
}
is $server->post('/v1/unload_lora_adapter', { lora_name => 'third' })->{content}, "Success: LoRA adapter 'third' removed successfully.", 'an unload';
is $server->post('/v1/unload_lora_adapter', { lora_name => 'third' })->{status}, 404, '  of what is gone';
is $server->post('/v1/completions', body(1, model => 'third'))->{status}, 404, '  which answers no more';

# ---- a scale for requests that choose no adapter
sub scales { return [map { $_->{scale} } @{ decode_json($server->get('/lora-adapters')->{content}) }] }
is_deeply $server->post('/lora-adapters', [{ id => 1, scale => 0.5 }, { id => 0, scale => 0 }])->{json}, { success => $true }, 'a scale for all';
is_deeply scales(), [0, 0.5], '  is listed';
is_deeply ids($server->post('/v1/completions', body(0, prompt => $scaled[0]{ids}))), $scaled[0]{greedy}, '  and has its effect';
is_deeply ids($server->post('/v1/completions', body(1))), $wanted[1]{greedy}, '  unless a model is chosen';
is_deeply ids($server->post('/v1/completions', body(0, lora => [{ id => 1, scale => 0 }]))), $wanted[0]{greedy}, '  or none';
is $server->post('/lora-adapters', $_)->{status}, 400, 'wrong scales' for {}, [7], [{ id => 9, scale => 1 }];
$server->post('/lora-adapters', []);
is_deeply scales(), [0, 0], 'no scale for all';

# ---- unloaded while it answers: the answer goes on
my $stream = $server->connect;
my $long = encode_json(body(1, stream => $true, max_tokens => 200));
print $stream "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " . length($long) . "\r\nConnection: close\r\n\r\n$long";
LlmServer::read_until($stream, qr/token_ids/);
is $server->post('/v1/unload_lora_adapter', { lora_name => 'first' })->{status}, 200, 'an unload while it answers';
like LlmServer::read_all($stream), qr/\[DONE\]/, '  lets the answer end';
is $server->stop, 0, 'the server ends well';

# ---- what cannot start says why
sub fails {
    my ($lora, $why, $what) = @_;
    my $config = File::Temp->new;
    LlmServer::write_file("$config", LlmServer::whole(config($lora)));
    my $said = `@{[LlmServer::built('llmserve')]} -c $config 2>&1`;
    isnt $?, 0, $what;
    like $said, $why, '  and why';
}
fails("x = $made/nowhere\n", qr/\[lora\] x: '.*nowhere' is not there/, 'a path that is not there');
fails("stories260K = $made/first\n", qr/the model itself has this name/, 'the model\'s own name');
fails("x = $models/llama-lora/first\n", qr/\[lora\] x: .*is the adapter of another model\?/, 'an adapter of another model');

done_testing;
