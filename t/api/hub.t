#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Models by their names at a hub: fetched into the cache of huggingface_hub, continued after a break, checked by
# their hashes, found again without network; and what a user is told if the hub refuses.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Find;
use File::Temp qw(tempdir);
use Hub;
use JSON::PP;
use LlmServer;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'llmserve was built without libcurl (libcurl4-openssl-dev)'
    if LlmServer::read_file(LlmServer::built('config.h')) !~ /^#define LLS_CURL 1/m;

my $stories = LlmServer::source('t/data/models/stories260K');
my %small   = map { $_ => LlmServer::read_file("$stories/$_") } qw(config.json generation_config.json tokenizer.json tokenizer_config.json);
my $weights = LlmServer::read_file("$stories/model.safetensors");
my $gguf    = LlmServer::read_file(LlmServer::source('t/data/gguf/default.gguf'));

# The index of a model whose weights are in one file of many.
sub index_of {
    my ($file) = @_;
    my $header = decode_json(substr $weights, 8, unpack 'Q<', $weights);
    return encode_json({ weight_map => { map { $_ => $file } grep { $_ ne '__metadata__' } keys %$header } });
}

my $hub = Hub->new(
    'org/tiny' => { files => { %small, 'model.safetensors' => $weights, 'README.md' => '# tiny', 'pytorch_model.bin' => 'x' x 999,
                               'onnx/model.onnx' => 'x', 'consolidated.safetensors' => 'y', '1_Pooling/config.json' => '{}', '../evil.json' => '{}' } },
    'org/sharded' => { token => 'hf_secret', files => { %small, # and sizes on both sides of where git's hash needs another block
                               (map { ("additional_chat_templates/$_.jinja" => 'x' x $_) } 0, 45 .. 57), 'model-00001-of-00001.safetensors' => $weights, 'extra.safetensors' => 'no',
                               'model.safetensors.index.json' => index_of('model-00001-of-00001.safetensors') } },
    'org/gated'  => { gated => 1, files => { %small, 'model.safetensors' => $weights } },
    'org/GGUF'   => { files => { 'm-UD-Q4_K_M.gguf' => "$gguf ", 'm-Q4_K_M.gguf' => $gguf, 'm-IQ4_K_M.gguf' => 'i', 'mmproj-Q4_K_M.gguf' => 'p',
                               'Q8_0/m-Q8_0-00001-of-00002.gguf' => 'first', 'Q8_0/m-Q8_0-00002-of-00002.gguf' => 'second', 'config.json' => '{}',
                               'a-Q2_K.gguf' => 'a', 'bb-Q2_K.gguf' => 'b' } },
    'org/weightless' => { files => { 'config.json' => '{}', 'pytorch_model.bin' => 'x' } },
);
my $size = length $weights;
my $home;
my @wrong = ('--set', 'engine.treads=1'); # ends after fetching, since the key is unknown

# Runs llmserve to its end; (exit status, what it wrote). Signals count as 128 and the number.
sub begin {
    my ($env, @arguments) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid != 0;
    delete @ENV{ grep { /^(?:HF_|HUGGING|XDG_CACHE|STATE_D|TRANSFORMERS|\w*_proxy)/i } keys %ENV };
    @ENV{ 'HF_HOME', 'HF_ENDPOINT', keys %$env } = ($home, $hub->url, values %$env);
    open STDERR, '>', "$home/said.$$" or die "said: $!";
    exec LlmServer::built('llmserve'), @arguments or die "exec: $!";
}

sub end {
    my ($pid) = @_;
    waitpid $pid, 0;
    my $status = $?;
    unlike LlmServer::read_file("$home/said.$pid"), qr/Sanitizer/, 'no sanitizer complains' if LlmServer::sanitized();
    return ($status & 127 ? 128 + ($status & 127) : $status >> 8, LlmServer::read_file("$home/said.$pid"));
}

sub fetch { my ($name, %env) = @_; return end(begin(\%env, $name, @wrong)) }
sub fresh { $home = tempdir(CLEANUP => 1); $hub->behave; $hub->asked; return }

