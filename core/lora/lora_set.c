/* SPDX-License-Identifier: Apache-2.0 */
/* See lora_set.h. */
#include "core/lora/lora_set.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

struct entry {
  struct lls_adapter adapter; /* first */
  atomic_uint users;          /* references to the entry */
  struct entry *prev, *next;  /* links of the list, while it is listed */
  bool listed;
  struct lls_lora *lora; /* the set's reference, or NULL: not in memory */
  uint64_t used;         /* the set's clock when a request last used it */
};

struct lls_lora_set {
  struct lls_model_config model;
  struct lls_lora_bounds bounds;
  pthread_mutex_t loading; /* held while an adapter is loaded; taken before `mutex` */
  pthread_mutex_t mutex;   /* guards the members below, and those of entries */
  struct entry *list;      /* utlist */
  struct entry *shared;    /* by requests that choose none; listed, or NULL */
  float shared_scale;
  uint32_t last_number;
  uint64_t clock;
};

static struct entry *entry_of(struct lls_adapter *a)
{
  return (struct entry *)a;
}

struct lls_lora_set *lls_lora_set_create(const struct lls_model_config *model,
                                         const struct lls_lora_bounds *bounds)
{
  struct lls_lora_set *s = calloc(1, sizeof *s);
  if (s == NULL)
    return NULL;
  s->model = *model;
  s->bounds = *bounds;
  pthread_mutex_init(&s->loading, NULL);
  pthread_mutex_init(&s->mutex, NULL);
  return s;
}

void lls_lora_set_destroy(struct lls_lora_set *s)
{
  if (s == NULL)
    return;
  while (s->list != NULL)
    lls_lora_set_remove(s, s->list->adapter.name);
  pthread_mutex_destroy(&s->mutex);
  pthread_mutex_destroy(&s->loading);
  free(s);
}

/* ---- entries ---------------------------------------------------------------------- */

static struct entry *make_entry(const struct lls_adapter *as)
{
  struct entry *e = calloc(1, sizeof *e);
  if (e == NULL)
    return NULL;
  e->adapter.name = strdup(as->name);
  e->adapter.path = strdup(as->path);
  e->adapter.scale = as->scale;
  e->adapter.configured = as->configured;
  e->adapter.created_s = (int64_t)time(NULL);
  atomic_init(&e->users, 1);
  if (e->adapter.name != NULL && e->adapter.path != NULL)
    return e;
  lls_adapter_unref(&e->adapter);
  return NULL;
}

static struct lls_adapter *ref_adapter(struct lls_adapter *a)
{
  atomic_fetch_add(&entry_of(a)->users, 1);
  return a;
}

void lls_adapter_unref(struct lls_adapter *a)
{
  if (a == NULL || atomic_fetch_sub(&entry_of(a)->users, 1) > 1)
    return;
  free(a->name);
  free(a->path);
  free(entry_of(a));
}

static struct entry *find(struct lls_lora_set *s, const char *name)
{
  struct entry *e;
  DL_FOREACH (s->list, e) {
    if (strcmp(e->adapter.name, name) == 0)
      return e;
  }
  return NULL;
}

/* ---- what is in memory ------------------------------------------------------------ */

static bool in_use(const struct entry *e)
{
  return atomic_load(&e->lora->users) > 1;
}

static bool has_room(const struct lls_lora_set *s, size_t more)
{
  size_t n = 0, bytes = more;
  const struct entry *e;
  DL_FOREACH (s->list, e) {
    n += e->lora != NULL;
    bytes += e->lora != NULL ? e->lora->bytes : 0;
  }
  return n < s->bounds.max_loaded && (s->bounds.memory == 0 || bytes <= s->bounds.memory);
}

/* Returns the loaded adapter that was not used for longest and is not in use; NULL if
 * there is none. */
static struct entry *oldest(const struct lls_lora_set *s)
{
  struct entry *e, *found = NULL;
  DL_FOREACH (s->list, e) {
    if (e->lora != NULL && !in_use(e) && (found == NULL || e->used < found->used))
      found = e;
  }
  return found;
}

/* Drops adapters until there is room for one more of that many bytes. Returns false if
 * there is none. */
static bool make_room(struct lls_lora_set *s, size_t bytes)
{
  while (!has_room(s, bytes)) {
    struct entry *e = oldest(s);
    if (e == NULL)
      return false;
    lls_lora_unref(e->lora);
    e->lora = NULL;
  }
  return true;
}

/* Adds a content that was loaded; returns false if the set has no room for it. */
static bool keep(struct lls_lora_set *s, struct entry *e, struct lls_lora *lora)
{
  if (!make_room(s, lora->bytes))
    return false;
  e->lora = lora;
  e->used = ++s->clock;
  return true;
}

struct lls_lora *lls_lora_set_use(struct lls_lora_set *s, struct lls_adapter *a)
{
  struct entry *e = entry_of(a);
  pthread_mutex_lock(&s->mutex);
  struct lls_lora *lora = lls_lora_ref(e->lora);
  e->used = ++s->clock;
  pthread_mutex_unlock(&s->mutex);
  return lora;
}

int lls_lora_set_try(const struct lls_lora_set *s, const char *path,
                     struct lls_lora **out, struct lls_error *err)
{
  return lls_lora_load(path, &s->model, out, err);
}

/* Keeps a content that was just loaded, unless its name was removed meanwhile; a
 * reference is the caller's. */
