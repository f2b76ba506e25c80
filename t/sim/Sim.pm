# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of llmserve-sim: runs it, and reads its output.
package Sim;
use strict;
use warnings;
use Exporter qw(import);
use File::Temp qw(tempdir);
use JSON::PP;

our @EXPORT = qw($folder $source write_file read_file run simulate profile);
our $build = $ENV{LLS_BUILDDIR} // '.';
our $source = $ENV{LLS_SRCDIR} // '.';
our $folder = tempdir(CLEANUP => 1);
$ENV{LLS_PROFILE_PATH} = "$source/etc/profiles";

sub write_file {
  my ($name, $text) = @_;
  open my $file, '>', "$folder/$name" or die "$name: $!";
  print $file $text;
  close $file or die "$name: $!";
  return "$folder/$name";
}

sub read_file {
  my ($path) = @_;
  open my $file, '<', $path or die "$path: $!";
  local $/;
  return scalar(<$file>) // q();
}

# A program of the build folder; (exit status, stdout, stderr).
sub run {
  my ($program, @arguments) = @_;
  my $pid = fork // die "fork: $!";
  if ($pid == 0) {
    open STDOUT, '>', "$folder/out" or die;
    open STDERR, '>', "$folder/err" or die;
    exec "$build/$program", @arguments or die;
  }
  waitpid $pid, 0;
  return ($? >> 8, read_file("$folder/out"), read_file("$folder/err"));
}

# llmserve-sim with --json; what the report says. Dies if it fails.
sub simulate {
  my @arguments = @_;
  my ($status, $out, $err) =
    run('llmserve-sim', '--quiet', '--json', "$folder/report.json", @arguments);
  die "llmserve-sim: $err" if $status != 0;
  return decode_json(read_file("$folder/report.json"));
}

# A device on which every step takes 10 ms and nothing else takes time that counts.
sub profile {
  my ($name, $more) = @_;
  return write_file($name, <<"INI" . ($more // q()));
[device]
name = ten
memory = 1GiB
bandwidth = 1000000
matrix = 1000000
[efficiency]
matrix = 1
weights = 1
cache = 1
prefill_attention = 1
[overhead]
step = 10ms
INI
}

1;
