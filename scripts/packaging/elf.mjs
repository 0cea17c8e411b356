/** Owns taking the debugging symbols off a program: what the kernel never loads is left out, what it loads stays to the bit. */

const offsets = { programHeaders: 32, sectionHeaders: 40, programHeaderSize: 54, sectionCount: 60, sectionNames: 62 };

/**
 * A 64-bit little-endian ELF program without the sections that no segment loads. They stand at the end of the file.
 * @param {Buffer} program
 * @returns {Buffer}
 */
export function stripSymbols(program) {
  if (program.readUInt32BE(0) !== 0x7f454c46 || program[4] !== 2 || program[5] !== 1) {
    throw new Error('not a 64-bit little-endian ELF program');
  }
  const at = Number(program.readBigUInt64LE(offsets.programHeaders));
  const size = program.readUInt16LE(offsets.programHeaderSize);
  const count = program.readUInt16LE(offsets.programHeaderSize + 2);
  let end = at + size * count;
  for (let header = at; header < at + size * count; header += size) {
    const from = Number(program.readBigUInt64LE(header + 8));
    const length = Number(program.readBigUInt64LE(header + 32));
    end = Math.max(end, from + length);
  }
  const stripped = Buffer.from(program.subarray(0, end));
  stripped.writeBigUInt64LE(0n, offsets.sectionHeaders);
  stripped.writeUInt16LE(0, offsets.sectionCount);
  stripped.writeUInt16LE(0, offsets.sectionNames);
  return stripped;
}
