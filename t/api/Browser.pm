# SPDX-License-Identifier: Apache-2.0
# A headless browser with one page, controlled by the Chrome DevTools protocol over a pair
# of pipes (--remote-debugging-pipe: JSON messages, each ended by a NUL).
package Browser;

use strict;
use warnings;
use File::Temp;
use IO::Select;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use Test::More ();
use Time::HiRes;

our $TIMEOUT = $ENV{LLS_BROWSER_TIMEOUT} // 120;    # seconds until what must come is given up
my $json = JSON::PP->new->utf8->allow_nonref;

# The program, or undef.
sub program {
    for my $name (qw(chromium chromium-browser google-chrome)) {
        chomp(my $path = qx(command -v $name 2>/dev/null));
        return $path if $path ne '';
    }
    return;
}

sub start {
    my ($class) = @_;
    my $folder = File::Temp->newdir;
    pipe(my $from_us, my $commands) or die "pipe: $!";
    pipe(my $answers, my $to_us)    or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        # the protocol's are 3 and 4, which perl may have given to others
        POSIX::dup2(fileno $from_us, 20);
        POSIX::dup2(fileno $to_us,   21);
        POSIX::dup2(20, 3);
        POSIX::dup2(21, 4);
        open(STDERR, '>', $ENV{LLS_BROWSER_LOG} // '/dev/null');
        my @quiet = qw(--disable-extensions --disable-background-networking --disable-component-update --disable-sync
            --no-first-run --no-default-browser-check --hide-scrollbars);
        exec program(), '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--remote-debugging-pipe', @quiet,
            '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1', "--user-data-dir=$folder", 'about:blank'
            or POSIX::_exit(127);
    }
    close $from_us;
    close $to_us;
    $commands->autoflush(1);
    my $self = bless { pid => $pid, folder => $folder, commands => $commands, answers => $answers, text => '', id => 0,
        errors => [], hosts => {}, network => [] }, $class;
    my $target = $self->call('Target.createTarget', { url => 'about:blank' })->{targetId};
    $self->{session} = $self->call('Target.attachToTarget', { targetId => $target, flatten => JSON::PP::true })->{sessionId};
    $self->call($_) for qw(Page.enable Runtime.enable Network.enable Log.enable Accessibility.enable);
    $self->size(1200, 900);
    return $self;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $!);
    kill 'TERM', $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

# ---- the protocol -----------------------------------------------------------------------

