/* SPDX-License-Identifier: Apache-2.0 */
/* See block_store.h. */
#include "core/disk/block_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX

struct slot { /* [step] */
  struct lls_key key;
  uint64_t sequence; /* 0: it is free */
  uint32_t groups;
  uint32_t holders;
  uint32_t bucket_next;    /* of a free one: the next free one */
  uint32_t previous, next; /* by last use, unless it is held */
};

struct job {
  struct lls_block_entry_on_disk entry; /* key, sequence, groups */
  uint64_t ticket;
  uint32_t slot;
  bool reads;
  void *record;
  int rc;
  double ends_ns; /* on a simulated disk */
};

/* First in, first out. */
struct queue {
  struct job *jobs; /* (room) */
  uint32_t first, n, room;
};

struct buffers {
  void **free; /* (n_free) of n */
  uint32_t n, n_free;
  char *memory;
};

struct lls_block_store {
  struct lls_block_file file;
  struct slot *slots; /* (n_slots) */
  uint32_t *buckets, bucket_mask;
  uint32_t free, oldest, newest, n_used, n_held;
  uint64_t sequence;
  struct buffers writing, reading; /* [step] */
  /* [thread] what is in each slot, as it was written last */
  struct lls_block_entry_on_disk *entries; /* (n_slots) */

  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t filled;
  bool running, stop;
  struct queue jobs, reads, written;    /* under the lock; the latter two have ended */
  struct lls_block_store_status status; /* [step]'s copy is made under the lock */

  bool simulated; /* there is no thread */
  struct lls_disk_rates rates;
  int64_t (*clock)(void *context);
  void *clock_context;
  double busy_until_ns;
};

/* ---- queues and buffers ------------------------------------------------------------ */

static bool make_queue(struct queue *q, uint32_t room)
{
  q->room = room;
  q->jobs = calloc(room, sizeof *q->jobs);
  return q->jobs != NULL;
}

static void push(struct queue *q, const struct job *job)
{
  q->jobs[(q->first + q->n++) % q->room] = *job;
}

static bool pop(struct queue *q, struct job *out)
{
  if (q->n == 0)
    return false;
  *out = q->jobs[q->first];
  q->first = (q->first + 1) % q->room;
  q->n--;
  return true;
}

static bool make_buffers(struct buffers *b, size_t bytes, size_t slot_bytes)
{
  b->n = bytes / slot_bytes > 0 ? (uint32_t)(bytes / slot_bytes) : 1;
  b->free = calloc(b->n, sizeof *b->free);
  b->memory = aligned_alloc(LLS_BLOCK_PAGE, b->n * slot_bytes);
  if (b->free == NULL || b->memory == NULL)
    return false;
  for (uint32_t i = 0; i < b->n; i++)
    b->free[b->n_free++] = b->memory + i * slot_bytes;
  return true;
}

/* ---- the index --------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct lls_block_store *s, const struct lls_key *key)
{
  return &s->buckets[(uint32_t)key->word[1] & s->bucket_mask];
}

static uint32_t slot_of(const struct lls_block_store *s, const struct lls_key *key)
{
  uint32_t slot = *bucket_of(s, key);
  while (slot != NIL && !lls_key_equal(&s->slots[slot].key, key))
    slot = s->slots[slot].bucket_next;
  return slot;
}

static void unlink_use(struct lls_block_store *s, uint32_t slot)
{
  const struct slot *x = &s->slots[slot];
  *(x->previous == NIL ? &s->oldest : &s->slots[x->previous].next) = x->next;
  *(x->next == NIL ? &s->newest : &s->slots[x->next].previous) = x->previous;
}

static void link_newest(struct lls_block_store *s, uint32_t slot)
{
  s->slots[slot].previous = s->newest;
  s->slots[slot].next = NIL;
  *(s->newest == NIL ? &s->oldest : &s->slots[s->newest].next) = slot;
  s->newest = slot;
}

static void add(struct lls_block_store *s, uint32_t slot, const struct lls_key *key,
                uint64_t sequence, uint32_t groups)
{
  uint32_t *bucket = bucket_of(s, key);
  s->slots[slot] = (struct slot){
      .key = *key, .sequence = sequence, .groups = groups, .bucket_next = *bucket};
  *bucket = slot;
  link_newest(s, slot);
  s->n_used++;
}

static void give_up(struct lls_block_store *s, uint32_t slot)
{
  uint32_t *from = bucket_of(s, &s->slots[slot].key);
  while (*from != slot)
    from = &s->slots[*from].bucket_next;
  *from = s->slots[slot].bucket_next;
  if (s->slots[slot].holders > 0)
    s->n_held--;
  else
    unlink_use(s, slot);
  s->slots[slot].holders = 0;
  s->slots[slot].sequence = 0;
  s->slots[slot].bucket_next = s->free;
  s->free = slot;
  s->n_used--;
}

static int by_sequence(const void *a, const void *b)
{
  const struct lls_block_entry_on_disk *x = *(void *const *)a, *y = *(void *const *)b;
  return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Lists the slots of the file by their writes; of two with one key the later one. */
