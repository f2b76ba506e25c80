/* SPDX-License-Identifier: Apache-2.0 */
/* A list of chunks; a piece larger than a chunk gets a chunk of its own. */
#include "tools/workload/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10)

struct chunk {
  struct chunk *next;
  size_t used, size;
  max_align_t data[];
};

struct lls_arena {
  struct chunk *chunks; /* only the first may have free space */
};

struct lls_arena *lls_arena_create(void)
{
  return calloc(1, sizeof(struct lls_arena));
}

void lls_arena_destroy(struct lls_arena *arena)
{
  if (arena == NULL)
    return;
  while (arena->chunks != NULL) {
    struct chunk *chunk = arena->chunks;
    arena->chunks = chunk->next;
    free(chunk);
  }
  free(arena);
}

static struct chunk *add_chunk(struct lls_arena *arena, size_t bytes)
{
  size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  struct chunk *chunk = malloc(sizeof *chunk + size);
  if (chunk == NULL)
    return NULL;
  *chunk = (struct chunk){.next = arena->chunks, .size = size};
  arena->chunks = chunk;
  return chunk;
}

void *lls_arena_take(struct lls_arena *arena, size_t bytes)
{
  size_t align = sizeof(max_align_t);
  if (bytes > SIZE_MAX / 2)
    return NULL;
  bytes = (bytes + align - 1) / align * align;
  struct chunk *chunk = arena->chunks;
  if (chunk == NULL || chunk->size - chunk->used < bytes)
    chunk = add_chunk(arena, bytes);
  if (chunk == NULL)
    return NULL;
  void *piece = (char *)chunk->data + chunk->used;
  chunk->used += bytes;
  return piece;
}

void *lls_arena_copy(struct lls_arena *arena, const void *data, size_t bytes)
{
  void *copy = lls_arena_take(arena, bytes);
  if (copy != NULL && bytes > 0)
    memcpy(copy, data, bytes);
  return copy;
}

char *lls_arena_text(struct lls_arena *arena, const char *text, size_t length)
{
  char *copy = lls_arena_take(arena, length + 1);
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}
