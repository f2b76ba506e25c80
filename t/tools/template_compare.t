#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Published chat templates render as in Jinja: those in the folder LLS_CHAT_TEMPLATES,
# such as models/templates of llama.cpp, and some of this tree.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Encode qw(encode_utf8);
use JSON::PP;
use File::Temp;
use Test::More;

my $venv = LlmServer::built('t/jinja-venv');
my $why  = LlmServer::make_venv($venv, 'jinja2');
plan skip_all => "Jinja: $why" if defined $why;

# The output of tools/template_compare.py, and its status.
sub compare {
    my ($folder) = @_;
    my ($script, $ours) = (LlmServer::source('tools/template_compare.py'), LlmServer::built('bench/template'));
    local $ENV{PYTHONUTF8} = 1;
    my $said = `'$venv/bin/python' '$script' --random 4 '$ours' '$folder' 2>&1`;
    return ($said, $?);
}

# the sources of the vectors, each a file
my $folder = File::Temp->newdir;
my %sources = map { $_->{source} => 1 } @{ decode_json(LlmServer::read_file(LlmServer::source('t/data/template/vectors.json'))) };
my $n = 0;
LlmServer::write_file("$folder/" . $n++ . '.jinja', encode_utf8($_)) for grep { length > 200 } sort keys %sources;
my ($said, $status) = compare($folder);
is $status, 0, 'templates of this tree' or diag $said;
like $said, qr/^$n templates: $n load, $n the same in plain, system, tools; $n the same in all$/m, '  all of them';

SKIP: {
    my $given = $ENV{LLS_CHAT_TEMPLATES};
    skip 'LLS_CHAT_TEMPLATES names no folder of published templates', 1 if !defined $given || !-d $given;
    ($said, $status) = compare($given);
    is $status, 0, 'those of LLS_CHAT_TEMPLATES' or diag $said;
    note $said;
}
done_testing;
