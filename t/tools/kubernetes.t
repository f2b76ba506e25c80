#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# etc/kubernetes with a running server: paths, ports and keys are the server's, and every series that the
# monitor, the autoscaler and the endpoint picker read is in /metrics in the form they expect. If
# kustomize is installed the manifests are rendered, and `make check-clients` validates them by the
# schemas of Kubernetes; definitions of custom resources are read from the folder LLS_CRDS.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../api";
use Cluster;
use LlmServer;
use File::Find;
use File::Temp;
use IO::Select;
use Test::More;
use Venv;

my $top    = LlmServer::source('etc/kubernetes');
my $folder = File::Temp->newdir;
my %text;
find({ no_chdir => 1, wanted => sub { $text{ substr $_, length "$top/" } = LlmServer::read_file($_) if -f } }, $top);
my $deployment = $text{'base/deployment.yaml'};
my $ini        = $text{'base/llmserve.ini'};
my ($demo)     = LlmServer::source('share/demo-model');

# Seconds, as an ini's or a manifest's key has them.
sub seconds { my ($text, $key) = @_; return $text =~ /\b$key\s*[:=]\s*(\d+)/ ? $1 : die "no $key" }

# ---- the configuration and what asks for it -----------------------------------------
(my $local = $ini) =~ s/^\[server\]\nlisten = .*\n//m;
$local =~ s/\A;.*\n//;
$local =~ s/^admin_socket = .*\n//m; # of the pod's own folder
$local =~ s/^path = .*/path = $demo\n[engine]\nthreads = 1\npin = false/m;
my $state = File::Temp->newdir; # as database/ sets it
my $server = LlmServer->serve("state = $state\n" . $local =~ s/^\[server\]\n//mr);
my ($port) = $ini =~ /^listen = 0\.0\.0\.0:(\d+)$/m;
my ($socket) = $ini =~ /^admin_socket = (\S+)\/[^\/]+$/m;
like $deployment, qr/name: state, mountPath: \Q$socket\E\}/, 'the admin\'s socket is in a folder of the pod';
like $ini, qr/^allowed_hosts = .*\bllmserve\.default\.svc\b/m, 'names of the Service are the server\'s';
like $deployment, qr/\{name: http, containerPort: $port\}/, 'the port of the container is the server\'s';
is_deeply [map { /targetPorts: \[\{number: (\d+)\}\]/ } values %text], [$port], 'and that of the pool';
my @paths = map { /httpGet: \{path: ([^,]+), port: http\}/g, /^ +path: (\/metrics)$/mg } values %text;
is_deeply [sort @paths], [qw(/live /live /live /live /live /live /metrics /ready /ready /ready)], 'probes and the monitor ask';
is $server->get($_)->{status}, 200, "  $_ is answered" for @paths;
like $text{'processes/set.yaml'}, qr/\{name: http, containerPort: $port\}/, 'the leader of a group has the same port';
my @roles = split /,/, $text{'processes/llmserve.ini'} =~ /^roles = (.*)$/m ? $1 : die;
like $text{'processes/set.yaml'}, qr/^    size: ${\scalar @roles} /m, '  and the group as many pods as there are roles';
my ($sleep) = $deployment =~ /preStop:\s+exec: \{command: \[sleep, "(\d+)"\]\}/;
cmp_ok seconds($deployment, 'terminationGracePeriodSeconds'), '>', $sleep + seconds($ini, 'drain_timeout') + 10,
    'a pod may drain: preStop, drain_timeout, the last step';
is scalar(() = $text{'processes/set.yaml'} =~ /^ {10}(?:startup|liveness|readiness)Probe:$/mg), 6, 'all pods of a group are probed';
like $deployment, qr/^ +\Q$_\E$/m, "the pod has $_" for 'readOnlyRootFilesystem: true', 'runAsNonRoot: true', 'capabilities: {drop: [ALL]}';

# Whoever begins with the manifests gets the policies that whoever begins with the package gets.
sub policies { my ($text) = @_; return { $text =~ /^(scheduler|cache|predictor|drafter) = (\S+)/mg } }
is_deeply policies($ini), policies(LlmServer::read_file(LlmServer::source('etc/llmserve.ini'))), 'the policies are those of etc/llmserve.ini';

