#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The man pages name every option and every parameter, and roff reports no errors.
use strict;
use warnings;
use Test::More;

my ($source, $build) = @ENV{qw(LLS_SRCDIR LLS_BUILDDIR)};
my $man = "$build/man";
plan skip_all => 'built for another machine' if !-x "$man/generate";
$ENV{LLS_PLUGIN_PATH} = "$build/.libs"; # what is installed with llmserve has a page

# A page as it was before roff saw it.
sub page {
  my ($path) = @_;
  open my $in, '<', $path or return '';
  my $text = join '', <$in>;
  return $text =~ s/\\-/-/gr =~ s/\\e/\\/gr =~ s/\\&//gr;
}

# The preset of a scheduler.
sub preset {
  my ($name) = @_;
  open my $in, '<', "$source/etc/$name.ini" or return '';
  return join '', <$in>;
}

subtest 'options' => sub {
  for my $path (glob "$man/*.1") {
    my ($tool) = $path =~ m{([^/]+)\.1$};
    my $help = qx("$build/$tool" --help);
    my $page = page($path);
    my %options = map { $_ => 1 } $help =~ /^ {2,6}(?:-\w, )?(--[a-z][a-z-]*)(?![^\n]* \w+ \w+ \w)/mg;
    my @missing = grep { $page !~ /^\\fB.*\Q$_\E/m } sort keys %options;
    ok(%options && !@missing, "$tool: all " . keys(%options) . ' options') or diag "@missing";
    my @prose = grep { !/^(?:-\w, )?--[a-z-]+(?:[ =]\S+){0,2}$/ } $page =~ /^\\fB((?:-\w, )?--.*)\\fR$/mg;
    is("@prose", '', "$tool: no line of an option's text is an option of its own");
    my @commands = $help =~ /^  ([a-z]+)(?: [A-Z.]+)*  +[a-z]/mg; # each is an item, whose text is no other's end
    is_deeply([grep { $page !~ /^\.TP\n\\fB$_\\fR$/m } @commands], [], "$tool: its " . @commands . ' commands') if @commands;
    like($page, qr/^\.SH NAME\n\Q$tool\E - [a-z].{10,}\n\.SH SYNOPSIS/m, "$tool: its name");
  }
};

subtest 'parameters' => sub {
  my ($section, %keys) = '';
  for (split /\n/, qx("$build/llmserve" --help-config)) {
    $section = $1 if /^\[(.*)\]$/;
    push @{ $keys{$section} }, $1 if /^;?(\w+) =/;
  }
  for my $section (sort keys %keys) {
    my $path = $section =~ /^(\w+)\.(.*)/ ? "llmserve-$1_$2.7" : 'llmserve.ini.5';
    my $page = page("$man/$path");
    my @missing = grep { $page !~ /^\\fB\Q$_\E\\fR/m } @{ $keys{$section} };
    ok($page && !@missing, "[$section] in $path") or diag "@missing";
  }
};

subtest 'roff' => sub {
  plan skip_all => 'groff not found' if system('command -v groff >/dev/null') != 0;
  for my $path (glob("$man/*.[157]"), "$source/man/llmserve-plugin.7", "$source/man/llmserve-trace.5") {
    my $said = qx(groff -man -ww -Tutf8 -z "$path" 2>&1);
    # lines of a README or of an example are as long as they are
    $said = join "\n", grep { !/can't break line|cannot adjust line/ } split /\n/, $said;
    my ($name) = $path =~ m{([^/]+)$};
    is($said, '', $name);
  }
};
subtest 'pages of plugins' => sub {
  for my $path (glob "$man/llmserve-*_*.7") {
    my ($kind, $name) = $path =~ m{llmserve-([a-z]+)_(\w+)\.7$};
    my $page = page($path);
    # what a page refers to is installed, or said to be elsewhere
    my $elsewhere = $page =~ m{\b(?:t|bench|core|text|plugins|sdk|tools)/\w+};
    ok(!$elsewhere || $page =~ /^\.SH NOTES\nFiles such as .* are in llmserve's source/m, "$kind $name: whose files it names")
      or diag $page =~ m{(.*\b(?:t|bench|core|text|plugins|sdk|tools)/\w+.*)};
    my ($see) = $page =~ /^\.SH SEE ALSO\n(.*)/ms;
    my %with = map { /^(scheduler|cache|predictor|drafter) = (\w+)/ ? ($1 => $2) : () } split /\n/, preset($name);
    delete @with{$kind, grep { $with{$_} eq 'none' } keys %with};
    ok($kind ne 'scheduler' || $see =~ /^\.BR llmserve-$_\_$with{$_} \(7\)/m, "$kind $name: its preset's $_") for sort keys %with;
  }
};
done_testing;
