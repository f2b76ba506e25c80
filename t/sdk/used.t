#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Everything in the SDK is used on both sides: every member and enumerator of include/llmserve/*.h
# is named by the core (which calls, fills or reads it) and by a shipped policy, a template of
# --new-plugin or libllmserve-policy; every callback by a plugin of its kind. Macros and inline
# functions of the headers count as code of policies. Headers under draft/ are exempt, since no
# version guarantees them. Also, each struct states whether it may grow.
#
# `LLS_SRCDIR=. t/sdk/used.t --list` prints each with the first place on either side.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# Names that only one side uses, and why.
my %one_sided;
sub one_sided {
    my ($why, @names) = @_;
    $one_sided{$_} = $why for @names;
}
one_sided('from the cache manager to the scheduler, through the core',
    qw(lls_capacity.reserved_units lls_need.new_units lls_need.restore_units));
one_sided('from the predictor to the scheduler, through the core',
    qw(lls_prediction_source.LLS_PREDICTED_MODEL
       lls_prediction_source.LLS_PREDICTED_HISTORY));
one_sided('values that the core gives or takes; a policy treats them like the others',
    qw(lls_class.LLS_CLASS_NONE lls_class.LLS_CLASS_REALTIME lls_request_state.LLS_FINISHED
       lls_refusal.LLS_REFUSED_POSTPONED lls_refusal.LLS_REFUSED_NO_MEMORY lls_refusal.LLS_REFUSED_BAD_ITEM
       lls_finish_reason.LLS_FINISH_ERROR
       lls_preempt_mode.LLS_PREEMPT_NONE lls_link.LLS_LINK_PEER));
one_sided('one scale of levels; the core writes these',
    qw(lls_log_level.LLS_LOG_DEBUG
       lls_log_level.LLS_LOG_PLUGIN_MISBEHAVING));
one_sided('written by the fixtures that check the core (t/plugin/contract.h)',
    'lls_log_level.LLS_LOG_HOST_MISBEHAVING');
one_sided('the same tables describe sections and profiles of the core, which set and read it',
    'lls_param_flags.LLS_PARAM_REQUIRED');

one_sided('laid out for what later versions do, in structs that never grow',
    'lls_form.LLS_FORM_FP8', 'lls_tier.LLS_TIER_DISK',
    'lls_group.tail_tokens', 'lls_cache_geometry.disk_units',
    'lls_plan_kind.LLS_PLAN_ENCODE',
    map({ "lls_session_end.$_" }
        qw(LLS_SESSION_STOPPED LLS_SESSION_LENGTH LLS_SESSION_CANCELLED)),
    map({ "lls_session.$_" } qw(on_disk)),
    map({ "lls_input.$_" } qw(encode_units content)),
    map({ "lls_request.$_" } qw(state_tokens n_inputs)),
    map({ "lls_engine_caps.$_" } qw(max_encode_units)),
    map({ "lls_iteration_shape.$_" } qw(encode_units n_states)),
    map({ "lls_step_view.$_" } qw(max_encode_units)),
    'lls_prefix.on_disk');
one_sided('for schedulers that group requests by adapter, as none of those shipped does',
    map { "lls_request.$_" } qw(adapter adapter_name));
one_sided('said of a group for tools and sentences',
    'lls_form_flags.LLS_FORM_WRITTEN', 'lls_form_flags.LLS_FORM_READ');

sub text_of {
    my ($file) = @_;
    open my $handle, '<', $file or die "$file: $!";
    local $/;
    my $text = <$handle>;
    $text =~ s{/\*.*?\*/}{ my $c = $&; $c =~ tr/\n//cd; $c }ges;
    return $text;
}

# (owner, name) of each member of a struct and each enumerator.
sub promised {
    my ($text) = @_;
    my @found;
    while ($text =~ /\b(struct|enum)\s+(lls_\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}/g) {
        my ($kind, $owner, $body) = ($1, $2, $3);
        if ($kind eq 'enum') {
            push @found, map { [$owner, $_] } $body =~ /\b(LLS_\w+)\b(?=\s*(?:=|,|$))/g;
            next;
        }
        for my $member (split /;/, $body) {
            if ($member =~ /\(\s*\*\s*(?:const\s+)?(\w+)\s*\)\s*\(/) { push @found, [$owner, $1] }
            else {
                $member =~ s/\[[^\]]*\]//g;
                push @found, map { /(\w+)\s*$/ ? [$owner, $1] : () } split /,/, $member;
            }
        }
    }
    return @found;
}

# The code in a header: its macros and inline functions. Other lines are left empty.
sub code_of {
    my ($text) = @_;
    my ($macro, $function, @lines) = (0, 0);
    for (split /\n/, $text) {
        $macro    ||= /^#define/;
        $function ||= /^static inline/;
        push @lines, $macro || $function ? $_ : '';
        $macro &&= /\\$/;
        $function &&= !/^\}/;
    }
    return join "\n", @lines;
}