static int keep_new(struct lls_lora_set *s, struct entry *e, struct lls_lora *lora,
                    struct lls_error *err)
{
  pthread_mutex_lock(&s->mutex);
  bool kept = !e->listed || keep(s, e, lora);
  if (kept && e->listed)
    lls_lora_ref(lora);
  pthread_mutex_unlock(&s->mutex);
  if (kept)
    return 0;
  lls_lora_unref(lora);
  return lls_fail(err, -EBUSY,
                  "adapter \"%.100s\" has to wait: all adapters that [lora] max_loaded = "
                  "%u and memory allow are in use",
                  e->adapter.name, s->bounds.max_loaded);
}

int lls_lora_set_load(struct lls_lora_set *s, struct lls_adapter *a,
                      struct lls_lora **out, struct lls_error *err)
{
  int rc = 0;
  pthread_mutex_lock(&s->loading);
  *out = lls_lora_set_use(s, a);
  bool is_new = *out == NULL;
  if (is_new)
    rc = lls_lora_set_try(s, a->path, out, err);
  if (is_new && rc == 0)
    rc = keep_new(s, entry_of(a), *out, err);
  if (rc < 0)
    *out = NULL; /* keep_new has freed it */
  pthread_mutex_unlock(&s->loading);
  return rc;
}

/* ---- the list --------------------------------------------------------------------- */

int lls_lora_set_add(struct lls_lora_set *s, const struct lls_adapter *as,
                     struct lls_lora *loaded)
{
  struct entry *e = make_entry(as);
  int rc = e == NULL ? -ENOMEM : 0;
  pthread_mutex_lock(&s->mutex);
  if (rc == 0 && find(s, as->name) != NULL)
    rc = -EEXIST;
  if (rc == 0) {
    e->adapter.number = ++s->last_number;
    e->listed = true;
    DL_APPEND(s->list, e);
    if (loaded != NULL && keep(s, e, loaded))
      loaded = NULL;
  }
  pthread_mutex_unlock(&s->mutex);
  if (rc < 0 && e != NULL)
    lls_adapter_unref(&e->adapter);
  lls_lora_unref(loaded);
  return rc;
}

/* Returns the set's reference to the content, or NULL. */
static struct lls_lora *unlist(struct lls_lora_set *s, struct entry *e)
{
  struct lls_lora *lora = e->lora;
  DL_DELETE(s->list, e);
  if (s->shared == e)
    s->shared = NULL;
  e->listed = false;
  e->lora = NULL;
  return lora;
}

int lls_lora_set_remove(struct lls_lora_set *s, const char *name)
{
  struct lls_lora *lora = NULL;
  pthread_mutex_lock(&s->mutex);
  struct entry *e = find(s, name);
  if (e != NULL)
    lora = unlist(s, e);
  pthread_mutex_unlock(&s->mutex);
  lls_lora_unref(lora);
  if (e != NULL)
    lls_adapter_unref(&e->adapter);
  return e != NULL ? 0 : -ENOENT;
}

void lls_lora_set_remove_unloaded(struct lls_lora_set *s)
{
  struct entry *e, *next;
  pthread_mutex_lock(&s->mutex);
  DL_FOREACH_SAFE (s->list, e, next) {
    if (e->lora == NULL) {
      unlist(s, e);
      lls_adapter_unref(&e->adapter);
    }
  }
  pthread_mutex_unlock(&s->mutex);
}

struct lls_adapter *lls_lora_set_find(struct lls_lora_set *s, const char *name)
{
  pthread_mutex_lock(&s->mutex);
  struct entry *e = find(s, name);
  struct lls_adapter *a = e != NULL ? ref_adapter(&e->adapter) : NULL;
  pthread_mutex_unlock(&s->mutex);
  return a;
}

struct lls_adapter *lls_lora_set_at(struct lls_lora_set *s, uint32_t place)
{
  struct entry *e;
  struct lls_adapter *a = NULL;
  pthread_mutex_lock(&s->mutex);
  DL_FOREACH (s->list, e) {
    if (place-- > 0)
      continue;
    a = ref_adapter(&e->adapter);
    break;
  }
  pthread_mutex_unlock(&s->mutex);
  return a;
}

void lls_lora_set_share(struct lls_lora_set *s, struct lls_adapter *a, float scale)
{
  pthread_mutex_lock(&s->mutex);
  s->shared = a != NULL && entry_of(a)->listed ? entry_of(a) : NULL;
  s->shared_scale = scale;
  pthread_mutex_unlock(&s->mutex);
}

struct lls_adapter *lls_lora_set_shared(struct lls_lora_set *s, float *scale)
{
  pthread_mutex_lock(&s->mutex);
  struct lls_adapter *a = s->shared != NULL ? ref_adapter(&s->shared->adapter) : NULL;
  *scale = s->shared_scale;
  pthread_mutex_unlock(&s->mutex);
  return a;
}

void lls_lora_set_each(struct lls_lora_set *s,
                       void (*visit)(void *context, const struct lls_adapter *,
                                     bool loaded, uint32_t users),
                       void *context)
{
  struct entry *e;
  pthread_mutex_lock(&s->mutex);
  DL_FOREACH (s->list, e) {
    uint32_t users = e->lora != NULL ? atomic_load(&e->lora->users) - 1 : 0;
    visit(context, &e->adapter, e->lora != NULL, users);
  }
  pthread_mutex_unlock(&s->mutex);
}

const struct lls_lora_bounds *lls_lora_set_bounds(const struct lls_lora_set *s)
{
  return &s->bounds;
}
