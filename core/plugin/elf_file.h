/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object's file under examination, shared by elf.c, elf_symbols.c and
 * elf_relocations.c. Everything is read by copying: in an incomplete file nothing is
 * aligned. */
#ifndef LLS_PLUGIN_ELF_FILE_H
#define LLS_PLUGIN_ELF_FILE_H

#include "core/plugin/elf.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#define LLS_ELF_PAGE  4096 /* size of the holes in a file under construction */
#define LLS_ELF_LOADS 64
#define LLS_ELF_TAGS  40 /* number of the dynamic table's tags that are read by number */

/* The possible faults. */
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

/* Returns true if the `bytes` from `at` on lie within the `length` from `begin` on. */
bool lls_elf_is_inside(uint64_t at, uint64_t bytes, uint64_t begin, uint64_t length);
/* Copies bytes of the file. Returns false if the file is too short. */
bool lls_elf_read_file(const struct lls_elf *, uint64_t at, void *out, uint64_t bytes);
/* Returns the file's bytes that are mapped to these addresses; NULL unless all of them
 * are. */
const unsigned char *lls_elf_mapped(const struct lls_elf *, uint64_t address,
                                    uint64_t bytes);
/* Copies the file's bytes that are mapped to these addresses. Returns false unless all
 * of them are. */
bool lls_elf_read(const struct lls_elf *, uint64_t address, void *out, uint64_t bytes);
/* Returns true if the addresses are in a segment with these flags, including memory
 * beyond the file's bytes. */
bool lls_elf_has_address(const struct lls_elf *, uint64_t address, uint64_t bytes,
                         uint32_t flags);
/* Returns true if the address is in memory, or directly before or after it, where a
 * pointer may point. */
bool lls_elf_is_near(const struct lls_elf *, uint64_t address);
/* Finds the next page, or part of one, of only zeros in the file between *from and
 * `end`. Returns false if there is none. */
bool lls_elf_next_hole(const struct lls_elf *, uint64_t *from, uint64_t end,
                       uint64_t *bytes);
/* Returns true if the bytes contain a hole. Tables written by the linker have no empty
 * page, except for a few bytes at an end; constants may have. */
bool lls_elf_has_hole(const struct lls_elf *, const unsigned char *from, uint64_t bytes);
/* Return true if the offset is that of a string; and of one that is not empty. */
bool lls_elf_is_name(const struct lls_elf *, uint64_t offset);
bool lls_elf_has_text(const struct lls_elf *, uint64_t offset);

/* The functions below return NULL, or the fault. */

/* elf_symbols.c: check versions first, since symbols refer to them. */
const char *lls_elf_check_versions(struct lls_elf *);
const char *lls_elf_check_hashes(const struct lls_elf *);
const char *lls_elf_check_symbol(const struct lls_elf *, uint64_t number);
/* elf_code.c. *padded: some page of the code is empty, but belongs to no function. */
const char *lls_elf_check_code(const struct lls_elf *, bool *padded);
/* elf_relocations.c */
const char *lls_elf_check_relocations(const struct lls_elf *);

#endif
