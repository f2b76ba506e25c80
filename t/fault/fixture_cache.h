/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of a cache manager that has no room for anything. */
#ifndef LLS_FIXTURE_CACHE_H
#define LLS_FIXTURE_CACHE_H

#include "t/fault/fixture.h"

static inline int cache_create(const struct lls_host *host, const void *params,
                               const struct lls_cache_geometry *geometry, void **self)
{
  (void)geometry;
  return fixture_create(host, params, self);
}

static inline int cache_capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  (void)self, (void)tier;
  out->total_units = out->free_units = out->reserved_units = 0;
  return 0;
}

static inline int cache_need(void *self, const struct lls_request *r, uint32_t tokens,
                             uint32_t form, struct lls_need *out)
{
  (void)self, (void)r, (void)form;
  out->new_units = tokens;
  out->restore_units = 0;
  return 0;
}

static inline int cache_zero(void *self)
{
  (void)self;
  return 0;
}

static inline uint32_t cache_none(void *self)
{
  (void)self;
  return 0;
}

static inline int cache_rollback(void *self, uint32_t mark)
{
  (void)self, (void)mark;
  return 0;
}

static inline int cache_reserve(void *self, const struct lls_request *r, uint32_t tokens,
                                uint32_t form, uint32_t flags)
{
  (void)self, (void)r, (void)tokens, (void)form, (void)flags;
  return LLS_RESERVE_NEVER;
}

static inline int cache_preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  (void)self, (void)r, (void)mode;
  return 0;
}

static inline int cache_admit(void *self, const struct lls_request *r)
{
  (void)self, (void)r;
  return 0;
}

static inline void cache_release(void *self, const struct lls_request *r,
                                 const struct lls_release *how)
{
  (void)self, (void)r, (void)how;
}

static inline int cache_info(void *self, const struct lls_request *r,
                             struct lls_cache_info *out)
{
  (void)self, (void)r;
  uint32_t size = out->size;
  *out = (struct lls_cache_info){.size = size};
  return 0;
}

static inline int cache_table(void *self, const struct lls_request *r,
                              struct lls_block_table *out)
{
  (void)self, (void)r;
  static const struct lls_group_list none;
  *out = (struct lls_block_table){.n_groups = 1, .lists = &none};
  return 0;
}

static inline size_t cache_copies(void *self, const struct lls_copy **out)
{
  (void)self, (void)out;
  return 0;
}

static inline void cache_computed(void *self, const struct lls_request *r,
                                  uint32_t cached_tokens)
{
  (void)self, (void)r, (void)cached_tokens;
}

static inline int cache_audit(void *self, const struct lls_sink *sink)
{
  (void)self, (void)sink;
  return 0;
}

static const struct lls_cache_caps cache_caps = {
    .size = sizeof cache_caps,
    .kinds = 1u << LLS_GROUP_FULL,
    .forms = 1u << LLS_FORM_KV,
};

#define FIXTURE_CACHE_HEAD                                                               \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_cache_vtable),               \
  .caps = &cache_caps
#define FIXTURE_CACHE_CALLBACKS_BUT_AUDIT                                                \
  .create = cache_create, .destroy = fixture_destroy, .capacity = cache_capacity,        \
  .need = cache_need, .begin = cache_zero, .mark = cache_none,                           \
  .rollback = cache_rollback, .commit = cache_zero, .reserve = cache_reserve,            \
  .preempt = cache_preempt, .admit = cache_admit, .release = cache_release,              \
  .info = cache_info, .table = cache_table, .copies = cache_copies,                      \
  .computed = cache_computed, .preempt_modes = cache_none

#endif
