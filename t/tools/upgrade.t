#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# An upgrade to the next version and back again, each installed over the other: configuration, stored objects, blocks on
# disk and plugins of a third party, compiled with the older version's headers, are there and work. The next version is
# this one with the next version number and the next LLS_API_VERSION.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use Batches;
use Cwd qw(abs_path);
use Digest::SHA qw(sha256_hex);
use File::Temp qw(tempdir);
use JSON::PP;
use LlmServer;
use Test::More;

plan skip_all => 'LLS_UPGRADE=1 builds the next version, which takes minutes' if !$ENV{LLS_UPGRADE};
plan skip_all => 'what is installed has no sanitizer' if LlmServer::sanitized();
if (my ($why) = Batches::missing()) { plan skip_all => $why }
for my $program (qw(git pkg-config python3)) {
    plan skip_all => "$program is not installed" if system("command -v $program >/dev/null") != 0;
}
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKE)};
my ($source, $build) = map { abs_path($_) } @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
my $dir  = tempdir(CLEANUP => 1);
my $root = "$dir/root";

sub runs {
    my ($command, $name) = @_;
    my $out = qx(( $command ) 2>&1);
    is $?, 0, $name or diag "$command\n$out";
    return $out;
}

sub edit {
    my ($file, $from, $to) = @_;
    my $text = LlmServer::read_file("$dir/next/$file");
    ok $text =~ s/$from/$to/, "the next version's $file";
    LlmServer::write_file("$dir/next/$file", $text);
    return;
}

# ---- two versions ------------------------------------------------------------------------------------------

