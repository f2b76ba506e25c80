#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Which files call each other in a circle. A circle of files can only be read as a whole, so
# that each has to be listed here, file by file, with the reason for it. Names mean something
# within a room: core is one, text is one, each plugin, tool and kind of device another.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# The circles there may be.
my %known = (
    'text/grammar: json_schema schema_array schema_names schema_object' =>
      "the items and properties of a schema's values have schemas",
    'text/template: evaluate execute for_loop macro' =>
      'an expression may call a macro, which has statements, which have expressions',
    'core/http: answer connection server' =>
      'a connection that closes makes room for one that the server then accepts',
    'plugins/schedulers/accelgen: batch fill' =>
      'the batch is filled by candidates, each of which is judged as the batch is',
    'plugins/schedulers/aligned: batch decode' =>
      'a batch is formed for the decodes there is room for, and decodes refill it',
);

# Text of a source without comments and strings.
sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    my $text = <$file>;
    $text =~ s{/\*.*?\*/|//[^\n]*}{}gs;
    $text =~ s{"(?:\\.|[^"\\\n])*"}{""}g;
    return $text;
}

my $word = qr/(?!(?:if|for|while|switch|return|else|do|sizeof)\b)\w+/;

# The calls between files of a room: caller => callee => a function. A definition begins a
# line: return type, name, arguments and no semicolon. What two files define is not followed.
sub calls_in {
    my ($room) = @_;
    my (%text, %home, %own, %twice, %calls);
    find({ no_chdir => 1,
           wanted   => sub { $text{ substr $_, length "$top/" } = text_of($_) if /\.(c|cc|cu)\z/ } },
         $room);
    for my $file (keys %text) {
        while ($text{$file} =~ /^(static\b)?+[ \t]*(?:[A-Za-z_][\w\s*]*?)\b($word)\([^;{}]*\)\s*\{/gm) {
            $own{$file}{$2} = 1 if defined $1;
            next if defined $1;
            $twice{$2} = 1 if exists $home{$2} && $home{$2} ne $file;
            $home{$2} = $file;
        }
    }
    delete @home{ keys %twice };
    for my $file (keys %text) {
        while ($text{$file} =~ /(?<![.>\w])($word)\s*\(/g) {
            $calls{$file}{ $home{$1} } = $1
              if exists $home{$1} && $home{$1} ne $file && !$own{$file}{$1};
        }
    }
    return ([sort keys %text], \%calls, scalar keys %home);
}

# Strongly connected files, by Tarjan.
sub circles_of {
    my ($files, $calls) = @_;
    my ($next, %index, %low, %open, @stack, @circles) = (0);
    my $visit;
    $visit = sub {
        my ($file) = @_;
        $index{$file} = $low{$file} = $next++;
        push @stack, $file;
        $open{$file} = 1;
        for my $called (sort keys %{ $calls->{$file} // {} }) {
            $visit->($called) if !exists $index{$called};
            $low{$file} = $low{$called} if $open{$called} && $low{$called} < $low{$file};
        }
        return if $low{$file} != $index{$file};
        my @circle;
        do { push @circle, pop @stack; $open{ $circle[-1] } = 0 } until $circle[-1] eq $file;
        push @circles, [sort @circle] if @circle > 1;
    };
    for my $file (@$files) { $visit->($file) if !exists $index{$file} }
    return @circles;
}

my @rooms = ("$top/core", "$top/text", "$top/sdk/policy", "$top/bench", grep { -d }
             map { glob "$top/$_" } qw(plugins/*/* tools/* kernels/*));
my (%found, $functions);
for my $room (@rooms) {
    my ($files, $calls, $n) = calls_in($room);
    $functions += $n;
    for my $circle (circles_of($files, $calls)) {
        my ($folder) = $circle->[0] =~ m{^(.*)/};
        my $name = "$folder: " . join ' ', map { m{^\Q$folder\E/(.*)\.\w+\z} ? $1 : $_ } @$circle;
        $found{$name} = 1;
        ok(exists $known{$name}, "a circle that is known: $name") and next;
        my %in = map { $_ => 1 } @$circle;
        for my $file (@$circle) {
            diag("$file calls $_: $calls->{$file}{$_}")
              for grep { $in{$_} } sort keys %{ $calls->{$file} };
        }
    }
}
cmp_ok($functions, '>', 1500, 'the functions are there');
ok($found{$_}, "and is still there: $_") for sort keys %known;
done_testing;
