#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tools/package/bundle-run, which starts a bundle's programs: wherever the bundle is unpacked they find its
# configuration, plugins, profiles and each other. The programs and files are those of this build.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp;
use Test::More;

my $root = File::Temp->newdir('bundleXXXX', TMPDIR => 1);
mkdir "$root/$_" for qw(bin libexec etc lib share);
copy(LlmServer::source('tools/package/bundle-run'), "$root/bin/run") and chmod 0755, "$root/bin/run" or die "copy: $!";
for (qw(llmserve llmserve-ctl llmserve-sim llmserve-whatif)) {
    symlink abs_path(LlmServer::built($_)), "$root/libexec/$_";
    symlink 'run', "$root/bin/$_";
}
symlink abs_path(LlmServer::built('.libs')), "$root/lib/llmserve";
symlink abs_path(LlmServer::source($_->[0])), "$root/share/$_->[1]" for ['etc/profiles', 'profiles'], ['share/demo-model', 'demo-model'];
open my $ini, '>', "$root/etc/llmserve.ini" or die "etc: $!";
print $ini "[server]\nlisten = 127.0.0.1:1\n[model]\npath = ../share/demo-model\n[plugins]\nscheduler = sarathi\n";
close $ini;
delete @ENV{qw(LLS_PLUGIN_PATH LLS_DATA_PATH LLS_PROFILE_PATH LLMSERVE_ADMIN_KEY)};

sub says { my $out = qx('$root/bin/$_[0]' $_[1] 2>&1); return $out }

like says('llmserve', '--check-config'), qr{/etc/llmserve\.ini: ok$}m, 'the server has its file and its plugins';
like says('llmserve-ctl', 'status'), qr/no llmserve at 127\.0\.0\.1:1/, 'llmserve-ctl knows from it where the server is';
like says('llmserve-ctl', 'whatif --policies fcfs'), qr/no llmserve at 127\.0\.0\.1:1/, '  and its whatif does';
like says('llmserve-whatif', '--policies fcfs'), qr/no llmserve at 127\.0\.0\.1:1/, '  as the program of that name';
like says('llmserve-sim', '--model opt-13b --profile a100-80g --num-prompts 2'), qr/^Successful requests: +2 /m,
    'the simulator has the profiles and models that ship';

chdir $root or die "$root: $!";
for my $kind (qw(scheduler cache predictor drafter)) {
    like says('llmserve', "--new-plugin $kind my_$kind"), qr/: a $kind that works\. /, "a $kind is begun";
    like LlmServer::read_file("my_$kind/my_$kind.ini"), qr{^path = \Q$root\E/share/demo-model$}m, "  with the folder's own model";
}
chdir '/';
done_testing;
