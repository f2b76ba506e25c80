/* SPDX-License-Identifier: Apache-2.0 */
/* See elf.h. Checks segments and sections, the dynamic table, and the whole file. */
#include "core/plugin/elf_file.h"

#include <elf.h>
#include <string.h>

/* ---- segments and sections ------------------------------------------------------ */

static const char *add_load(struct lls_elf *m, const ElfW(Phdr) * s)
{
  const ElfW(Phdr) *before = m->n_loads > 0 ? &m->loads[m->n_loads - 1] : NULL;
  if (!lls_elf_is_inside(s->p_offset, s->p_filesz, 0, m->size))
    return LLS_ELF_ENDS;
  if (m->n_loads == LLS_ELF_LOADS || s->p_filesz > s->p_memsz ||
      !lls_elf_is_inside(s->p_vaddr, s->p_memsz, 0, INT64_MAX / 2) ||
      (before != NULL && s->p_vaddr < before->p_vaddr + before->p_memsz))
    return LLS_ELF_DANGLING;
  m->loads[m->n_loads++] = *s;
  return NULL;
}

static const char *check_segments(struct lls_elf *m)
{
  ElfW(Phdr) s;
  if (m->head.e_phnum == 0)
    return LLS_ELF_HOLE;
  for (uint32_t i = 0; i < m->head.e_phnum; i++) {
    if (!lls_elf_read_file(m, m->head.e_phoff + i * sizeof s, &s, sizeof s))
      return LLS_ELF_ENDS;
    const char *fault = s.p_type == PT_LOAD ? add_load(m, &s) : NULL;
    if (fault != NULL)
      return fault;
    if (s.p_type == PT_DYNAMIC)
      m->dynamic = s;
  }
  for (uint32_t i = 0; i < m->head.e_phnum; i++) { /* headers with contents in the file */
    lls_elf_read_file(m, m->head.e_phoff + i * sizeof s, &s, sizeof s);
    bool read = s.p_type == PT_NOTE || s.p_type == PT_TLS || s.p_type == PT_DYNAMIC ||
                s.p_type == PT_GNU_EH_FRAME;
    if (read && s.p_filesz > 0 && lls_elf_mapped(m, s.p_vaddr, s.p_filesz) == NULL)
      return LLS_ELF_DANGLING;
    if (s.p_type == PT_GNU_RELRO && s.p_memsz > 0 &&
        !lls_elf_has_address(m, s.p_vaddr, 1, 0))
      return LLS_ELF_DANGLING;
  }
  return NULL;
}

/* dlopen reads no section, but linkers write the section table last. */
static const char *check_sections(const struct lls_elf *m)
{
  const ElfW(Ehdr) *h = &m->head;
  ElfW(Shdr) names;
  uint64_t bytes = (uint64_t)h->e_shnum * h->e_shentsize;
  if (!lls_elf_is_inside(h->e_shoff, bytes, 0, m->size))
    return LLS_ELF_ENDS;
  if (h->e_shnum == 0 || h->e_shstrndx >= h->e_shnum || h->e_shentsize != sizeof names)
    return NULL;
  lls_elf_read_file(m, h->e_shoff + h->e_shstrndx * sizeof names, &names, sizeof names);
  if (h->e_shstrndx > 0 && names.sh_type != SHT_STRTAB)
    return LLS_ELF_HOLE;
  return lls_elf_is_inside(names.sh_offset, names.sh_size, 0, m->size) ? NULL
                                                                       : LLS_ELF_ENDS;
}

/* ---- the dynamic table ---------------------------------------------------------- */

