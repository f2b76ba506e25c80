#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# python/llmserve: servers and simulations from Python, with the programs of this build.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);

if (system('command -v python3 >/dev/null 2>&1') != 0) {
    print "1..0 # SKIP python3 is not installed\n";
    exit;
}
$ENV{PATH}             = abs_path(LlmServer::built('.')) . ":$ENV{PATH}";
$ENV{PYTHONPATH}       = abs_path(LlmServer::source('python'));
$ENV{LLS_PROFILE_PATH} = abs_path(LlmServer::source('etc/profiles'));
$ENV{LLS_PLUGIN_PATH} //= abs_path(LlmServer::built('.libs'));
exec 'python3', LlmServer::source('t/tools/python_module.py'), LlmServer::source('t/data/models/stories260K');
