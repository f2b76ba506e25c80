/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest cache manager, with a fault chosen by its parameter: memory given to two
 * requests, memory lost, a rollback that forgets a change, state imported from any
 * plugin, a block inside the window released.
 */
#define llmserve_plugin null_plugin
#include "t/plugin/cache_null.c"
#undef llmserve_plugin

enum { NOTHING, OVERLAP, LOSE, FORGET, IMPORT, EARLY };

struct params {
  int64_t mode;
};

struct broken {
  struct null null;
  const struct lls_group *group;
  int64_t mode;
};

static int broken_create(const struct lls_host *host, const void *params,
                         const struct lls_cache_geometry *g, void **self)
{
  struct broken *b = calloc(1, sizeof *b);
  int rc = b != NULL ? set_up(&b->null, host, g) : -ENOMEM;
  if (rc < 0) {
    free(b);
    return rc;
  }
  b->group = host->engine->groups[0];
  b->mode = ((const struct params *)params)->mode;
  *self = b;
  return 0;
}

static int broken_rollback(void *self, uint32_t to)
{
  struct broken *b = self;
  if (b->mode == FORGET && b->null.base.journal.n > to)
    b->null.base.journal.n--; /* the last change is not undone */
  return base_rollback(self, to);
}

static void broken_release(void *self, const struct lls_request *r,
                           const struct lls_release *how)
{
  struct broken *b = self;
  if (b->mode == LOSE && r->id % 4 == 0)
    b->null.sequences[r->slot].region = NONE; /* without a word to the pool */
  release(self, r, how);
}

/* The list without the block that the oldest token in the window is in. */
static void give_back_one(const struct broken *b, uint32_t cached,
                          struct lls_group_list *list)
{
  uint32_t gone = lls_group_begin(b->group, cached) / b->null.base.block_tokens + 1;
  list->entries += gone;
  list->n_entries -= gone;
}

/* Every other block begins with the last unit of the one before it. */
static void overlap(const struct null *n, const struct lls_group_list *list)
{
  struct lls_block_entry *entries = n->entries + (list->entries - n->entries);
  for (uint32_t i = 1; i < list->n_entries; i += 2)
    if (entries[i].block % n->base.units == 0)
      entries[i].block--;
}

static int broken_table(void *self, const struct lls_request *r,
                        struct lls_block_table *out)
{
  struct broken *b = self;
  int rc = table(self, r, out);
  if (rc < 0)
    return rc;
  struct lls_group_list *list = &b->null.lists[b->null.sequences[r->slot].region];
  if (b->mode == OVERLAP)
    overlap(&b->null, list);
  if (b->mode == EARLY && b->group->window > 0 &&
      r->cached_tokens > b->null.base.block_tokens)
    give_back_one(b, r->cached_tokens, list);
  return rc;
}

static int export_state(void *self, struct lls_blob *out)
{
  (void)self;
  *out = (struct lls_blob){.version = 1};
  return 0;
}

static int import_state(void *self, const struct lls_blob *blob)
{
  (void)blob;
  return ((struct broken *)self)->mode == IMPORT ? 0 : -ENOTSUP;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, mode, "nothing",
                     "nothing|overlap|lose|forget|import|early", "what it does wrong"),
};

static const struct lls_cache_vtable broken_vtable = {
    BASE_OWN,
    BASE_PLAIN,
    .create = broken_create,
    .release = broken_release,
    .table = broken_table,
    .begin = base_begin,
    .mark = base_mark,
    .rollback = broken_rollback,
    .commit = base_commit,
    .export_state = export_state,
    .import_state = import_state,
};

BASE_PLUGIN("broken", "breaks the contract as it is told", &broken_vtable,
            LLS_PLUGIN_PARAMS(parameters, struct params));
