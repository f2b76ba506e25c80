/* SPDX-License-Identifier: Apache-2.0 */
/* Dies in its first plan with requests, in the way that its parameter says. */
#include "t/fault/fixture.h"

#include <stdlib.h>
#include <unistd.h>

enum how {
  NULL_POINTER,
  ABORT,
  RECURSION,
  SMASHED_STACK,
  EXIT,
  QUICK_EXIT,
  _EXIT,
  C_EXIT
};

struct params {
  int64_t how;
};

static const struct lls_param params[] = {
    LLS_PARAM_CHOICE(struct params, how, "null_pointer",
                     "null_pointer|abort|recursion|smashed_stack|exit|quick_exit|"
                     "_exit|_Exit",
                     "how it dies"),
};

static int create(const struct lls_host *host, const void *given, void **self)
{
  (void)host;
  *self = (void *)(uintptr_t)given;
  return 0;
}

static uint64_t fall(volatile uint64_t *depth)
{
  volatile uint64_t here[64] = {*depth + 1};
  return here[0] > 0 ? fall(here) + here[0] : 0;
}

/* Compiled with a stack protector, which finds out on return. */
__attribute__((noinline)) static uint32_t smash(volatile size_t length)
{
  volatile char small[8];
  volatile char *p = small;
  for (size_t i = 0; i < length; i++)
    p[i] = 'x';
  return (uint32_t)p[0];
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct params *p = self;
  volatile uint64_t depth = 0;
  volatile int *volatile nowhere = NULL;
  if (view->n_waiting == 0)
    return 0;
  if (p->how == NULL_POINTER)
    *nowhere = 1;
  if (p->how == ABORT)
    abort();
  if (p->how == SMASHED_STACK)
    out->n_items = smash(4096);
  if (p->how == EXIT)
    exit(0);
  if (p->how == QUICK_EXIT)
    quick_exit(0);
  if (p->how == _EXIT)
    _exit(0);
  if (p->how == C_EXIT)
    _Exit(0);
  out->n_items = (uint32_t)fall(&depth);
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create, .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("crashing"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
