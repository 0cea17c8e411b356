/** Owns the generation of ids: UUIDs of version 7, so that the order of ids is the order of creation. */

export interface IdSource {
  readonly clock: () => number;
  readonly random: (bytes: Uint8Array) => void;
}

/** Ids of one source ascend strictly, also within a millisecond and when the clock steps back. */
export function idMaker({ clock, random }: IdSource): () => string {
  const bytes = Buffer.alloc(16);
  // Asked for in advance: chance comes cheaper by the page than by the id.
  const pool = Buffer.alloc(4096);
  let used = pool.length;
  let millisecond = 0;
  let counter = 0;
  return () => {
    const now = Math.floor(clock());
    if (used === pool.length) {
      random(pool);
      used = 0;
    }
    pool.copy(bytes, 0, used, used + bytes.length);
    used += bytes.length;
    if (now > millisecond) {
      millisecond = now;
      // Starting low leaves room to count up within the millisecond.
      counter = bytes.readUInt32BE(6) & 0x3ff;
    } else {
      counter += 1;
      if (counter > 0xfff) {
        millisecond += 1;
        counter = 0;
      }
    }
    bytes.writeUIntBE(millisecond, 0, 6);
    bytes.writeUInt16BE(0x7000 | counter, 6);
    bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
    const hex = bytes.toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  };
}

/** The first id that a moment could have. */
export function firstIdAt(milliseconds: number): string {
  const hex = Math.max(0, Math.floor(milliseconds)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
