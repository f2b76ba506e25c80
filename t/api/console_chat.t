#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The console's chat in a real browser: an answer is drawn as Markdown, of which nothing can run
# or load; thoughts and calls of tools are folded; pictures are sent where the model takes them;
# two models, or two policies, answer side by side; colours are switched. Answers with a meaning are
# the test's, in the server's place.
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

my $json   = JSON::PP->new->utf8->canonical;
my $model  = LlmServer::source('share/demo-model');
my $server = LlmServer->serve("[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 4MiB\n[plugins]\nscheduler = fcfs\n");
my $browser = Browser->start;
my $has     = sub { my ($text) = @_; return 'document.body.innerText.includes(' . Browser::quoted($text) . ')' };

# The stream of an answer that has these deltas.
sub stream {
    my (@deltas) = @_;
    return join '', map { "data: $_\n\n" } (map { $json->encode({ choices => [{ delta => $_ }] }) } @deltas),
        $json->encode({ choices => [], usage => { completion_tokens => 7, prompt_tokens => 9, prompt_tokens_details => { cached_tokens => 4 } } }), '[DONE]';
}

my @answers;    # streams, of which each request takes one
my @bodies;     # of the requests
my %instead = ('v1/chat/completions' => sub { my ($method, $body) = @_; push @bodies, $json->decode($body); return (200, shift @answers) });

# Asks, and waits for the end of the answer.
sub says {
    my ($text) = @_;
    $browser->fill('#chat .talk .ask textarea', $text);
    $browser->click('Send');
    return $browser->becomes("[...document.querySelectorAll('#chat .assistant')].pop()?.ariaBusy === 'false' && document.querySelector('#chat .talk [role=status]').textContent !== 'waiting for the first token'");
}
my $last = "[...document.querySelectorAll('#chat .assistant')].pop()";

$browser->open_page("http://$server->{address}/console");
ok $browser->becomes("document.title.startsWith('Chat') && document.getElementById('server').textContent === 'demo-model'"), 'the page opens with the chat';
my $composer = "document.querySelector('#chat .talk .ask').getBoundingClientRect()";
ok $browser->value("innerHeight - $composer.bottom < 40 && $composer.height < 200"), '  its composer is at the bottom';