# ---- a cluster ------------------------------------------------------------------------
# Its pods, here as processes: the arguments of the manifests' containers as lines of [cluster].
SKIP: {
    skip Cluster::missing(), 6 if defined Cluster::missing();
    my ($front, @members) = map { { /--set=cluster\.(\w+)=([^\s"\],]+)/g } } map { /^ +args: (.*)$/mg } @text{ 'cluster/front.yaml', 'cluster/members.yaml' };
    is_deeply [sort map { $_->{role} } @members], [qw(decode prefill)], 'a cluster has pods of both roles';
    my ($at) = $text{'cluster/service.yaml'} =~ /name: join, port: (\d+)/;
    is_deeply [$front->{listen}, map { $_->{join} } @members], ["0.0.0.0:$at", ("llmserve-cluster:$at") x 2], '  which join the front end';
    LlmServer::write_file("$folder/secret", "of a Secret\n");
    my $common = $text{'cluster/llmserve.ini'} =~ s/\A;.*\n\[server\]\nlisten = .*\n//r;
    $common =~ s/^admin_socket = .*\n//m;
    $common =~ s/^path = .*/path = $demo/m;
    $common =~ s/^roles = .*/$&\nthreads = 1\npin = false/m;
    $common =~ s/^secret = .*/secret = $folder\/secret/m;
    my $served = LlmServer->serve($common =~ s/^\[cluster\]\n/[cluster]\nlisten = 127.0.0.1:0\n/mr, qr{listening on http://([\w.:]+)|until then http://([\w.:]+) answers 503});
    ok $served->log_becomes(qr/other processes can join/), '  it listens';
    my $port_of = Cluster::port($served);
    my @joined = map { my $role = $_->{role}; LlmServer->serve($common =~ s/^\[cluster\]\n/[cluster]\njoin = 127.0.0.1:$port_of\nrole = $role\n/mr, qr/it is instance (\d+) of/) } @members;
    ok $served->log_becomes(qr/instance \d+ \(decode\) is ready/), '  they become ready';
    ok $served->log_becomes(qr/server: listening on http:/), '  it serves';
    $served->{address} //= $1 if $served->log =~ m{listening on http://([\w.:]+)};
    is $served->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 4 })->{status}, 200, '  and answers';
    $_->stop for @joined, $served;
}

# ---- series -------------------------------------------------------------------------
# Families of the page: type, and samples by their labels.
sub families {
    my %family;
    for (split /\n/, $server->get('/metrics')->{content}) {
        $family{$1}{type} = $2 if /^# TYPE (\S+) (\S+)$/;
        $family{$1}{samples}{$2 // ''} = $3 if /^([\w:]+)(?:\{(.*)\})? (\S+)(?: \d+)?$/;
    }
    return %family;
}
$server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 4, slo => { ttft_ms => 60000 }, class => 'realtime' });
my %family = families();

my ($keep) = $text{'monitoring/servicemonitor.yaml'} =~ /regex: "(.*?)"/s;
$keep =~ s/\\\n\s*//g;
my @kept = map { my $name = $_; $name =~ s/\(([\w|]+)\)\z// ? map { "$name$_" } split /\|/, $1 : $name } split /\|(?![^(]*\))/, $keep;
cmp_ok scalar @kept, '>', 15, 'the monitor keeps series';
is_deeply [grep { !$family{$_}{samples} } @kept], [], '  which are there';

my %asked = map { $_ => 1 } map { /((?:vllm:|llmserve_)\w+)/g } $text{'monitoring/alerts.yaml'} =~ /^ +expr: (.*)$/mg;
cmp_ok scalar keys %asked, '>', 3, 'alerts ask for series';
is_deeply [grep { my $name = $_; !grep { $_ eq $name } @kept } sort keys %asked], [], '  that the monitor keeps';

my ($query) = $text{'autoscaling/prometheus-adapter.yaml'} =~ /vllm:\(([\w|]+)\)/;
my @scaled = $text{'autoscaling/autoscaler.yaml'} =~ /metric: \{name: vllm_(\w+)\}/g;
is_deeply [sort @scaled], [sort split /\|/, $query], 'the autoscaler asks for what the adapter has';
is_deeply [map { $family{"vllm:$_"}{type} } @scaled], [qw(gauge gauge)], '  gauges that are there';
is_deeply [grep { my $name = "vllm:$_"; !grep { $_ eq $name } @kept } @scaled], [], '  and that the monitor keeps';

# The picker reads these of a pod, and its protocol wants them of it (Gateway API inference extension, docs/proposals/
# 003-model-server-protocol of 2026-08: name, type, and the labels that are read).
my %reads = $text{'inference/picker-plugins.yaml'} =~ /^ +(\w+)Spec: (\S+)$/mg;
is_deeply \%reads, { queuedRequests => 'vllm:num_requests_waiting', runningRequests => 'vllm:num_requests_running',
    kvUsage => 'vllm:kv_cache_usage_perc', lora => 'vllm:lora_requests_info', cacheInfo => 'vllm:cache_config_info' }, 'the picker is told the protocol\'s names';
my @protocol = (
    ['vllm:num_requests_waiting'], ['vllm:num_requests_running'], ['vllm:kv_cache_usage_perc'],
    ['vllm:cache_config_info', qw(block_size num_gpu_blocks)],
    ['vllm:lora_requests_info', qw(max_lora running_lora_adapters waiting_lora_adapters)],
);
for (@protocol) {
    my ($name, @labels) = @$_;
    is $family{$name}{type}, 'gauge', "the picker finds $name";
    my ($sample, @more) = keys %{ $family{$name}{samples} };
    is scalar @more, 0, '  once';
    like $sample, qr/\b$_="/, "  with $_" for @labels;
}
like +(keys %{ $family{'vllm:cache_config_info'}{samples} })[0], qr/block_size="[1-9]\d*",num_gpu_blocks="[1-9]\d*"/, 'blocks are whole numbers';
is $server->stop, 0, 'the server ends well';

# The picker's scorers go by these: a held request is running, one behind it waits, and the cache is in use.
{
    $server = LlmServer->serve("[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\nmax_sequences = 1\n[plugins]\nscheduler = fcfs\ncache = paged\n");
    my @open = map { my $socket = $server->connect; syswrite $socket, LlmServer::raw_post('/v1/completions',
        '{"prompt":"Once upon a time","max_tokens":1000,"ignore_eos":true,"stream":true}', 'content-type: application/json'); $socket } 1 .. 3;
    my ($running, $waiting, $used) = (0, 0, 0);
    my $deadline = time + $LlmServer::TIMEOUT;
    until (($running == 1 && $waiting == 2 && $used > 0) || time > $deadline) {
        my %now = families();
        ($running, $waiting, $used) = map { (values %{ $now{"vllm:$_"}{samples} })[0] } qw(num_requests_running num_requests_waiting kv_cache_usage_perc);
    }
    is_deeply [$running, $waiting], [1, 2], 'one runs, two wait';
    ok $used > 0 && $used <= 1, '  and the cache\'s use is a fraction';
    close $_ for @open;
    is $server->stop, 0, 'the server ends well';
}

# ---- SIGHUP when the file has changed -----------------------------------------------
# In a namespace of its own, as a pod is: the script signals every llmserve that it sees.
SKIP: {
    skip 'no namespaces of processes (unshare)', 3 if system('unshare --pid --fork --mount-proc true 2>/dev/null') != 0;
    my ($script) = $text{'reload/reloader.yaml'} =~ /args:\n +- \|\n(.*?)\n +env:/s;
    my ($indent) = $script =~ /\A( +)/;
    $script =~ s/^$indent//mg;
    LlmServer::write_file("$folder/watch", $script);
    my $served = LlmServer->serve($local =~ s/^\[server\]\n//mr, undef, 'unshare', '--pid', '--fork', '--mount-proc', '--kill-child',
        'sh', '-c', 'for at; do config=$at; done; PERIOD=0.1 CONFIG=$config sh "$0" & exec "$@"', "$folder/watch");
    Time::HiRes::sleep(0.3);
    $served->configure(($local =~ s/^\[server\]\n//mr) =~ s/^scheduler = \K.*/fcfs/mr);
    my $deadline = time + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.05) until $served->log =~ /reload: generation 2/ || time > $deadline;
    like $served->log, qr/reload: generation 2/, 'a changed file is read';
    $served->configure('nonsense = 1');
    Time::HiRes::sleep(0.05) until $served->log =~ /reload: refused/ || time > $deadline;
    like $served->log, qr/reload: refused/, 'one that is wrong is refused';
    is $served->get('/ready')->{status}, 200, '  and changes nothing';
    # unshare itself lets no SIGTERM through, and takes what is inside along
    $served->signal('KILL');
    $served->wait_for_end;
}

# ---- rendered, and by the schemas ---------------------------------------------------
my ($render) = grep { my ($program) = split; system("command -v $program >/dev/null 2>&1") == 0 } 'kustomize build', 'kubectl kustomize';
SKIP: {
    skip 'neither kustomize nor kubectl is installed', 1 if !defined $render;
    for my $overlay (qw(base all processes cluster)) {
        is system("$render '$top/$overlay' >$folder/$overlay.yaml 2>$folder/why"), 0, "$overlay is rendered" or diag LlmServer::read_file("$folder/why");
    }
    my $all = LlmServer::read_file("$folder/all.yaml");
    my %kinds = map { $_ => 1 } $all =~ /^kind: (\w+)$/mg;
    is_deeply [grep { !$kinds{$_} } qw(ConfigMap Deployment HTTPRoute HorizontalPodAutoscaler InferencePool NetworkPolicy
        PersistentVolumeClaim PodDisruptionBudget PrometheusRule Service ServiceMonitor)],
        [], 'all that is promised is there';
    like LlmServer::read_file("$folder/base.yaml"), qr/name: llmserve-[0-9a-z]{10}$/m, 'without the reload a changed file rolls the pods';
    like $all, qr/$_/, '  and what a pod gets of the components' for 'nvidia\.com/gpu: 1', 'claimName: llmserve-models', 'secretName: llmserve-keys';
    unlike $all, qr/name: llmserve-(?!picker)[0-9a-z]{10}$/m, 'with it the name stays';
    is scalar(() = LlmServer::read_file("$folder/processes.yaml") =~ /name: llmserve-[0-9a-z]{10}$/mg), 3, 'a changed file makes new groups';
    skip 'make check-clients validates by the schemas of Kubernetes', 1 unless $ENV{LLS_CLIENTS};
    my ($python, $why) = Venv::make('kubernetes', 'kubernetes-validate==1.36.0', 'pyyaml', 'jsonschema');
    skip $why, 1 if defined $why;
    my $script = LlmServer::source('t/tools/kubernetes_schemas.py');
    my $crds   = $ENV{LLS_CRDS} // '';
    cmp_ok Venv::judge('Kubernetes', "'$python' '$script' $crds <$folder/all.yaml"), '>', 10, 'and no less';
    is Venv::judge('Kubernetes, processes', "'$python' '$script' $crds <$folder/processes.yaml"), 4, 'and as many';
}

# ---- by Helm ------------------------------------------------------------------------
# The chart reads the same files: what it makes of them is what kustomize makes.
SKIP: {
    skip 'helm is not installed', 1 if system('command -v helm >/dev/null 2>&1') != 0;
    my $components = join ',', map { "components.$_=true" } qw(reload gpu model keys database network monitoring autoscaling inference);
    my %settings = (base => 'components.network=false', all => $components, processes => 'processes=true,components.network=false', cluster => 'cluster=true,components.network=false');
    for my $overlay (sort keys %settings) {
        is system("helm template llmserve '$top' --set $settings{$overlay} >$folder/helm-$overlay.yaml 2>$folder/why"), 0, "helm renders $overlay"
          or diag LlmServer::read_file("$folder/why");
        next if !defined $render || system('python3 -c "import yaml" 2>/dev/null') != 0;
        my $compare = LlmServer::source('t/tools/kubernetes_compare.py');
        is `python3 '$compare' $folder/helm-$overlay.yaml $folder/$overlay.yaml 2>&1`, '', '  as kustomize does';
    }
    is system("helm template llmserve '$top' --set image=other:1,replicas=3 --set-file config='$top/processes/llmserve.ini' >$folder/own.yaml"), 0, 'helm takes values';
    my $own = LlmServer::read_file("$folder/own.yaml");
    like $own, qr/$_/, "  $_" for 'image: other:1', 'replicas: 3', 'roles = ';
}
done_testing;
