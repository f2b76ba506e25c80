/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates greetings; see neighbours.h. */
#include "core/ranks/neighbours.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void lls_hello_fill(struct lls_hello *h)
{
  char host[64] = "", space[64] = "";
  memset(h, 0, sizeof *h);
  gethostname(host, sizeof host - 1);
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
    space[0] = '\0';
  snprintf(h->machine, sizeof h->machine, "%s %s", host, space);
  h->pid = (int)getpid();
  sched_getaffinity(0, sizeof h->cores, &h->cores);
}

int lls_hello_check(const struct lls_hello *all, uint32_t size, struct lls_error *err)
{
  for (uint32_t rank = 0; rank < size; rank++)
    if (all[rank].why_not[0] != '\0')
      return lls_fail(err, -ECANCELED, "process %u: %.*s", rank, LLS_ERROR_MAX - 64,
                      all[rank].why_not);
  for (uint32_t rank = 1; rank < size; rank++)
    if (all[rank].ranks != all[0].ranks)
      return lls_fail(err, -ECANCELED,
                      "process %u has another configuration: [engine] roles, instances "
                      "and tensor_parallel_size have to be the same",
                      rank);
  return 0;
}

struct lls_neighbours lls_neighbours_find(const struct lls_hello *all, uint32_t size,
                                          uint32_t self, pid_t *pids)
{
  const struct lls_hello *mine = &all[self];
  struct lls_neighbours n = {.shares_cores = true};
  for (uint32_t rank = 0; rank < size; rank++) {
    const struct lls_hello *h = &all[rank];
    pids[rank] = 0;
    if (strcmp(h->machine, mine->machine) != 0)
      continue;
    n.local_size++;
    n.local_rank += rank < self;
    if (!CPU_EQUAL(&h->cores, &mine->cores)) /* the launcher has assigned cores */
      n.shares_cores = false;
    if (rank != self)
      pids[rank] = h->pid;
  }
  n.crowded = n.shares_cores && n.local_size > (uint32_t)CPU_COUNT(&mine->cores);
  return n;
}