# ---- Markdown ------------------------------------------------------------------------------
$browser->answer(%instead);
my $good = <<'END';
# Title
One *em*, **strong**, `code < 1`, ~~gone~~, snake_case_name, 2 * 3 * 4, \*plain\*.
A [link](https://example.org/a "t"), https://example.org/b. <br>next

```c
int main(void) { return 0; } // done
```

1. one
2. two
   - inner

> quoted

| a | b |
|---|---|
| 1 | **2** |

---
- [x] done
END
@answers = (stream(map { { content => $_ } } unpack '(a7)*', $good));
ok says('Format it.'), 'an answer comes';
is $browser->value("$last.querySelector(':scope > .text').children.length"), 8, '  as blocks';
is_deeply $browser->value("[...$last.querySelectorAll('.text :is(h3, em, strong, p code, del, a, figcaption span, ol > li, ul li, blockquote, th, td, hr)')].map((one) => one.tagName + ' ' + one.firstChild?.textContent)"),
    ['H3 Title', 'EM em', 'STRONG strong', 'CODE code < 1', 'DEL gone', 'A link', 'A https://example.org/b', 'SPAN c', 'LI one', 'LI two', 'LI inner', 'BLOCKQUOTE quoted',
    'TH a', 'TH b', 'TD 1', 'TD 2', 'STRONG 2', 'HR undefined', "LI \x{2611} done"], '  with their parts';
is_deeply $browser->value("[...$last.querySelectorAll('pre span')].map((one) => one.className + ' ' + one.textContent)"),
    ['code-word int', 'code-word void', 'code-word return', 'code-number 0', 'code-comment // done'], '  and coloured code';
like $browser->value("$last.querySelector('p').innerText"), qr/snake_case_name, 2 \* 3 \* 4, \*plain\*\.\n.*\nnext/s, '  what is no mark stays';
like $browser->value("$last.querySelector('.times').textContent"), qr/7 tokens.*prompt 9, 4 of it cached/, '  its times below it';
is_deeply [$browser->faint], [], '  readable';
is_deeply [$browser->nameless], [], '  and named';

# ---- what a model must not do ------------------------------------------------------------------
my @attacks = ('<script>hit = 1</script>', '<img src=x onerror="hit = 1">', '[a](javascript:hit=1)', "[b](java\tscript:hit=1)", '[c](data:text/html,<script>hit=1</script>)',
    '![d](https://evil.invalid/d.png)', '![e](x" onerror="hit=1)', '<svg onload="hit = 1">', '<javascript:hit=1>', '[f](vbscript:hit=1)', '[g](https://evil.invalid/"onmouseover="hit=1)',
    "```\"><img src=x onerror=hit=1>\n</code></pre><script>hit = 1</script>\n```", "| <b onclick=hit=1>h</b> |\n|---|\n| <iframe src=//evil.invalid> |",
    '<style>@import "//evil.invalid/s.css"</style>', '<a href="javascript:hit=1">h</a>', '[h](//evil.invalid/h)', '<https://evil.invalid/"onclick=hit=1>', '`<img src=x onerror=hit=1>`',
    '[' x 20000, '*a ' x 20000, '**' x 20000, '> ' x 5000, '- ' x 5000 . 'x', ('`' x 300 . ' ') x 100, '|' x 5000 . "\n" . '|-' x 5000);
@answers = (stream({ reasoning_content => '<img src=x onerror=hit=1>' }, { content => join "\n\n", @attacks }));
ok says('<img src=x onerror=hit=1>'), 'an answer that attacks the page comes';
is $browser->value('typeof hit'), 'undefined', '  nothing of it runs';
is_deeply $browser->value("[...document.querySelectorAll('#chat .inner :is(script, img, svg, iframe, style, b, [onerror], [onclick], [onload], [onmouseover])')].map((one) => one.outerHTML)"), [], '  and nothing is made of it';
is_deeply $browser->value("[...new Set([...$last.querySelectorAll('a')].map((one) => new URL(one.href).protocol + one.target + one.rel))]"), ['https:_blanknoopener noreferrer nofollow'], '  links lead to the web only';
is $browser->value("$last.innerText.includes('<script>hit = 1</script>')"), JSON::PP::true, '  the text is shown as it is';
$browser->click('New chat');

# ---- thoughts and tools ------------------------------------------------------------------------
@answers = (stream({ reasoning_content => 'First ' }, { reasoning_content => 'I think.' }, { content => 'I look.' },
    { tool_calls => [{ index => 0, id => 'c1', type => 'function', function => { name => 'weather', arguments => '' } }] }, { tool_calls => [{ index => 0, function => { arguments => '{"city":' } }] },
    { tool_calls => [{ index => 0, function => { arguments => '"Ulm"}' } }] }), stream({ content => 'It rains.' }));
my $tool = { type => 'function', function => { name => 'weather', parameters => { type => 'object' } } };
$browser->fill('#chat [data-name=tools]', $json->encode([$tool]));
ok says('What is the weather?'), 'a model thinks, and calls a tool';
is_deeply $bodies[-1]{tools}, [$tool], '  which it was offered';
is_deeply $browser->value("[...$last.querySelectorAll('details.folded')].map((one) => [one.open, one.firstChild.textContent, one.children[1].textContent])"),
    [[JSON::PP::false, 'thoughts', 'First I think.'], [JSON::PP::false, 'calls weather', "{\n  \"city\": \"Ulm\"\n}"]], '  both are folded';
$browser->fill('#chat .call textarea', 'rain');
$browser->click('Send the results');
ok $browser->becomes($has->('It rains.')), '  the result is sent back';
is_deeply [@{ $bodies[-1]{messages} }[1, 2]], [{ role => 'assistant', content => 'I look.', tool_calls => [{ id => 'c1', type => 'function', function => { name => 'weather', arguments => '{"city":"Ulm"}' } }] },
    { role => 'tool', tool_call_id => 'c1', content => 'rain' }], '  with the call';
$browser->fill('#chat [data-name=tools]', 'nonsense');
@answers = ();
says('x');
ok $browser->becomes($has->('refused: the tools are no JSON')), '  tools that are no JSON are refused';
is $browser->value("document.querySelector('#chat .talk .ask textarea').value + document.querySelectorAll('#chat .user').length"), 'x1',
    '  and the question is taken back: two in a row are refused by many templates';
$browser->fill('#chat [data-name=tools]', '');

# ---- pictures and models -----------------------------------------------------------------------
ok !$browser->value("document.querySelector('#chat .attach').checkVisibility()"), 'a model of text takes no picture';
$browser->answer(%instead, props => sub { return (200, { modalities => { vision => JSON::PP::true } }) },
    'v1/models' => sub { return (200, { data => [{ id => 'one' }, { id => 'two' }] }) });
$browser->open_page("http://$server->{address}/console");
ok $browser->becomes("document.querySelector('#chat .attach')?.checkVisibility()"), 'one that sees does';
is $browser->value("[...document.querySelector('#chat .bar select').options].map((one) => one.value).join()"), ',one,two', '  and one of several is picked';
$browser->value("(() => { const data = new DataTransfer(); data.items.add(new File([Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=='), (c) => c.charCodeAt(0))], 'dot.png', { type: 'image/png' }));
    const file = document.querySelector('#chat input[type=file]'); file.files = data.files; file.dispatchEvent(new Event('change')) })()");
