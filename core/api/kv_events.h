/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KV events: which blocks of prefixes this server has, for routers that choose a server
 * by the prefix it holds, in the messages of vLLM 0.9 and later (KVEventBatch). Off
 * unless [server] kv_events is set.
 *
 * A batch has the events of one instance of at most one wake. Batches are numbered from 0
 * on; all readers get the same numbers, so a reader that was too slow for one sees a gap.
 * No reader delays another one or a step: what it has not read is not kept for it.
 *
 *   kv_events.c   takes batches from the instances; GET /admin/kv_events
 *   kv_batch.c    a batch in msgpack and JSON
 *   kv_publish.c  ZeroMQ: a PUB socket, and a ROUTER socket for batches that were missed
 */
#ifndef LLS_API_KV_EVENTS_H
#define LLS_API_KV_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/pack.h"
#include "core/instance/block_events.h"

struct lls_api;
struct lls_kv_publisher;
struct lls_kv_reader;

#define LLS_KV_READERS_MAX  8
#define LLS_KV_BATCH_EVENTS 512 /* blocks of a batch: some 100 KB of JSON at most */

struct lls_kv_config {
  bool on;
  const char *endpoint; /* "": only GET /admin/kv_events */
  const char *replay;   /* "": none */
  const char *topic;
  bool maps; /* messages are maps by name, not arrays */
};

struct lls_kv_events {
  struct lls_kv_publisher *publisher; /* NULL: none */
  struct lls_kv_reader *readers;      /* utlist: clients of GET /admin/kv_events */
  unsigned n_readers;
  uint64_t next; /* number of the next batch */
};

struct lls_kv_batch {
  double unix_s;
  uint32_t instance;
  struct lls_block_event_list list;
  bool maps;
};

/* [main] Opens the sockets. */
int lls_kv_events_open(struct lls_api *api, struct lls_error *err);
/* [main] After a wake: passes on the new events. */
void lls_kv_events_feed(struct lls_api *api);
/* [main] At intervals: answers requests for missed batches. */
void lls_kv_events_tick(struct lls_api *api);
/* [main] Ends the streams of readers, which never end by themselves. */
void lls_kv_events_end(struct lls_api *api);
void lls_kv_events_close(struct lls_api *api);

/* kv_batch.c. Returns NULL without memory. */
json_t *lls_kv_batch_json(const struct lls_kv_batch *, uint64_t number);
/* Adds the batch in msgpack to `out`. */
void lls_kv_batch_pack(const struct lls_kv_batch *, struct lls_pack *out);

/* kv_publish.c */
int lls_kv_publisher_open(const struct lls_kv_config *, struct lls_kv_publisher **out,
                          struct lls_error *err);
/* Sends a batch, of which it frees `data` (bytes, from malloc) when no reader needs it.
 */
void lls_kv_publisher_send(struct lls_kv_publisher *, uint64_t number, void *data,
                           size_t bytes);
void lls_kv_publisher_answer(struct lls_kv_publisher *);
void lls_kv_publisher_close(struct lls_kv_publisher *);

#endif
