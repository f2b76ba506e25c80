/* SPDX-License-Identifier: Apache-2.0 */
/* See elf_file.h. Reads a file, and the memory to which it would be mapped. */
#include "core/plugin/elf_file.h"

#include <elf.h>
#include <string.h>

#define FEW 64 /* zero bytes that are no hole */

bool lls_elf_is_inside(uint64_t at, uint64_t bytes, uint64_t begin, uint64_t length)
{
  return at >= begin && at - begin <= length && bytes <= length - (at - begin);
}

bool lls_elf_read_file(const struct lls_elf *m, uint64_t at, void *out, uint64_t bytes)
{
  if (!lls_elf_is_inside(at, bytes, 0, m->size))
    return false;
  memcpy(out, m->bytes + at, bytes);
  return true;
}

const unsigned char *lls_elf_mapped(const struct lls_elf *m, uint64_t address,
                                    uint64_t bytes)
{
  for (uint32_t i = 0; i < m->n_loads; i++) {
    const ElfW(Phdr) *s = &m->loads[i];
    if (lls_elf_is_inside(address, bytes, s->p_vaddr, s->p_filesz))
      return m->bytes + s->p_offset + (address - s->p_vaddr);
  }
  return NULL;
}

bool lls_elf_read(const struct lls_elf *m, uint64_t address, void *out, uint64_t bytes)
{
  const unsigned char *from = lls_elf_mapped(m, address, bytes);
  if (from != NULL)
    memcpy(out, from, bytes);
  return from != NULL;
}

bool lls_elf_is_near(const struct lls_elf *m, uint64_t address)
{
  const ElfW(Phdr) *last = &m->loads[m->n_loads - 1];
  return address + LLS_ELF_PAGE <= last->p_vaddr + last->p_memsz + 2 * LLS_ELF_PAGE;
}

bool lls_elf_has_address(const struct lls_elf *m, uint64_t address, uint64_t bytes,
                         uint32_t flags)
{
  for (uint32_t i = 0; i < m->n_loads; i++)
    if ((m->loads[i].p_flags & flags) == flags &&
        lls_elf_is_inside(address, bytes, m->loads[i].p_vaddr, m->loads[i].p_memsz))
      return true;
  return false;
}

bool lls_elf_next_hole(const struct lls_elf *m, uint64_t *from, uint64_t end,
                       uint64_t *bytes)
{
  static const unsigned char zeros[LLS_ELF_PAGE];
  for (uint64_t at = *from, next; at < end; at = next) {
    next = (at / LLS_ELF_PAGE + 1) * LLS_ELF_PAGE;
    next = next < end ? next : end;
    if (next - at >= FEW && memcmp(m->bytes + at, zeros, next - at) == 0) {
      *from = at;
      *bytes = next - at;
      return true;
    }
  }
  return false;
}

bool lls_elf_has_hole(const struct lls_elf *m, const unsigned char *from, uint64_t bytes)
{
  uint64_t at = (uint64_t)(from - m->bytes), length;
  return lls_elf_next_hole(m, &at, at + bytes, &length);
}

bool lls_elf_is_name(const struct lls_elf *m, uint64_t offset)
{
  return offset < m->tags[DT_STRSZ];
}

bool lls_elf_has_text(const struct lls_elf *m, uint64_t offset)
{
  const unsigned char *text = lls_elf_mapped(m, m->tags[DT_STRTAB], m->tags[DT_STRSZ]);
  return lls_elf_is_name(m, offset) && text[offset] != '\0';
}
