# SPDX-License-Identifier: Apache-2.0
# A model that replays a script: llmserve itself serves it, and each answer is text that the test chose. Parsers,
# stop strings, grammars, thoughts, calls of tools, usage and batches are tested by it with exact texts.
#
#   my $script = Script->new(
#       template => '{% for m in messages %}{{ m.content }}{% endfor %}<think>',  # Jinja; default: ChatML
#       special  => ['<think>', '</think>'],                                     # tokens of their own
#       answers  => ['Hm.</think>Yes.', '<tool_call>{"name": ...'],
#       model    => "tool_format = hermes\n",                                    # more of the INI file's [model]
#       front    => "max_waiting = 4\n",                                         # ... of [server]
#       rest     => "[engine]\nmax_sequences = 2\n");                            # other sections
#   my $answer = $script->chat(1, { messages => [...], tools => [...] });        # replays answers[1]
#   my @all    = $script->streamed(0, { messages => [...] });                    # its events
#   is $script->server->stop, 0;
#
# How: an OPT folder of one layer whose attention, MLP and token embeddings are zero, so that a position's
# embedding alone, the unit vector of a token, decides the token that follows it; the head is the identity times
# `sharp` (30). Answer k begins after the prompt's last token, at position start(k): the length of the prompt, in
# tokens and after the template, chooses the answer. `chat` and the others measure the request once, with one token
# as its answer, and append `x` to the last text of the user until its prompt is as long as start(k). A request
# that the server refuses is answered at that point with the refusal.
#
# In detail:
# - At temperature 0 it says the answer, then its end token (the first of `end`) for ever. An answer that contains
#   an end token itself ends there.
# - Where a grammar, a bias or min_tokens forbids the token of a position, the allowed one with the lowest id is
#   taken, and the answer goes on at the next position. Ids: the end tokens, then `special`, the 256 bytes in the
#   order of GPT-2's letters for them ("!" is the first), then `words`.
# - A smaller `sharp` and a temperature above 0 make noise: all other tokens are equally likely.
# - Text is one token a byte. A text in `special` is one token, which the server knows as special. `words` are
#   tokens of several bytes that no text is split into; an answer uses them where it is an array of pieces:
#   ['{"a"', ': 1}'] takes each piece that is a word as one token.
package Script;

use strict;
use warnings;
use File::Temp;
use JSON::PP;
use LlmServer;

my $SLACK = 96;     # end tokens after each answer
my $TAIL  = 512;    # positions after the last one, room for any max_tokens of a test
my $CHATML = q({%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %});

# The letter that stands for each byte in a vocabulary of bytes, as GPT-2 has it; and the bytes in its order.
my (@letter, @in_order);
{
    my %plain = map { $_ => 1 } 33 .. 126, 161 .. 172, 174 .. 255;
    my $next = 256;
    $letter[$_] = chr($plain{$_} ? $_ : $next++) for 0 .. 255;
    @in_order = sort { ord $letter[$a] <=> ord $letter[$b] } 0 .. 255;
}

