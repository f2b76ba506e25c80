#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve from a third party's view: installed into a folder; plugins created, built
# with every installed compiler, checked and served; every code block of doc/plugins.md,
# in its order; and an uninstall that leaves nothing.
use strict;
use warnings;
use Cwd;
use File::Find;
use File::Temp 'tempdir';
use IO::Socket::INET;
use Test::More;

my ($source, $build) = @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
$_ = Cwd::abs_path($_) for $source, $build;
my $root = tempdir(CLEANUP => 1);
my $work = tempdir(CLEANUP => 1);

plan skip_all => 'what is installed has no sanitizer' if defined $ENV{ASAN_OPTIONS};
plan skip_all => 'pkg-config not found' if system('command -v pkg-config >/dev/null') != 0;

# Like a shell at work: make must not take this make's options for its own.
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKE)};

sub run {
  my ($command) = @_;
  my $out = qx(( $command ) 2>&1);
  return ($? >> 8, $out);
}

sub runs {
  my ($command, $name) = @_;
  my ($status, $out) = run($command);
  is($status, 0, $name) or diag "$command\n$out";
  return $out;
}

# ---- install
runs("make -s -C '$build' install DESTDIR='$root'", 'make install');
my $pc; # under any prefix, that of make distcheck too
find(sub { $pc = $File::Find::name if $_ eq 'llmserve-plugin.pc' }, $root);
ok($pc, 'llmserve-plugin.pc') or BAIL_OUT('nothing is installed');
$ENV{PKG_CONFIG_PATH} = $pc =~ s{/[^/]*$}{}r;
# The folder is not the prefix that was configured: paths follow the .pc file.
$ENV{PKG_CONFIG} = 'pkg-config --define-prefix';
my %at = map { my $v = $_; chomp(my $p = (run("$ENV{PKG_CONFIG} --variable=$v llmserve-plugin"))[1]); ($v => $p) }
  qw(bindir plugindir prefix);
my $share = "$at{prefix}/share/llmserve";
$ENV{LLS_PLUGIN_PATH}  = $at{plugindir};
$ENV{LLS_PROFILE_PATH} = "$share/profiles";
$ENV{PATH}             = "$at{bindir}:$ENV{PATH}";

ok(-x "$at{bindir}/$_", $_) for qw(llmserve llmserve-plugin-check llmserve-sim);
ok(-f "$at{prefix}/include/llmserve/$_.h", "$_.h")
  for qw(types plugin host scheduler cache predictor drafter);
ok(-f "$at{plugindir}/$_.so", $_) for qw(scheduler_fcfs cache_paged predictor_none drafter_none);
is_deeply([glob "$at{plugindir}/*.la"], [], 'no .la files');
ok(-f "$at{prefix}/share/man/man" . substr($_, -1) . "/$_", $_)
  for qw(llmserve.1 llmserve-sim.1 llmserve-bench.1 llmserve-plugin-check.1 llmserve.ini.5
    llmserve-plugin.7 llmserve-scheduler_fcfs.7);
for my $kind (qw(scheduler cache predictor drafter)) {
  ok(-f "$share/examples/$kind/$_", "example: $kind/$_")
    for qw(example.c Makefile check.t example.ini);
}

