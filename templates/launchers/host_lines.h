/* From an address in the code to a line of the kernel's source, by the line table that the compiler
 * leaves in the executable (DWARF 4, section 6.2, https://dwarfstd.org/dwarf4std.html). Read only
 * when something is wrong, so the simplest search will do. */
#ifndef SIMGEN_HOST_LINES_H
#define SIMGEN_HOST_LINES_H
#include "host_parts.h"

struct reader {
    const u8 *at, *end;

    u64 fixed(u32 nbytes)
    {
        u64 value = 0;
        for (u32 i = 0; i < nbytes && at < end; i++)
            value |= static_cast<u64>(*at++) << 8 * i;
        return value;
    }
    u64 leb(bool is_signed)
    {
        u64 value = 0;
        u32 shift = 0;
        u8 byte = 0x80;
        while (byte & 0x80 && at < end) {
            byte = *at++;
            if (shift < 64)
                value |= static_cast<u64>(byte & 0x7f) << shift;
            shift += 7;
        }
        if (is_signed && byte & 0x40 && shift < 64)
            value |= ~0ul << shift;
        return value;
    }
    const char *string()
    {
        const char *start = reinterpret_cast<const char *>(at);
        while (at < end && *at)
            at++;
        at++;
        return start;
    }
};

inline bool equal(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* The section of this executable; empty if it cannot be read. */
inline reader find_section(const char *name)
{
    const reader none = { nullptr, nullptr };
    const long fd = sys(SYS_OPEN, reinterpret_cast<long>("/proc/self/exe"), 0, 0, 0, 0, 0);
    if (fd < 0)
        return none;
    const long nbytes = sys(SYS_LSEEK, fd, 0, 2 /* from the end */, 0, 0, 0);
    const long at = sys(SYS_MMAP, 0, nbytes, 1 /* read */, 2 /* private */, fd, 0);
    if (at < 0)
        return none;
    const u8 *file = reinterpret_cast<const u8 *>(at);
    auto field = [](const u8 *from, u32 size) { return reader{ from, from + size }.fixed(size); };
    const u8 *sections = file + field(file + 40, 8); /* e_shoff; entries of 64 bytes */
    const u64 count = field(file + 60, 2), names = field(file + 62, 2);
    const u8 *text = file + field(sections + names * 64 + 24, 8); /* sh_offset */
    for (u64 i = 0; i < count; i++) {
        const u8 *section = sections + i * 64;
        if (equal(reinterpret_cast<const char *>(text + field(section, 4)), name)) {
            const u8 *start = file + field(section + 24, 8);
            return { start, start + field(section + 32, 8) };
        }
    }
    return none;
}

struct row {
    u64 address, file, line;
};
static const row first_row = { 0, 1, 1 };

/* A unit's line-number program, and the machine that runs it. */
struct line_program {
    reader code;
    const u8 *operands; /* how many each standard opcode has */
    u8 first_special, range;
    signed char base;
    row at, last;
    bool open; /* `last` and `at` belong to one sequence */

    /* True if `last` is the row of the address: it lies before `at`. */
    bool emit(u64 address)
    {
        if (open && last.address <= address && address < at.address)
            return true;
        last = at;
        open = true;
        return false;
    }

    bool extended(u64 address)
    {
        const u64 nbytes = code.leb(false);
        const u8 *next = code.at + nbytes;
        bool found = false;
        const u64 opcode = code.fixed(1);
        if (opcode == 1) { /* end of a sequence */
            found = emit(address);
            at = first_row;
            open = false;
        } else if (opcode == 2) {
            at.address = code.fixed(8);
        }
        code.at = next;
        return found;
    }

    bool standard(u8 opcode, u64 address)
    {
        switch (opcode) {
        case 1: return emit(address);
        case 2: at.address += code.leb(false); break;
        case 3: at.line += code.leb(true); break;
        case 4: at.file = code.leb(false); break;
        case 8: at.address += static_cast<u64>((255 - first_special) / range); break;
        case 9: at.address += code.fixed(2); break;
        default:
            for (u8 i = 0; i < operands[opcode - 1]; i++)
                code.leb(false);
        }
        return false;
    }

    /* Runs until `last` is the row of the address; false if there is none. */
    bool find(u64 address)
    {
        at = last = first_row;
        open = false;
        bool found = false;
        while (!found && code.at < code.end) {
            const u8 opcode = static_cast<u8>(code.fixed(1));
            if (opcode >= first_special) {
                const u8 step = static_cast<u8>(opcode - first_special);
                at.address += step / range;
                at.line += static_cast<u64>(static_cast<long>(base) + step % range);
                found = emit(address);
            } else {
                found = opcode ? standard(opcode, address) : extended(address);
            }
        }
        return found;
    }
};

/* Line of the current kernel's source that the code before a return address was made from; 0 if it
 * is not known, or lies in the prelude. */
inline u32 line_of_code(u64 return_address)
{
    reader table = find_section(".debug_line");
    while (table.at + 16 < table.end) {
        const u64 nbytes = table.fixed(4);
        reader unit = { table.at, table.at + nbytes };
        table.at = unit.end;
        if (unit.fixed(2) != 4 /* version */ || unit.end > table.end)
            return 0;
        line_program program;
        const u64 header_nbytes = unit.fixed(4);
        program.code = { unit.at + header_nbytes, unit.end };
        unit.fixed(3); /* bytes in an instruction, operations in one, is_stmt at first */
        program.base = static_cast<signed char>(unit.fixed(1));
        program.range = static_cast<u8>(unit.fixed(1));
        program.first_special = static_cast<u8>(unit.fixed(1));
        program.operands = unit.at;
        unit.at += program.first_special - 1;
        const u8 *names_end = program.code.at;
        while (*unit.string()) /* folders */
            ;
        if (!program.range || !program.find(return_address - 1))
            continue;
        for (u64 file = 1; unit.at < names_end && *unit.at; file++) {
            if (equal(unit.string(), now.what->source) && file == program.last.file)
                return static_cast<u32>(program.last.line);
            unit.leb(false), unit.leb(false), unit.leb(false); /* folder, time, size */
        }
        return 0;
    }
    return 0;
}

#endif
