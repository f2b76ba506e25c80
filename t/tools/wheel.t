#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tools/package/wheel: a wheel of this build's programs, installed by pip into an empty environment, has all that a
# server and a simulation need. The bundle that it is packed of is made here as tools/package/bundle makes it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use Test::More;

sub have { my ($command) = @_; return system("$command >/dev/null 2>&1") == 0 }
my %needs = (
    'python3-wheel' => 'sh -c "python3 -c \'import wheel\' || /usr/bin/python3 -c \'import wheel\'"',
    'patchelf'      => 'command -v patchelf',
    'binutils'      => 'command -v objdump strip',
    'xz-utils'      => 'command -v xz',
    'python3-pip'   => 'python3 -m pip --version',
    'python3-venv'  => 'python3 -c "import venv"',
);
my @lacks = grep { !have($needs{$_}) } sort keys %needs;
plan skip_all => "without @lacks" if @lacks;
plan skip_all => 'sanitizers have libraries of their own' if LlmServer::sanitized();

my $dir = tempdir(CLEANUP => 1);
chomp(my $cpu = qx(uname -m));
my $bundle = "$dir/package/llmserve-0.0.7-linux-$cpu";
my $source = abs_path(LlmServer::source('.'));
my $built  = abs_path(LlmServer::built('.'));
sub shell { my ($command) = @_; my $out = qx(cd '$dir' && { $command; } 2>&1); return ($?, $out) }
sub works { my ($command, $name) = @_; my ($status, $out) = shell($command); is $status, 0, $name or diag $out; return $out }

works("mkdir -p '$bundle/libexec' '$bundle/lib/llmserve' '$bundle/share' '$bundle/etc' '$bundle/bin' dist && set -e;
  for p in llmserve llmserve-sim; do strip -o '$bundle/libexec/'\$p '$built/'\$p; done;
  for p in scheduler_worth scheduler_fcfs cache_paged cache_tiered predictor_none drafter_none drafter_auto; do
    strip -o '$bundle/lib/llmserve/'\$p.so '$built/.libs/'\$p.so; done;
  ldd '$bundle'/libexec/* | awk '\$2 == \"=>\" && \$3 ~ /^\\// { print \$3 }' | sort -u |
    grep -Ev '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\\.so' | while read -r l; do cp -L \"\$l\" '$bundle/lib/'; done;
  cp -R '$source/etc/profiles' '$bundle/share/profiles'; cp -R '$source/share/demo-model' '$bundle/share/';
  sed 's,^path = .*,path = ../share/demo-model,' '$source/etc/llmserve.ini' >'$bundle/etc/llmserve.ini';
  tar -C package -czf '$bundle.tar.gz' llmserve-0.0.7-linux-$cpu;
  mkdir -p llmserve-0.0.7; cp -R '$source/python' llmserve-0.0.7/; mkdir -p llmserve-0.0.7/tools; cp -R '$source/tools/package' llmserve-0.0.7/tools/;
  XZ_OPT=-0 tar -cJf llmserve-0.0.7.tar.xz llmserve-0.0.7", 'a bundle');
works("sh '$source/tools/package/wheel' --check", 'the tools are there');
$ENV{SOURCE_DATE_EPOCH} = 1790000000;
works("sh '$source/tools/package/wheel' llmserve-0.0.7 0.0.7 $cpu", 'a wheel is packed');
my ($wheel) = glob "$dir/package/llmserve-0.0.7-*.whl";
works("mv '$wheel' first && mkdir -m 700 x && tar -C x -xzf '$bundle.tar.gz' && find x -exec touch {} + &&
  tar -C x --sort=none -czf '$bundle.tar.gz' llmserve-0.0.7-linux-$cpu && umask 077 && sh '$source/tools/package/wheel' llmserve-0.0.7 0.0.7 $cpu &&
  cmp first '$wheel'", 'another of later files, by another umask, is the same byte for byte');
is works("python3 -m zipfile -l '$wheel' | sed 1d | cut -d/ -f1 | sort -u", 'its folders'), "llmserve\nllmserve-0.0.7.dist-info\n", '  are those of the module';
like $wheel // '', qr/-py3-none-manylinux_2_\d+_\Q$cpu\E\.whl\z/, '  with the glibc that it needs in its name';

works("python3 -m venv --without-pip venv && python3 -m pip --python venv/bin/python -q install --no-index --no-deps --no-compile --disable-pip-version-check '$wheel'", 'pip installs it');
delete @ENV{qw(LLS_PLUGIN_PATH LLS_DATA_PATH LLS_PROFILE_PATH PYTHONPATH LD_LIBRARY_PATH)};
like works('venv/bin/llmserve --version', 'llmserve is a command'), qr/\Allmserve \d/, '  and runs';
like works('venv/bin/python -m llmserve --check-config', 'so is python -m llmserve'), qr{llmserve\.ini: ok$}m, '  with its configuration';
like works('venv/bin/llmserve-sim --model opt-13b --profile a100-80g --num-prompts 2', 'the simulator has its devices'),
    qr/^Successful requests: +2 /m, '  and models';
LlmServer::write_file("$dir/use.py", <<'END');
from llmserve import Server, programs, simulate
assert programs.path("llmserve").startswith(programs.BUNDLE)
with Server(settings={"engine.pin": False, "cache.host_memory": "16MiB"}) as server:
    print(len(server.complete("Once upon a time", max_tokens=4)) > 0)
print([row["completed"] for row in simulate(["worth", "fcfs"], model="opt-13b", num_prompts=3)])
END
is works('venv/bin/python use.py', 'the module serves and simulates'), "True\n[3, 3]\n", '  with what the wheel has';
my ($status, $out) = shell('env -u LD_LIBRARY_PATH ldd venv/lib/python3*/site-packages/llmserve/bundle/libexec/llmserve');
like $out, qr{=> \S*/site-packages/llmserve/bundle/\S*libuv}, 'libraries are those of the wheel' or diag $out;
like LlmServer::read_file("$source/tools/package/bundle"), qr/\|libresolv\|/, 'no library of libc is among them';
SKIP: {
    my ($auditwheel) = grep { have("$_ --version") } 'auditwheel', 'python3 -m auditwheel', $ENV{LLS_AUDITWHEEL} // ();
    skip 'without auditwheel', 2 if !$auditwheel;
    my ($tag) = $wheel =~ /(manylinux_2_\d+_\Q$cpu\E)/;
    $out = works("$auditwheel show '$wheel'", 'auditwheel reads it') =~ s/\s+/ /gr;
    like $out, qr/is consistent with the following platform tag: "\Q$tag\E"/, '  and agrees' or diag $out;
}
done_testing;
