#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# bench/gpu-bundle and its `run`, with stand-ins for the programs, the GPU and NVIDIA's tools: the
# contents of a bundle, the programs and arguments of each part, its message after a failure, and that
# logs are returned in any case.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use Test::More;

my $source = abs_path($ENV{LLS_SRCDIR} // '.');
my $folder = tempdir(CLEANUP => 1);
my ($true) = grep { -x } '/bin/true', '/usr/bin/true';
plan skip_all => "no $_ here" for grep { system("command -v $_ >/dev/null 2>&1") != 0 } qw(bash strip objdump ldd ldconfig);
delete @ENV{qw(LIMIT LLS_SRCDIR LLS_PLUGIN_PATH LD_LIBRARY_PATH)};

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    chmod 0755, $path;
    return;
}

# The exit status, and all that was printed.
sub run {
    my ($command) = @_;
    my $out = `$command 2>&1`;
    return ($? >> 8, $out);
}

# ---- the bundle ------------------------------------------------------------------------------
my ($build, $other, $bundle) = map { "$folder/$_" } qw(build other bundle);
my @tests = map { m{(test_cuda_\w+)\.c$} } glob "$source/t/kernel/test_cuda_*.c";
my @programs = qw(llmserve llmserve-sim llmserve-profile llmserve-bench bench/gpu);
mkdir $_ for map { ($_, "$_/.libs", "$_/bench", "$_/t", "$_/t/kernel") } $build, $other;
my $make = "$source/bench/gpu-bundle";

