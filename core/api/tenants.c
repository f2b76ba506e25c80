/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tenants by a scan of 256 names per request: 2 us at most, and no hash table to
 * maintain. */
#include "core/api/tenants.h"

#include <stdio.h>
#include <string.h>

#include "core/base/check.h"

#define OTHER 1
#define FIRST 2
#define END   (FIRST + LLS_TENANTS_MAX)

void lls_tenants_init(struct lls_tenants *tenants)
{
  *tenants = (struct lls_tenants){0};
  strcpy(tenants->list[OTHER].name, "other");
}

static void add(struct lls_group_stats *to, const struct lls_group_stats *from)
{
  to->requests += from->requests;
  to->prompt_tokens += from->prompt_tokens;
  to->generated_tokens += from->generated_tokens;
  to->limited += from->limited;
  for (unsigned i = 0; i < LLS_VERDICTS; i++)
    to->verdicts[i] += from->verdicts[i];
}

/* Returns a free entry, or the one whose last request ended first; OTHER if all are in
 * use. */
static uint32_t make_place(struct lls_tenants *tenants)
{
  uint32_t best = OTHER;
  for (uint32_t i = FIRST; i < END; i++) {
    const struct lls_tenant *tenant = &tenants->list[i];
    if (tenant->name[0] == '\0')
      return i;
    if (tenant->live == 0 && (best == OTHER || tenant->left < tenants->list[best].left))
      best = i;
  }
  if (best == OTHER)
    return OTHER;
  LLS_CHECK(tenants->list[best].live == 0);
  add(&tenants->list[OTHER].stats, &tenants->list[best].stats);
  tenants->list[best] = (struct lls_tenant){0};
  return best;
}

static uint32_t find(const struct lls_tenants *tenants, const char *name)
{
  for (uint32_t i = FIRST; i < END; i++)
    if (strcmp(tenants->list[i].name, name) == 0)
      return i;
  return 0;
}

uint32_t lls_tenants_enter(struct lls_tenants *tenants, const char *name)
{
  uint32_t number = name[0] != '\0' ? find(tenants, name) : 0;
  if (number == 0 && name[0] != '\0') {
    number = make_place(tenants);
    if (number != OTHER)
      snprintf(tenants->list[number].name, sizeof tenants->list[number].name, "%s", name);
  }
  tenants->list[number].live++;
  return number;
}

void lls_tenants_leave(struct lls_tenants *tenants, uint32_t number)
{
  LLS_CHECK(number < END && tenants->list[number].live > 0);
  tenants->list[number].live--;
  tenants->list[number].left = ++tenants->clock;
}
