/* SPDX-License-Identifier: Apache-2.0 */
/* Relocations of a shared object: the values that the dynamic linker writes, and where;
 * see elf.h. */
#include "core/plugin/elf_file.h"

#include <elf.h>
#include <string.h>

enum relocation { OF_NOTHING, OF_IMAGE, OF_CODE, OF_SYMBOL, OF_THREAD, UNKNOWN };

/* Returns what a relocation's value is relative to. Other types do not occur in shared
 * objects: their value depends on the load address. */
static enum relocation relocation_of(uint64_t type)
{
  switch (type) {
  case 0: /* NONE */
    return OF_NOTHING;
#if defined(__x86_64__)
  case R_X86_64_RELATIVE:
    return OF_IMAGE;
  case R_X86_64_IRELATIVE:
    return OF_CODE;
  case R_X86_64_64:
  case R_X86_64_GLOB_DAT:
  case R_X86_64_JUMP_SLOT:
    return OF_SYMBOL;
  case R_X86_64_DTPMOD64:
  case R_X86_64_DTPOFF64:
  case R_X86_64_TPOFF64:
  case R_X86_64_TLSDESC:
    return OF_THREAD;
  default:
    return UNKNOWN;
#elif defined(__aarch64__)
  case R_AARCH64_RELATIVE:
    return OF_IMAGE;
  case R_AARCH64_IRELATIVE:
    return OF_CODE;
  case R_AARCH64_ABS64:
  case R_AARCH64_GLOB_DAT:
  case R_AARCH64_JUMP_SLOT:
    return OF_SYMBOL;
  case R_AARCH64_TLS_DTPMOD:
  case R_AARCH64_TLS_DTPREL:
  case R_AARCH64_TLS_TPREL:
  case R_AARCH64_TLSDESC:
    return OF_THREAD;
  default:
    return UNKNOWN;
#else
  default:
    return OF_THREAD; /* unknown type: only its place and its symbol are checked */
#endif
  }
}

static const char *check_relocation(const struct lls_elf *m, const ElfW(Rela) * r)
{
  enum relocation of = relocation_of(ELF64_R_TYPE(r->r_info));
  uint64_t symbol = ELF64_R_SYM(r->r_info), addend = (uint64_t)r->r_addend;
  uint32_t flags = m->tags[DT_TEXTREL] != 0 ? 0 : PF_W;
  if (of == OF_NOTHING)
    return NULL;
  bool table = lls_elf_is_inside(r->r_offset + sizeof(ElfW(Addr)) - 1, 0,
                                 m->dynamic.p_vaddr, m->dynamic.p_memsz);
  if (of == UNKNOWN || table ||
      !lls_elf_has_address(m, r->r_offset, sizeof(ElfW(Addr)), flags) ||
      (of == OF_IMAGE && !lls_elf_is_near(m, addend)) ||
      (of == OF_CODE && !lls_elf_has_address(m, addend, 1, PF_X)) ||
      (of == OF_SYMBOL) != (symbol != 0 && of != OF_THREAD))
    return LLS_ELF_DANGLING;
  return symbol != 0 ? lls_elf_check_symbol(m, symbol) : NULL;
}

static const char *check_list(const struct lls_elf *m, uint64_t at, uint64_t bytes)
{
  const char *fault = NULL;
  ElfW(Rela) r;
  const unsigned char *table = lls_elf_mapped(m, at, bytes);
  if (at == 0 || bytes == 0)
    return NULL;
  if (table == NULL || bytes % sizeof r != 0)
    return LLS_ELF_DANGLING;
  if (lls_elf_has_hole(m, table, bytes))
    return LLS_ELF_HOLE;
  for (uint64_t i = 0; i < bytes / sizeof r && fault == NULL; i++) {
    memcpy(&r, table + i * sizeof r, sizeof r);
    fault = check_relocation(m, &r);
  }
  return fault;
}

const char *lls_elf_check_relocations(const struct lls_elf *m)
{
  const uint64_t *tags = m->tags;
  const char *fault = check_list(m, tags[DT_RELA], tags[DT_RELASZ]);
  return fault != NULL ? fault : check_list(m, tags[DT_JMPREL], tags[DT_PLTRELSZ]);
}
