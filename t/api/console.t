#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The console in a real browser: every view under load, a chat, a change that is accepted and
# one that is refused, a key, a server that goes away and comes back. There must be no error
# in the browser's console and no request to another host, and everything must be usable
# without sight or without a mouse.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use JSON::PP;
use LlmServer;
use POSIX ();
use Test::More;

my $model = LlmServer::source('share/demo-model');
$ENV{LLS_PROFILE_PATH} = LlmServer::source('etc/profiles');

sub ini {
    my ($server) = @_;
    return "$server\n[model]\npath = $model\n[engine]\nthreads = 1\npin = false\nmax_sequences = 24\nprofile = a100-80g\n"
        . "[cache]\ndevice_memory = 1MiB\nhost_memory = 1MiB\n[plugins]\nscheduler = apt\ncache = paged\n[scheduler.apt]\npreempt = swap\n";
}

# ---- the page alone, which needs no browser ------------------------------------------------
my $server = LlmServer->serve(ini(''));
my $page   = $server->get('/console');
is $page->{status}, 200, 'there is a page';
like $page->{headers}{'content-security-policy'}, qr/default-src 'none'.*frame-ancestors 'none'/, '  that may load nothing but itself';
unlike $page->{content}, qr{(?:src|href)="(?:https?:)?//}, '  and names nothing else';
is $server->get("/console/$_")->{status}, 200, "  $_" for $page->{content} =~ m{"console/([\w.]+)"}g;
is $server->get('/console/../../etc/passwd')->{status}, 404, 'no other file';
is $server->get('/console/console')->{status}, 404, '  whatever it is called';
my $plain = $server->{http};
$plain->{max_redirect} = 0;
is $server->get('/', { accept => 'text/html,*/*' })->{headers}{location}, 'console', 'a browser is sent there';
is $server->get('/')->{status}, 404, '  a program is not';

SKIP: {
    last SKIP if defined Browser::program();
    skip 'chromium is not installed (Debian: chromium): the page is not opened', 1;
}
if (!defined Browser::program()) {
    done_testing;
    exit;
}

my $browser = Browser->start;
my $console = "http://$server->{address}/";
my $has     = sub { my ($text) = @_; return 'document.body.innerText.includes(' . Browser::quoted($text) . ')' };

sub shows { my ($view) = @_; $browser->value("location.hash = '$view'"); return $browser->becomes("!document.getElementById('$view').hidden") }

# ---- load ---------------------------------------------------------------------------------
# Clients that ask again and again until they are ended.
my @clients;
for my $i (1 .. 8) {
    my $pid = fork // die "fork: $!";
    if ($pid != 0) {
        push @clients, $pid;
        next;
    }
    my ($class, $user) = $i % 3 ? ('realtime', 'ann') : ('best_effort', 'bob');
    for (my $n = 1;; $n++) {
        my @prompt = (1, map { 300 + ($i * $_ * $n) % 200 } 1 .. 20 + 30 * (($n * $i) % 7));
        $server->post('/v1/completions', { prompt => \@prompt, max_tokens => 60 + 40 * ($n % 4), ignore_eos => JSON::PP::true, n => 3, class => $class,
            user => $user, slo => { ttft_ms => 400, tbt_ms => 150 } }, { 'x-request-id' => "load-$i-$n" });
    }
}

# Ends them; they have nothing of the server's to end with them.
sub leave { kill 'KILL', @clients; waitpid $_, 0 for splice @clients; return }
END { local $?; leave() }

# ---- each view ------------------------------------------------------------------------------
$browser->open_page($console);
$browser->becomes('document.getElementById("now") !== null');
# The texts that are drawn on canvases.
$browser->value('window.drawn = new Set(); const drawText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...more) { window.drawn.add(text); return drawText.call(this, text, ...more) }; 0');
ok $browser->becomes("location.pathname === '/console' && document.title.startsWith('Chat')"), 'the first view is the chat';
ok $browser->becomes("document.getElementById('server').textContent === 'demo-model'"), '  which says what is served';
ok shows('now'), 'Now';
ok $browser->becomes("document.querySelector('#now .tiles').innerText.match(/running\\s+[1-9]/)"), '  how many run';
ok $browser->becomes($has->('ann')), '  of which tenants';
ok $browser->becomes($has->('scheduler apt') . ' && ' . $has->('U_R and U_W')), '  what the policies say, with its meaning';
ok $browser->becomes("/cache: \\d/.test(document.querySelector('#now canvas').getAttribute('aria-label'))"), '  and draws the cache';
ok $browser->becomes("['tokens/s', 'time of a step', 'attained, of the last minute', '100 %', 'now', '0'].every((text) => window.drawn?.has(text)) && [...window.drawn].some((text) => /^[\\d.]+ (?:s|min) ago\$/.test(text))"), '  charts have axes, with units';
is $browser->value("[...document.querySelectorAll('#now .panel')].filter((one) => one.checkVisibility() && one.innerText.trim().split(/\\n/).length < 2 && one.querySelector('canvas') === null).length"), 0, '  and no card is empty';
ok shows('queues'), 'Queues';
ok $browser->becomes("document.querySelectorAll('#queues tbody tr').length > 10"), '  has rows';
ok $browser->becomes("/^[1-9]\\d* requests in/.test(document.querySelector('#queues canvas').getAttribute('aria-label'))"), '  and bars';
$browser->value("document.querySelector('[aria-label=\"Zoom in\"]').click()");
like $browser->value("document.querySelector('#queues canvas').getAttribute('aria-label')"), qr/in 30 s/, '  that can be zoomed';
$browser->value("document.querySelector('#queues canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))");
ok $browser->value($has->('tokens in')), '  and asked by keyboard';
# A hidden tab has no frames: what waits for one would be kept for as long as it is hidden.
$browser->value("Object.defineProperty(document, 'hidden', { configurable: true, get: () => true }); document.querySelector('#queues tbody tr').dataset.old = 1; new Promise((done) => setTimeout(done, 2500))");
ok $browser->value("document.querySelector('#queues tbody tr').dataset.old"), '  nothing is drawn in a hidden tab';
$browser->value('delete document.hidden');
ok $browser->becomes("document.querySelector('#queues tbody tr').dataset.old === undefined"), '  and again when it is seen';

# ---- a chat -----------------------------------------------------------------------------------
ok shows('chat'), 'Chat';
$browser->fill('#chat [data-name=max_tokens]', 12);
$browser->fill('#chat .ask textarea', 'List five animals.');
$browser->click('Send');
ok $browser->becomes($has->('the answer is complete')), 'an answer comes';
cmp_ok $browser->value("document.querySelector('#chat .assistant').textContent.length"), '>', 5, '  with text';
like $browser->value("document.querySelector('#chat .times').innerText"), qr/first token \d.*\d tokens/, '  and its times';
$browser->click('Regenerate');
ok $browser->becomes($has->('waiting for') . ' || ' . $has->('is complete')), 'another answer is asked for';
ok $browser->becomes($has->('the answer is complete') . " && document.querySelectorAll('#chat .assistant').length === 1"), '  in place of the first';
$browser->fill('#chat [data-name=max_tokens]', 500);
$browser->fill('#chat .ask textarea', 'Tell a long story.');
$server->signal('STOP');    # a quick server would have answered before the second click
$browser->click('Send');
$browser->click('Stop');
ok $browser->becomes($has->('stopped')), 'an answer is stopped';
$server->signal('CONT');
$browser->fill('#chat [data-name=temperature]', -1);
$browser->fill('#chat .ask textarea', 'x');
$browser->click('Send');
ok $browser->becomes($has->('refused:')), 'what is refused is said';

# The same request elsewhere: what is copied is run as it is.
$browser->value('Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText: async (text) => { window.copied = text } } })');
$browser->click('New chat');
$browser->fill("#chat [data-name=$_->[0]]", $_->[1]) for ['temperature', 0], ['max_tokens', 5], ['top_k', 7], ['ttft_ms', 9000], ['tbt_ms', 8000];
$browser->fill('#chat .settings textarea', "It's \"you\".");
$browser->fill('#chat .settings select[data-name=class]', 'best_effort');
$browser->fill('#chat .ask textarea', "Don't say true.");

sub copied {
    my ($button) = @_;
    $browser->value('window.copied = ""');
    $browser->click($button);
    $browser->becomes('window.copied !== ""');
    return $browser->value('window.copied');
}
my $folder = File::Temp->newdir;
my $curl   = copied('Copy as curl');
is_deeply decode_json($curl =~ s/\A.* -d '//sr =~ s/'\z//r =~ s/'\\''/'/gr), { messages => [{ role => 'system', content => q(It's "you".) }, { role => 'user', content => q(Don't say true.) }],
    temperature => 0, max_tokens => 5, top_k => 7, class => 'best_effort', slo => { ttft_ms => 9000, tbt_ms => 8000 }, stream => JSON::PP::true, stream_options => { include_usage => JSON::PP::true } },
    'a request as curl has all that was set';
SKIP: {
    skip 'curl is not installed', 1 if system('command -v curl >/dev/null 2>&1') != 0;
    LlmServer::write_file("$folder/curl", $curl);
    like `sh $folder/curl 2>&1`, qr/"completion_tokens": ?5.*^data: \[DONE\]/ms, '  and is answered';
}
my $python = copied('Copy as Python');
SKIP: {
    my $venv = LlmServer::built('t/openai-venv');
    my $why  = LlmServer::make_venv($venv, 'openai');
    skip "the openai client: $why", 1 if defined $why;
    LlmServer::write_file("$folder/ask.py", $python);
    my $said = `'$venv/bin/python' $folder/ask.py 2>&1`;
    ok $? == 0 && length $said > 3, 'and as Python' or diag $said;
}
$browser->value('Object.defineProperty(navigator, "clipboard", { value: undefined })');
$browser->click('Copy as curl');
ok $browser->becomes("[...document.querySelectorAll('#chat button')].some((one) => /copied/.test(one.textContent))"), 'without a clipboard of its own the page copies or says no';
$browser->fill('#chat .settings select[data-name=class]', '');
$browser->fill('#chat .settings textarea', '');

# ---- parameters under load ------------------------------------------------------------------------
ok shows('policies'), 'Policies';
ok $browser->becomes("document.getElementById('scheduler.apt.max_seqs')"), '  has the parameters';
$browser->fill('[id="scheduler.apt.max_seqs"]', '9');
ok $browser->value("document.querySelector('#policies pre').textContent.includes('max_seqs = 9')"), '  as an INI';
$browser->click('Apply');
ok $browser->becomes($has->('Generation 2:')), 'a change is taken';
$browser->fill('[id="scheduler.apt.max_seqs"]', '-3');
$browser->click('Apply');
ok $browser->becomes($has->('Refused, nothing has changed: request: [scheduler.apt] max_seqs')), 'a wrong one is not, with the reason';
$browser->click('Undo');
$browser->fill('[id="plugins.scheduler"]', 'fcfs');
$browser->click('Apply');
ok $browser->becomes($has->('Generation 3:') . " && document.getElementById('scheduler.fcfs.max_seqs')"), 'another scheduler takes over';
$browser->fill('[id="plugins.cache"]', 'bidirectional');
$browser->click('Apply');
ok $browser->becomes($has->('Generation 4:')), 'and another cache';
shows('now');
ok $browser->becomes($has->('held by both')), '  which is drawn from both its ends';
shows('policies');
$browser->fill('[id="plugins.predictor"]', 'fixed');
$browser->click('Apply');
ok $browser->becomes($has->('Generation 5:')), 'and a predictor';
is decode_json($server->get('/admin/policies')->{content})->{predictor}{name}, 'fixed', '  indeed';
$browser->click('Back to the file');
ok $browser->becomes($has->('Generation 6:') . " && document.getElementById('scheduler.apt.max_seqs')?.value !== '9'"), 'and the file again';
is_deeply [grep { !/ 4(?:00|09) / } @{ $browser->{network} }], [], 'the browser tells of no other failure than those';

# ---- what if -----------------------------------------------------------------------------------
ok shows('whatif'), 'What if';
ok $browser->becomes($has->('Nothing has been asked')), '  has no answer yet, as the server says';
shows('chat');

# From here on the answers are the test's, with what the page has to show.
my %asked;
my @states = (
    { state => 'running', progress => 0.25 },
    { state => 'done', progress => 1, result => { requests => 400, seconds => 60, objective => 'goodput', margin => 0.067, margin_assumed => JSON::PP::false, profile_error => 0.055, gain => 0.56,
        best => 'fcfs', served => { request_goodput => 1.5, mean_ttft_ms => 210 },
        results => [{ name => 'apt+paged+none', settings => '', gain => 0, report => { request_goodput => 1.6, mean_ttft_ms => 200 } },
            { name => 'fcfs', settings => "plugins.scheduler=fcfs\n", gain => 0.56, told => JSON::PP::true, report => { request_goodput => 2.5, slo_attainment_by_class => { realtime => { all => 0.95 } } } },
            { name => 'sjf', settings => "plugins.scheduler=sjf\n", gain => 0.02, told => JSON::PP::false, report => { request_goodput => 1.63 } },
            { name => 'nonesuch', settings => "plugins.scheduler=nonesuch\n", error => "no scheduler 'nonesuch'" }] } });
$browser->answer('admin/whatif' => sub {
    my ($method, $body) = @_;
    return (200, @states > 1 ? { state => 'none' } : $states[0]) if $method eq 'GET' && !%asked;
    return (200, @states > 1 ? shift @states : $states[0]) if $method eq 'GET';
    %asked = %{ decode_json($body) };
    return $asked{policies}[0] eq 'nonsense' ? (400, { error => { message => "there is no scheduler 'nonsense'" } }) : (202, { id => 'w-1' });
});
shows('whatif');
$browser->fill('#whatif [data-name=candidates]', '');
$browser->value("(() => { const by = (name) => [...document.querySelectorAll('#whatif select')].find((one) => one.labels[0].textContent === name);
    by('scheduler').value = 'srpt'; by('predictor').value = 'fixed' })()");
