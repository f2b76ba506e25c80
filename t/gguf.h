/* SPDX-License-Identifier: Apache-2.0 */
/* Builds GGUF files piece by piece. */
#ifndef LLS_T_GGUF_H
#define LLS_T_GGUF_H

#include "t/folder.h"

#include "core/model/gguf_file.h"

struct gguf_part {
  unsigned char *bytes;
  size_t n;
};

struct gguf_builder {
  struct gguf_part entries, tensors, data;
  uint32_t version;
  uint64_t n_entries, n_tensors;
};

#define GGUF_ALIGNMENT 32

static inline void gguf_append(struct gguf_part *p, const void *bytes, size_t n)
{
  p->bytes = realloc(p->bytes, p->n + n + 1);
  assert_non_null(p->bytes);
  memcpy(p->bytes + p->n, bytes, n);
  p->n += n;
}

static inline void gguf_append_u32(struct gguf_part *p, uint32_t value)
{
  gguf_append(p, &value, sizeof value);
}

static inline void gguf_append_u64(struct gguf_part *p, uint64_t value)
{
  gguf_append(p, &value, sizeof value);
}

static inline void gguf_append_text(struct gguf_part *p, const char *text)
{
  gguf_append_u64(p, strlen(text));
  gguf_append(p, text, strlen(text));
}

/* Appends a key and its type; its value must be appended next. */
static inline struct gguf_part *gguf_key(struct gguf_builder *b, const char *key,
                                         enum lls_gguf_type type)
{
  gguf_append_text(&b->entries, key);
  gguf_append_u32(&b->entries, type);
  b->n_entries++;
  return &b->entries;
}

static inline struct gguf_part *gguf_list(struct gguf_builder *b, const char *key,
                                          enum lls_gguf_type type, uint64_t n)
{
  struct gguf_part *p = gguf_key(b, key, LLS_GGUF_ARRAY);
  gguf_append_u32(p, type);
  gguf_append_u64(p, n);
  return p;
}

static inline void gguf_text(struct gguf_builder *b, const char *key, const char *value)
{
  gguf_append_text(gguf_key(b, key, LLS_GGUF_STRING), value);
}

static inline void gguf_number(struct gguf_builder *b, const char *key, uint32_t value)
{
  gguf_append_u32(gguf_key(b, key, LLS_GGUF_U32), value);
}

static inline void gguf_real(struct gguf_builder *b, const char *key, float value)
{
  gguf_append(gguf_key(b, key, LLS_GGUF_F32), &value, sizeof value);
}

/* Appends a tensor with the graph's sizes, the outermost first; sizes of 0 are left
 * out. */
static inline void gguf_stack(struct gguf_builder *b, const char *name, uint32_t type,
                              const uint64_t sizes[3], const void *data, size_t bytes)
{
  static const char zeros[GGUF_ALIGNMENT];
  gguf_append(&b->data, zeros, -b->data.n % GGUF_ALIGNMENT);
  gguf_append_text(&b->tensors, name);
  gguf_append_u32(&b->tensors, 1 + (sizes[1] != 0) + (sizes[0] != 0));
  for (size_t i = 3; i-- > 0;)
    if (sizes[i] != 0)
      gguf_append_u64(&b->tensors, sizes[i]);
  gguf_append_u32(&b->tensors, type);
  gguf_append_u64(&b->tensors, b->data.n);
  gguf_append(&b->data, data, bytes);
  b->n_tensors++;
}

/* Appends a matrix or, with rows 0, a vector. */
static inline void gguf_tensor(struct gguf_builder *b, const char *name, uint32_t type,
                               uint64_t rows, uint64_t columns, const void *data,
                               size_t bytes)
{
  gguf_stack(b, name, type, (const uint64_t[]){0, rows, columns}, data, bytes);
}

static inline void gguf_free(struct gguf_builder *b)
{
  free(b->entries.bytes);
  free(b->tensors.bytes);
  free(b->data.bytes);
  *b = (struct gguf_builder){0};
}

/* Returns the whole file; the caller frees it. */
static inline struct gguf_part gguf_bytes(const struct gguf_builder *b)
{
  static const char zeros[GGUF_ALIGNMENT];
  struct gguf_part file = {0};
  gguf_append(&file, "GGUF", 4);
  gguf_append_u32(&file, b->version != 0 ? b->version : 3);
  gguf_append_u64(&file, b->n_tensors);
  gguf_append_u64(&file, b->n_entries);
  if (b->entries.n > 0)
    gguf_append(&file, b->entries.bytes, b->entries.n);
  if (b->tensors.n > 0)
    gguf_append(&file, b->tensors.bytes, b->tensors.n);
  gguf_append(&file, zeros, -file.n % GGUF_ALIGNMENT);
  if (b->data.n > 0)
    gguf_append(&file, b->data.bytes, b->data.n);
  return file;
}

static inline void gguf_write(struct gguf_builder *b, const struct folder *folder,
                              const char *name)
{
  struct gguf_part file = gguf_bytes(b);
  folder_write(folder, name, file.bytes, file.n);
  free(file.bytes);
}

#endif
