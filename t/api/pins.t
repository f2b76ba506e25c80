#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Plugins pinned by their SHA-256: another file is refused without running any of its code, at
# the start and in a reload. A service takes no search path from its environment.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Digest::SHA;
use LlmServer;
use Test::More;

my $demo   = LlmServer::source('share/demo-model');
my $folder = File::Temp->newdir;
my %file   = map { my ($kind, $name) = split /_/; ($kind => LlmServer::built(".libs/${kind}_$name.so")) } qw(scheduler_fcfs cache_paged predictor_none);
my %digest = map { $_ => Digest::SHA->new(256)->addfile($file{$_})->hexdigest } keys %file;

sub ini {
    my (%pins) = @_;
    return "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[plugins]\n" . join '', map { "$_ = $pins{$_}\n" } sort keys %pins;
}
my %all = map { ("${_}_sha256" => $digest{$_}) } keys %digest;

sub refused {
    my ($ini, $sentence, $name) = @_;
    ok !eval { LlmServer->serve($ini); 1 }, $name;
    like $@, $sentence, '  with the sentence';
}
my $other = $digest{cache} =~ s/\A(.)/$1 eq '0' ? '1' : '0'/er;
refused(ini(%all, cache_sha256 => $other), qr{:\d+: \Q$file{cache}\E: its SHA-256 is $digest{cache}, but \[plugins\] pins another}, 'another digest: no start');
refused(ini(%all, cache_sha256 => 'abc'), qr/pinned by 'abc': expected the 64 hexadecimal digits that sha256sum prints/, 'no digest');
# Its constructor would end the process, with 0.
refused(ini(scheduler => LlmServer::built('t/fault/.libs/exits_loading.so'), scheduler_sha256 => $digest{scheduler}),
    qr/exits_loading\.so: its SHA-256 is/, 'what is not meant is not run, as a constructor would be');

my $server = LlmServer->serve(ini(%all, scheduler_sha256 => uc $digest{scheduler}));
is $server->get('/health')->{status}, 200, 'all three pinned: it serves';
$server->configure(ini(%all, predictor_sha256 => $other));
my $answer = $server->post('/admin/reload', '');
is $answer->{status}, 409, '  a reload that pins another is refused';
like $answer->{json}{error}{message}, qr/its SHA-256 is $digest{predictor}/, '  with the sentence';
$server->configure(ini(%all) . "[scheduler.sarathi]\nchunk = no number\n");
is $server->post('/admin/reload', '')->{status}, 200, '  sections of others are left alone: looking would open them';
$server->configure(ini() . "[scheduler.sarathi]\nchunk = no number\n");
is $server->post('/admin/reload', '')->{status}, 409, '  and are not without pins';
is $server->stop, 0, '  it ends well';

my @service = ('sh', '-c', 'SYSTEMD_EXEC_PID=$$ exec "$@"', 'sh');
# No installation on this machine has a plugin of this name.
{
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$ENV{LLS_PLUGIN_PATH}";
    symlink $file{scheduler}, "$folder/scheduler_of_this_test.so" or die $!;
    my $mine = ini(scheduler => 'of_this_test');
    ok !eval { LlmServer->serve($mine, undef, @service); 1 }, 'a service has no search path of its environment';
    like $@, qr{no scheduler 'of_this_test': expected a file scheduler_of_this_test\.so in [^:;]+;}, '  but the installation alone';
    ok !eval { LlmServer->serve($mine); 1 }, '  where another process has one';
    like $@, qr{scheduler_of_this_test\.so: id: expected 'of_this_test'}, '  and finds the file' or diag $@;
}
@service = ('sh', '-c', 'SYSTEMD_EXEC_PID=1 exec "$@"', 'sh');
is(LlmServer->serve(ini(), undef, @service)->stop, 0, 'a process of a service may have one');
done_testing;
