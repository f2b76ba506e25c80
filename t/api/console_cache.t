#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The cache's picture in a real browser, by the colours of its cells: hidden form, and
# real-time requests from one end with best-effort ones from the other.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

plan skip_all => 'chromium is not installed (Debian: chromium): the page is not opened' if !defined Browser::program();

# The mark of the legend that each cell of the canvas has, in their order, by the nearest colour:
# requests beside each other differ by a shade.
my $CELLS = <<'END';
(() => {
  const canvas = document.querySelector('#now canvas');
  if (canvas === null) return [];
  const context = canvas.getContext('2d');
  const scale = canvas.width / canvas.clientWidth;
  const rgb = (mark) => {
    const probe = document.createElement('canvas').getContext('2d');
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--' + mark).trim();
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const marks = ['kv', 'hidden', 'moving', 'shared', 'host', 'kept', 'free'].map((mark) => [mark, rgb(mark)]);
  const cells = [];
  for (let row = 0; row < 12; row++)
    for (let column = 0; column < Math.floor(canvas.clientWidth / 11); column++) {
      const [r, g, b, a] = context.getImageData(Math.round((column * 11 + 5) * scale), Math.round((row * 11 + 5) * scale), 1, 1).data;
      if (a === 0) continue;
      const far = ([, [x, y, z]]) => (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
      cells.push(marks.reduce((best, mark) => far(mark) < far(best) ? mark : best)[0]);
    }
  return cells;
})()
END

my $browser = Browser->start;
my @clients;
sub leave { kill 'KILL', @clients; waitpid $_, 0 for splice @clients; return }
END { local $?; leave() }

# Clients that ask again and again.
sub load {
    my ($server, $n, $body) = @_;
    for my $i (1 .. $n) {
        my $pid = fork // die "fork: $!";
        if ($pid != 0) { push @clients, $pid; next }
        for (my $k = 1;; $k++) { $server->post('/v1/completions', $body->($i, $k)) }
    }
    return;
}

# The cells in their order, a word each, become so.
sub drawn { my ($pattern) = @_; return $browser->becomes("/$pattern/.test($CELLS.map((mark) => mark + ' ').join(''))") }

# The reference model of OPT has no tokenizer: one of single bytes, as GPT-2 writes them.
sub with_tokenizer {
    my ($model) = @_;
    my $folder = File::Temp->newdir;
    symlink LlmServer::source("$model/$_"), "$folder/$_" for 'config.json', 'model.safetensors';
    my @shown = grep { ($_ > 32 && $_ < 127) || ($_ > 160 && $_ < 173) || $_ > 173 } 0 .. 255;
    my ($id, %id) = (3);
    $id{chr $_} = $id++ for @shown, map { 256 + $_ } 0 .. 255 - @shown;
    LlmServer::write_file("$folder/tokenizer.json", encode_json({
        added_tokens => [map { { id => $_, content => "<$_>", special => JSON::PP::true } } 0 .. 2],
        pre_tokenizer => { type => 'ByteLevel', add_prefix_space => JSON::PP::false }, decoder => { type => 'ByteLevel' },
        model => { type => 'BPE', vocab => \%id, merges => [] } }));
    return $folder;
}

sub served {
    my ($model, $cache, $plugins) = @_;
    my $server = LlmServer->serve("[model]\npath = $model\n[engine]\nthreads = 1\npin = false\nmax_sequences = 16\n[cache]\n$cache\n[plugins]\n$plugins");
    $browser->open_page("http://$server->{address}/console#now");
    return $server;
}

{
    my $folder = with_tokenizer('t/data/models/opt');
    my $server = served($folder, "device_memory = 256KiB\nblock_tokens = 16\nhost_memory = 0", "scheduler = apt\ncache = hybrid\n[scheduler.apt]\nhidden = on\n");
    load($server, 12, sub { my ($i, $k) = @_; return { prompt => [map { 5 + ($i * $_ + $k) % 200 } 1 .. 24], max_tokens => 60, ignore_eos => JSON::PP::true } });
    ok drawn('^(hidden )+((kept|free) )+$'), 'hidden form is drawn as such';
    ok $browser->becomes("/ [1-9]\\d* hidden/.test(document.querySelector('#now').innerText)"), '  and counted';
    leave();
    is $server->stop, 0, 'it ends well';
}

{
    my $server = served(LlmServer::source('share/demo-model'), "device_memory = 1MiB\nhost_memory = 1MiB", "scheduler = bros\ncache = bidirectional\n");
    load($server, 8, sub { my ($i, $k) = @_; return { prompt => [1, map { 300 + ($i * $_ * $k) % 200 } 1 .. 40], max_tokens => 120, ignore_eos => JSON::PP::true,
        $i % 2 ? (class => 'realtime', slo => { ttft_ms => 4000, tbt_ms => 1000 }) : (class => 'best_effort') } });
    ok drawn('^(kv )+((shared|kept) )*(free )+(moving )+'), 'real-time requests are drawn from one end, best-effort ones from the other';
    ok $browser->value("document.querySelector('#now').innerText.includes('best effort') && document.querySelector('#now').innerText.includes('held by both')"), '  with a legend of its own';
    leave();
    is $server->stop, 0, 'it ends well';
}
is_deeply $browser->{errors}, [], 'no error in the console';
done_testing;