static const char *read_dynamic(struct lls_elf *m)
{
  uint64_t n = m->dynamic.p_filesz / sizeof(ElfW(Dyn));
  ElfW(Dyn) d;
  for (uint64_t i = 0; i < n; i++) {
    lls_elf_read(m, m->dynamic.p_vaddr + i * sizeof d, &d, sizeof d);
    if (d.d_tag == DT_NULL)
      return m->tags[DT_STRTAB] == 0 || m->tags[DT_SYMTAB] == 0 ? LLS_ELF_HOLE : NULL;
    if (d.d_tag > 0 && d.d_tag < LLS_ELF_TAGS)
      m->tags[d.d_tag] = d.d_un.d_val;
    switch (d.d_tag) {
    case DT_GNU_HASH:
      m->gnu_hash = d.d_un.d_val;
      break;
    case DT_VERSYM:
      m->versym = d.d_un.d_val;
      break;
    case DT_VERNEED:
      m->verneed = d.d_un.d_val;
      break;
    case DT_VERDEF:
      m->verdef = d.d_un.d_val;
      break;
    }
  }
  return LLS_ELF_HOLE; /* no end marker */
}

static const char *check_names(const struct lls_elf *m)
{
  uint64_t bytes = m->tags[DT_STRSZ];
  const unsigned char *text = lls_elf_mapped(m, m->tags[DT_STRTAB], bytes);
  ElfW(Dyn) d = {.d_tag = 1};
  if (bytes == 0 || text == NULL || text[bytes - 1] != '\0')
    return LLS_ELF_DANGLING;
  if (lls_elf_has_hole(m, text, bytes))
    return LLS_ELF_HOLE;
  for (uint64_t i = 0; d.d_tag != DT_NULL; i++) {
    lls_elf_read(m, m->dynamic.p_vaddr + i * sizeof d, &d, sizeof d);
    bool named = d.d_tag == DT_NEEDED || d.d_tag == DT_SONAME || d.d_tag == DT_RUNPATH ||
                 d.d_tag == DT_RPATH;
    if (named && !lls_elf_has_text(m, d.d_un.d_val))
      return LLS_ELF_HOLE;
  }
  return NULL;
}

/* ---- the whole file ------------------------------------------------------------- */

/* Checks the functions that dlopen and dlclose call: single ones, and tables of them. */
static const char *check_calls(const struct lls_elf *m)
{
  static const struct {
    int table, bytes;
  } tables[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ}, {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
  const uint64_t *tags = m->tags;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (tags[tables[i].bytes] > 0 &&
        lls_elf_mapped(m, tags[tables[i].table], tags[tables[i].bytes]) == NULL)
      return LLS_ELF_DANGLING;
  if ((tags[DT_INIT] != 0 && !lls_elf_has_address(m, tags[DT_INIT], 1, PF_X)) ||
      (tags[DT_FINI] != 0 && !lls_elf_has_address(m, tags[DT_FINI], 1, PF_X)))
    return LLS_ELF_DANGLING;
  return NULL;
}

static const char *check_tables(struct lls_elf *m)
{
  const char *fault = read_dynamic(m);
  if (fault == NULL)
    fault = check_names(m);
  if (fault == NULL)
    fault = lls_elf_check_versions(m);
  if (fault == NULL)
    fault = lls_elf_check_hashes(m);
  if (fault == NULL)
    fault = lls_elf_check_relocations(m);
  return fault != NULL ? fault : check_calls(m);
}

const char *lls_elf_fault(const void *bytes, size_t size, bool *padded)
{
  struct lls_elf m = {.bytes = bytes, .size = size, .max_version = 1};
  const unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (!lls_elf_read_file(&m, 0, &m.head, sizeof m.head) ||
      memcmp(m.head.e_ident, ELFMAG, SELFMAG) != 0 || m.head.e_ident[EI_CLASS] != class ||
      m.head.e_phentsize != sizeof(ElfW(Phdr)))
    return NULL;
  const char *fault = check_segments(&m);
  if (fault == NULL)
    fault = check_sections(&m);
  if (fault == NULL)
    fault = lls_elf_check_code(&m, padded);
  if (fault != NULL || m.dynamic.p_type != PT_DYNAMIC)
    return fault; /* without a dynamic table the dynamic linker reports the error */
  return check_tables(&m);
}
