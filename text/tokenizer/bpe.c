/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BPE with a linked list of symbols and a heap of candidate merges: O(n log n) in the
 * length of a word, since a word may be as long as the text (with a tokenizer without
 * pre-tokenizer, or when a client sends a megabyte of letters).
 *
 * A candidate is never removed from the heap: if one of its symbols has changed since,
 * it is skipped when it is popped. Every merge adds at most two candidates, so there
 * are never more than two per symbol.
 */
#include "text/tokenizer/bpe.h"

#include "text/tokenizer/merges.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1)

/* Code points below this find their token in an array: Latin, Greek, and all characters
 * of the byte alphabet. */
#define DIRECT_CHARS 0x400

struct lls_bpe {
  const struct lls_vocab *vocab;
  struct lls_merges merges;
  int32_t direct[DIRECT_CHARS]; /* token of a character, or -1 */
  int32_t bytes[256];           /* token of a byte with byte_fallback */
  int32_t unknown;              /* token for unknown characters, or -1: they are
                                 * dropped */
  bool byte_fallback;
  bool fuse_unknown;
  bool ignore_merges;
};

struct bpe_symbol {
  int32_t id; /* NONE once it was merged into the previous symbol */
  int32_t previous;
  int32_t next;
};

struct bpe_candidate {
  uint32_t rank;
  int32_t position; /* position of the left symbol */
  int32_t left;
  int32_t right;
  int32_t merged;
};

static int check_unsupported(const json_t *node, struct lls_error *err)
{
  static const char *const affixes[] = {"continuing_subword_prefix",
                                        "end_of_word_suffix"};
  for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
    const char *affix = json_string_value(json_object_get(node, affixes[i]));
    if (affix != NULL && *affix != '\0')
      return lls_fail(err, -ENOTSUP, "\"%s\" is not supported", affixes[i]);
  }
  if (json_number_value(json_object_get(node, "dropout")) != 0)
    return lls_fail(err, -ENOTSUP, "\"dropout\" is not supported, it is for training");
  return 0;
}

static int load_unknown(struct lls_bpe *bpe, const json_t *node, struct lls_error *err)
{
  const char *unknown = json_string_value(json_object_get(node, "unk_token"));
  bpe->unknown = NONE;
  if (unknown == NULL || *unknown == '\0')
    return 0;
  bpe->unknown = lls_vocab_find_in_model(bpe->vocab, unknown, strlen(unknown));
  if (bpe->unknown < 0)
    return lls_fail(err, -EINVAL, "unk_token \"%s\" is not in the vocabulary", unknown);
  return 0;
}

static void load_characters(struct lls_bpe *bpe)
{
  for (int32_t c = 0; c < DIRECT_CHARS; c++) {
    char text[4];
    struct lls_bytes encoded = {.data = text, .capacity = sizeof text};
    lls_bytes_append_char(&encoded, c);
    bpe->direct[c] = lls_vocab_find_in_model(bpe->vocab, text, encoded.length);
  }
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    int length = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    bpe->bytes[byte] = lls_vocab_find_in_model(bpe->vocab, name, (size_t)length);
  }
}

/* Loads a list of merges, or builds them from the tokens' scores (GGUF). */
static int load_merges(struct lls_merges *merges, const json_t *node,
                       const struct lls_vocab *vocab, struct lls_error *err)
{
  const json_t *scores = json_object_get(node, "scores");
  return scores != NULL
             ? lls_merges_load_scored(merges, scores, vocab, err)
             : lls_merges_load(merges, json_object_get(node, "merges"), vocab, err);
}

int lls_bpe_load(const json_t *node, const struct lls_vocab *vocab, struct lls_bpe **out,
                 struct lls_error *err)
{
  int code = check_unsupported(node, err);
  if (code < 0)
    return code;
  struct lls_bpe *bpe = calloc(1, sizeof *bpe);
  if (bpe == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the model");
  bpe->vocab = vocab;
  bpe->byte_fallback = json_is_true(json_object_get(node, "byte_fallback"));
  bpe->fuse_unknown = json_is_true(json_object_get(node, "fuse_unk"));
  bpe->ignore_merges = json_is_true(json_object_get(node, "ignore_merges"));
  load_characters(bpe);
  code = load_unknown(bpe, node, err);
  if (code == 0)
    code = load_merges(&bpe->merges, node, vocab, err);
  if (code < 0) {
    lls_bpe_free(bpe);
    return code;
  }
  *out = bpe;
  return 0;
}

void lls_bpe_free(struct lls_bpe *bpe)
{
  if (bpe == NULL)
    return;
  lls_merges_free(&bpe->merges);
  free(bpe);
}

void lls_bpe_work_free(struct lls_bpe_work *work)
{
  free(work->symbols);
  free(work->heap);
}

static bool comes_before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
  return a->rank < b->rank || (a->rank == b->rank && a->position < b->position);
}

static void sift_down(struct lls_bpe_work *work, size_t at)
{
  struct bpe_candidate moving = work->heap[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= work->heap_count)
      break;
    if (child + 1 < work->heap_count &&
        comes_before(&work->heap[child + 1], &work->heap[child]))
      child++;
    if (!comes_before(&work->heap[child], &moving))
      break;
    work->heap[at] = work->heap[child];
    at = child;
  }
  work->heap[at] = moving;
}

