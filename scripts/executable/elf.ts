const MAGIC = Buffer.from('\u007fELF\u0002\u0001', 'latin1');
const SECTION_HEADER = 64;
const NO_BITS = 8;
const ALLOCATED = 2n;

/**
 * A 64-bit little-endian ELF executable without what no process loads: debug information and the names of its functions. For the
 * Node.js of nodejs.org this is a fifth of the file. binutils' strip does the same, for the processors that it was built for.
 * Facts: elf(5).
 * @throws Error if it is another kind of file
 */
export function withoutSymbols(executable: Buffer): Buffer {
  if (!executable.subarray(0, 6).equals(MAGIC)) throw new Error('not a 64-bit little-endian ELF executable');
  const table = Number(executable.readBigUInt64LE(0x28));
  const [count, namesIndex] = [executable.readUInt16LE(0x3c), executable.readUInt16LE(0x3e)];
  const sections = Array.from({ length: count }, (_, index) => {
    const at = table + index * SECTION_HEADER;
    return {
      header: executable.subarray(at, at + SECTION_HEADER),
      loaded: index === 0 || (executable.readBigUInt64LE(at + 8) & ALLOCATED) !== 0n,
      from: Number(executable.readBigUInt64LE(at + 24)),
      size: executable.readUInt32LE(at + 4) === NO_BITS ? 0 : Number(executable.readBigUInt64LE(at + 32)),
    };
  });
  // symbols and sections name other sections by their index, so that only those at the end may go
  const kept = sections.findIndex(({ loaded }) => !loaded);
  const names = sections[namesIndex];
  if (kept < 0 || !names || sections.slice(kept).some(({ loaded }) => loaded))
    throw new Error('an ELF executable whose loaded sections do not come first');
  const end = Math.max(...sections.slice(0, kept).map(({ from, size }) => from + size));
  const namesAt = aligned(end);
  const tableAt = aligned(namesAt + names.size);
  const out = Buffer.alloc(tableAt + (kept + 1) * SECTION_HEADER);
  executable.copy(out, 0, 0, end);
  executable.copy(out, namesAt, names.from, names.from + names.size);
  for (const [index, { header }] of [...sections.slice(0, kept), names].entries())
    header.copy(out, tableAt + index * SECTION_HEADER);
  out.writeBigUInt64LE(BigInt(namesAt), tableAt + kept * SECTION_HEADER + 24);
  out.writeBigUInt64LE(BigInt(tableAt), 0x28);
  out.writeUInt16LE(kept + 1, 0x3c);
  out.writeUInt16LE(kept, 0x3e);
  return out;
}

const aligned = (position: number) => Math.ceil(position / 8) * 8;