# Where each word stands first: {word} = "file:line".
sub words_in {
    my ($first, $file, $text) = @_;
    my $line = 0;
    for (split /\n/, $text) {
        $line++;
        $first->{$_} //= substr($file, length "$top/") . ":$line" for /\b([A-Za-z_]\w*)\b/g;
    }
}

sub words_of {
    my (@folders) = @_;
    my (%first, @files);
    my $wanted = sub { push @files, $_ if /\.(c|h|cc|cu|cuh)\z/ };
    for my $path (map { "$top/$_" } @folders) {
        if (-d $path) { find({ no_chdir => 1, wanted => $wanted }, $path) }
        else          { push @files, $path }
    }
    words_in(\%first, $_, text_of($_)) for sort @files;
    return \%first;
}

my @headers = sort glob "$top/include/llmserve/*.h";
my $core    = words_of('core', 'text', 'kernels');
my $policy  = words_of('plugins', 'share/sdk', 'sdk', 'include/llmserve/policy');
words_in($policy, $_, code_of(text_of($_))) for @headers;
# The vtables of cache managers have macros of face.h.
my %of_kind = map { $_ => words_of("plugins/${_}s", "share/sdk/$_.c", $_ eq 'cache' ? 'include/llmserve/policy/face.h' : ()) }
  qw(scheduler cache predictor drafter);

my (@promised, %seen);
push @promised, grep { !$seen{"$_->[0].$_->[1]"}++ } promised(text_of($_)) for @headers;
cmp_ok(scalar @promised, '>', 200, 'the headers are read');

sub first_of {
    my ($owner, $name) = @_;
    my $by = $owner =~ /^lls_(\w+)_vtable$/ ? $of_kind{$1} : $policy;
    return ($core->{$name}, $by->{$name});
}
if (@ARGV && $ARGV[0] eq '--list') {
    printf "%-28s %-26s %-40s %s\n", @$_, map { $_ // '-' } first_of(@$_) for @promised;
}
my (@idle, %excused);
for (@promised) {
    my ($owner, $name) = @$_;
    my ($called, $kept) = first_of($owner, $name);
    next if $called && $kept;
    if ($one_sided{"$owner.$name"}) { $excused{"$owner.$name"} = 1; next }
    push @idle, "$owner.$name: no $_" for ($called ? () : 'core'), ($kept ? () : 'policy');
}
is_deeply(\@idle, [], 'each has both its sides');
diag(join "\n", @idle) if @idle;

my @stale = grep { !$excused{$_} } sort keys %one_sided;
is_deeply(\@stale, [], 'each exception is one');

# A struct can grow where it says its size; every other one says that it never does. Of a request
# the core alone has any, and a descriptor has the stride of its parameters.
my @silent;
for my $header (@headers) {
    open my $in, '<', $header or die "$header: $!";
    my $text = do { local $/; <$in> };
    while ($text =~ m~((?:/\*(?:(?!\*/).)*\*/\s*)?)^struct (lls_\w+) \{([^\n]*)\n([^}]*?)^\}~smg) {
        my ($comment, $name, $line, $body) = ($1, $2, $3, $4);
        next if $name =~ /^lls_(?:request|param)\z/;
        next if $body =~ /^\s*(?:uint32_t api_version;[^\n]*\s*)?uint32_t size;/;
        push @silent, $name unless "$comment$line" =~ /never\s+(?:\*\s+)?grows/;
    }
}
is_deeply(\@silent, [], 'each struct has a size or says that it never grows');

# Helpers that fill a plan or read a request.
my $helped = words_of('plugins', 'share/sdk', 'sdk', 'include/llmserve/policy', 'core');
my @helpers = map { text_of($_) =~ /^static inline [\w \*]*?(\w+)\(/mg } @headers;
is_deeply([grep { !$helped->{$_} && $_ !~ /\Alls_plan_(?:add|add_for|fetch)\z/ } @helpers], [], 'each inline function is called');
done_testing;