# The files of a model's snapshot, and whether each is a link to its blob.
sub snapshot {
    my ($name) = @_;
    my $folder = "$home/hub/models--" . $name =~ s{/}{--}r;
    my $commit = LlmServer::read_file("$folder/refs/main");
    my %found;
    find({ no_chdir => 1, wanted => sub { $found{ substr $_, length "$folder/snapshots/$commit/" } = readlink if -l } }, "$folder/snapshots/$commit")
        if $commit ne '';
    return \%found;
}
sub blob { my ($name, $file) = @_; return "$home/hub/models--" . ($name =~ s{/}{--}r) . "/blobs/$hub->{models}{$name}{hash}{$file}" }
sub fetched { return grep { m{^GET /cdn/} } $hub->asked }

my $unknown_key = qr/unknown key 'treads'/;

subtest 'a folder: what is fetched, and that it serves' => sub {
    fresh();
    my ($status, $said) = fetch('org/tiny');
    like $said, $unknown_key, 'it is fetched';
    like $said, qr{^llmserve: fetching org/tiny from http://\S+: 6 files, 1\.0 MiB, into \Q$home\E/hub$}m, '  and this is said';
    my $hash = $hub->{models}{'org/tiny'}{hash};
    is_deeply snapshot('org/tiny'),
        { (map { $_ => "../../blobs/$hash->{$_}" } keys %small, 'model.safetensors'), '1_Pooling/config.json' => "../../../blobs/$hash->{'1_Pooling/config.json'}" },
        '  the files that are needed, as links to their hashes';
    is -s blob('org/tiny', 'model.safetensors'), $size, '  the blob has its bytes';
    $hub->asked;
    my $server = do {
        local @ENV{qw(HF_HOME HF_ENDPOINT)} = ($home, $hub->url);
        LlmServer->serve("sandbox = auto\n[model]\npath = org/tiny\n[engine]\ndevice = cpu\nthreads = 1\n");
    };
    is_deeply [map { (split)[1] } $hub->asked], ['/api/models/org/tiny/revision/main?blobs=true'], 'a second start only asks whether it is up to date';
    is decode_json($server->get('/v1/models')->{content})->{data}[0]{id}, 'org/tiny', '  and serves it under its name';
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 2 })->{status}, 200, '  and well';
    $server->configure("sandbox = auto\nmax_choices = 7\n[model]\npath = org/tiny\n[engine]\ndevice = cpu\nthreads = 1\n");
    $server->signal('HUP');
    ok $server->log_becomes(qr{reload.*generation 2: }), 'a reload finds it';
    unlike $server->log, qr/restart/, '  and takes it for the same model';
    is $server->stop, 0, 'it ends well';
};

