/* SPDX-License-Identifier: Apache-2.0 */
/* See apart.h. */
#include "core/cluster/apart.h"

#include <string.h>

#define MOST_NS (INT64_C(50) * 1000000)   /* counted of the time between two rounds */
#define TRY_NS  (INT64_C(1000) * 1000000) /* time between two tries */

int64_t lls_apart_look(struct lls_apart *a, int64_t now_ns)
{
  int64_t passed_ns = a->looked_ns != 0 ? now_ns - a->looked_ns : 0;
  a->looked_ns = now_ns;
  return passed_ns < MOST_NS ? passed_ns : MOST_NS;
}

bool lls_apart_wait(struct lls_apart *a, uint32_t from, bool due, int64_t passed_ns)
{
  a->of[from].due_ns = due ? a->of[from].due_ns + passed_ns : 0;
  if (a->of[from].due_ns < LLS_APART_NS)
    return false;
  a->of[from].due_ns = 0;
  a->of[from].tried_ns = a->looked_ns;
  a->of[from].new_state |= !a->of[from].apart;
  a->of[from].apart = true;
  return true;
}

void lls_apart_arrived(struct lls_apart *a, uint32_t from)
{
  a->of[from].due_ns = 0;
  a->of[from].new_state |= a->of[from].apart;
  a->of[from].apart = false;
}

void lls_apart_forget(struct lls_apart *a, uint32_t from)
{
  memset(&a->of[from], 0, sizeof a->of[from]);
}

bool lls_apart_try(struct lls_apart *a, uint32_t from)
{
  if (!a->of[from].apart || a->looked_ns - a->of[from].tried_ns < TRY_NS)
    return false;
  a->of[from].tried_ns = a->looked_ns;
  return true;
}

bool lls_apart_news(struct lls_apart *a, uint32_t *from)
{
  for (uint32_t i = 0; i < LLS_MAX_INSTANCES; i++)
    if (a->of[i].new_state) {
      a->of[i].new_state = false;
      *from = i;
      return true;
    }
  return false;
}
