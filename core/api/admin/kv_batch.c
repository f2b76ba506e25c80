/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of KV events as vLLM writes it (vllm/distributed/kv_events.py), of which these
 * are the fields in order:
 *
 *   KVEventBatch      ts, events, data_parallel_rank
 *   BlockStored       tag, block_hashes, parent_block_hash, token_ids, block_size,
 * lora_id, medium, lora_name; of a model with several groups of layers also extra_keys,
 * group_idx, kv_cache_spec_kind and kv_cache_spec_sliding_window BlockRemoved      tag,
 * block_hashes, medium; group_idx AllBlocksCleared  tag
 *
 * Blocks in a row of one tier and group, each after the one before, are one event. A
 * block whose tokens are not known any more has no token_ids and no parent, as vLLM's own
 * have that came to another tier. Hashes are the first 64 bits of keys.
 */
#include "core/api/kv_events.h"

#include <llmserve/cache.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- events of several blocks ------------------------------------------------------ */

static bool goes_on(const struct lls_block_event *a, const struct lls_block_event *b)
{
  if (a->kind != b->kind || a->group != b->group || a->tier != b->tier)
    return false;
  if (a->kind == LLS_BLOCK_REMOVED)
    return true;
  return a->kind == LLS_BLOCK_STORED && a->is_known && b->is_known && !b->is_first &&
         b->parent == a->key && a->adapter == b->adapter;
}

/* Returns how many events from the i-th on are one. */
static size_t run_of(const struct lls_block_event_list *l, size_t i)
{
  size_t n = 1;
  while (i + n < l->n && goes_on(&l->events[i + n - 1], &l->events[i + n]))
    n++;
  return n;
}

static size_t count(const struct lls_block_event_list *l)
{
  size_t n = 0;
  for (size_t i = 0; i < l->n; i += run_of(l, i))
    n++;
  return n;
}

static const char *medium_of(uint32_t tier)
{
  static const char *const media[] = {
      [LLS_TIER_DEVICE] = "GPU", [LLS_TIER_HOST] = "CPU", [LLS_TIER_DISK] = "STORAGE"};
  return tier <= LLS_TIER_DISK ? media[tier] : "UNKNOWN";
}

static const char *tag_of(uint32_t kind)
{
  switch (kind) {
  case LLS_BLOCK_STORED:
    return "BlockStored";
  case LLS_BLOCK_REMOVED:
    return "BlockRemoved";
  default:
    return "AllBlocksCleared";
  }
}

static const char *layers_of(const struct lls_group *g)
{
  static const char *const kinds[] = {[LLS_GROUP_FULL] = "full_attention",
                                      [LLS_GROUP_WINDOW] = "sliding_window",
                                      [LLS_GROUP_CHUNK] = "chunked_local_attention",
                                      [LLS_GROUP_STATE] = "mamba"};
  return g->kind <= LLS_GROUP_STATE ? kinds[g->kind] : "unknown";
}

/* ---- JSON -------------------------------------------------------------------------- */

/* A number of 64 bits is no number for most readers of JSON. */
static json_t *hash_json(uint64_t hash)
{
  char text[17];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  return json_string(text);
}

static json_t *hashes_json(const struct lls_block_event *first, size_t n)
{
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(list, hash_json(first[i].key));
  return list;
}

static json_t *stored_json(const struct lls_block_event *first, size_t n,
                           const struct lls_block_event_list *l)
{
  json_t *tokens = json_array();
  for (size_t i = 0; i < n && first->is_known; i++)
    for (uint32_t k = 0; k < l->block_tokens; k++)
      json_array_append_new(tokens, json_integer(first[i].tokens[k]));
  bool has_parent = first->is_known && !first->is_first;
  return json_pack(
      "{s:s, s:o, s:o, s:o, s:I, s:o, s:s, s:s?}", "type", tag_of(first->kind),
      "block_hashes", hashes_json(first, n), "parent_block_hash",
      has_parent ? hash_json(first->parent) : json_null(), "token_ids", tokens,
      "block_size", (json_int_t)l->block_tokens, "lora_id",
      first->adapter_name != NULL ? json_integer(first->adapter) : json_null(), "medium",
      medium_of(first->tier), "lora_name", first->adapter_name);
}

static json_t *event_json(const struct lls_block_event *first, size_t n,
                          const struct lls_block_event_list *l)
{
  json_t *event;
  if (first->kind == LLS_BLOCKS_CLEARED)
    return json_pack("{s:s}", "type", tag_of(first->kind));
  if (first->kind == LLS_BLOCK_STORED)
    event = stored_json(first, n, l);
  else
    event = json_pack("{s:s, s:o, s:s}", "type", tag_of(first->kind), "block_hashes",
                      hashes_json(first, n), "medium", medium_of(first->tier));
  if (l->n_groups > 1)
    json_object_set_new(event, "group_idx", json_integer(first->group));
  return event;
}

json_t *lls_kv_batch_json(const struct lls_kv_batch *b, uint64_t number)
{
  const struct lls_block_event_list *l = &b->list;
  json_t *events = json_array();
  for (size_t i = 0, n; i < l->n; i += n) {
    n = run_of(l, i);
    json_array_append_new(events, event_json(&l->events[i], n, l));
  }
  return json_pack("{s:I, s:f, s:o, s:I}", "seq", (json_int_t)number, "ts", b->unix_s,
                   "events", events, "data_parallel_rank", (json_int_t)b->instance);
}

/* ---- msgpack ----------------------------------------------------------------------- */

