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
    'kernels/cuda: device vtable' =>
      'the table of operations has those of device.c, which gives the table to each device',
);

# Tables that are not followed, by the type of their rows.
my %words = (
    lls_function =>
      'the filters, tests and methods that templates name: by name each may use any other',
);

# Text of a source without comments and strings.
sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    my $text = <$file>;
    $text =~ s{("(?:\\.|[^"\\\n])*")|/\*.*?\*/|//[^\n]*}{defined $1 ? '""' : ''}gse;
    return $text;
}

my $word = qr/(?!(?:if|for|while|switch|return|else|do|sizeof)\b)\w+/;

# A function or a table that a file uses: called, or named where a value stands, as in a table of
# handlers, in `&f` or among arguments. The name of a type, or of a member, is none.
my $mention = qr/(?<![.>\w])($word)(?=\s*\()|(?:[,{(=&?:]|\breturn\b)\s*\K(\w+_\w+)(?=\s*[,})\];:])/;

# A text with the bodies of those macros of its room's headers that it uses: a table of handlers
# may be one.
sub expanded {
    my ($text, $macros) = @_;
    my (%seen, @bodies);
    my @due = ($text);
    while (defined(my $part = shift @due)) {
        for my $name ($part =~ /\b([A-Z][A-Z0-9_]+)\b/g) {
            push @due, $macros->{$name} if exists $macros->{$name} && !$seen{$name}++;
        }
        push @bodies, $part;
    }
    return join "\n", @bodies;
}

# The calls between files of a room: caller => callee => a function, or a table such as a
# struct of functions. A definition begins a line: type, name, then arguments and no semicolon,
# or an initialiser. A function that two files define, of which a build takes one, leads to both.
sub calls_in {
    my ($room) = @_;
    my (%text, %homes, %own, %calls, %macros);
    find({ no_chdir => 1,
           wanted   => sub {
               $text{ substr $_, length "$top/" } = text_of($_) if /\.(c|cc|cu)\z/;
               return if !/\.h\z/;
               my $header = text_of($_);
               $macros{$1} = $2 while $header =~ /^#define (\w+)\b((?:[^\n]*\\\n)*[^\n]*)/gm;
           } },
         $room);
    for my $file (keys %text) {
        while ($text{$file} =~ /^(static\s++)?+(?=\w)(?:[A-Za-z_][\w\s*]*?)\b($word)\([^;{}]*\)\s*\{/gm) {
            $own{$file}{$2} = 1 if defined $1;
            next if defined $1;
            $homes{$2}{$file} = 1;
        }
        while ($text{$file} =~ /^(?!static\b|extern\b)([A-Za-z_][\w\s*]*?)\b(\w+_\w+)(?:\[\w*\])*\s*=/gm) {
            my ($type, $table) = ($1, $2);
            $homes{$table}{$file} = 1 if !grep { $type =~ /\b$_\b/ } keys %words;
        }
    }
    for my $file (keys %text) {
        my $uses = expanded($text{$file}, \%macros);
        while ($uses =~ /(?<![.>\w])(?:struct|enum|union)\s+\w+|$mention/g) {
            my $name = $1 // $2 // next;
            next if $own{$file}{$name} || $homes{$name}{$file};
            $calls{$file}{$_} = $name for keys %{ $homes{$name} // {} };
        }
    }
    return ([sort keys %text], \%calls, scalar keys %homes);
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
