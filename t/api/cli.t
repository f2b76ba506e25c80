#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The command line: the output of each command, on stdout or stderr, and its exit
# status.
use strict;
use warnings;
use File::Spec;
use File::Temp qw(tempdir);
use Test::More;

my $build = $ENV{LLS_BUILDDIR} // '.';
my $source = $ENV{LLS_SRCDIR} // '.';
my $fixtures = "$build/t/fault/.libs";
my $folder = tempdir(CLEANUP => 1);

sub write_file {
  my ($path, $text) = @_;
  open my $file, '>', $path or die "$path: $!";
  print $file $text;
  close $file or die "$path: $!";
}

sub read_file {
  my ($path) = @_;
  open my $file, '<', $path or die "$path: $!";
  local $/;
  return scalar(<$file>) // q();
}

# Runs llmserve; (exit status, stdout, stderr).
sub llmserve {
  my @arguments = @_;
  my $pid = fork // die "fork: $!";
  if ($pid == 0) {
    open STDOUT, '>', "$folder/out" or die;
    open STDERR, '>', "$folder/err" or die;
    exec "$build/llmserve", @arguments or die;
  }
  waitpid $pid, 0;
  return ($? >> 8, read_file("$folder/out"), read_file("$folder/err"));
}

symlink(File::Spec->rel2abs("$source/share/demo-model"), "$folder/model") or die "$folder/model: $!";

subtest 'version and help' => sub {
  my ($status, $out, $err) = llmserve('--version');
  is($status, 0);
  like($out, qr/^llmserve \d+\.\d+\.\d+\n$/);
  ($status, $out, $err) = llmserve('--help');
  is($status, 0);
  is($err, '');
  like($out, qr/\Q$_\E\b/, $_)
    for qw(--config --check-config --help-config --list-plugins --port --set --help --version);
};