my ($status, $said) = run($make);
is $status, 2, 'a bundle of nothing is refused';
like $said, qr/^usage: bench\/gpu-bundle /, '  with how it is called';
($status, $said) = run("$make $build $bundle");
is $status, 1, 'so is a build without CUDA';
like $said, qr/build has no device_cuda\.so: configure found no CUDA toolkit/, '  by its name';
for my $to ((map { "$_/.libs/device_cuda.so" } $build, $other), "$build/.libs/scheduler_fcfs.so", map { "$build/$_" } @programs, map { "t/kernel/$_" } @tests[1 .. $#tests]) {
    system('cp', $true, $to) == 0 or die;
}
($status, $said) = run("$make $build $bundle");
is $status, 1, 'and one that lacks a program';
like $said, qr/build t\/kernel\/$tests[0] first: make -C \S+ t\/kernel\/$tests[0]/, '  which is named';
system('cp', $true, "$build/t/kernel/$tests[0]") == 0 or die;
($status, $said) = run("$make $build $bundle $other");
is $status, 0, 'a whole one is packed' or diag $said;
like $said, qr/^\d+ MiB$/m, '  and its size said';
is_deeply [sort map { s{.*/}{}r } glob "$bundle/bin/*"], [sort map { s{.*/}{}r } @programs, @tests], '  with each program and each test of the device';
ok -e "$bundle/$_", "  with $_" for qw(lib/device_cuda.so lib/scheduler_fcfs.so other/device_cuda.so run gpu_kernels.py src/t/data/models src/bench/gpu_serving/serve.py src/share/demo-model);
($status, $said) = run("$make --without-data --without-tests $build $bundle");
is_deeply [$status, grep { -e "$bundle/$_" } 'src', 'other', "bin/$tests[0]"], [0], 'without data and tests there are none, nor what an older bundle had' or diag $said;
run("$make --without-data $build $bundle $other");

# ---- its parts ---------------------------------------------------------------------------------
# Programs that say how they were called. A library that every machine has stands for cuBLAS.
my $tools = "$folder/tools";
mkdir $tools;
my $tell = "#!/bin/sh\necho \"\$(basename \$0) \$*\"\n";
write_file("$tools/$_", $tell) for qw(nvidia-smi ncu compute-sanitizer);
write_file("$bundle/bin/$_", "$tell\necho \"debug \$LLS_CUDA_DEBUG\"\n") for @tests, 'gpu';
write_file("$bundle/cublas", "libc.so.6\n");

# One part, with the archive's logs by name.
sub part {
    my ($arguments, %set) = @_;
    my $settings = join ' ', map { "$_='$set{$_}'" } keys %set;
    my ($rc, $out) = run("rm -rf $folder/out $folder/logs; mkdir $folder/logs; PATH=$tools:\$PATH LLS_SRCDIR=$source $settings $bundle/run $arguments $folder/out");
    my %logs;
    if (-e "$folder/out/logs.tar.gz" && system("tar -C $folder/logs -xzf $folder/out/logs.tar.gz") == 0) {
        for my $log (glob "$folder/logs/*.log") {
            open my $file, '<', $log or die;
            local $/;
            $logs{ $log =~ s{.*/|\.log$}{}gr } = <$file>;
        }
    }
    return { status => $rc, out => $out, logs => \%logs };
}

is part('nothing')->{status}, 2, 'a part that there is not is refused';
my $refused = part('tests', LIMIT => 5);
is $refused->{status}, 2, 'so is a limit of less than ten seconds';
like $refused->{out}, qr/^run: LIMIT=5: seconds, 10 or more$/m, '  which says so';
is part('tests', LLS_SRCDIR => $folder)->{status}, 1, 'and a bundle without models';

my $good = part('tests');
is $good->{status}, 0, 'all tests pass' or diag $good->{out};
is_deeply [$good->{out} =~ /^(\w+): good$/mg], \@tests, '  each of which is said';
is_deeply [sort keys %{ $good->{logs} }], [sort 'machine', @tests], '  and has its log in the archive, beside what the machine is';
write_file("$bundle/bin/$tests[0]", "$tell\necho \"debug \$LLS_CUDA_DEBUG\"\nexit 3\n");
my $bad = part('tests');
is $bad->{status}, 1, 'one fails';
like $bad->{out}, qr/^$tests[0]: FAILED \(3\), see $tests[0]\.log$/m, '  which is said';
like $bad->{out}, qr/^failed: $tests[0] debug-$tests[0]$/m, '  at the end too';
like $bad->{logs}{"debug-$tests[0]"}, qr/^debug 1$/m, '  it ran once more with LLS_CUDA_DEBUG';

my $checked = part('memcheck');
is $checked->{status}, 0, 'compute-sanitizer runs' or diag $checked->{out};
like $checked->{logs}{'memcheck-test_cuda_int8'}, qr{^compute-sanitizer --tool memcheck .*--error-exitcode 9 .* $bundle/bin/test_cuda_int8$}m, '  over a test, whose errors are an exit status';
my @watched = sort map { m{/bin/(test_cuda_\w+)$}m } values %{ $checked->{logs} };
is_deeply [grep { my $test = $_; !grep { $_ eq $test } @tests } @watched], [], '  all of which are there';
my $profiled = part('profile');
is $profiled->{status}, 0, 'ncu runs' or diag $profiled->{out};
like $profiled->{logs}{'ncu-codes'}, qr{^ncu .*regex:multiply_codes .*$bundle/bin/gpu one int4 weights, 1 rows 60$}m, '  over one case of bench/gpu';

like part('models', LIMIT => 100)->{logs}{models}, qr/^gpu models 90$/m, 'bench/gpu ends ten seconds before its part';
write_file("$bundle/bin/gpu", "$tell\necho \"\$LLS_PLUGIN_PATH\"\nexit 1\n");
my $compared = part('compare');
is $compared->{status}, 0, 'a mark that is missed is no failure' or diag $compared->{out};
like $compared->{logs}{other}, qr{^$bundle/other:$bundle/lib$}m, '  the other build has its turn';
like $compared->{logs}{this}, qr{^$bundle/lib$}m, '  after this one';
write_file("$bundle/bin/gpu", "$tell\nexit 2\n");
is part('operations')->{status}, 1, 'what it cannot run is one';

# The scripts of bench/gpu_serving; what they leave in their folder comes back too.
SKIP: {
    skip 'no python3 here', 3 if system('command -v python3 >/dev/null 2>&1') != 0;
    system("mkdir -p $folder/tree/t/data/models $folder/tree/bench/gpu_serving") == 0 or die;
    write_file("$folder/tree/bench/gpu_serving/measure.py", "import sys\nprint(sys.argv[2])\nopen(sys.argv[1] + '/table', 'w')\nsys.exit(3)\n");
    my $measured = part('measure', LLS_SRCDIR => "$folder/tree", LIMIT => 20);
    is $measured->{status}, 1, 'a script that fails fails its part';
    like $measured->{out}, qr/^20\nmeasure: FAILED \(3\)\nfailed: measure$/m, '  which is said, after what it printed';
    ok -e "$folder/logs/serving/table", '  and its table is in the archive';
}
write_file("$tools/nvidia-smi", "#!/bin/sh\necho none\nexit 9\n");
my $none = part('tests');
is $none->{status}, 77, 'without a GPU all is skipped';
is $none->{logs}{machine}, "none\n", '  and the archive says why';
done_testing;
