#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The policy of --new-plugin in other languages than C, as examples/policies has it: in C++, Rust and Zig, where it also
# keeps the contract of plugins, and in Python behind scheduler pipe. All make the plans of the template in C.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More;

plan skip_all => 'a sanitizer wants its own link' if LlmServer::sanitized();
my $dir = tempdir(CLEANUP => 1);
$ENV{LLS_PLUGIN_PATH} //= abs_path(LlmServer::built('.libs'));
$ENV{LLS_PROFILE_PATH} = abs_path(LlmServer::source('etc/profiles'));
my ($include, $library) = (abs_path(LlmServer::source('include')), abs_path(LlmServer::built('libllmserve-policy.a')));
my $sim = abs_path(LlmServer::built('llmserve-sim'));

# Long prompts among short ones, in a cache that some must leave again.
LlmServer::write_file("$dir/trace.csv", "arrival_s,prompt_tokens,output_tokens\n" .
    join '', map { $_ / 20 . ',' . ($_ % 8 ? 40 + $_ * 37 % 120 : 900) . ',' . (5 + $_ * 53 % 60) . "\n" } 0 .. 59);
my $load = "'$sim' --model opt-13b --profile a100-40g --set cache.device_memory=2GiB --trace $dir/trace.csv";

sub runs { my ($command) = @_; return system("$command >/dev/null 2>&1") == 0 }

# The command makes $dir/NAME.so.
sub made {
    my ($command, $name) = @_;
    is system("cd '$dir' && $command 2>'$dir/why'"), 0, "$name is built" or diag LlmServer::read_file("$dir/why");
    return "$dir/$name.so";
}

sub built {
    my ($compiler, $source, $name) = @_;
    return made("$compiler -O2 -fPIC -fvisibility=hidden -shared -I'$include' -o $name.so '$source' '$library'", $name);
}

my $template = built(($ENV{CC} // 'cc') . ' -std=c17', abs_path(LlmServer::source('share/sdk/scheduler.c')), 'template');
like qx($load --set plugins.scheduler=$template --record $dir/record 2>&1), qr/^Preemptions by recompute: +[1-9]/m, '  which preempts';

# The options choose a policy, whose plans are then those of the template.
sub makes_its_plans {
    my ($options, $name) = @_;
    my $said = qx($load $options --against $dir/record 2>&1);
    is $?, 0, "$name runs";
    like $said, qr/^Decisions: all \d+ plans are those of /m, '  and its plans are those of the template in C' or diag $said;
    return;
}

# A plugin, which is complete as it is: it makes those plans and keeps the contract.
sub is_the_policy {
    my ($plugin) = @_;
    makes_its_plans("--set plugins.scheduler=$plugin", 'it');
    my $said = qx('@{[LlmServer::built('llmserve-plugin-check')]}' --time-limit=0 $plugin 2>&1);
    is $?, 0, '  and it keeps the contract' or diag $said;
    return;
}

SKIP: {
    my $compiler = $ENV{CXX} // 'c++';
    skip "no $compiler", 4 if system("$compiler --version >/dev/null 2>&1") != 0;
    skip "$compiler knows no C++20", 4 if system("echo 'int main() {}' | $compiler -std=c++20 -x c++ -fsyntax-only - 2>/dev/null") != 0;
    my $plugin = built("$compiler -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -Werror", abs_path(LlmServer::source('examples/policies/shortest.cc')), 'shortest');
    is_the_policy($plugin);
}

SKIP: {
    my ($version) = qx(rustc --version 2>/dev/null) =~ /\Arustc 1\.(\d+)/;
    skip 'rustc (Debian: rustc) is not installed, or is older than 1.63', 4 if ($version // 0) < 63;
    my $source = abs_path(LlmServer::source('examples/policies/shortest.rs'));
    is_the_policy(made("rustc --edition 2021 -D warnings -O -C panic=abort -C lto --crate-type cdylib --crate-name rust -o rust.so "
        . "-L '@{[$library =~ s{/[^/]+\z}{}r]}' -l static=llmserve-policy '$source'", 'rust'));
}

SKIP: {
    my $zig = 'zig';
    if (!runs('zig version') && $ENV{LLS_CLIENTS}) { # Debian 12 has none, but PyPI
        my $why = LlmServer::make_venv(abs_path(LlmServer::built('t')) . '/zig-venv', 'ziglang');
        skip "Zig: $why", 4 if defined $why;
        $zig = "'" . abs_path(LlmServer::built('t/zig-venv')) . "/bin/python' -m ziglang";
    }
    my $version = qx($zig version 2>/dev/null); # each one changes the language
    skip 'Zig 0.17 (PyPI: ziglang) is not installed', 4 if $version !~ /\A0\.17\./;
    copy(LlmServer::source('examples/policies/shortest.zig'), $dir) or die $!;
    local $ENV{ZIG_LOCAL_CACHE_DIR}  = "$dir/zig";
    is_the_policy(made("$zig translate-c -lc -I'$include' '$include/llmserve/policy/step.h' >sdk.zig && "
        . "$zig build-lib -dynamic -O ReleaseFast -fPIC -lc -femit-bin=zig.so shortest.zig '$library'", 'zig'));
}

SKIP: {
    skip 'python3 is not installed', 2 if system('command -v python3 >/dev/null 2>&1') != 0;
    local $ENV{PYTHONPATH} = abs_path(LlmServer::source('python'));
    my $example = abs_path(LlmServer::source('examples/policies/shortest.py'));
    makes_its_plans("--set plugins.scheduler=pipe --set 'scheduler.pipe.command=python3 $example'", 'Python');
}
done_testing;
