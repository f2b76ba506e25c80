/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feature hashing (Weinberger et al., 2009): a word adds 1 or -1, as one bit of its hash
 * says, to the place that the others name, so that words that share a place cancel out on
 * average. Words are runs of letters and digits, in small letters, or of bytes from 128.
 */
#include "plugins/predictors/retrieval/words.h"

#include <math.h>
#include <string.h>

#define SEED UINT64_C(0xcbf29ce484222325)

uint64_t words_hash(const void *data, size_t bytes, uint64_t seed)
{
  const unsigned char *p = data;
  uint64_t hash = SEED ^ seed;
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 29;
}

static void add(float *vector, uint32_t dims, uint64_t hash)
{
  vector[(hash >> 8) % dims] += hash & 1 ? 1 : -1;
}

/* A word, and the pair that it makes with the one before. */
static void add_word(float *vector, uint32_t dims, uint64_t word, uint64_t *before)
{
  add(vector, dims, word);
  if (*before != 0)
    add(vector, dims, words_hash(&word, sizeof word, *before));
  *before = word;
}

static void normalise(float *vector, uint32_t dims)
{
  double squares = 0;
  for (uint32_t i = 0; i < dims; i++)
    squares += (double)vector[i] * (double)vector[i];
  if (squares == 0)
    vector[0] = 1; /* the vector of no words */
  else
    for (uint32_t i = 0; i < dims; i++)
      vector[i] = (float)(vector[i] / sqrt(squares));
}

/* Returns the letter in lower case; 0: the character is not part of a word. */
static unsigned char letter(char c)
{
  unsigned char u = (unsigned char)c;
  if (u >= 'A' && u <= 'Z')
    return u - 'A' + 'a';
  return (u >= 'a' && u <= 'z') || (u >= '0' && u <= '9') || u >= 128 ? u : 0;
}

void words_of_text(const char *text, size_t bytes, float *vector, uint32_t dims)
{
  uint64_t before = 0, word = SEED;
  size_t length = 0;
  memset(vector, 0, dims * sizeof *vector);
  for (size_t i = 0; i <= bytes; i++) {
    unsigned char c = i < bytes ? letter(text[i]) : 0;
    if (c != 0) {
      word = (word ^ c) * UINT64_C(0x100000001b3);
      length++;
    } else if (length > 0) {
      add_word(vector, dims, word ^ word >> 29, &before);
      word = SEED;
      length = 0;
    }
  }
  normalise(vector, dims);
}

void words_of_tokens(const int32_t *tokens, size_t n, float *vector, uint32_t dims)
{
  uint64_t before = 0;
  memset(vector, 0, dims * sizeof *vector);
  for (size_t i = 0; i < n; i++)
    add_word(vector, dims, words_hash(&tokens[i], sizeof tokens[i], 0), &before);
  normalise(vector, dims);
}