# ---- every kind, with every compiler
my @compilers = grep { system("command -v $_ >/dev/null") == 0 } qw(gcc clang);
chdir $work or die;
for my $kind (qw(scheduler cache predictor drafter)) {
  runs("llmserve --new-plugin $kind my_$kind", "--new-plugin $kind");
  my ($status, $out) = run("llmserve --new-plugin $kind my_$kind");
  ok($status == 2 && $out =~ /my_$kind: the folder cannot be made: File exists/, 'not twice');
  for my $cc (@compilers) {
    $out = runs("cd my_$kind && make clean && make CC=$cc CFLAGS='-O2 -g -Wall -Wextra -Werror' && make check",
      "$kind with $cc");
    like($out, qr/^# verdict: $kind my_$kind 1\.0 keeps the contract/m, 'it keeps the contract');
  }
  $out = runs("cd my_$kind && make install && llmserve --list-plugins", 'make install');
  like($out, qr/^$kind +my_$kind +1\.0/m, 'it is listed');
  runs("cd my_$kind && make uninstall", 'make uninstall');
  runs("cd '$share/examples/$kind' && make -n >/dev/null", 'the installed example has a Makefile');
}
# ---- in C++, whose designators must come in the order of the members
for my $cxx (grep { system("command -v $_ >/dev/null") == 0 } qw(g++ clang++)) {
  runs("$cxx -std=c++17 -O2 -Wall -Wextra -Wno-missing-field-initializers -Werror \$($ENV{PKG_CONFIG} --cflags llmserve-plugin) -fPIC"
      . " -fvisibility=hidden -shared -Wl,-z,defs -o scheduler_plus.so '$source/t/sdk/scheduler_plus.cpp' \$($ENV{PKG_CONFIG} --libs llmserve-plugin)", "a scheduler with $cxx");
  like(runs('llmserve-plugin-check --time-limit=0 ./scheduler_plus.so', '  it runs'),
    qr/^# verdict: scheduler plus 1\.0 keeps the contract/m, '  and keeps the contract');
}
my ($status, $out) = run('llmserve --new-plugin policy p');
ok($status == 2 && $out =~ /expected the kind scheduler, cache, predictor or drafter, found 'policy'/, 'no such kind');
($status, $out) = run('llmserve --new-plugin cache No/Name');
ok($status == 2 && $out =~ /expected a name of \[a-z\]/, 'no such name');
($status, $out) = run('llmserve --new-plugin scheduler fcfs');
ok($status == 2 && $out =~ /there is a scheduler 'fcfs' already, .*: choose another name/ && !-e 'fcfs', 'a name that is taken');
($status, $out) = run('llmserve --new-plugin cache');
ok($status == 2 && $out =~ /expected KIND NAME/, 'no name');

# ---- doc/plugins.md
sub blocks {
  open my $in, '<', "$source/doc/plugins.md" or die "doc/plugins.md: $!";
  my $text = join '', <$in>;
  return $text =~ /^```sh\n(.*?)^```$/msg;
}

my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
# The daemon was built to look for the model where it would really be installed.
my $here = "sed -i -e 's,127.0.0.1:8081,127.0.0.1:$port,' -e 's,^path = .*,path = $share/demo-model,' shorty.ini";
my $doc = do { local (@ARGV, $/) = "$source/doc/plugins.md"; <> };
for my $cc (@compilers) {
  my $folder = "$work/$cc";
  mkdir $folder;
  chdir $folder;
  my $n = 0;
  for my $block (blocks()) {
    $block =~ s/127\.0\.0\.1:8081/127.0.0.1:$port/g;
    my $in = $n > 0 ? "cd shorty; " : '';
    open my $script, '>', "$folder/block.sh" or die;
    print $script "set -e; export CC=$cc; $in\n$block";
    print $script "\n$here\n" if $n == 0;
    close $script;
    my $text = runs("timeout -k 2 @{[10 * ($ENV{LLS_TIMEOUT} // 60)]} sh block.sh", "doc/plugins.md, block " . ++$n . ", with $cc");
    if ($block =~ /Mean TTFT/) {
      my %ttft = $text =~ /^(\w+)\.txt:Mean TTFT \(ms\):\s+([\d.]+)/mg;
      cmp_ok($ttft{shorty}, '<', $ttft{fcfs} / 2, 'it beats fcfs');
    }
    # The output is that of the text, to the digit.
    for my $line (grep { /Mean (TTFT|E2EL) \(ms\):|^times in ms|^config=/ } split /\n/, $text) {
      $line =~ s/ +$//;
      ok($doc =~ /^    \Q$line\E$/m, "the text says: $line");
    }
    like($text, qr/"ageing":"100"/, 'nothing but the version was edited') if $block =~ /admin\/status/;
    like($text, qr/^shorty|^scheduler +shorty +1\.2/m, 'installed as 1.2') if $block =~ /list-plugins/;
  }
  run("cd $folder/shorty && make uninstall");
}
chdir '/';

# ---- uninstall
runs("make -s -C '$build' uninstall DESTDIR='$root'", 'make uninstall');
my @left;
find(sub { push @left, $File::Find::name unless -d }, $root);
is("@left", '', 'nothing is left');
done_testing;
