/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of a shared object, their versions, and the hash tables for them; see elf.h. */
#include "core/plugin/elf_file.h"

#include <elf.h>

/* ---- versions ------------------------------------------------------------------- */

/*
 * Both lists are chains of offsets: to the next entry, and to its parts. An offset of 0
 * ends a chain, for the dynamic linker as well. The counts stored with them are
 * ignored: a single wrong byte in DT_VERNEEDNUM made this loop visit the last entry
 * 2^37 times.
 */
static const char *check_needed_parts(struct lls_elf *m, uint64_t at)
{
  ElfW(Vernaux) part;
  for (;; at += part.vna_next) {
    if (!lls_elf_read(m, at, &part, sizeof part) || !lls_elf_has_text(m, part.vna_name))
      return LLS_ELF_HOLE;
    uint32_t version = part.vna_other & 0x7fff;
    m->max_version = version > m->max_version ? version : m->max_version;
    if (part.vna_next == 0)
      return NULL;
  }
}

static const char *check_needed_versions(struct lls_elf *m)
{
  ElfW(Verneed) need;
  for (uint64_t at = m->verneed;; at += need.vn_next) {
    if (!lls_elf_read(m, at, &need, sizeof need) || need.vn_version != 1)
      return LLS_ELF_HOLE;
    const char *fault = check_needed_parts(m, at + need.vn_aux);
    if (fault != NULL || need.vn_next == 0)
      return fault;
  }
}

static const char *check_defined_versions(struct lls_elf *m)
{
  ElfW(Verdef) def;
  ElfW(Verdaux) part;
  for (uint64_t at = m->verdef;; at += def.vd_next) {
    if (!lls_elf_read(m, at, &def, sizeof def) || def.vd_version != 1 ||
        !lls_elf_read(m, at + def.vd_aux, &part, sizeof part) ||
        !lls_elf_has_text(m, part.vda_name))
      return LLS_ELF_HOLE;
    uint32_t version = def.vd_ndx & 0x7fff;
    m->max_version = version > m->max_version ? version : m->max_version;
    if (def.vd_next == 0)
      return NULL;
  }
}

const char *lls_elf_check_versions(struct lls_elf *m)
{
  const char *fault = m->verneed != 0 ? check_needed_versions(m) : NULL;
  return fault == NULL && m->verdef != 0 ? check_defined_versions(m) : fault;
}

/* ---- symbols -------------------------------------------------------------------- */

const char *lls_elf_check_symbol(const struct lls_elf *m, uint64_t number)
{
  ElfW(Sym) s;
  uint16_t version;
  if (!lls_elf_read(m, m->tags[DT_SYMTAB] + number * sizeof s, &s, sizeof s) ||
      !lls_elf_is_name(m, s.st_name))
    return LLS_ELF_DANGLING;
  if (number > 0 && s.st_name == 0 && ELF64_ST_TYPE(s.st_info) != STT_SECTION)
    return LLS_ELF_HOLE;
  if (s.st_shndx != SHN_UNDEF && s.st_shndx < SHN_LORESERVE &&
      ELF64_ST_TYPE(s.st_info) != STT_TLS && !lls_elf_is_near(m, s.st_value))
    return LLS_ELF_DANGLING;
  if (m->versym == 0)
    return NULL;
  if (!lls_elf_read(m, m->versym + number * sizeof version, &version, sizeof version))
    return LLS_ELF_DANGLING;
  return (version & 0x7fffu) > m->max_version ? LLS_ELF_DANGLING : NULL;
}

struct gnu_hash {
  uint32_t n_buckets, first, n_words, shift;
};

/* A chain ends with an odd hash. */
static const char *check_chain(const struct lls_elf *m, const struct gnu_hash *h,
                               uint64_t chains, uint32_t bucket)
{
  uint32_t hash = 0;
  if (bucket < h->first)
    return LLS_ELF_DANGLING;
  for (uint64_t number = bucket; (hash & 1) == 0; number++) {
    if (!lls_elf_read(m, chains + (number - h->first) * sizeof hash, &hash, sizeof hash))
      return LLS_ELF_DANGLING;
    const char *fault = lls_elf_check_symbol(m, number);
    if (fault != NULL)
      return fault;
  }
  return NULL;
}

static const char *check_gnu_hash(const struct lls_elf *m)
{
  struct gnu_hash h;
  const char *fault = NULL;
  if (!lls_elf_read(m, m->gnu_hash, &h, sizeof h))
    return LLS_ELF_DANGLING;
  if (h.n_buckets == 0 || h.n_words == 0 || (h.n_words & (h.n_words - 1)) != 0)
    return LLS_ELF_HOLE;
  uint64_t buckets = m->gnu_hash + sizeof h + (uint64_t)h.n_words * sizeof(ElfW(Addr));
  uint64_t chains = buckets + (uint64_t)h.n_buckets * sizeof(uint32_t);
  if (lls_elf_mapped(m, m->gnu_hash, chains - m->gnu_hash) == NULL)
    return LLS_ELF_DANGLING;
  for (uint32_t i = 0; i < h.n_buckets && fault == NULL; i++) {
    uint32_t bucket = 0;
    lls_elf_read(m, buckets + i * sizeof bucket, &bucket, sizeof bucket);
    if (bucket != 0)
      fault = check_chain(m, &h, chains, bucket);
  }
  return fault;
}

/* No symbol is in two chains, so all chains together are no longer than the table. */
static const char *check_old_hash(const struct lls_elf *m)
{
  uint32_t n[2], link; /* buckets, symbols */
  uint64_t links = m->tags[DT_HASH] + sizeof n, walked = 0;
  if (!lls_elf_read(m, m->tags[DT_HASH], n, sizeof n) ||
      lls_elf_mapped(m, links, ((uint64_t)n[0] + n[1]) * sizeof link) == NULL)
    return LLS_ELF_DANGLING;
  if (n[0] == 0)
    return LLS_ELF_HOLE;
  for (uint64_t bucket = 0; bucket < n[0]; bucket++)
    for (uint64_t at = bucket;; at = (uint64_t)n[0] + link) {
      lls_elf_read(m, links + at * sizeof link, &link, sizeof link);
      if (link == 0)
        break;
      if (link >= n[1] || ++walked > n[1] || lls_elf_check_symbol(m, link) != NULL)
        return LLS_ELF_DANGLING;
    }
  return NULL;
}

const char *lls_elf_check_hashes(const struct lls_elf *m)
{
  const char *fault = m->gnu_hash != 0 ? check_gnu_hash(m) : NULL;
  return fault == NULL && m->tags[DT_HASH] != 0 ? check_old_hash(m) : fault;
}