subtest 'without a file, and before one' => sub {
  write_file("$folder/threads.ini", "[engine]\nthreads = many\n[model]\npath = /nowhere\n");
  my ($status, $out, $err) = llmserve("$folder/model", '--port', 0, '--check-config');
  is_deeply([$status, $out =~ s/^cache: .*\n//mr, $err], [0, "command line: ok\n", ''], 'a model is enough');
  like($out, qr/^cache: \S+ KiB a token in 6 layers; \S+ MiB a sequence of \d+ tokens$/m, '  and it says what the cache takes');
  ($status, $out, $err) = llmserve('-c', "$folder/threads.ini", '--check-config', "$folder/model", '--set=engine.threads=2');
  is_deeply([$status, $out =~ s/^cache: .*\n//mr, $err], [0, "$folder/threads.ini: ok\n", ''], 'what is given counts before the file');
  my @wrong = (
    [["$folder/none.gguf"],       qr/^command line: \[model\] path: .*cannot open '\S*none\.gguf': No such file/],
    [['--port', 'http'],          qr/^command line: \[server\] listen: .*found '127\.0\.0\.1:http'$/],
    [['--set', 'engine.threads=x'], qr/^command line: \[engine\] threads: expected a whole number/],
    [['--set', 'engine.treads=1'], qr/^command line: unknown key 'treads' in \[engine\]; the nearest is 'threads'/],
    [['--set', 'threads'],        qr/^command line: --set 'threads': expected SECTION\.KEY=VALUE$/],
    [[qw(another)],               qr/^llmserve: 'another': expected no further argument/],
  );
  for my $case (@wrong) {
    my ($arguments, $sentence) = @$case;
    my @model = $arguments->[0] =~ /gguf/ ? () : "$folder/model";
    ($status, $out, $err) = llmserve(@model, @$arguments);
    is($status, 2, "@$arguments");
    like($err, qr/$sentence/m, '  and why');
  }
};

# A program that starts with other rights than its user's takes no code from its environment.
subtest 'LLS_PLUGIN_PATH of a program with more rights' => sub {
  plan skip_all => 'only root can make a program of somebody else' if $> != 0;
  my $own = "$folder/owned";
  system('cp', "$build/llmserve", $own) == 0 or die;
  my $nobody = getpwnam 'nobody';
  chown $nobody, -1, $own;
  chmod 04755, $own;
  chmod 0755, $folder;
  local $ENV{LLS_PLUGIN_PATH} = $fixtures;
  like(qx("$build/llmserve" --list-plugins 2>&1), qr/^scheduler +good /m, 'of one with none it is taken');
  unlike(qx("$own" --list-plugins 2>&1), qr/^scheduler +good /m, 'of one with more it is not');
};

subtest 'wrong usage' => sub {
  my ($status, $out, $err) = llmserve('--no-such-option');
  is($status, 2);
  is($out, '');
  like($err, qr/no-such-option.*\nTry 'llmserve --help'\.\n$/);
  ($status, $out, $err) = llmserve('some.ini');
  is($status, 2);
  like($err, qr/^command line: \[model\] path: expected a model folder or a \.gguf file; cannot open '\S*some\.ini'/);
  ($status, $out, $err) = llmserve('-c', "$folder/none.ini", '--check-config');
  is($status, 2);
  is($err, "$folder/none.ini: cannot open: No such file or directory\n");
};

subtest 'a small configuration is enough' => sub {
  my $ini = "$folder/small.ini";
  write_file($ini, "[server]\nlisten = 127.0.0.1:0\n[model]\npath = model\n");
  my ($status, $out, $err) = llmserve('-c', $ini, '--check-config');
  is($status, 0);
  is($out =~ s/^cache: .*\n//mr, "$ini: ok\n");
  is($err, '');
};

subtest 'a wrong one is told every error' => sub {
  my $ini = "$folder/wrong.ini";
  write_file($ini, "[server]\nlistn = 1\n[model]\npath = model\nweights = f64\n");
  my ($status, $out, $err) = llmserve('-c', $ini, '--check-config');
  is($status, 2);
  is($out, '');
  is($err,
    "$ini:2: unknown key 'listn' in [server]; the nearest is 'listen'\n"
      . "$ini:5: [model] weights: expected one of auto, f32, bf16, int8, int4; found 'f64'\n");
  my ($serving, undef, $same) = llmserve('-c', $ini);
  is($serving, 2, 'nor is it served');
  is($same, $err);
};

subtest 'a scheduler that orders by lengths without any is warned of' => sub {
  my $ini = "$folder/lengths.ini";
  local $ENV{LLS_PLUGIN_PATH} = "$build/.libs";
  for my $scheduler (qw(sjf srpt alise fcfs)) {
    write_file($ini, "[model]\npath = model\n[plugins]\nscheduler = $scheduler\npredictor = none\n");
    my (undef, undef, $err) = llmserve('-c', $ini, '--check-config');
    my @said = $err =~ /^(.*predicts nothing.*)$/m;
    my $expected = "$ini: warning: scheduler $scheduler orders by predicted lengths, and predictor none predicts nothing: ";
    is(substr($said[0] // '', 0, length $expected), $scheduler eq 'fcfs' ? '' : $expected, $scheduler);
  }
};

subtest 'the shipped configuration is right' => sub {
  my $text = read_file("$source/etc/llmserve.ini");
  ok($text =~ s{^path = \S+$}{path = model}m, 'it names a model');
  write_file("$folder/shipped.ini", $text);
  my ($status, undef, $err) = llmserve('-c', "$folder/shipped.ini", '--check-config');
  is($status, 0);
  is($err, '');
};

subtest 'every preset is right and names a scheduler of its own' => sub {
  my (%of, $file);
  for my $ini (sort glob "$source/etc/*.ini") {
    ($file) = $ini =~ /(\w+)\.ini$/;
    next if read_file($ini) =~ /^predictor = retrieval\b/m && !-e "$build/.libs/predictor_retrieval.so";
    my ($status, $out, $err) = llmserve('-c', $ini, '--check-config');
    is($status, 0, $ini);
    is($err, '');
    my ($scheduler) = read_file($ini) =~ /^scheduler = (\w+)$/m;
    $of{$scheduler} = 1;
    is($file, $scheduler, '  named after it') unless $file =~ /^(?:llmserve|ranks|retrieval|ngram|auto|draft_model|heads)$/;
  }
  my (undef, $plugins) = llmserve('--list-plugins');
  my @without = grep { !$of{$_} } $plugins =~ /^scheduler +(\w+) /mg;
  is("@{[grep { !/^(null|hostile|pipe)$/ } @without]}", '', 'no shipped scheduler lacks one');
};

subtest '--help-config is a configuration of all defaults' => sub {
  my ($status, $text, $err) = llmserve('--help-config');
  is($status, 0);
  like($text, qr/^\[$_\]$/m, $_) for qw(server model engine cache plugins);
  like($text, qr/^\[$_\.\w+\]$/m, "$_ plugins") for qw(scheduler cache predictor);
  unlike($text, qr/ is refused:/);
  ok($text =~ s{^;path =$}{path = model}m, 'path has no default');
  write_file("$folder/help.ini", $text);
  ($status, undef, $err) = llmserve('-c', "$folder/help.ini", '--check-config');
  is($status, 0);
  is($err, '');
};

subtest 'parameters for experiments are hidden unless asked for' => sub {
  my (undef, $usual) = llmserve('--help-config');
  my (undef, $all) = llmserve('--help-config', '--experimental');
  my $sticky = qr/^; [^\n]+demoted[^\n]*\n(?:; [^\n]*\n)*; true or false; experimental\nsticky = false$/m;
  unlike($usual, qr/^sticky =|experimental$/m, 'not in --help-config');
  like($usual, qr/^; \d+ experimental parameters; --experimental shows them$/m, '  but counted');
  like($all, $sticky, '--experimental shows them');
  unlike($all, qr/--experimental shows/);
  (undef, $usual) = llmserve('--list-plugins', 'apt');
  (undef, $all) = llmserve('--list-plugins', 'apt', '--experimental');
  unlike($usual, qr/^ +sticky = /m, 'not in --list-plugins NAME');
  like($usual, qr/^ +\d+ experimental parameters; --experimental shows them$/m, '  but counted');
  like($all, qr/^    sticky = false \(true or false\)$/m, '--experimental shows them');
  write_file("$folder/ablation.ini", "[model]\npath = $source/share/demo-model\n[plugins]\n"
      . "scheduler = apt\ncache = hybrid\n[scheduler.apt]\nsticky = on\nfill = skip\n");
  my ($status, undef, $err) = llmserve('-c', "$folder/ablation.ini", '--check-config');
  is("$status $err", '0 ', 'an ini sets them as any other');
  (undef, $all) = llmserve('--help-config', '--experimental');
  my %hidden;
  for (split /^(?=\[)/m, $all) {
    my ($section) = /^\[([^]]+)/ or next;
    $hidden{"$section $_"} = 1 for /; experimental\n(\w+) =/g;
  }
  cmp_ok(scalar keys %hidden, '>', 30, 'there are some');
  for my $ini (grep { !m{/paper-} } sort glob "$source/etc/*.ini") { # those are experiments
    my ($section, @shown) = '';
    for (split /\n/, read_file($ini)) {
      $section = $1 if /^\[([^]]+)/;
      push @shown, $1 if /^;?(\w+) =/ && $hidden{"$section $1"};
    }
    is("@shown", '', "none in $ini");
  }
};

subtest '--list-plugins' => sub {
  my ($status, $out, $err) = llmserve('--list-plugins');
  is($status, 0);
  is($err, '');
  like($out, qr/^$_ +\w+ +\d\S* +\S.*$/m, "a $_ on a line") for qw(scheduler cache predictor);
  for (['scheduler', 'fcfs'], ['cache', 'paged'], ['predictor', 'none']) {
    my ($kind, $name) = @$_;
    (undef, my $one) = llmserve('--list-plugins', $name);
    like($one, qr/^$kind $name \S+ \(\S+\)\n    \S.*\n    \/\S+\/${kind}_$name\.so$/m,
      "$name with version, licence, description and path");
    unlike($one, qr/^\w+ (?!$name\b)/m, '  and nothing else');
  }
  ($status, undef, $err) = llmserve('--list-plugins', 'fcsf');
  is("$status $err", "2 llmserve: there is no plugin 'fcsf'; --list-plugins shows those there are\n", 'no such plugin');
  ($status, undef, $err) = llmserve('--list-plugins', 'fcfs', 'paged');
  is($status, 2, 'one name at most');
  for (['opt', qr/^; hidden form with .*: on \(0\.50 of/m],
    ['llama', qr/^; hidden form with .*: off, heads .*share /m]) {
    write_file("$folder/forms.ini", "[model]\npath = $source/t/data/models/$_->[0]\n");
    (undef, $out) = llmserve('-c', "$folder/forms.ini", '--list-plugins');
    like($out, $_->[1], "hidden form of $_->[0]");
  }
  local $ENV{LLS_PLUGIN_PATH} = $fixtures;
  ($status, $out, $err) = llmserve('--list-plugins');
  is($status, 0);
  (undef, my $good) = llmserve('--list-plugins', 'good');
  like($good, qr/^    budget = 512 \(a whole number of tokens, from 1 to 4096\)$/m,
    'parameters');
  like($out, qr/^; scheduler no_plan is refused:\n; \S+: .*callback plan/m,
    'the refused with the reason');
};

subtest 'a plugin whose create fails ends the start with its sentence' => sub {
  local $ENV{LLS_PLUGIN_PATH} = "$ENV{LLS_PLUGIN_PATH}:$fixtures";
  my $ini = "$folder/failing.ini";
  write_file($ini, "[server]\nlisten = 127.0.0.1:0\n[model]\n"
      . "path = $source/share/demo-model\n[plugins]\nscheduler = failing_create\n");
  my ($status, $out, $err) = llmserve('-c', $ini, '--check-config');
  is($status, 2, 'a check asks the policies too');
  like($err, qr/scheduler failing_create .*: this fixture never starts$/m);
  ($status, $out, $err) = llmserve('-c', $ini);
  is($status, 1);
  like($err, qr/scheduler failing_create .*: this fixture never starts$/m);
};

done_testing;
