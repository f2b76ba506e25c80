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
  struct null *null;
  const struct lls_group *group;
  uint32_t block_tokens;
  int64_t mode;
};

static struct null *of(void *self)
{
  return ((struct broken *)self)->null;
}

static void broken_destroy(void *self)
{
  destroy(of(self));
  free(self);
}

static int broken_create(const struct lls_host *host, const void *params,
                         const struct lls_cache_geometry *g, void **self)
{
  struct broken *b = malloc(sizeof *b);
  void *null;
  if (b == NULL || create(host, NULL, g, &null) < 0) {
    free(b);
    return -ENOMEM;
  }
  *b = (struct broken){null, host->engine->groups[0], g->block_tokens,
                       ((const struct params *)params)->mode};
  *self = b;
  return 0;
}

static int broken_begin(void *self)
{
  return begin(of(self));
}

static uint32_t broken_mark(void *self)
{
  return mark(of(self));
}

static int broken_rollback(void *self, uint32_t to)
{
  struct null *n = of(self);
  if (((struct broken *)self)->mode == FORGET && n->n_undo > to)
    n->n_undo--; /* the last change is not undone */
  return rollback(n, to);
}

static int broken_commit(void *self)
{
  return commit(of(self));
}

static int broken_reserve(void *self, const struct lls_request *r, uint32_t tokens,
                          uint32_t form, uint32_t flags)
{
  return reserve(of(self), r, tokens, form, flags);
}

static int broken_preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  return preempt(of(self), r, mode);
}

static int broken_admit(void *self, const struct lls_request *r)
{
  return admit(of(self), r);
}

static void broken_release(void *self, const struct lls_request *r,
                           const struct lls_release *how)
{
  if (((struct broken *)self)->mode == LOSE && r->id % 4 == 0)
    of(self)->sequences[r->slot].region = NONE; /* without a word to the pool */
  release(of(self), r, how);
}

static int broken_capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  return capacity(of(self), tier, out);
}

static int broken_need(void *self, const struct lls_request *r, uint32_t tokens,
                       uint32_t form, struct lls_need *out)
{
  return need(of(self), r, tokens, form, out);
}

static int broken_info(void *self, const struct lls_request *r,
                       struct lls_cache_info *out)
{
  return info(of(self), r, out);
}

/* The list without the block that the oldest token in the window is in. */
static void give_back_one(const struct broken *b, uint32_t cached,
                          struct lls_group_list *list)
{
  uint32_t gone = lls_group_begin(b->group, cached) / b->block_tokens + 1;
  list->entries += gone;
  list->n_entries -= gone;
}

/* Every other block begins with the last unit of the one before it. */
static void overlap(const struct null *n, const struct lls_group_list *list)
{
  struct lls_block_entry *entries = n->entries + (list->entries - n->entries);
  for (uint32_t i = 1; i < list->n_entries; i += 2)
    if (entries[i].block % n->units == 0)
      entries[i].block--;
}

static int broken_table(void *self, const struct lls_request *r,
                        struct lls_block_table *out)
{
  const struct broken *b = self;
  int rc = table(of(self), r, out);
  if (rc < 0)
    return rc;
  struct lls_group_list *list = &b->null->lists[b->null->sequences[r->slot].region];
  if (b->mode == OVERLAP)
    overlap(b->null, list);
  if (b->mode == EARLY && b->group->window > 0 && r->cached_tokens > b->block_tokens)
    give_back_one(b, r->cached_tokens, list);
  return rc;
}

static size_t broken_copies(void *self, const struct lls_copy **out)
{
  return copies(of(self), out);
}

static void broken_computed(void *self, const struct lls_request *r, uint32_t cached)
{
  computed(of(self), r, cached);
}

static uint32_t broken_modes(void *self)
{
  return preempt_modes(of(self));
}

static int broken_audit(void *self, const struct lls_sink *sink)
{
  return audit(of(self), sink);
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
    .api_version = LLS_API_VERSION,
    .size = sizeof broken_vtable,
    .caps = &caps,
    .create = broken_create,
    .destroy = broken_destroy,
    .capacity = broken_capacity,
    .need = broken_need,
    .begin = broken_begin,
    .mark = broken_mark,
    .rollback = broken_rollback,
    .commit = broken_commit,
    .reserve = broken_reserve,
    .preempt = broken_preempt,
    .admit = broken_admit,
    .release = broken_release,
    .info = broken_info,
    .table = broken_table,
    .copies = broken_copies,
    .computed = broken_computed,
    .preempt_modes = broken_modes,
    .audit = broken_audit,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "broken",
    .version = "1.0",
    .description = "test fixture: breaks the contract as it is told",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &broken_vtable,
};