static int load(struct lls_block_store *s)
{
  uint32_t n = 0;
  struct lls_block_entry_on_disk **order = calloc(s->file.n_slots, sizeof *order);
  int rc = order != NULL ? lls_block_file_entries(&s->file, s->entries) : -ENOMEM;
  for (uint32_t i = s->file.n_slots; i-- > 0 && rc == 0;)
    if (s->entries[i].sequence > 0) {
      order[n++] = &s->entries[i];
    } else {
      s->slots[i].bucket_next = s->free;
      s->free = i;
    }
  if (rc == 0)
    qsort(order, n, sizeof *order, by_sequence);
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    uint32_t before = slot_of(s, &order[i]->key);
    if (before != NIL)
      give_up(s, before);
    s->sequence = order[i]->sequence;
    add(s, (uint32_t)(order[i] - s->entries), &order[i]->key, order[i]->sequence,
        order[i]->groups);
  }
  free(order);
  return rc;
}

/* ---- the thread -------------------------------------------------------------------- */

static void carry_out(struct lls_block_store *s, struct job *job)
{
  if (job->reads && !lls_key_equal(&s->entries[job->slot].key, &job->entry.key)) {
    job->rc = -EBADMSG;
    return;
  }
  if (job->reads) {
    job->rc =
        lls_block_file_read(&s->file, job->slot, &s->entries[job->slot], job->record);
    return;
  }
  job->rc = lls_block_file_write(&s->file, job->slot, &job->entry, job->record);
  s->entries[job->slot] = job->entry;
}

/* Called with the lock. */
static void note(struct lls_block_store *s, const struct job *job)
{
  struct lls_block_store_status *st = &s->status;
  *(job->reads ? &st->read_bytes : &st->written_bytes) +=
      job->rc == 0 ? s->file.slot_bytes : 0;
  *(job->reads ? &st->failed_reads : &st->failed_writes) += job->rc < 0;
  if (!job->reads && job->rc < 0)
    st->last_error = -job->rc;
  push(job->reads ? &s->reads : &s->written, job);
}

static void *run(void *argument)
{
  struct lls_block_store *s = argument;
  struct job job;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (s->jobs.n == 0 && !s->stop)
      pthread_cond_wait(&s->filled, &s->lock);
    if (!pop(&s->jobs, &job))
      break;
    pthread_mutex_unlock(&s->lock);
    carry_out(s, &job);
    pthread_mutex_lock(&s->lock);
    note(s, &job);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- a simulated disk -------------------------------------------------------------- */

static void begin(struct lls_block_store *s, struct job *job)
{
  const struct lls_disk_rates *r = &s->rates;
  double now_ns = (double)s->clock(s->clock_context);
  double byte_ns = job->reads ? r->read_byte_ns : r->write_byte_ns;
  s->busy_until_ns = now_ns > s->busy_until_ns ? now_ns : s->busy_until_ns;
  s->busy_until_ns += r->latency_ns + byte_ns * (double)s->file.slot_bytes;
  job->ends_ns = s->busy_until_ns;
  push(&s->jobs, job);
}

/* Ends what has had its time. */
static void pass_time(struct lls_block_store *s)
{
  double now_ns = s->simulated ? (double)s->clock(s->clock_context) : 0;
  struct job job;
  while (s->simulated && s->jobs.n > 0 && s->jobs.jobs[s->jobs.first].ends_ns <= now_ns &&
         pop(&s->jobs, &job))
    note(s, &job);
}

static void post(struct lls_block_store *s, struct job *job)
{
  if (s->simulated) {
    begin(s, job);
    return;
  }
  pthread_mutex_lock(&s->lock);
  push(&s->jobs, job);
  pthread_mutex_unlock(&s->lock);
  pthread_cond_signal(&s->filled);
}

/* ---- life -------------------------------------------------------------------------- */

static bool allocate(struct lls_block_store *s, const struct lls_block_store_options *o)
{
  uint32_t n = s->file.n_slots;
  for (s->bucket_mask = 1; s->bucket_mask < n;)
    s->bucket_mask = 2 * s->bucket_mask + 1;
  s->slots = calloc(n, sizeof *s->slots);
  s->entries = calloc(s->simulated ? 1 : n, sizeof *s->entries);
  s->buckets = malloc(((size_t)s->bucket_mask + 1) * sizeof *s->buckets);
  if (s->slots == NULL || s->entries == NULL || s->buckets == NULL ||
      !make_buffers(&s->writing, o->writing_bytes, s->file.slot_bytes) ||
      !make_buffers(&s->reading, o->reading_bytes, s->file.slot_bytes))
    return false;
  memset(s->buckets, 0xff, ((size_t)s->bucket_mask + 1) * sizeof *s->buckets);
  s->free = s->oldest = s->newest = NIL;
  return make_queue(&s->jobs, s->writing.n + s->reading.n) &&
         make_queue(&s->written, s->writing.n) && make_queue(&s->reads, s->reading.n);
}

static void destroy(struct lls_block_store *s)
{
  lls_block_file_close(&s->file);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->filled);
  free(s->slots);
  free(s->entries);
  free(s->buckets);
  free(s->writing.free);
  free(s->writing.memory);
  free(s->reading.free);
  free(s->reading.memory);
  free(s->jobs.jobs);
  free(s->written.jobs);
  free(s->reads.jobs);
  free(s);
}