ok $browser->becomes("document.querySelector('#chat .pictures img')?.naturalWidth === 1"), '  a picture is shown';
$browser->value("document.querySelector('#chat .bar select').value = 'two'");
@answers = (stream({ content => 'A dot.' }));
ok says('What is it?'), '  and sent';
is $bodies[-1]{model}, 'two', '  to the model that was picked';
like $bodies[-1]{messages}[0]{content}[0]{image_url}{url}, qr{^data:image/png;base64,iVBOR}, '  with the text';

# ---- side by side ------------------------------------------------------------------------------
$browser->click('Side by side');
ok $browser->becomes("document.querySelectorAll('#chat .side select')[0].options.length === 2"), 'two models are compared';
@answers = map { stream({ content => "side $_" }) } 1 .. 4;
my $before = @bodies;
$browser->fill('#chat .compare textarea', 'Which?');
$browser->click('Compare');
ok $browser->becomes($has->('both have answered')), '  both at once';
is_deeply [sort map { $_->{model} } @bodies[$before .. $#bodies]], [qw(one one two two)], '  each by as many copies as a browser has connections for';
isnt $bodies[$before]{cache_salt}, $bodies[-1]{cache_salt}, '  neither finds the other in the cache';
is $browser->value("document.querySelectorAll('#chat .side .assistant').length"), 2, '  next to each other';

$browser->answer();
$browser->open_page("http://$server->{address}/console");
$browser->becomes("document.getElementById('server')?.textContent === 'demo-model'");
$browser->click('Side by side');
ok $browser->becomes("document.querySelectorAll('#chat .side select')[4]?.value === 'sarathi'"), 'two policies of one model';
ok $browser->value("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Compare').disabled"), '  need consent';
my $generation = decode_json($server->get('/admin/policies')->{content})->{generation};
$browser->value("document.getElementById('consent').click()");
$browser->fill('#chat [data-name=max_tokens]', 8);
$browser->fill('#chat .compare textarea', 'List five animals.');
$server->signal('STOP');    # a quick server would have answered before the controls are touched
$browser->click('Compare');
$browser->value("document.getElementById('consent').click()") for 1, 2;
$browser->click('Side by side') for 1, 2;
ok $browser->value("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Compare').disabled"), '  are exchanged by one comparison at a time';
$server->signal('CONT');
ok $browser->becomes($has->('both have answered; the policies from before run again')), '  answer one after the other';
my $known = decode_json($server->get('/admin/policies')->{content});
is_deeply [$known->{scheduler}{name}, $known->{generation} - $generation], ['fcfs', 3], '  and what ran before runs again';
is $browser->value("new Set([...document.querySelectorAll('#chat .side .assistant > .text')].map((one) => one.textContent)).size"), 1, '  the text is the same';
like $browser->value("document.querySelector('#chat .compare table').innerText"), qr/time to first token\s+[\d.]+ (?:ms|s)\s+[\d.]+ (?:ms|s)/, '  the times are told';

# ---- sessions ------------------------------------------------------------------------------------
$browser->click('Side by side');
ok says('List five animals.'), 'a chat';
$browser->value("location.hash = 'sessions'");
ok $browser->becomes("/console-\\w+/.test(document.querySelector('#sessions tbody')?.innerText)"), '  is a session';
like $browser->value("document.querySelector('#sessions tbody .bar-of').getAttribute('aria-label')"), qr/^\d+ (?:on the device|nowhere)/, '  whose tokens are drawn by tier';
like $browser->value("document.querySelector('#sessions thead').innerText"), qr/tokens, 0 to \d+/, '  on an axis';

# ---- colours ---------------------------------------------------------------------------------------
my $page = "getComputedStyle(document.body).backgroundColor";
my $light = $browser->value($page);
$browser->value("document.getElementById('colours').click()");
isnt $browser->value($page), $light, 'a button makes the page dark';
is_deeply [$browser->faint], [], '  readable';
$browser->open_page("http://$server->{address}/docs");
ok $browser->becomes("document.querySelectorAll('#paths details').length > 50"), '  the page of the API';
isnt $browser->value($page), $light, '  is dark, too';
$browser->scheme('dark');
$browser->value("document.getElementById('colours').click()");
is $browser->value($page), $light, '  light, against the system';
$browser->value("document.getElementById('colours').click()");
isnt $browser->value($page), $light, '  and as the system has it';
is $browser->value('localStorage.length'), 0, '  which needs no memory';

# ---- a key that may chat only ------------------------------------------------------------------------
is $server->stop, 0, 'the server ends well';
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/$_", "$_-secret\n") for qw(users admins);
my %served = ($server->{address} => 1);
$server = LlmServer->serve("api_keys = $folder/users\nadmin_keys = $folder/admins\n[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 4MiB\n");
$served{ $server->{address} } = 1;
$browser->open_page("http://$server->{address}/console");
ok $browser->becomes("document.getElementById('key-dialog')?.open"), 'with keys the page asks for one';
$browser->fill('#key', 'users-secret');
my $refused = @{ $browser->{network} };
for (1 .. 1200) { last if @{ $browser->{network} } > $refused; $browser->value('new Promise((done) => setTimeout(done, 100))') }
is $browser->value("document.getElementById('key').value"), 'users-secret', '  what is typed stays while others are refused';
$browser->value("document.getElementById('key-use').click()");
ok $browser->becomes("document.querySelector('#chat .bar option').textContent === 'demo-model'"), '  a user of the chat sees the model';
ok says('List five animals.'), '  asks';
is $browser->value("document.querySelector('#chat .talk [role=status]').textContent"), 'the answer is complete', '  and is answered';
ok $browser->becomes($has->("this API key is no admin's")), '  the page says what the key is not for';
ok !$browser->value("document.getElementById('key-dialog').open"), '  and does not ask for another one';

# ---- several models ------------------------------------------------------------------------------------
is $server->stop, 0, 'the server ends well';
$server = LlmServer->serve("[models]\none = $model\ntwo = $model\n[model.two]\nplugins.scheduler = fcfs\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 4MiB\n");
$served{ $server->{address} } = 1;
$browser->open_page("http://$server->{address}/console");
$browser->click('Side by side');
$browser->becomes("document.querySelectorAll('#chat .side select')[0].options.length === 2");
$browser->fill('#chat .compare textarea', 'List five animals.');
$browser->click('Compare');
ok $browser->becomes($has->('both have answered')), 'several models: two answer at once, each by its own policies';
ok $browser->becomes("/^(?:one|two)\$/.test(document.getElementById('server')?.textContent)"), '  the page shows one';
$browser->value("(() => { const one = document.querySelector('#chat .bar select'); one.value = document.getElementById('server').textContent === 'one' ? 'two' : 'one'; window.picked = one.value;
    one.dispatchEvent(new Event('change')) })()");
ok $browser->becomes("document.getElementById('server').textContent === window.picked"), '  then the other, which is picked';

is_deeply $browser->{errors}, [], 'no error in the console';
is_deeply [grep { !$served{$_} } keys %{ $browser->{hosts} }], [], 'no request to another host';
undef $browser;
is $server->stop, 0, 'it ends well';
done_testing;