# Notes of an event what a test wants to know.
sub note_event {
    my ($self, $method, $p) = @_;
    if ($method eq 'Runtime.exceptionThrown') {
        push @{ $self->{errors} }, $p->{exceptionDetails}{exception}{description} // $p->{exceptionDetails}{text};
    } elsif ($method eq 'Runtime.consoleAPICalled' && $p->{type} =~ /^(?:error|assert)$/) {
        push @{ $self->{errors} }, join ' ', map { $_->{value} // $_->{description} // '' } @{ $p->{args} };
    } elsif ($method eq 'Log.entryAdded' && $p->{entry}{level} eq 'error') {
        push @{ $self->{ $p->{entry}{source} eq 'network' ? 'network' : 'errors' } }, "$p->{entry}{text} ($p->{entry}{url})";
    } elsif ($method eq 'Network.requestWillBeSent' && $p->{request}{url} =~ m{^\w+://([^/]+)}) {
        $self->{hosts}{$1}++;
    } elsif ($method eq 'Fetch.requestPaused') {
        $self->answer_request($p);
    }
    return;
}

# Answers requests of the page whose path is in {instead}, {PATH => sub { (status, JSON, or the
# bytes of a stream of events) }}, in the server's place; the others go on.
sub answer_request {
    my ($self, $p) = @_;
    my ($path) = $p->{request}{url} =~ m{^\w+://[^/]+/([^?#]*)};
    my $answer = $self->{instead}{$path};
    return $self->tell('Fetch.continueRequest', { requestId => $p->{requestId} }) if !defined $answer;
    my ($status, $data) = $answer->($p->{request}{method}, $p->{request}{postData});
    my ($type, $body) = ref $data ? ('application/json', $json->encode($data)) : ('text/event-stream', $data);
    return $self->tell('Fetch.fulfillRequest', { requestId => $p->{requestId}, responseCode => $status, body => encode_base64($body, ''),
        responseHeaders => [{ name => 'content-type', value => $type }] });
}

# Requests for these paths are answered by the test.
sub answer {
    my ($self, %answers) = @_;
    $self->{instead} = \%answers;
    return $self->call('Fetch.enable', { patterns => [map { { urlPattern => "*/$_" } } keys %answers] });
}

# The next message.
sub receive {
    my ($self) = @_;
    my $until = Time::HiRes::time() + $TIMEOUT;
    while ($self->{text} !~ /\0/) {
        die "the browser says nothing\n" if !IO::Select->new($self->{answers})->can_read($until - Time::HiRes::time());
        sysread($self->{answers}, $self->{text}, 1 << 20, length $self->{text}) or die "the browser has ended\n";
    }
    $self->{text} =~ s/\A([^\0]*)\0//;
    return $json->decode($1);
}

# Sends a command, and gives its number.
sub tell {
    my ($self, $method, $params) = @_;
    my %message = (id => ++$self->{id}, method => $method, params => $params // {});
    $message{sessionId} = $self->{session} if defined $self->{session};
    print { $self->{commands} } $json->encode(\%message) . "\0";
    return $message{id};
}

sub call {
    my ($self, $method, $params) = @_;
    my $id = $self->tell($method, $params);
    while (1) {
        my $answer = $self->receive;
        $self->note_event($answer->{method}, $answer->{params}) if defined $answer->{method};
        next if ($answer->{id} // 0) != $id;
        die "$method: $answer->{error}{message}\n" if defined $answer->{error};
        return $answer->{result};
    }
}

# ---- the page ---------------------------------------------------------------------------

sub open_page { my ($self, $url) = @_; return $self->call('Page.navigate', { url => $url }) }

# The value of an expression of JavaScript, which may be a promise.
sub value {
    my ($self, $expression) = @_;
    my $answer = $self->call('Runtime.evaluate', { expression => $expression, returnByValue => JSON::PP::true, awaitPromise => JSON::PP::true });
    die "$expression: $answer->{exceptionDetails}{exception}{description}\n" if defined $answer->{exceptionDetails};
    return $answer->{result}{value};
}

# Looks until the expression is true.
sub becomes {
    my ($self, $expression) = @_;
    my $until = Time::HiRes::time() + $TIMEOUT;
    until ($self->value($expression)) {
        if (Time::HiRes::time() > $until) {
            Test::More::diag("$expression is not so on\n" . $self->value('document.body.innerText') . "\n@{ $self->{errors} }");
            return 0;
        }
        Time::HiRes::sleep(0.1);
    }
    return 1;
}

sub quoted { my ($text) = @_; return $json->encode($text) }

# As a user would: the control has the value, and the page hears of it.
sub fill {
    my ($self, $selector, $value) = @_;
    my ($where, $what) = (quoted($selector), quoted($value));
    return $self->value("(() => { const one = document.querySelector($where); one.value = $what; one.dispatchEvent(new Event('input', {bubbles: true})); })()");
}

# The first button in sight with this text that can be pressed.
sub click {
    my ($self, $text) = @_;
    my $what = quoted($text);
    my $button = "[...document.querySelectorAll('button')].find((one) => one.checkVisibility() && !one.disabled && one.textContent.startsWith($what))";
    $self->becomes("$button !== undefined");    # one that was used says so for a moment
    return $self->value("$button.click()");
}

sub press {
    my ($self, $key) = @_;
    $self->call('Input.dispatchKeyEvent', { type => $_, key => $key, code => $key, windowsVirtualKeyCode => $key eq 'Tab' ? 9 : 13 }) for qw(keyDown keyUp);
    return;
}

sub size {
    my ($self, $width, $height) = @_;
    return $self->call('Emulation.setDeviceMetricsOverride',
        { width => $width, height => $height, deviceScaleFactor => 1, mobile => JSON::PP::false });
}

sub scheme {
    my ($self, $name) = @_;
    return $self->call('Emulation.setEmulatedMedia', { features => [{ name => 'prefers-color-scheme', value => $name }] });
}

# Controls and pictures, as those that do not see find them, that have no name.
sub nameless {
    my ($self) = @_;
    my %wanted = map { $_ => 1 } qw(button link textbox searchbox combobox checkbox spinbutton img table region dialog);
    my @found = grep { !$_->{ignored} && $wanted{ $_->{role}{value} // '' } && ($_->{name}{value} // '') eq '' } $self->nodes;
    return map { $_->{role}{value} } @found;
}

sub nodes { my ($self) = @_; return @{ $self->call('Accessibility.getFullAXTree')->{nodes} } }

# Texts whose contrast to what is behind them is less than 4.5 to 1 (WCAG 2.2, 1.4.3), but of
# controls that are switched off.
sub faint {
    my ($self) = @_;
    return @{ $self->value(<<'END') };
(() => {
  const parse = (text) => text.match(/[\d.]+/g).map(Number);
  const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const c = parse(getComputedStyle(one).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (walk.currentNode.data.trim() === '' || one.closest('script, noscript, :disabled, .skip') || !one.checkVisibility()) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.add(walk.currentNode.data.trim().slice(0, 40));
  }
  return [...found];
})()
END
}

sub picture { my ($self) = @_; return decode_base64($self->call('Page.captureScreenshot', { format => 'png' })->{data}) }

1;