$browser->fill("#whatif [data-name=$_->[0]]", $_->[1]) for ['parameter', 'max_seqs'], ['from', 2], ['to', 4];
$browser->click('Add');
ok $browser->becomes($has->('max_seqs: a range has an end and a step')), '  pickers: half a range is refused';
$browser->fill('#whatif [data-name=step]', 2);
$browser->click('Add');
is $browser->value("document.querySelector('#whatif [data-name=candidates]').value"), 'srpt+paged+fixed:max_seqs=2..4:2', '  they add policies with a range';
$browser->click('srpt+paged+fixed:max_seqs=2..4:2');
is $browser->value("document.querySelector('#whatif [data-name=candidates]').value"), '', '  which a click removes';
$browser->fill('#whatif [data-name=candidates]', 'nonsense');
$browser->click('What if?');
ok $browser->becomes($has->("Refused: there is no scheduler 'nonsense'")), '  a wrong question is refused, with the reason';
$browser->fill('#whatif [data-name=candidates]', 'fcfs, srpt:max_seqs=4');
$browser->click('What if?');
ok $browser->becomes("!document.querySelector('#whatif progress').hidden && document.querySelector('#whatif progress').value === 0.25"), '  what is simulated is shown';
is_deeply \%asked, { policies => ['fcfs', 'srpt:max_seqs=4'], objective => 'auto' }, '  as it was asked';
ok $browser->becomes($has->('Best: fcfs. 400 requests in 1.0 min. Simulated and served may be 6.7 % apart: smaller differences are not told (~), nor those that would end on a machine 5.5 % faster or slower.')), '  the best, and how far that can be told';
is $browser->value("[...document.querySelectorAll('#whatif tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join()).join('; ')"),
    "as it was served,1.50,210 ms,-,,; simulated: apt+paged+none, which runs,1.60,200 ms,-,,; fcfs,2.50,-,95 %,+56.0 %,Apply; sjf,1.63,-,-,+2.0 % ~,; nonesuch,-,-,-,no scheduler 'nonesuch',",
    '  beside what was served and what runs, with a button where a difference is told';