static int open_file(struct lls_block_store *s, const struct lls_block_store_options *o,
                     bool *emptied, struct lls_error *err)
{
  int rc = lls_block_file_open(o->path, o->identity, o->record_bytes, o->bytes, o->io,
                               &s->file, emptied, err);
  if (rc == 0 && !allocate(s, o))
    rc = lls_fail(err, -ENOMEM, "%s: no memory for an index of %u blocks", o->path,
                  s->file.n_slots);
  if (rc == 0 && (rc = load(s)) < 0)
    lls_fail(err, rc, "%s: cannot read: %s", o->path, strerror(-rc));
  if (rc == 0 && (rc = -pthread_create(&s->thread, NULL, run, s)) < 0)
    lls_fail(err, rc, "%s: no thread: %s", o->path, strerror(-rc));
  return rc;
}

static int open_simulated(struct lls_block_store *s,
                          const struct lls_block_store_options *o, bool *emptied,
                          struct lls_error *err)
{
  s->simulated = *emptied = true;
  s->rates = *o->simulated;
  s->clock = o->clock;
  s->clock_context = o->clock_context;
  int rc = lls_block_file_size(o->record_bytes, o->bytes, &s->file, err);
  if (rc == 0 && !allocate(s, o))
    rc = lls_fail(err, -ENOMEM, "no memory for an index of %u blocks", s->file.n_slots);
  for (uint32_t i = rc == 0 ? s->file.n_slots : 0; i-- > 0;) {
    s->slots[i].bucket_next = s->free;
    s->free = i;
  }
  return rc;
}

int lls_block_store_open(const struct lls_block_store_options *o,
                         struct lls_block_store **out, bool *emptied,
                         struct lls_error *err)
{
  struct lls_block_store *s = calloc(1, sizeof *s);
  if (s == NULL)
    return lls_fail(err, -ENOMEM, "no memory for blocks on disk");
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->filled, NULL);
  s->file.fd = s->file.data_fd = -1;
  int rc = o->simulated != NULL ? open_simulated(s, o, emptied, err)
                                : open_file(s, o, emptied, err);
  if (rc < 0) {
    destroy(s);
    return rc;
  }
  *out = s;
  return 0;
}

void lls_block_store_close(struct lls_block_store *s)
{
  if (s == NULL)
    return;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_mutex_unlock(&s->lock);
  pthread_cond_signal(&s->filled);
  if (!s->simulated)
    pthread_join(s->thread, NULL);
  destroy(s);
}

/* ---- blocks ------------------------------------------------------------------------ */

/* Gives up the job's block, if its slot has no other block meanwhile. */
static void forget(struct lls_block_store *s, const struct job *job)
{
  if (s->slots[job->slot].sequence == job->entry.sequence && job->entry.sequence > 0)
    give_up(s, job->slot);
}

