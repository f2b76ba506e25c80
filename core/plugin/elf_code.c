/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty pages of code. A file under construction has them, and so has a finished one
 * from a linker that leaves gaps between functions (Zig's). The symbol table
 * distinguishes them: a finished file has no function on an empty page. Without a
 * symbol table an empty page is considered unwritten.
 */
#include "core/plugin/elf_file.h"

#include <elf.h>

#define FEW 16 /* zero bytes with which a function may end */

struct functions {
  uint64_t at, n; /* the symbol table in the file */
  uint64_t stride;
};

static bool find_functions(const struct lls_elf *m, struct functions *out)
{
  const ElfW(Ehdr) *h = &m->head;
  ElfW(Shdr) s;
  for (uint32_t i = 0; i < h->e_shnum && h->e_shentsize == sizeof s; i++)
    if (lls_elf_read_file(m, h->e_shoff + i * sizeof s, &s, sizeof s) &&
        s.sh_type == SHT_SYMTAB && s.sh_entsize == sizeof(ElfW(Sym)) &&
        lls_elf_is_inside(s.sh_offset, s.sh_size, 0, m->size) &&
        !lls_elf_has_hole(m, m->bytes + s.sh_offset, s.sh_size)) {
      *out = (struct functions){s.sh_offset, s.sh_size / sizeof(ElfW(Sym)),
                                sizeof(ElfW(Sym))};
      return true;
    }
  return false;
}

/* Returns true if a function lies in the addresses [begin, end), with all of its bytes
 * or many. */
static bool has_function(const struct lls_elf *m, const struct functions *f,
                         uint64_t begin, uint64_t end)
{
  ElfW(Sym) s;
  for (uint64_t i = 0; i < f->n; i++) {
    lls_elf_read_file(m, f->at + i * f->stride, &s, sizeof s);
    if ((s.st_info & 0xf) != STT_FUNC || s.st_shndx == SHN_UNDEF || s.st_value >= end)
      continue;
    uint64_t last = s.st_size < end - s.st_value ? s.st_value + s.st_size : end;
    uint64_t first = s.st_value > begin ? s.st_value : begin;
    if (last > first && (last - first == s.st_size || last - first > FEW))
      return true;
  }
  return false;
}

const char *lls_elf_check_code(const struct lls_elf *m, bool *padded)
{
  struct functions f = {0};
  for (uint32_t i = 0; i < m->n_loads; i++) {
    const ElfW(Phdr) *s = &m->loads[i];
    uint64_t at = s->p_offset, end = s->p_offset + s->p_filesz, bytes;
    while ((s->p_flags & PF_X) && lls_elf_next_hole(m, &at, end, &bytes)) {
      uint64_t address = s->p_vaddr + (at - s->p_offset);
      *padded = true;
      if ((f.n == 0 && !find_functions(m, &f)) ||
          has_function(m, &f, address, address + bytes))
        return LLS_ELF_HOLE;
      at += bytes;
    }
  }
  return NULL;
}
