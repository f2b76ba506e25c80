/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: prints the whole state, one line a thing, in an order that depends on the state
 * alone, and checks every invariant of paged.h. The text of two equal states is equal.
 */
#include "paged.h"

#include <string.h>

/* Prints a stack or list of numbers below n and checks that each occurs once. */
static void walk(struct lls_pol_report *a, const char *name, uint32_t head,
                 const uint32_t *next, size_t stride, uint32_t n, uint32_t expected)
{
  struct paged *m = a->m;
  uint32_t count = 0;
  lls_pol_report_say(a, "%s %" PRIu32 ":", name, expected);
  for (uint32_t i = head; i != LLS_POL_NIL; count++) {
    if (!lls_pol_report_check(a, i < n, "list leads outside", i) ||
        !lls_pol_report_check(a, m->marks[i] == 0, "on two lists, or twice on one", i))
      break;
    m->marks[i] = 1;
    lls_pol_report_say(a, " %" PRIu32, i);
    i = *(const uint32_t *)((const char *)next + i * stride);
  }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, count == expected, "list and counter differ", count);
}

static void audit_blocks(struct lls_pol_report *a)
{
  struct paged *m = a->m;
  memset(m->marks, 0, m->n_blocks * sizeof *m->marks);
  walk(a, "free", m->free_head, &m->index.blocks->next, sizeof *m->index.blocks,
       m->n_blocks, m->n_free);
  lls_pol_prefixes_audit(&m->index, a);
  for (uint32_t b = 0; b < m->n_blocks; b++)
    lls_pol_report_check(
        a, (m->marks[b] + m->index.marks[b] == 1) == (m->index.blocks[b].references == 0),
        "neither held nor free, or both", b);
}

/* Checks which rows the sequences' lists are in; must pass before a list is read. */
static bool audit_rows(struct lls_pol_report *a)
{
  struct paged *m = a->m;
  memset(m->marks, 0, m->n_rows * sizeof *m->marks);
  walk(a, "rows", m->row_head, m->row_next, sizeof *m->row_next, m->n_rows,
       m->n_rows_free);
  for (uint32_t i = 0; i < m->n_slots; i++) {
    uint32_t row = m->sequences[i].row;
    lls_pol_report_check(
        a, m->sequences[i].admitted <= 1 && m->sequences[i].place <= ON_HOST,
        "no such state of a sequence", i);
    lls_pol_report_check(a, (row != LLS_POL_NIL) == (m->sequences[i].place != NOWHERE),
                         "list without a row", i);
    if (row != LLS_POL_NIL &&
        lls_pol_report_check(a, row < m->n_rows, "row number too large", i))
      lls_pol_report_check(a, m->marks[row]++ == 0, "row used twice", row);
  }
  for (uint32_t i = 0; i < m->n_rows; i++)
    lls_pol_report_check(a, m->marks[i] == 1, "row lost", i);
  return a->result == 0;
}

static void audit_entry(struct lls_pol_report *a, const struct sequence *s, uint32_t i)
{
  const struct paged *m = a->m;
  const struct lls_block_entry *e = &list_of(m, s->row)[i];
  uint32_t block = block_at(m, s, i);
  lls_pol_report_check(a,
                       e->block == block * m->units &&
                           e->first_token == i * m->block_tokens &&
                           e->count == m->block_tokens && e->form == LLS_FORM_KV,
                       "broken block list", s->row);
  lls_pol_report_say(a, " %" PRIu32, block);
  uint32_t most = s->place == ON_HOST ? m->n_host_blocks : m->n_blocks;
  if (!lls_pol_report_check(a, block < most, "block number too large", block))
    return;
  m->marks[block]++;
  if (s->place == ON_DEVICE)
    lls_pol_report_check(
        a, (i < s->indexed) == (m->index.blocks[block].parent != LLS_POL_NIL),
        "wrong count of blocks in the index", s->row);
}

/* Prints the lists of sequences that are in `place` and counts their blocks in marks. */
static void audit_lists(struct lls_pol_report *a, uint32_t place, const char *name)
{
  const struct paged *m = a->m;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    if (!s->admitted || s->place != place)
      continue;
    lls_pol_report_say(a,
                       "slot %" PRIu32 ": request %" PRIu64 " %s, cached %" PRIu32
                       ", indexed %" PRIu32 ", row %" PRIu32 ", gone %" PRIu32 ", blocks",
                       i, s->request, name, s->cached, s->indexed, s->row, s->gone);
    lls_pol_report_check(a, s->past > 0 && s->past <= m->row_blocks, "bad list length",
                         i);
    lls_pol_report_check(a, s->cached == 0 || s->gone <= needless_blocks(m, s->cached),
                         "given back what is read", i);
    lls_pol_report_check(a, blocks_of(m, s->cached) <= s->past, "more tokens than room",
                         i);
    lls_pol_report_check(
        a, s->indexed <= s->cached / m->block_tokens || s->indexed == s->past,
        "block in the index before it is full", i);
    for (uint32_t j = s->gone; j < s->past && a->result == 0; j++)
      audit_entry(a, s, j);
    lls_pol_report_end_line(a);
  }
}

static void audit_device_sequences(struct lls_pol_report *a)
{
  struct paged *m = a->m;
  memset(m->marks, 0, m->n_blocks * sizeof *m->marks);
  audit_lists(a, ON_DEVICE, "on the device");
  for (uint32_t b = 0; b < m->n_blocks; b++)
    lls_pol_report_check(a, m->marks[b] == m->index.blocks[b].references,
                         "reference count is wrong", b);
}

static void audit_host_sequences(struct lls_pol_report *a)
{
  struct paged *m = a->m;
  memset(m->marks, 0, m->n_host_blocks * sizeof *m->marks);
  walk(a, "host free", m->host_head, m->host_next, sizeof *m->host_next, m->n_host_blocks,
       m->n_host_free);
  audit_lists(a, ON_HOST, "on the host");
  for (uint32_t b = 0; b < m->n_host_blocks; b++)
    lls_pol_report_check(a, m->marks[b] == 1, "host block lost or held twice", b);
}

int paged_audit(struct paged *m, const struct lls_sink *sink)
{
  struct lls_pol_report a = {.m = m, .host = m->host, .sink = sink};
  if (!lls_pol_prefixes_audit_index(&m->index, &a) || !audit_rows(&a))
    return a.result;
  audit_blocks(&a);
  audit_device_sequences(&a);
  audit_host_sequences(&a);
  lls_pol_report_say(&a, "copies %" PRIu32, m->n_copies);
  lls_pol_report_end_line(&a);
  return a.result;
}