static void push_candidate(struct lls_bpe_work *work, struct bpe_candidate candidate)
{
  size_t at = work->heap_count++;
  while (at > 0 && comes_before(&candidate, &work->heap[(at - 1) / 2])) {
    work->heap[at] = work->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  work->heap[at] = candidate;
}

static struct bpe_candidate pop_candidate(struct lls_bpe_work *work)
{
  struct bpe_candidate top = work->heap[0];
  work->heap[0] = work->heap[--work->heap_count];
  if (work->heap_count > 0)
    sift_down(work, 0);
  return top;
}

/* Adds the merge of the symbol at position and its successor as a candidate, if there
 * is one. */
static void propose(const struct lls_bpe *bpe, struct lls_bpe_work *work,
                    int32_t position)
{
  const struct bpe_symbol *left = &work->symbols[position];
  if (left->next == NONE)
    return;
  int32_t right = work->symbols[left->next].id;
  const struct lls_merge *merge = lls_merges_find(&bpe->merges, left->id, right);
  if (merge != NULL)
    push_candidate(work, (struct bpe_candidate){.rank = merge->rank,
                                                .position = position,
                                                .left = left->id,
                                                .right = right,
                                                .merged = merge->merged});
}

static void apply(const struct lls_bpe *bpe, struct lls_bpe_work *work,
                  const struct bpe_candidate *candidate)
{
  struct bpe_symbol *left = &work->symbols[candidate->position];
  if (left->id != candidate->left || left->next == NONE)
    return;
  struct bpe_symbol *right = &work->symbols[left->next];
  if (right->id != candidate->right)
    return;
  left->id = candidate->merged;
  left->next = right->next;
  right->id = NONE;
  if (left->next != NONE)
    work->symbols[left->next].previous = candidate->position;
  if (left->previous != NONE)
    propose(bpe, work, left->previous);
  propose(bpe, work, candidate->position);
}

/* The symbols of a word during cutting. */
struct symbols {
  struct bpe_symbol *list;
  int32_t count;
  bool pending_unknown; /* a run of unknown characters is open */
};

static void add_symbol(struct symbols *symbols, int32_t id)
{
  symbols->list[symbols->count] = (struct bpe_symbol){
      .id = id, .previous = symbols->count - 1, .next = symbols->count + 1};
  symbols->count++;
}

static bool add_bytes(const struct lls_bpe *bpe, struct symbols *symbols,
                      const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (bpe->bytes[(unsigned char)text[i]] < 0)
      return false;
  for (size_t i = 0; i < length; i++)
    add_symbol(symbols, bpe->bytes[(unsigned char)text[i]]);
  return true;
}

static int32_t character_token(const struct lls_bpe *bpe, const char *text, size_t length)
{
  if (length <= 2) {
    int32_t codepoint = lls_utf8_char(text);
    if (codepoint < DIRECT_CHARS)
      return bpe->direct[codepoint];
  }
  return lls_vocab_find_in_model(bpe->vocab, text, length);
}

/* Adds an unknown character: it continues an open run if fuse_unk is set; otherwise the
 * open run ends and a new one begins. */
static void add_unknown(const struct lls_bpe *bpe, struct symbols *symbols)
{
  if (bpe->unknown < 0)
    return;
  if (symbols->pending_unknown && !bpe->fuse_unknown)
    add_symbol(symbols, bpe->unknown);
  symbols->pending_unknown = true;
}

static void close_unknown(const struct lls_bpe *bpe, struct symbols *symbols)
{
  if (symbols->pending_unknown)
    add_symbol(symbols, bpe->unknown);
  symbols->pending_unknown = false;
}

static int32_t cut_into_symbols(const struct lls_bpe *bpe, struct bpe_symbol *list,
                                const char *word, size_t length)
{
  struct symbols symbols = {.list = list};
  for (size_t at = 0, size; at < length; at += size) {
    size = lls_utf8_length(word + at);
    int32_t id = character_token(bpe, word + at, size);
    if (id >= 0) {
      close_unknown(bpe, &symbols);
      add_symbol(&symbols, id);
    } else if (!bpe->byte_fallback || !add_bytes(bpe, &symbols, word + at, size)) {
      add_unknown(bpe, &symbols);
    }
  }
  close_unknown(bpe, &symbols);
  if (symbols.count > 0)
    list[symbols.count - 1].next = NONE;
  return symbols.count;
}

int lls_bpe_encode(const struct lls_bpe *bpe, struct lls_bpe_work *work, const char *word,
                   size_t length, struct lls_ids *ids)
{
  if (bpe->ignore_merges) {
    int32_t whole = lls_vocab_find_in_model(bpe->vocab, word, length);
    if (whole >= 0) {
      lls_ids_append(ids, whole);
      return ids->failed ? -ENOMEM : 0;
    }
  }
  if (!lls_grow((void **)&work->symbols, &work->symbol_capacity, length,
                sizeof *work->symbols) ||
      !lls_grow((void **)&work->heap, &work->heap_capacity, 2 * length,
                sizeof *work->heap))
    return -ENOMEM;
  int32_t count = cut_into_symbols(bpe, work->symbols, word, length);
  work->heap_count = 0;
  for (int32_t i = 0; i < count; i++)
    propose(bpe, work, i);
  while (work->heap_count > 0) {
    struct bpe_candidate candidate = pop_candidate(work);
    apply(bpe, work, &candidate);
  }
  for (int32_t i = count > 0 ? 0 : NONE; i != NONE; i = work->symbols[i].next)
    lls_ids_append(ids, work->symbols[i].id);
  return ids->failed ? -ENOMEM : 0;
}
