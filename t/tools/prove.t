#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# t/prove and its parts: the end of the output shows each failure with its output and the
# command that repeats it, and the skipped tests with reasons; a hanging test is killed with
# all its processes.
use strict;
use warnings;
use Cwd qw(realpath);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $source = realpath("$FindBin::Bin/../..");
my $folder = realpath(tempdir(CLEANUP => 1));

# A test of this text.
sub script {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die "$name: $!";
    print $file $text;
    close $file or die "$name: $!";
    chmod 0755, "$folder/$name";
    return $name;
}

# The output of t/prove for these tests, and its exit status.
sub prove {
    my ($timeout, @tests) = @_;
    delete local @ENV{qw(LLS_SECONDS LLS_LIMIT LLS_PROVE_FLAGS LLS_UNDER HARNESS_OPTIONS)};
    local $ENV{LLS_TIMEOUT}  = $timeout;
    local $ENV{LLS_LEFT_OUT} = ' t/plugin/test_retrieval*: SQLite is missing; ';
    my $out = qx('$source/t/prove' '$source' '$folder' @tests 2>&1);
    return ($out, $? >> 8);
}

script('good.t', "#!/bin/sh\necho 1..2; echo ok 1 - right; echo 'ok 2 # skip no frobnicator'\n");
script('none.t', "#!/bin/sh\necho '1..0 # SKIP no thing here'\n");
# as a cmocka program prints it: what fail_msg says comes before its line
script('cmocka', <<'END');
#!/bin/sh
echo 1..4
echo ok 1 - first
echo '# skipped: not on a GPU'
echo 'not ok 2 # SKIP second'
echo 'ERROR: 3 is bad' >&2
echo 'not ok 3 - third'
echo '# c.c:9: error: Failure!'
echo 'ok 4 - fourth'
exit 1
END
script('perl.t', "#!$^X\nuse Test::More;\nok 1, 'right';\nis 7, 8, 'seven';\nsubtest deep => sub { ok 1, 'shallow'; is 'x', 'y', 'inner'; done_testing };\ndone_testing;\n");
script('crash.t', "#!/bin/sh\necho 1..2; echo ok 1 - right; echo last words; kill -SEGV \$\$\n");
script('hang.t', "#!/bin/sh\necho 1..1\nsleep 1000 &\necho \$! >'$folder/pid'\nwait\n");
script('left.t', "#!/bin/sh\necho 1..1\nsleep 1000 &\necho ok 1\n");

my ($out, $status) = prove(30, qw(good.t none.t));
is $status, 0, 'all is well';
like $out, qr/^Skipped:
  t\/plugin\/test_retrieval\*: SQLite is missing
  good\.t, 1 of 2: no frobnicator
  none\.t: no thing here
.*^All tests successful\..*^Result: PASS\n\z/ms, '  and what was skipped is one list';
unlike $out, qr/FAILED/, '  without a failure';

($out, $status) = prove(30, qw(good.t cmocka perl.t crash.t));
isnt $status, 0, 'failures';
my ($end) = $out =~ /^(Skipped:\n.*)/ms;
like $end, qr/^  cmocka, 1 of 4: not on a GPU$/m, 'the reason of a C test that is skipped';
like $end, qr/^FAILED: cmocka
  ERROR: 3 is bad
  not ok 3 - third
  # c\.c:9: error: Failure!
  Repeat it: make -C \Q$folder\E check TESTS='cmocka'$/m, 'a C test: its name, what it said, how to repeat it';
like $end, qr/^FAILED: perl\.t
  not ok 2 - seven
  .*got: '7'
  .*expected: '8'
/ms, 'a Perl test: what was expected and found';
like $end, qr/^      not ok 2 - inner\n.*got: 'x'.*^  not ok 3 - deep$/ms, '  in a subtest too';
unlike $end, qr/right|shallow|good\.t$/, '  and nothing of what went well';
like $end, qr/^FAILED: crash\.t\n  last words\n  # killed by signal 11$/m, 'a crash: the last words';
like $end, qr/^Test Summary Report.*^Result: FAIL\n\z/ms, "and then prove's summary";

($out, $status) = prove(0.1, 'hang.t');
isnt $status, 0, 'a test that hangs';
like $out, qr/^FAILED: hang\.t\n.*^  not ok - timeout: no end within 2 s .*Result: FAIL/ms, '  is named';
like $out, qr/^  # \d+ sleep: S in \S+, of sleep \d+/m, '  with what its processes wait for';
my $pid = -e "$folder/pid" ? do { open my $file, '<', "$folder/pid"; <$file> } : 0;
ok !$pid || gone($pid), '  and what it started has gone';
($out, $status) = prove(3, 'left.t');
like $out, qr/^  not ok - it ended, but left processes behind/m, 'a test that leaves a server behind is named';

# Programs that compute wait for each other here; a script finds none of them.
mkdir "$folder/t" and mkdir "$folder/t/kernel" or die "$folder/t: $!";
for (['left', 'right'], ['right', 'left']) {
    my ($name, $other) = @$_;
    script("t/kernel/test_$name", "#!/bin/sh\necho 1..1\n>'$folder/$name'\nfor i in \$(seq 100); do [ -e '$folder/$other' ] && break; sleep .1; done\n"
          . "[ -e '$folder/$other' ] && echo ok 1 || echo not ok 1\nsleep .3\nrm -f '$folder/$name'\n");
}
script('alone.t', "#!/bin/sh\necho 1..1\n[ -e '$folder/left' ] || [ -e '$folder/right' ] && echo not ok 1 || echo ok 1\n");
SKIP: {
    skip 'one processor', 1 if qx(nproc) < 2;
    ($out, $status) = prove(30, qw(alone.t t/kernel/test_left t/kernel/test_right alone.t));
    is $status, 0, 'what computes runs beside its like, and a script alone' or diag $out;
}

# A process that has ended may wait for somebody to collect it.
sub gone {
    my ($id) = @_;
    open my $stat, '<', '/proc/' . ($id + 0) . '/stat' or return 1;
    return <$stat> =~ /\) Z /;
}
done_testing;
