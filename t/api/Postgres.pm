# SPDX-License-Identifier: Apache-2.0
# A PostgreSQL server of a test's own: in a folder that is deleted, on a Unix socket in it.
package Postgres;

use strict;
use warnings;
use File::Temp;
use LlmServer;

# Where Debian has the newest one's programs.
sub programs { my @found = sort glob('/usr/lib/postgresql/*/bin'); return @found ? "$found[-1]/" : '' }

# Why there is none, or nothing.
sub missing {
    return 'llmserve was built without libpq (libpq-dev)' if !-e LlmServer::built('core/batch/libpostgres_la-postgres.lo');
    my $programs = programs();
    return 'PostgreSQL is not installed (postgresql)' if !-x "${programs}initdb" || !-x "${programs}pg_ctl";
    return 'root needs setpriv, since PostgreSQL refuses root' if $> == 0 && system('command -v setpriv >/dev/null 2>&1') != 0;
    return;
}

sub new {
    my ($class) = @_;
    my $folder  = File::Temp->newdir('postgres-XXXXXX', TMPDIR => 1);
    my $self    = bless { folder => $folder, pid => $$ }, $class;
    # PostgreSQL does not run as root
    my ($uid, $gid) = $> == 0 ? ((getpwnam 'postgres')[2, 3]) : ();
    ($uid, $gid) = (65534, 65534) if $> == 0 && !defined $uid;
    chown $uid, $gid, $folder if defined $uid;
    $self->{as} = defined $uid ? "setpriv --reuid=$uid --regid=$gid --clear-groups" : '';
    $self->program('initdb', "-D '$folder/data' -U llmserve -A trust --no-sync -E UTF8 --locale=C") or die "initdb: $folder/log\n";
    $self->start;
    return $self;
}

sub program {
    my ($self, $name, $arguments) = @_;
    my $programs = programs();
    return system("cd / && $self->{as} $programs$name $arguments >>'$self->{folder}/log' 2>&1") == 0;
}

sub start {
    my ($self) = @_;
    my $folder = $self->{folder};
    $self->program('pg_ctl', qq(-D '$folder/data' -l '$folder/data/server.log' -w -o "-k '$folder' -h ''" start))
      or die 'PostgreSQL does not start: ' . LlmServer::read_file("$folder/data/server.log");
    return;
}

# immediate: without a shutdown, as kill -9
sub stop { my ($self, $mode) = @_; return $self->program('pg_ctl', "-D '$self->{folder}/data' -w -m $mode stop") }

sub url { my ($self) = @_; return "postgresql:///postgres?host=$self->{folder}&user=llmserve" }

# Runs a statement; true if that is possible.
sub sql { my ($self, $sql) = @_; return $self->program('psql', "'" . $self->url . qq(' -v ON_ERROR_STOP=1 -c "$sql")) }

sub DESTROY {
    my ($self) = @_;
    local ($?, $!, $@);
    $self->stop('immediate') if $self->{pid} == $$;
    return;
}

1;