/* Writes a type's byte and `bytes` bytes of a number, the highest first. */
static void put_head(struct lls_pack *p, uint8_t type, uint64_t value, unsigned bytes)
{
  uint8_t text[9] = {type};
  for (unsigned i = 0; i < bytes; i++)
    text[1 + i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
  lls_pack_put(p, text, 1 + bytes);
}

static void put_nil(struct lls_pack *p)
{
  put_head(p, 0xc0, 0, 0);
}

static void put_number(struct lls_pack *p, uint64_t value)
{
  if (value < 0x80)
    put_head(p, (uint8_t)value, 0, 0);
  else if (value <= UINT8_MAX)
    put_head(p, 0xcc, value, 1);
  else if (value <= UINT16_MAX)
    put_head(p, 0xcd, value, 2);
  else if (value <= UINT32_MAX)
    put_head(p, 0xce, value, 4);
  else
    put_head(p, 0xcf, value, 8);
}

static void put_double(struct lls_pack *p, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_head(p, 0xcb, bits, 8);
}

static void put_text(struct lls_pack *p, const char *text)
{
  size_t n = text != NULL ? strlen(text) : 0;
  if (text == NULL) {
    put_nil(p);
    return;
  }
  if (n < 32)
    put_head(p, (uint8_t)(0xa0 | n), 0, 0);
  else
    put_head(p, 0xd9, n, 1); /* no text here has more than 255 bytes */
  lls_pack_put(p, text, n);
}

static void put_array(struct lls_pack *p, size_t n)
{
  if (n < 16)
    put_head(p, (uint8_t)(0x90 | n), 0, 0);
  else
    put_head(p, 0xdd, n, 4);
}

/* An object of n members: an array of them, or a map. */
static void put_object(struct lls_pack *p, bool maps, size_t n)
{
  if (maps)
    put_head(p, (uint8_t)(0x80 | n), 0, 0); /* n < 16 */
  else
    put_array(p, n);
}

static void put_name(struct lls_pack *p, bool maps, const char *name)
{
  if (maps)
    put_text(p, name);
}

static void put_hashes(struct lls_pack *p, const struct lls_block_event *first, size_t n)
{
  put_array(p, n);
  for (size_t i = 0; i < n; i++)
    put_number(p, first[i].key);
}

static void put_tokens(struct lls_pack *p, const struct lls_block_event *first, size_t n,
                       uint32_t block_tokens)
{
  if (!first->is_known) {
    put_array(p, 0);
    return;
  }
  put_array(p, n * block_tokens);
  for (size_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < block_tokens; k++)
      put_number(p, (uint32_t)first[i].tokens[k]);
}

static void put_group(struct lls_pack *p, const struct lls_block_event *first, bool maps,
                      const struct lls_block_event_list *l)
{
  const struct lls_group *g = l->groups[first->group];
  put_name(p, maps, "extra_keys");
  put_nil(p);
  put_name(p, maps, "group_idx");
  put_number(p, first->group);
  put_name(p, maps, "kv_cache_spec_kind");
  put_text(p, layers_of(g));
  put_name(p, maps, "kv_cache_spec_sliding_window");
  if (g->kind == LLS_GROUP_WINDOW)
    put_number(p, g->window);
  else
    put_nil(p);
}

static void put_stored(struct lls_pack *p, const struct lls_block_event *first, size_t n,
                       bool maps, const struct lls_block_event_list *l)
{
  bool several = l->n_groups > 1;
  put_object(p, maps, several ? 12 : 8);
  put_name(p, maps, "type");
  put_text(p, tag_of(first->kind));
  put_name(p, maps, "block_hashes");
  put_hashes(p, first, n);
  put_name(p, maps, "parent_block_hash");
  if (first->is_known && !first->is_first)
    put_number(p, first->parent);
  else
    put_nil(p);
  put_name(p, maps, "token_ids");
  put_tokens(p, first, n, l->block_tokens);
  put_name(p, maps, "block_size");
  put_number(p, l->block_tokens);
  put_name(p, maps, "lora_id");
  if (first->adapter_name != NULL)
    put_number(p, first->adapter);
  else
    put_nil(p);
  put_name(p, maps, "medium");
  put_text(p, medium_of(first->tier));
  put_name(p, maps, "lora_name");
  put_text(p, first->adapter_name);
  if (several)
    put_group(p, first, maps, l);
}

static void put_removed(struct lls_pack *p, const struct lls_block_event *first, size_t n,
                        bool maps, bool several)
{
  put_object(p, maps, several ? 4 : 3);
  put_name(p, maps, "type");
  put_text(p, tag_of(first->kind));
  put_name(p, maps, "block_hashes");
  put_hashes(p, first, n);
  put_name(p, maps, "medium");
  put_text(p, medium_of(first->tier));
  if (!several)
    return;
  put_name(p, maps, "group_idx");
  put_number(p, first->group);
}

static void put_event(struct lls_pack *p, const struct lls_block_event *first, size_t n,
                      bool maps, const struct lls_block_event_list *l)
{
  switch (first->kind) {
  case LLS_BLOCK_STORED:
    put_stored(p, first, n, maps, l);
    return;
  case LLS_BLOCK_REMOVED:
    put_removed(p, first, n, maps, l->n_groups > 1);
    return;
  default:
    put_object(p, maps, 1);
    put_name(p, maps, "type");
    put_text(p, tag_of(first->kind));
  }
}

void lls_kv_batch_pack(const struct lls_kv_batch *b, struct lls_pack *p)
{
  const struct lls_block_event_list *l = &b->list;
  put_object(p, b->maps, 3);
  put_name(p, b->maps, "ts");
  put_double(p, b->unix_s);
  put_name(p, b->maps, "events");
  put_array(p, count(l));
  for (size_t i = 0, n; i < l->n; i += n) {
    n = run_of(l, i);
    put_event(p, &l->events[i], n, b->maps, l);
  }
  put_name(p, b->maps, "data_parallel_rank");
  put_number(p, b->instance);
}