like $browser->value("document.querySelector('#whatif canvas').getAttribute('aria-label')"), qr/\Afcfs \+56 %, sjf \+2.0 %\z/, '  and as a picture';
ok $browser->value("['fcfs', '+56 %', '0 %'].every((text) => window.drawn.has(text))"), '  with an axis';
$browser->click('Apply');
ok $browser->becomes($has->('fcfs runs')), '  and applied';
is decode_json($server->get('/admin/policies')->{content})->{scheduler}{name}, 'fcfs', '  indeed';
is $server->post('/admin/reload', '')->{status}, 200, '  until the file is read again';

# ---- for everybody ------------------------------------------------------------------------------
for my $view (qw(now queues sessions policies whatif chat)) {
    shows($view);
    for my $scheme (qw(dark light)) {
        $browser->scheme($scheme);
        is_deeply [$browser->faint], [], "$view, $scheme: every text can be read";
    }
    is_deeply [$browser->nameless], [], "$view: every control and picture has a name";
    $browser->size(360, 740);
    cmp_ok $browser->value('document.scrollingElement.scrollWidth'), '<=', 360, "$view: fits on a phone";
    $browser->size(1200, 900);
}
my %roles = map { $_->{role}{value} => 1 } grep { !$_->{ignored} } $browser->nodes;
is_deeply [grep { !$roles{$_} } qw(banner navigation main status)], [], 'landmarks';
$browser->value("document.querySelector('.skip').focus()");
my %reached;
for (1 .. 12) { $browser->press('Tab'); $reached{ $browser->value('document.activeElement.textContent.trim()') } = 1 }
is_deeply [grep { !$reached{$_} } qw(Chat Now Queues Sessions Policies), 'What if', 'API key'], [], 'the keyboard reaches the views';

