#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The image of tools/package: a layout by OCI's rules. Its layer is unpacked here and serves as another
# user, without any capability, on a read-only root, with its configuration from outside, as etc/kubernetes
# runs it. Its files are those of this build; `make image` builds its own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use Digest::SHA;
use File::Temp;
use JSON::PP;
use Test::More;

delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
my $build  = abs_path(LlmServer::built('.'));
my $tools  = abs_path(LlmServer::source('tools/package'));
my $folder = File::Temp->newdir;
plan skip_all => 'libraries of a sanitizer are not the image\'s' if LlmServer::sanitized();

sub run { my $out = qx((@_) 2>&1); return $? == 0 ? 'ok' : "$? $out" }

my ($prefix) = LlmServer::read_file("$build/Makefile") =~ /^prefix = (.*)$/m;
is run("cd '$build' && make -s install DESTDIR='$folder/installed'"), 'ok', 'it is installed';
is run("'$tools/image-root' '$folder/installed' '$folder/root' '$prefix'"), 'ok', 'the files of the image';
# CUDA's libraries, which took minutes to pack, are cut short once they are there.
my @large = split /\n/, qx(find '$folder/root' -type f -name 'lib*' -size +64M);
ok((grep m{/libcublasLt\.so}, @large), 'with what the CUDA device needs') if -e "$build/.libs/device_cuda.so" && qx(ldd "$build/.libs/device_cuda.so") =~ /libcublasLt\S* => \//;
truncate $_, 1 << 20 or die "$_: $!\n" for @large;
is run("'$tools/image-pack' '$folder/root' '$prefix' 0.1.0 x86_64 '$folder/$_.tar' 1"), 'ok', 'it is packed' for qw(image again);
is run("cmp '$folder/image.tar' '$folder/again.tar'"), 'ok', '  to the same bytes each time';

# ---- the layout -----------------------------------------------------------------------
mkdir "$folder/layout";
is run("tar -C '$folder/layout' -xf '$folder/image.tar'"), 'ok', 'a tar';
sub blob {
    my ($descriptor) = @_;
    my ($digest) = $descriptor->{digest} =~ /\Asha256:([0-9a-f]{64})\z/ or return fail 'a digest';
    my $path = "$folder/layout/blobs/sha256/$digest";
    is -s $path, $descriptor->{size}, "$descriptor->{mediaType} is as long as it says";
    is(Digest::SHA->new(256)->addfile($path)->hexdigest, $digest, '  and has its digest');
    return $path;
}
sub json { my ($path) = @_; return decode_json(LlmServer::read_file($path)) }
is json("$folder/layout/oci-layout")->{imageLayoutVersion}, '1.0.0', 'the version of the layout';
my $manifest = json(blob(json("$folder/layout/index.json")->{manifests}[0]));
my $config   = json(blob($manifest->{config}));
my $layer    = blob($manifest->{layers}[0]);
mkdir "$folder/unpacked";
is run("gzip -dc '$layer' >'$folder/layer'"), 'ok', 'the layer';
is $config->{rootfs}{diff_ids}[0], 'sha256:' . Digest::SHA->new(256)->addfile("$folder/layer")->hexdigest, '  is the one of the configuration';
is $config->{config}{User}, '65532:65532', 'the user is not root';
is run("tar -C '$folder/unpacked' -xf '$folder/layer'"), 'ok', 'it is unpacked';
is run("find '$folder/unpacked' -perm /6000 -o -perm -2 ! -type l ! -name tmp | grep . && exit 1 || :"), 'ok', 'nothing in it is everybody\'s to change, or changes who one is';
for my $judge (["skopeo inspect oci-archive:$folder/image.tar", 'skopeo'], ["umoci unpack --rootless --image $folder/layout:0.1.0 $folder/umoci", 'umoci']) {
    my ($command, $program) = @$judge;
SKIP: {
        skip "$program is not installed", 1 if system("command -v $program >/dev/null 2>&1") != 0;
        is run($command), 'ok', "$program takes it";
    }
}

# ---- it runs --------------------------------------------------------------------------
# The folder of the configuration is mounted in place of /etc/llmserve, as a ConfigMap is.
my $enter = <<'END';
root=$1 program=$2 folder=$(dirname "$(for at; do echo "$at"; done | tail -n 1)")
chmod 755 "$folder" && chmod 644 "$folder/llmserve.ini"
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && mount --bind "$folder" "$root/etc/llmserve" &&
  mount -t proc proc "$root/proc" || exit 1
exec setpriv --bounding-set -all,+sys_chroot,+setuid,+setgid --inh-caps -all --no-new-privs chroot --userspec=65532:65532 "$root" "$program" -c /etc/llmserve/llmserve.ini
END
SKIP: {
    skip 'only root can enter it', 9 if $> != 0 || system('unshare --mount true 2>/dev/null && command -v setpriv >/dev/null 2>&1') != 0;
    chmod 0755, "$folder", "$folder/unpacked";
    my $ini = "[model]\npath = $prefix/share/llmserve/demo-model\n[engine]\nthreads = 1\npin = false\n[plugins]\nscheduler = worth\ncache = hybrid\n";
    local $ENV{LLS_PLUGIN_PATH};
    delete $ENV{LLS_PLUGIN_PATH};
    my $server = LlmServer->serve($ini, undef, 'unshare', '--mount', 'sh', '-c', $enter, 'sh', "$folder/unpacked", "$config->{config}{Entrypoint}[0]");
    is $server->get('/ready')->{status}, 200, 'it serves';
    is $server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 5, ignore_eos => JSON::PP::true })->{json}{usage}{completion_tokens}, 5, '  tokens';
    my $status = LlmServer::read_file("/proc/$server->{pid}/status");
    like $status, qr/^Uid:\s+65532\s+65532\s+65532\s+65532$/m, '  as its user';
    like $status, qr{^CapEff:\s+0+\nCapBnd:.*\n(?:.*\n)*?NoNewPrivs:\s+1$}m, "  with no capability, nor a way to one";
    like LlmServer::read_file("/proc/$server->{pid}/mountinfo"), qr{^\S+ \S+ \S+ \S+ (?:/|\Q$folder\E/unpacked) ro}m, '  on a root that is read-only';
    is readlink("/proc/$server->{pid}/root"), abs_path("$folder/unpacked"), '  which is the image';
    is $server->stop, 0, '  and ends well';
    is run("chroot --userspec=65532:65532 '$folder/unpacked' /bin/sh -c 'sleep 0 && cksum </etc/passwd'"), 'ok', 'etc/kubernetes\' other programs run';
    isnt run("chroot --userspec=65532:65532 '$folder/unpacked' /bin/sh -c 'echo x >>/etc/passwd'"), 'ok', '  and change nothing';
}
done_testing;