/* Frees the buffers of writes that have ended. */
static void take_written(struct lls_block_store *s)
{
  struct job job;
  pass_time(s);
  pthread_mutex_lock(&s->lock);
  while (pop(&s->written, &job)) {
    s->writing.free[s->writing.n_free++] = job.record;
    if (job.rc < 0)
      forget(s, &job);
  }
  pthread_mutex_unlock(&s->lock);
}

uint32_t lls_block_store_find(struct lls_block_store *s, const struct lls_key *key)
{
  uint32_t slot = slot_of(s, key);
  if (slot == NIL)
    return 0;
  if (s->slots[slot].holders == 0) {
    unlink_use(s, slot);
    link_newest(s, slot);
  }
  return s->slots[slot].groups;
}

uint32_t lls_block_store_peek(const struct lls_block_store *s, const struct lls_key *key)
{
  uint32_t slot = slot_of(s, key);
  return slot != NIL ? s->slots[slot].groups : 0;
}

bool lls_block_store_hold(struct lls_block_store *s, const struct lls_key *key,
                          struct lls_block_hold *out)
{
  uint32_t slot = slot_of(s, key);
  if (slot == NIL)
    return false;
  if (s->slots[slot].holders++ == 0) {
    unlink_use(s, slot);
    s->n_held++;
  }
  *out = (struct lls_block_hold){.write = s->slots[slot].sequence, .slot = slot};
  return true;
}

void lls_block_store_let_go(struct lls_block_store *s, const struct lls_block_hold *hold)
{
  struct slot *x = &s->slots[hold->slot];
  if (x->sequence != hold->write || --x->holders > 0) /* another block may have it */
    return;
  s->n_held--;
  link_newest(s, hold->slot);
}

uint32_t lls_block_store_held(const struct lls_block_store *s)
{
  return s->n_held;
}

void *lls_block_store_room(struct lls_block_store *s)
{
  if (s->free == NIL && s->oldest == NIL)
    return NULL;
  if (s->writing.n_free == 0)
    take_written(s);
  return s->writing.n_free > 0 ? s->writing.free[--s->writing.n_free] : NULL;
}

void lls_block_store_put(struct lls_block_store *s, void *room, const struct lls_key *key,
                         uint32_t groups)
{
  if (s->free == NIL)
    give_up(s, s->oldest);
  uint32_t slot = s->free;
  s->free = s->slots[slot].bucket_next;
  add(s, slot, key, ++s->sequence, groups);
  struct job job = {.entry = {.key = *key, .sequence = s->sequence, .groups = groups},
                    .slot = slot,
                    .record = room};
  if (!s->simulated)
    memset((char *)room + s->file.record_bytes, 0,
           s->file.slot_bytes - s->file.record_bytes);
  post(s, &job);
}

void lls_block_store_unused(struct lls_block_store *s, void *room)
{
  s->writing.free[s->writing.n_free++] = room;
}

int lls_block_store_get(struct lls_block_store *s, const struct lls_key *key,
                        uint64_t ticket)
{
  take_written(s); /* a block whose write has failed is none */
  uint32_t slot = slot_of(s, key);
  if (slot == NIL)
    return -ENOENT;
  if (s->reading.n_free == 0)
    return -EAGAIN;
  struct job job = {.entry = {.key = *key, .sequence = s->slots[slot].sequence},
                    .ticket = ticket,
                    .slot = slot,
                    .reads = true,
                    .record = s->reading.free[--s->reading.n_free]};
  post(s, &job);
  return 0;
}

bool lls_block_store_next(struct lls_block_store *s, struct lls_block_read *out)
{
  struct job job;
  pass_time(s);
  pthread_mutex_lock(&s->lock);
  bool any = pop(&s->reads, &job);
  pthread_mutex_unlock(&s->lock);
  if (!any)
    return false;
  *out = (struct lls_block_read){
      .key = job.entry.key, .ticket = job.ticket, .record = job.record};
  if (job.rc == 0)
    return true;
  forget(s, &job);
  s->reading.free[s->reading.n_free++] = job.record;
  out->record = NULL;
  return true;
}

void lls_block_store_done(struct lls_block_store *s, const struct lls_block_read *read)
{
  if (read->record != NULL)
    s->reading.free[s->reading.n_free++] = (void *)(uintptr_t)read->record;
}

void lls_block_store_status(struct lls_block_store *s, struct lls_block_store_status *out)
{
  pthread_mutex_lock(&s->lock);
  *out = s->status;
  pthread_mutex_unlock(&s->lock);
  out->slots = s->file.n_slots;
  out->used = s->n_used;
  out->held = s->n_held;
}
