# SPDX-License-Identifier: Apache-2.0
# Compares answers with /openapi.json, strictly: an object has all members that are required, and none that is not
# described. Members and alternatives that were met are noted, so that a test finds those that never came.
package Shape;
use strict;
use warnings;
use JSON::PP;

sub new { my ($class, $doc) = @_; return bless { doc => $doc, met => {} }, $class }

sub type_of {
    my ($value) = @_;
    return 'null' if !defined $value;
    return 'boolean' if JSON::PP::is_bool($value);
    return ref $value eq 'HASH' ? 'object' : 'array' if ref $value;
    my $text = JSON::PP->new->allow_nonref->encode($value);
    return $text =~ /\A"/ ? 'string' : $text =~ /[.eE]/ ? 'number' : 'integer';
}

# Returns what is wrong with a value, or undef. $at: where its schema is; $met: what was met on the way.
sub wrong {
    my ($self, $value, $schema, $at, $met) = @_;
    if (my $ref = $schema->{'$ref'}) {
        my $name = $ref =~ s{.*/}{}r;
        my $named = $self->{doc}{components}{schemas}{$name};
        return defined $named ? $self->wrong($value, $named, $name, $met) : "$at: no $ref";
    }
    return $self->wrong_one($value, $schema, $at, $met) if !$schema->{anyOf};
    my @why;
    for my $i (0 .. $#{ $schema->{anyOf} }) {
        my %here;
        my $why = $self->wrong($value, $schema->{anyOf}[$i], "$at|$i", \%here);
        if (!defined $why) { @$met{ keys %here, "$at|$i" } = (); return }
        push @why, $why;
    }
    return join ' or ', @why;
}

sub wrong_one {
    my ($self, $value, $schema, $at, $met) = @_;
    my @types = ref $schema->{type} ? @{ $schema->{type} } : $schema->{type} // ();
    my $type  = type_of($value);
    return "$at: $type, not @types" if @types && !grep { $_ eq $type || ($_ eq 'number' && $type eq 'integer') } @types;
    return "$at: '$value', not '$schema->{const}'" if defined $schema->{const} && $value ne $schema->{const};
    return $self->wrong_object($value, $schema, $at, $met) if $type eq 'object';
    for my $one ($type eq 'array' && $schema->{items} ? @$value : ()) {
        my $why = $self->wrong($one, $schema->{items}, "$at\[]", $met);
        return $why if defined $why;
    }
    return;
}

sub wrong_object {
    my ($self, $value, $schema, $at, $met) = @_;
    my ($members, $others) = @$schema{qw(properties additionalProperties)};
    for my $name (@{ $schema->{required} // [] }) { return "$at: no '$name'" if !exists $value->{$name} }
    for my $name ($members || $others ? sort keys %$value : ()) {
        my $of = $members->{$name} // $others;
        return "$at: '$name' is not described" if !defined $of;
        my $where = $members->{$name} ? "$at.$name" : "$at.*";
        my $why = $self->wrong($value->{$name}, $of, $where, $met);
        return $why if defined $why;
        $met->{$where} = 1;
    }
    return;
}

# Checks a value, and keeps what was met.
sub check {
    my ($self, $value, $schema, $at) = @_;
    my %met;
    my $why = $self->wrong($value, $schema, $at, \%met);
    @{ $self->{met} }{ keys %met } = () if !defined $why;
    return $why;
}

# True for an alternative that tells of a fault, for which there are other tests.
sub is_error {
    my ($schema) = @_;
    my $members = $schema->{properties} // {};
    return ($schema->{'$ref'} // '') =~ m{/Error\z} || $members->{error} || (($members->{type} // {})->{const} // '') eq 'error';
}

# Lists what a schema describes, as places that wrong() notes: members, and alternatives with members.
sub places {
    my ($self, $schema, $at) = @_;
    return () if ref $schema ne 'HASH' || $schema->{'$ref'};
    for my $all ($schema->{anyOf} // ()) {
        return map { is_error($all->[$_]) ? () : ($all->[$_]{'$ref'} || $all->[$_]{properties} ? "$at|$_" : (), $self->places($all->[$_], "$at|$_")) } 0 .. $#$all;
    }
    my $members = $schema->{properties} // {};
    return ((map { ("$at.$_", $self->places($members->{$_}, "$at.$_")) } sort keys %$members),
        $self->places($schema->{items}, "$at\[]"), ref $schema->{additionalProperties} ? ("$at.*", $self->places($schema->{additionalProperties}, "$at.*")) : ());
}

1;
