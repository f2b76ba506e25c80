#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Each function of the core that a header gives to one thread, by the tag [main] or [step] in its
# own comment, in that of its section (a line of dashes) or of the file (a sentence that has
# "everything"), asserts it: LLS_ON and the like (core/base/check.h). Those that cannot are
# listed with the reason.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# Where there is nothing to compare the thread with, by function, or by header.
my %without = (
    'core/instance/inbox.h' =>
      'an inbox does not know whose it is: lls_loop_* and lls_instance_*, which use it, assert',
    'core/instance/outbox.h' => 'likewise',
    lls_instance_sessions_init => 'the instance, which calls it, asserts',
    lls_instance_sessions_free => 'likewise',
    'core/loop/step_run.h' =>
      'main is known to the loop alone: lls_loop_*, which calls these, asserts',
    'core/instance/step_thread.h' => 'likewise',
    'core/record/decision_log.h' =>
      'an observer does not know its instance; the lifecycle, which calls it, asserts',
    'core/instance/running_policy.h' => 'it sees no thread: the tag is that of the macro LLS_CALL',
    'core/cluster/remote.h' => 'main is known to the loop alone: lls_loop_*, which calls these, asserts',
    'core/cluster/fetch.h' => 'it does not know its instance: lls_migrate_*, which calls these, asserts',
    'core/cluster/bulk.h' => 'likewise: it is part of fetch.h; whichever thread loads the model opens it',
    'core/cluster/links.h' => 'likewise: it is part of bulk.h',
    'core/traces/exporter.h' => 'it sees no thread: api and serve, which call it, assert',
    lls_policy_host_is_owned => 'is the question itself',
    lls_table_has_hidden     => 'reads the table that it gets',
    lls_live_create          => 'is made for lls_loop_submit, which asserts',
    lls_live_free            => 'likewise, lls_loop_events',
    lls_device_create        => 'is called by whichever thread loads the model',
    lls_loop_create          => 'likewise; main is the thread which calls first after it',
    lls_constraint_check     => 'reads what never changes',
    lls_api_create           => 'makes its caller main',
    lls_routing_create       => 'likewise',
    lls_api_new_id           => 'has no state',
);

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return scalar <$file>;
}

my (@headers, %body);

# Bodies of functions: a definition begins a line and ends with a brace that does.
sub read_source {
    my ($path) = @_;
    my $text = slurp($path);
    $text =~ s{/\*.*?\*/}{}gs;
    $body{$1} = $2
      while $text =~ /^(?!static\b)[A-Za-z_][\w\s*]*?\b(\w+)\([^;{}]*\)\s*\n\{\n(.*?)^\}/gms;
}

find({ no_chdir => 1,
       wanted   => sub {
           push @headers, $_ if /\.h\z/;
           read_source($_) if /\.c\z/;
       } },
     "$top/core", "$top/text");

my $tag = qr/\[(main|step)\]/;

# [function, tag] of the prototypes of a header which have one.
sub tagged_in {
    my ($text) = @_;
    my ($file) = $text =~ m{\A(?:/\* SPDX.*?\*/\s*)?/\*.*?\b[Ee]verything\b[^.]*?$tag}s;
    my ($section, $own, @found);
    while ($text =~ m{\G(?:(/\*.*?\*/)|(\n\s*\n)|([^;{}/\n#]*?\b(lls_\w+)\([^;{}]*?\)[^;{}()]*;)([ ]*/\*.*?\*/)?|(.|\n))}gs) {
        my ($comment, $gap, $prototype, $name, $after) = ($1, $2, $3, $4, $5);
        if (defined $comment && $comment =~ /----/) {
            ($section) = $comment =~ $tag;
        } elsif (defined $comment) {
            ($own) = $comment =~ /\[(main|step|any|worker)\]/;
        } elsif (defined $gap) {
            $own = undef;
        } elsif (defined $prototype) {
            my ($beside) = ($after // '') =~ /\[(main|step|any|worker)\]/;
            my $which = $beside // $own // $section // $file // '';
            push @found, [ $name, $which ] if $which =~ /main|step/;
        }
    }
    return @found;
}

my ($n, @bad, %unused) = (0);
@unused{ keys %without } = ();
for my $header (sort @headers) {
    my $path = substr $header, length "$top/";
    for (tagged_in(slurp($header))) {
        my ($name, $which) = @$_;
        next if !exists $body{$name};
        $n++;
        next if $body{$name} =~ /\bLLS_(?:\w+_)?ON(?:_\w+)?\(/;
        my ($reason) = grep { exists $without{$_} } $name, $path;
        push @bad, "$name [$which] ($path)" if !defined $reason;
        delete $unused{$reason} if defined $reason;
    }
}
cmp_ok($n, '>', 100, 'functions with a thread are found');
is_deeply(\@bad, [], 'each asserts it, or has a reason not to');
is_deeply([ sort keys %unused ], [], 'each reason is needed');
done_testing;
