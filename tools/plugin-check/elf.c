/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the symbols of an ELF file; see elf.h. */
#include "tools/plugin-check/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
  const char *bytes;
  size_t size;
};

static bool holds(const struct image *m, uint64_t offset, uint64_t bytes)
{
  return offset <= m->size && bytes <= m->size - offset;
}

static const ElfW(Shdr) * sections(const struct image *m, uint32_t *n)
{
  const ElfW(Ehdr) *h = (const void *)m->bytes;
  if (m->size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
      h->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      !holds(m, h->e_shoff, (uint64_t)h->e_shnum * sizeof(ElfW(Shdr))))
    return NULL;
  *n = h->e_shnum;
  return (const void *)(m->bytes + h->e_shoff);
}

static void visit_table(const struct image *m, const ElfW(Shdr) * symbols,
                        const ElfW(Shdr) * names,
                        void (*visit)(void *, const char *, bool), void *context)
{
  const ElfW(Sym) *list = (const void *)(m->bytes + symbols->sh_offset);
  for (size_t i = 1; i < symbols->sh_size / sizeof *list; i++) {
    const ElfW(Sym) *s = &list[i];
    if (s->st_name >= names->sh_size || (s->st_info >> 4) == STB_LOCAL)
      continue;
    const char *name = m->bytes + names->sh_offset + s->st_name;
    if (memchr(name, '\0', names->sh_size - s->st_name) != NULL)
      visit(context, name, s->st_shndx != SHN_UNDEF);
  }
}

static int visit_all(const struct image *m, void (*visit)(void *, const char *, bool),
                     void *context)
{
  uint32_t n = 0;
  const ElfW(Shdr) *all = sections(m, &n);
  if (all == NULL)
    return -ENOEXEC;
  for (uint32_t i = 0; i < n; i++) {
    const ElfW(Shdr) *s = &all[i];
    if (s->sh_type != SHT_DYNSYM || s->sh_link >= n)
      continue;
    const ElfW(Shdr) *names = &all[s->sh_link];
    if (!holds(m, s->sh_offset, s->sh_size) ||
        !holds(m, names->sh_offset, names->sh_size))
      return -ENOEXEC;
    visit_table(m, s, names, visit, context);
  }
  return 0;
}

int elf_symbols(const char *path, void (*visit)(void *, const char *, bool),
                void *context)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = fstat(fd, &st) < 0 ? -errno : 0;
  struct image m = {MAP_FAILED, rc == 0 ? (size_t)st.st_size : 0};
  if (m.size > 0)
    m.bytes = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (m.bytes == MAP_FAILED)
    return -ENOEXEC;
  rc = visit_all(&m, visit, context);
  munmap((void *)(uintptr_t)m.bytes, m.size);
  return rc;
}