# ---- what if, of the server ------------------------------------------------------------------------------
leave();
$browser->answer('admin/whatif' => undef);
shows('chat');
shows('whatif');
$browser->fill('#whatif [data-name=candidates]', 'fcfs, srpt:max_seqs=4');
$browser->click('What if?');
ok $browser->becomes("[...document.querySelectorAll('#whatif tbody tr')].length === 4 && document.querySelector('#whatif tbody').innerText.includes('srpt')"), 'the server simulates what it has served';
like $browser->value("[...document.querySelectorAll('#whatif tbody tr')].map((row) => row.cells[0].textContent).join(';')"),
    qr/\Aas it was served;simulated: apt\+paged\+none, which runs;fcfs;srpt max_seqs=4\z/, '  with what was asked for';
is $browser->value("[...document.querySelectorAll('#whatif tbody tr')].filter((row) => /\\d.* (?:ms|s|min)\\b/.test(row.innerText)).length"), 4, '  and each has figures';

# ---- away, and back ------------------------------------------------------------------------------------
my ($port) = $server->{address} =~ /:(\d+)$/;
is $server->stop, 0, 'the server goes';
ok $browser->becomes("document.getElementById('server').classList.contains('away')"), 'the page says so';
LlmServer::write_file("$folder/keys", "secret\n");
$server = LlmServer->serve(ini("listen = 127.0.0.1:$port\nadmin_keys = $folder/keys"));
ok $browser->becomes("document.getElementById('key-dialog').open"), 'it comes back, and wants a key';
is_deeply [$browser->faint], [], '  in words that can be read';
$browser->fill('#key', 'secret');
$browser->value("document.getElementById('key-use').click()");
ok $browser->becomes("document.getElementById('server').textContent === 'demo-model'"), '  with which the page goes on';
shows('now');
ok $browser->becomes("document.querySelector('#now').innerText.includes('No request runs')"), '  a server that has done nothing';
is $browser->value("[...document.querySelectorAll('#now .panel')].filter((one) => one.checkVisibility()).map((one) => one.querySelector('h3').textContent).join()"), 'Cache,What the policies say', '  has no empty cards';
is $browser->value('sessionStorage.getItem("llmserve key")'), 'secret', '  and which is kept for the tab';
is $browser->value('localStorage.length + document.cookie.length'), 0, '  and nowhere else';

is_deeply $browser->{errors}, [], 'no error in the console';
is_deeply [grep { $_ ne $server->{address} } keys %{ $browser->{hosts} }], [], 'no request to another host';
undef $browser;
is $server->stop, 0, 'it ends well';

# ---- off -----------------------------------------------------------------------------------------------
$server = LlmServer->serve(ini('console = false'));
is $server->get($_, { accept => 'text/html' })->{status}, 404, "console = false: no $_" for '/', '/console', '/console/main.js';
is $server->stop, 0, 'it ends well';
done_testing;