subtest 'without the hub' => sub {
    $hub->misbehave(down => 20);
    my ($status, $said) = end(begin({}, 'org/tiny', @wrong, '--no-download'));
    like $said, $unknown_key, '--no-download finds it in the cache';
    ($status, $said) = fetch('org/tiny', HF_HUB_OFFLINE => 1);
    like $said, $unknown_key, 'HF_HUB_OFFLINE too';
    is_deeply [$hub->asked], [], '  the hub is not asked';
    ($status, $said) = fetch('org/sharded', HF_HUB_OFFLINE => 1);
    like $said, qr/as a model at Hugging Face: the hub's cache \(\S+\) does not have it; a start of llmserve without/, 'a model that is not there';
    ($status, $said) = fetch('org/tiny', HF_ENDPOINT => 'http://127.0.0.1:9');
    like $said, qr{warning: org/tiny: http://127\.0\.0\.1:9 cannot be reached: .*; it is served as the cache has it}, 'no connection: the cache, and a warning';
    like $said, $unknown_key, '  and goes on';
    unlink blob('org/tiny', 'model.safetensors');
    ($status, $said) = fetch('org/tiny', HF_HUB_OFFLINE => 1);
    like $said, qr/does not have all of it: it has no weights/, 'a blob that is gone';
};

subtest 'private models, and the token' => sub {
    fresh();
    my ($status, $said) = fetch('org/sharded');
    is $status, 1, 'without a token: exit status 1';
    like $said, qr/knows no such model, or it is a private one: .*HF_TOKEN/, '  and why';
    ($status, $said) = fetch('org/sharded', HF_TOKEN => 'hf_other');
    like $said, qr/does not accept the token \(HF_TOKEN/, 'with a wrong one';
    $hub->asked;
    LlmServer::write_file("$home/token", "hf_secret\n");
    ($status, $said) = fetch('org/sharded');
    like $said, $unknown_key, 'with the file of hf auth login it is fetched';
    my @asked = $hub->asked;
    is_deeply [grep { m{/cdn/} && !/ - localhost:/ } @asked], [], '  the host of a redirect does not get the token';
    is scalar(grep { m{/cdn/} } @asked), 1, '  of the safetensors only what the index names is fetched';
    is_deeply [sort grep { /model/ } keys %{ snapshot('org/sharded') }], [qw(model-00001-of-00001.safetensors model.safetensors.index.json)], '  with the index';
};

subtest 'refusals' => sub {
    fresh();
    my ($status, $said) = fetch('org/gated');
    like $said, qr{it is gated: accept its conditions at \Q@{[ $hub->url ]}\E/org/gated, and set HF_TOKEN}, 'gated';
    ($status, $said) = fetch('org/none');
    like $said, qr{'org/none', no file or folder here: http://\S+ knows no such model}, 'unknown';
    ($status, $said) = fetch('org/weightless');
    like $said, qr/it has no weights as safetensors/, 'nothing that can be read';
    $hub->misbehave(busy => 1, 1);
    ($status, $said) = fetch('org/tiny');
    like $said, qr/429, too many requests, and asks to wait 1 s.*trying again soon/, '429 is waited for';
    like $said, $unknown_key, '  and then it is fetched';
    fresh();
    $hub->misbehave(busy => 1, 4000);
    ($status, $said) = fetch('org/tiny');
    like $said, qr/asks to wait 4000 s: try later, or with HF_TOKEN/, 'but not for an hour';
    is $status, 1, '  exit status 1';
    ($status, $said) = fetch('org/tiny', HF_ENDPOINT => 'ftp://hub');
    like $said, qr/HF_ENDPOINT: expected a URL/, 'an endpoint that is none';
};

subtest 'transfers that break off' => sub {
    fresh();
    $hub->misbehave(cut => 2, 300_000);
    my ($status, $said) = fetch('org/tiny');
    like $said, qr/model\.safetensors: the transfer from \S+ broke off: .*; trying again/, 'a cut is said';
    like $said, $unknown_key, '  and the file comes whole';
    my @ranges = map { (split)[2] } fetched();
    is scalar @ranges, 3, '  in three parts';
    is $ranges[0], '-', '  from the beginning';
    like $ranges[$_], qr/^bytes=[1-9]\d*-$/, '  from where it broke off' for 1, 2;

    fresh();
    $hub->misbehave(cut => 1, 300_000);
    $hub->misbehave(whole => 1);
    ($status, $said) = fetch('org/tiny');
    like $said, $unknown_key, 'a server without ranges sends it again from the beginning';
};

subtest 'wrong bytes' => sub {
    fresh();
    $hub->misbehave(wrong => 1);
    my ($status, $said) = fetch('org/tiny');
    like $said, qr/model\.safetensors came damaged: its SHA-256 is .*the file was deleted/, 'a wrong hash is said';
    is_deeply [$status, grep { /safetensors|incomplete/ } glob(blob('org/tiny', 'model.safetensors') . '*')], [1], '  and nothing of it kept';
    is_deeply snapshot('org/tiny'), {}, '  and no ref';
    LlmServer::write_file(blob('org/tiny', 'model.safetensors') . '.incomplete', 'damaged');
    $hub->asked;
    ($status, $said) = fetch('org/tiny');
    like $said, $unknown_key, 'a damaged part of an earlier download';
    is_deeply [map { (split)[2] } fetched()], ['bytes=7-', '-'], '  is tried, and then replaced';
};

subtest 'signals' => sub {
    for my $name (qw(INT TERM)) {
        fresh();
        $hub->misbehave(stall => 1, 400_000);
        my $pid = begin({}, 'org/tiny', @wrong);
        my $part = blob('org/tiny', 'model.safetensors') . '.incomplete';
        for (1 .. 1000) { last if (-s $part // 0) >= 400_000; sleep 0.02 }
        kill $name => $pid;
        my ($status, $said) = end($pid);
        is $status, 128 + ($name eq 'INT' ? POSIX::SIGINT : POSIX::SIGTERM), "SIG$name ends it, as the signal does";
        like $said, qr/a signal ended it; the next start continues/, '  with a line';
        is -s $part, 400_000, '  and the part is kept';
        $hub->asked;
        ($status, $said) = fetch('org/tiny');
        is_deeply [map { (split)[2] } fetched()], ['bytes=400000-'], '  the next start continues it';
        like $said, $unknown_key, '  to the end';
    }
};

subtest 'two at once' => sub {
    fresh();
    $hub->misbehave(stall => 1, 100_000);
    my $first = begin({}, 'org/tiny', @wrong);
    for (1 .. 1000) { last if (-s (blob('org/tiny', 'model.safetensors') . '.incomplete') // 0) >= 100_000; sleep 0.02 }
    my $second = begin({}, 'org/tiny', @wrong);
    for (1 .. 1000) { last if LlmServer::read_file("$home/said.$second") =~ /waiting/; sleep 0.02 }
    like LlmServer::read_file("$home/said.$second"), qr/another process fetches model\.safetensors; waiting/, 'the second one waits';
    kill INT => $first;
    end($first);
    my ($status, $said) = end($second);
    like $said, $unknown_key, '  and goes on where the first was ended';
    is_deeply [map { (split)[2] } fetched()], ['-', 'bytes=100000-'], '  from its last byte';
};

subtest 'one GGUF file' => sub {
    fresh();
    my %cases = ('org/GGUF:Q4_K_M' => ['m-Q4_K_M.gguf'], 'org/GGUF' => ['m-Q4_K_M.gguf'], 'org/GGUF:iq4_k_m' => ['m-IQ4_K_M.gguf'],
        'org/GGUF:UD-Q4_K_M' => ['m-UD-Q4_K_M.gguf'], 'org/GGUF:bb-Q2_K.gguf' => ['bb-Q2_K.gguf'],
        'org/GGUF:Q8_0' => ['Q8_0/m-Q8_0-00001-of-00002.gguf', 'Q8_0/m-Q8_0-00002-of-00002.gguf']);
    for my $name (sort keys %cases) {
        fresh();
        my ($status, $said) = fetch($name);
        like $said, $unknown_key, $name;
        is_deeply [sort keys %{ snapshot('org/GGUF') }], $cases{$name}, '  is this file';
    }
    my ($status, $said) = fetch('org/GGUF:Q2_K');
    like $said, qr/a-Q2_K\.gguf and bb-Q2_K\.gguf are two models: name the file behind ':'/, 'two models';
    ($status, $said) = fetch('org/GGUF:Q5_K');
    like $said, qr/none of its GGUF files is Q5_K; name one of these.*m-UD-Q4_K_M\.gguf/, 'a quantisation that is not there';
    ($status, $said) = fetch('org/tiny:Q4_0');
    like $said, qr/it has no \.gguf file, so nothing is to be named behind ':'/, 'a folder has none';
    fetch('org/GGUF:Q4_K_M');
    ($status, $said) = end(begin({}, 'org/GGUF:Q4_K_M', '--no-download', '--check-config'));
    like $said, qr{snapshots/\w+/m-Q4_K_M\.gguf}, 'the file is what is read';
};

done_testing;