my ($older) = LlmServer::read_file("$source/configure.ac") =~ /^AC_INIT\(\[llmserve\], \[([\d.]+)/m;
my $newer = $older =~ s/(\d+)\z/$1 + 1/er;
my ($api) = LlmServer::read_file("$source/include/llmserve/plugin.h") =~ /^#define LLS_API_VERSION (\d+)$/m;
mkdir "$dir/next";
runs("cd '$source' && git ls-files -z | xargs -0 cp --parents -t '$dir/next'", 'the sources of the next version');
edit('configure.ac', qr/\[\Q$older\E/, "[$newer");
edit('include/llmserve/plugin.h', qr/LLS_API_VERSION \d+$/m, 'LLS_API_VERSION ' . ($api + 1));
# In a folder as deep as the other build's usually is, so that ccache knows most of its files.
chomp(my $options = qx('$build/config.status' --config));
my $jobs = $ENV{JOBS} // qx(nproc) + 0;
runs("cd '$dir/next' && ./bootstrap && mkdir -p build/next && cd build/next && eval \"../../configure -q $options\" && make -s -j$jobs", 'the next version is built');

# Installs a build over what is there, as make install and packages do.
sub install {
    my ($from) = @_;
    runs("make -s -C '$from' install DESTDIR='$root'", "$from is installed");
    return;
}

install($build);
chomp(my $pc = qx(find '$root' -name llmserve-plugin.pc));
$ENV{PKG_CONFIG_PATH} = $pc =~ s{/[^/]*\z}{}r;
$ENV{PKG_CONFIG} = 'pkg-config --define-prefix';
my %at = map { my $name = $_; chomp(my $value = qx($ENV{PKG_CONFIG} --variable=$name llmserve-plugin)); ($name => $value) } qw(bindir plugindir prefix);
$ENV{LLS_PLUGIN_PATH}  = $at{plugindir};
$ENV{LLS_PROFILE_PATH} = "$at{prefix}/share/llmserve/profiles";
$ENV{PATH} = "$at{bindir}:$ENV{PATH}";
$ENV{LLS_BUILDDIR} = $at{bindir}; # where LlmServer finds llmserve

# ---- what an operator has -----------------------------------------------------------------------------------

my @kinds = qw(scheduler cache predictor drafter);
runs("cd '$dir' && llmserve --new-plugin $_ third_$_ && cd third_$_ && make && make install", "a third party's $_") for @kinds;
my %plugin = map { $_ => sha256_hex(LlmServer::read_file("$at{plugindir}/${_}_third_$_.so")) } @kinds;
my $state = "$dir/state";
mkdir $state;
# The operator's own: the demo model's files are replaced with their package, and blocks of a file with another time unused.
system('cp', '-r', LlmServer::source('share/demo-model'), "$dir/model") == 0 or die "cp: $?";
chomp(my $config = qx(find '$root' -name llmserve.ini -path '*/etc/*'));
my $ini = "state = $state\n[model]\npath = $dir/model\n[engine]\nthreads = 1\npin = false\n"
  . "[cache]\ndevice_memory = 8MiB\nkept_prompts = 64MiB\ndisk_space = 64MiB\n"
  . "[plugins]\ncache = paged\n" . join '', map { "$_ = third_$_\n" } grep { $_ ne 'cache' } @kinds;
LlmServer::write_file($config, "[server]\n$ini");

# ---- objects ------------------------------------------------------------------------------------------------

my (%object, %content, %answer); # by path; by path; by prompt

sub completes {
    my ($server, $prompt) = @_;
    my $json = $server->post('/v1/completions', { prompt => $prompt, max_tokens => 12, temperature => 0, ignore_eos => JSON::PP::true })->{json};
    return ($json->{choices}[0]{text}, $json->{usage}{prompt_tokens_details}{cached_tokens}, $json->{usage}{prompt_tokens});
}

# Leaves one object of each kind, by this version.
sub leaves {
    my ($server, $version) = @_;
    my $file  = Batches::upload($server, join '', map { Batches::line("$version-$_") } 1 .. 3);
    my $batch = Batches::wait_for($server, Batches::create($server, $file->{id})->{id});
    is $batch->{request_counts}{completed}, 3, "a batch of $version";
    my $first = $server->post('/v1/responses', { input => "By $version", max_output_tokens => 4 })->{json};
    my $talk  = $server->post('/v1/conversations', { metadata => { version => $version } })->{json};
    $object{"/v1/$_"} = Batches::get($server, "/v1/$_")
      for "files/$file->{id}", "batches/$batch->{id}", "responses/$first->{id}", "conversations/$talk->{id}";
    $content{"/v1/files/$_/content"} = $server->get("/v1/files/$_/content")->{content} for $file->{id}, $batch->{output_file_id};
    my $prompt = "A story of $version. " . 'Once upon a time there was a cat with a hat. ' x 6;
    $answer{$prompt} = [completes($server, $prompt)];
    return;
}

# All objects of before, blocks on disk and kept prompts are there.
sub has_all {
    my ($server, $version) = @_;
    is_deeply Batches::get($server, $_), $object{$_}, "$version has $_" for sort keys %object;
    is $server->get($_)->{content}, $content{$_}, "$version has $_" for sort keys %content;
    for my $response (grep { m{/responses/} } sort keys %object) {
        my $next = $server->post('/v1/responses', { input => 'More', max_output_tokens => 2, store => JSON::PP::false,
            previous_response_id => $object{$response}{id} });
        is $next->{status}, 200, '  a response is gone on from' or diag $next->{content};
    }
    cmp_ok $server->metric('llmserve_disk_blocks_used') // 0, '>', 0, '  and blocks on disk';
    like $server->log, qr/ tokens of kept prompts are taken from /, '  and kept prompts';
    for my $prompt (sort keys %answer) {
        my ($text, $cached) = completes($server, $prompt);
        is $text, $answer{$prompt}[0], '  a prompt has its answer of before';
        cmp_ok $cached, '>=', $answer{$prompt}[2] - 16, '  and was in the cache';
    }
    return;
}

# The installed version serves with the operator's files.
sub serves {
    my ($version) = @_;
    like qx(llmserve --version), qr/\b\Q$version\E\b/, "$version is installed";
    is LlmServer::read_file($config), "[server]\n$ini", '  the configuration is the operator\'s';
    is sha256_hex(LlmServer::read_file("$at{plugindir}/${_}_third_$_.so")), $plugin{$_}, "  the third party's $_ is, too" for @kinds;
    like runs("llmserve-plugin-check --time-limit=0 '$at{plugindir}/${_}_third_$_.so'", '  it runs'),
      qr/^# verdict: $_ third_$_ 1\.0 keeps the contract/m, '  and keeps the contract' for @kinds;
    my $server = LlmServer->serve($ini);
    has_all($server, $version) if %object;
    leaves($server, $version);
    is $server->stop, 0, "$version ends well";
    return;
}

serves($older);
install("$dir/next/build/next");
serves($newer);
install($build);
serves($older);

# ---- what does not go back ------------------------------------------------------------------------------------

# The server does not start, for this reason.
sub is_refused {
    my ($with, $why, $name) = @_;
    eval { LlmServer->serve($with) };
    like $@, $why, $name;
    return;
}

sub form_is {
    my ($change) = @_;
    return runs("python3 -c 'import sqlite3; c = sqlite3.connect(\"$state/llmserve.db\"); v = c.execute(\"PRAGMA user_version\").fetchone()[0]; "
      . "c.execute(f\"PRAGMA user_version = {v + $change}\"); c.commit()'", 'a newer version changes the tables');
}
form_is(1);
is_refused($ini, qr/\[server\] state: .*written by a newer llmserve/, '  which the older one refuses');
form_is(-1);
runs("make -s -C '$dir/next/build/next' install DESTDIR='$root' && cd '$dir' && llmserve --new-plugin scheduler later && cd later && make && make install",
    "a plugin is compiled with $newer");
install($build);
is_refused($ini =~ s/third_scheduler/later/r, qr/api_version: expected 1(?: to $api)?, found @{[$api + 1]}; build it with the headers of this llmserve/,
    "  which $older refuses");
serves($older);
done_testing;
