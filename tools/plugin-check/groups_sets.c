/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of groups: which kinds together, three ratios of block sizes, with and without
 * a host; see groups.h. */
#include "tools/plugin-check/groups.h"

#include <stdio.h>

#define WINDOW 20 /* ends inside of a block */

static const struct {
  const char *name;
  uint32_t n, kinds[GROUPS_MAX];
} shapes[] = {
    {"F", 1, {LLS_GROUP_FULL}},
    {"FW", 2, {LLS_GROUP_FULL, LLS_GROUP_WINDOW}},
    {"FS", 2, {LLS_GROUP_FULL, LLS_GROUP_STATE}},
    {"FWS", 3, {LLS_GROUP_FULL, LLS_GROUP_WINDOW, LLS_GROUP_STATE}},
    {"S", 1, {LLS_GROUP_STATE}},
    {"W", 1, {LLS_GROUP_WINDOW}},
    {"FC", 2, {LLS_GROUP_FULL, LLS_GROUP_CHUNK}},
    {"C", 1, {LLS_GROUP_CHUNK}},
};
static const uint32_t ratios[][2] = {{1, 1}, {1, 10}, {5, 983}}; /* of units of a block */

#define N_SHAPES (sizeof shapes / sizeof *shapes)
#define N_RATIOS (sizeof ratios / sizeof *ratios)

static bool slides(uint32_t kind)
{
  return kind == LLS_GROUP_WINDOW || kind == LLS_GROUP_CHUNK;
}

/* Blocks for three contexts of each group: states are few, and some are kept. */
static void add_group(struct groups_set *set, uint32_t kind, uint32_t units)
{
  struct lls_group_form *forms = set->forms[set->n];
  uint32_t blocks = kind == LLS_GROUP_STATE ? 8 : 3 * GROUPS_KEYS;
  forms[0] = (struct lls_group_form){.form = LLS_FORM_KV,
                                     .block_units = units,
                                     .flags = LLS_FORM_WRITTEN | LLS_FORM_READ,
                                     .ratio = 1};
  if (kind == LLS_GROUP_STATE)
    forms[0].form = LLS_FORM_STATE;
  set->groups[set->n++] = (struct lls_group){.size = sizeof(struct lls_group),
                                             .kind = kind,
                                             .window = slides(kind) ? WINDOW : 0,
                                             .layers = 1,
                                             .n_forms = 1,
                                             .forms = forms};
  set->device_units += blocks * units;
}

/* Full blocks of a FULL group 0 are to become INT8, in fewer units. */
static void add_int8(struct groups_set *set)
{
  if (set->groups[0].kind != LLS_GROUP_FULL)
    return;
  set->forms[0][1] = (struct lls_group_form){
      .form = LLS_FORM_INT8, .block_units = 3, .flags = LLS_FORM_READ, .ratio = 0.6f};
  set->groups[0].n_forms = 2;
  set->full_form = LLS_FORM_INT8;
}

uint32_t groups_sets(void)
{
  return N_SHAPES * N_RATIOS * 2;
}

void groups_make_set(struct groups_set *set, uint32_t number, bool int8)
{
  uint32_t shape = number / 2 / N_RATIOS, ratio = number / 2 % N_RATIOS;
  bool host = number % 2 != 0;
  *set = (struct groups_set){.n = 0};
  snprintf(set->name, sizeof set->name, "groups %s, blocks %u:%u, %s a host",
           shapes[shape].name, ratios[ratio][0], ratios[ratio][1],
           host ? "with" : "without");
  for (uint32_t i = 0; i < shapes[shape].n; i++) {
    uint32_t kind = shapes[shape].kinds[i];
    uint32_t units = ratios[ratio][kind != LLS_GROUP_FULL];
    if (kind == LLS_GROUP_WINDOW && shapes[shape].n == GROUPS_MAX)
      units = (units + 18) / 19; /* between the two others */
    add_group(set, kind, units);
  }
  set->host_units = host ? set->device_units / 2 : 0;
  if (int8 && ratio == N_RATIOS - 1)
    add_int8(set);
}
