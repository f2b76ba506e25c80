/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object's file while it is looked at: what elf.c, elf_symbols.c and
 * elf_relocations.c share. Everything is read by copy: a torn file keeps no alignment. */
#ifndef LLS_PLUGIN_ELF_FILE_H
#define LLS_PLUGIN_ELF_FILE_H

#include "core/plugin/elf.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#define LLS_ELF_PAGE  4096 /* what a file under construction has holes of */
#define LLS_ELF_LOADS 64
#define LLS_ELF_TAGS  40 /* of the dynamic table: those that are looked at by number */

/* The faults there are. */
#define LLS_ELF_ENDS     "the file ends before its contents"
#define LLS_ELF_HOLE     "a part of it is empty"
#define LLS_ELF_DANGLING "a part of it points outside of it"

struct lls_elf {
  const unsigned char *bytes;
  uint64_t size;
  ElfW(Ehdr) head;
  uint32_t n_loads;
  ElfW(Phdr) loads[LLS_ELF_LOADS]; /* PT_LOAD */
  ElfW(Phdr) dynamic;
  uint64_t tags[LLS_ELF_TAGS]; /* values of the dynamic table, 0 if not given */
  uint64_t gnu_hash, versym, verneed, verdef;
  uint32_t max_version;
};

/* Are `bytes` from `at` on among `length` from `begin` on? */
bool lls_elf_is_inside(uint64_t at, uint64_t bytes, uint64_t begin, uint64_t length);
/* Copies bytes of the file; false if it has not so many. */
bool lls_elf_read_file(const struct lls_elf *, uint64_t at, void *out, uint64_t bytes);
/* The bytes of the file that are mapped at these addresses; NULL if not all are. */
const unsigned char *lls_elf_mapped(const struct lls_elf *, uint64_t address,
                                    uint64_t bytes);
/* Copies them; false if not all are. */
bool lls_elf_read(const struct lls_elf *, uint64_t address, void *out, uint64_t bytes);
/* Are they in memory, in a segment with these flags? What follows the file's bytes is. */
bool lls_elf_has_address(const struct lls_elf *, uint64_t address, uint64_t bytes,
                         uint32_t flags);
/* In memory, or just before and after it, where a pointer may point. */
bool lls_elf_is_near(const struct lls_elf *, uint64_t address);
/* The next page, or part of one, that is all zeros, in the file from *from to `end`.
 * False if there is none. */
bool lls_elf_next_hole(const struct lls_elf *, uint64_t *from, uint64_t end,
                       uint64_t *bytes);
/* The linker's tables are nowhere empty as far as a page of the file goes, but
 * for a few bytes at an end; constants may be. */
bool lls_elf_has_hole(const struct lls_elf *, const unsigned char *from, uint64_t bytes);
/* Is it the offset of a name, of one that has letters? */
bool lls_elf_is_name(const struct lls_elf *, uint64_t offset);
bool lls_elf_has_text(const struct lls_elf *, uint64_t offset);

/* All that follow: NULL, or the fault. */

/* elf_symbols.c: the versions first, which symbols name. */
const char *lls_elf_check_versions(struct lls_elf *);
const char *lls_elf_check_hashes(const struct lls_elf *);
const char *lls_elf_check_symbol(const struct lls_elf *, uint64_t number);
/* elf_code.c. *padded: some page of the code is empty, though no function's. */
const char *lls_elf_check_code(const struct lls_elf *, bool *padded);
/* elf_relocations.c */
const char *lls_elf_check_relocations(const struct lls_elf *);

#endif
