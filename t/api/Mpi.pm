# SPDX-License-Identifier: Apache-2.0
# mpirun for tests: on as few cores as there are, as root too.
package Mpi;

use strict;
use warnings;
use LlmServer;

# Why tests of it are skipped; undef if they are not.
sub missing {
    return 'configure found no MPI' unless -e LlmServer::built('.libs/ranks_mpi.so');
    return 'there is no mpirun (on Debian: apt-get install openmpi-bin)' if system('command -v mpirun >/dev/null 2>&1') != 0;
    return 'ThreadSanitizer does not know MPI' if qx(nm -D '@{[LlmServer::built('llmserve')]}' 2>&1) =~ /__tsan_/;
    return 'servers run under another program' if LlmServer::under();
    return;
}

# The option that makes mpirun leave the others alone when one dies: Open MPI's, up to 4.
sub recovery {
    return qx(mpirun --help recovery 2>&1; mpirun --help 2>&1) =~ /--?enable-recovery/ ? ('--enable-recovery') : ();
}

# Starts n processes of what follows, with more for mpirun.
sub run {
    my ($n, @more) = @_;
    $ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1;
    $ENV{OMPI_MCA_rmaps_base_oversubscribe} = 1;
    $ENV{PRTE_MCA_rmaps_default_mapping_policy} = ':oversubscribe';
    $ENV{OMPI_MCA_hwloc_base_binding_policy} = 'none';
    $ENV{OMPI_MCA_btl_vader_single_copy_mechanism} = 'none';    # containers forbid it
    $ENV{ASAN_OPTIONS} = ($ENV{ASAN_OPTIONS} // '') . ':detect_leaks=0';    # Open MPI's
    return ('mpirun', @more, '-n', $n);
}

1;
