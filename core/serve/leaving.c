/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of a process without a front end, and how it leaves a cluster. */
#include <signal.h>

#include "core/serve/daemon.h"

static _Atomic(bool) leaves; /* set by a signal's handler */

const _Atomic(bool) *server_leaves(void)
{
  return &leaves;
}

/* The first signal lets the process finish what it has, the second ends it. */
static void on_signal(int number)
{
  signal(number, SIG_DFL);
  atomic_store(&leaves, true);
}

static void leave_at_signals(void)
{
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
}

static void ignore_signals(void)
{
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
}

void server_set_signals(bool elastic)
{
  signal(SIGHUP, SIG_IGN);
  if (elastic)
    leave_at_signals();
  else
    ignore_signals();
}