sub new {
    my ($class, %given) = @_;
    my $self = bless { template => $CHATML, special => [], words => [], answers => [], first => 600, sharp => 30,
        model => '', front => '', rest => '', %given }, $class;
    $self->{end} = [$self->{end} // '<|im_end|>'] if ref $self->{end} ne 'ARRAY';
    my %seen;
    $self->{special} = [grep { !$seen{$_}++ } @{ $self->{end} }, '<|im_start|>', @{ $self->{special} }];
    $self->name_tokens;
    my $at = $self->{first};
    for my $answer (@{ $self->{answers} }) {
        my @ids = $self->ids($answer);
        push @{ $self->{ids} },    \@ids;
        push @{ $self->{starts} }, $at;
        $at += @ids + $SLACK;
    }
    $self->{positions} = $at + $TAIL;
    $self->{folder}    = File::Temp->newdir;
    $self->write_config;
    $self->write_tokenizer;
    $self->write_weights;
    return $self;
}

# The length of the prompt that is answered by answers[k].
sub start { my ($self, $k) = @_; return $self->{starts}[$k] }

# How many tokens answers[k] is, without its end token.
sub tokens { my ($self, $k) = @_; return scalar @{ $self->{ids}[$k] } }

sub folder { return "$_[0]{folder}" }

sub name_tokens {
    my ($self) = @_;
    my @special = @{ $self->{special} };
    my %id;
    $id{$_} = keys %id for @special;
    $self->{bytes_from} = keys %id;
    $self->{byte}[$in_order[$_]] = $self->{bytes_from} + $_ for 0 .. 255;
    my $n = $self->{bytes_from} + 256;
    $self->{word}{$_} = $n++ for @{ $self->{words} };
    @$self{qw(id vocab)} = (\%id, $n);
    return;
}

sub utf8 { my ($text) = @_; utf8::encode($text); return $text }

# The tokens of an answer: a text, or pieces that may be words.
sub ids {
    my ($self, $answer) = @_;
    my ($id, $word, $byte) = @$self{qw(id word byte)};
    my $special = join '|', map { quotemeta utf8($_) } sort { length $b <=> length $a } keys %$id;
    my @ids;
    for my $piece (ref $answer ? @$answer : $answer) {
        if (ref $answer && exists $word->{$piece}) {
            push @ids, $word->{$piece};
            next;
        }
        push @ids, map { exists $id->{$_} ? $id->{$_} : map { $byte->[$_] } unpack 'C*', $_ }
            grep { length } split /($special)/, utf8($piece);
    }
    return @ids;
}

# ---- the folder -----------------------------------------------------------------------

my $json = JSON::PP->new->utf8->canonical;

sub put { my ($self, $name, $value) = @_; LlmServer::write_file("$self->{folder}/$name", $json->encode($value)); return }

sub hidden { my ($self) = @_; return 64 * int(($self->{vocab} + 63) / 64) }

sub write_config {
    my ($self) = @_;
    my ($hidden, @ends) = ($self->hidden, map { $self->{id}{$_} } @{ $self->{end} });
    my ($true, $false) = (JSON::PP::true, JSON::PP::false);
    $self->put('config.json', {
        architectures => ['OPTForCausalLM'], model_type => 'opt', torch_dtype => 'float32', vocab_size => $self->{vocab},
        hidden_size => $hidden, word_embed_proj_dim => $hidden, ffn_dim => 32, num_hidden_layers => 1,
        num_attention_heads => $hidden / 64, activation_function => 'relu', max_position_embeddings => $self->{positions},
        do_layer_norm_before => $true, layer_norm_elementwise_affine => $false, enable_bias => $false,
        _remove_final_layer_norm => $true, tie_word_embeddings => $false, eos_token_id => $ends[0] });
    $self->put('generation_config.json', { eos_token_id => \@ends });
    $self->put('tokenizer_config.json', { eos_token => $self->{end}[0], add_bos_token => $false,
        chat_template => $self->{template} });
    return;
}

sub write_tokenizer {
    my ($self) = @_;
    my %vocab = %{ $self->{id} };
    $vocab{ $letter[$_] } = $self->{byte}[$_] for 0 .. 255;
    $vocab{ join '', map { $letter[$_] } unpack 'C*', utf8($_) } = $self->{word}{$_} for @{ $self->{words} };
    my %level = (type => 'ByteLevel', add_prefix_space => JSON::PP::false, use_regex => JSON::PP::false,
        trim_offsets => JSON::PP::true);
    my @added = map { { id => $self->{id}{$_}, content => $_, special => JSON::PP::true,
        map { $_ => JSON::PP::false } qw(single_word lstrip rstrip normalized) } } @{ $self->{special} };
    $self->put('tokenizer.json', { version => '1.0', added_tokens => \@added, pre_tokenizer => \%level,
        decoder => \%level, model => { type => 'BPE', vocab => \%vocab, merges => [] } });
    return;
}

# Rows of floats, all zero but for the given column of each row.
sub unit_rows {
    my ($columns, $value, @which) = @_;
    my ($zeros, $one) = ("\0" x (4 * $columns), pack('f<', $value));
    return join '', map { my $row = $zeros; substr($row, 4 * $_, 4) = $one if defined; $row } @which;
}

sub write_weights {
    my ($self) = @_;
    my ($vocab, $hidden) = ($self->{vocab}, $self->hidden);
    my @next = ($self->{id}{ $self->{end}[0] }) x $self->{positions};
    for my $k (0 .. $#{ $self->{starts} }) {
        my @ids = @{ $self->{ids}[$k] };
        @next[$self->{starts}[$k] - 1 .. $self->{starts}[$k] + $#ids - 1] = @ids if @ids;
    }
    my $layer   = 'model.decoder.layers.0.';
    my @tensors = (
        ['model.decoder.embed_tokens.weight', [$vocab, $hidden], unit_rows($hidden, 0, (undef) x $vocab)],
        ['model.decoder.embed_positions.weight', [$self->{positions} + 2, $hidden], unit_rows($hidden, 1, undef, undef, @next)],
        ['lm_head.weight', [$vocab, $hidden], unit_rows($hidden, $self->{sharp}, 0 .. $vocab - 1)],
        (map { ["${layer}self_attn.${_}_proj.weight", [$hidden, $hidden], "\0" x (4 * $hidden**2)] } qw(q k v out)),
        ["${layer}fc1.weight", [32, $hidden], "\0" x (4 * 32 * $hidden)],
        ["${layer}fc2.weight", [$hidden, 32], "\0" x (4 * 32 * $hidden)]);
    my ($at, %header) = (0);
    for (@tensors) {
        my ($name, $shape, $data) = @$_;
        $header{$name} = { dtype => 'F32', shape => $shape, data_offsets => [$at, $at + length $data] };
        $at += length $data;
    }
    my $header = $json->encode(\%header);
    $header .= ' ' x (-length($header) % 8);
    LlmServer::write_file("$self->{folder}/model.safetensors",
        join '', pack('Q<', length $header), $header, map { $_->[2] } @tensors);
    return;
}

# ---- requests -------------------------------------------------------------------------

sub server {
    my ($self) = @_;
    my $engine = $self->{rest} =~ /^\[engine\]/m ? '' : "[engine]\nthreads = 1\npin = false\n";
    return $self->{server} //= LlmServer->serve("$self->{front}" . "[model]\npath = $self->{folder}\n$self->{model}$engine$self->{rest}");
}

# Appends to the user's last text: of a prompt, an input, messages.
sub pad {
    my ($body, $n) = @_;
    my $more = 'x' x $n;
    for my $name (grep { defined $body->{$_} && !ref $body->{$_} } qw(prompt input)) {
        $body->{$name} .= $more;
        return;
    }
    my ($last) = grep { ($_->{role} // '') eq 'user' } reverse @{ $body->{messages} // $body->{input} };
    if (ref $last->{content}) { $last->{content}[-1]{text} .= $more }
    else                      { $last->{content}           .= $more }
    return;
}

# The body with its prompt made long enough for answers[k]; or undef and the refusal.
sub body {
    my ($self, $k, $body, $path) = @_;
    $path //= '/v1/chat/completions';
    my $padded = $json->decode($json->encode($body));
    my %probe  = (%$padded, stream => JSON::PP::false);
    delete @probe{qw(max_completion_tokens min_tokens n best_of stream_options max_tokens max_output_tokens)};
    $probe{ $path =~ /responses/ ? 'max_output_tokens' : 'max_tokens' } = $path =~ /responses/ ? 16 : 1;
    $probe{store} = JSON::PP::false if $path =~ /responses/;
    my $answer = $self->server->post($path, \%probe);
    return (undef, $answer) if !$answer->{success};
    my $usage = $answer->{json}{usage};
    my $lacks = $self->start($k) - ($usage->{prompt_tokens} // $usage->{input_tokens}) - ($usage->{cache_read_input_tokens} // 0) - ($usage->{cache_creation_input_tokens} // 0);
    die "the prompt is longer than start($k): first => " . ($self->{first} - $lacks) . "\n" if $lacks < 0;
    pad($padded, $lacks);
    return ($padded, undef);
}

# Posts the request that answers[k] answers; as LlmServer's post.
sub post {
    my ($self, $path, $k, $body, $headers) = @_;
    my ($padded, $refused) = $self->body($k, { temperature => 0, %$body }, $path);
    return $refused // $self->server->post($path, $padded, $headers);
}

sub chat     { my ($self, @rest) = @_; return $self->post('/v1/chat/completions', @rest) }
sub complete { my ($self, @rest) = @_; return $self->post('/v1/completions',      @rest) }
sub say      { my ($self, @rest) = @_; return $self->post('/v1/messages',         @rest) }
sub respond  { my ($self, @rest) = @_; return $self->post('/v1/responses',        @rest) }

# The events of a chat's stream, the last of them with its usage.
sub streamed {
    my ($self, $k, $body) = @_;
    return LlmServer::events($self->chat($k, { stream_options => { include_usage => JSON::PP::true }, %$body,
        stream => JSON::PP::true }));
}

# The counts of tokens; how many of them were cached depends on the requests before.
sub usage {
    my ($usage) = @_;
    my %counts = %{ $usage // {} };
    delete $counts{prompt_tokens_details};
    return \%counts;
}

# A stream's events put together as a client does it: the message of choice 0, with finish_reason and usage.
sub whole {
    my (@events) = @_;
    my %message;
    for my $event (grep { ref } @events) {
        $message{usage} = usage($event->{usage}) if $event->{usage};
        my ($choice) = grep { $_->{index} == 0 } @{ $event->{choices} } or next;
        my $delta = $choice->{delta};
        for my $name (grep { defined $delta->{$_} } qw(content reasoning)) {
            $message{$name} = ($message{$name} // '') . $delta->{$name};
        }
        for my $part (@{ $delta->{tool_calls} // [] }) {
            my $call = $message{tool_calls}[$part->{index}] //= { name => '', arguments => '' };
            $call->{$_} .= $part->{function}{$_} // '' for qw(name arguments);
        }
        $message{finish_reason} = $choice->{finish_reason} if defined $choice->{finish_reason};
    }
    return \%message;
}

# A whole answer in the same form; members that are null or absent are left out.
sub message {
    my ($answer) = @_;
    my $choice  = $answer->{json}{choices}[0];
    my %message = (usage => usage($answer->{json}{usage}), finish_reason => $choice->{finish_reason});
    for my $name (grep { defined $choice->{message}{$_} } qw(content reasoning)) {
        $message{$name} = $choice->{message}{$name};
    }
    my @calls = map { { name => $_->{function}{name}, arguments => $_->{function}{arguments} } } @{ $choice->{message}{tool_calls} // [] };
    $message{tool_calls} = \@calls if @calls;
    return \%message;
}

1;
