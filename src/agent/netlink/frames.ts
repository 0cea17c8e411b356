/** Owns the frames between the agent and its netlink helper. */

import { readLe32 } from './message.ts';

/** Bytes before those that a frame carries. */
export const headSize = 5;

/** One frame: bytes for, or of, the socket of this number (`helper-script.ts`). */
export interface Frame {
  readonly socket: number;
  readonly bytes: Uint8Array;
}

/** Writes the head of a frame of so many bytes into the room before them. */
export function putFrameHead(bytes: Uint8Array, length: number, socket: number): Uint8Array {
  for (let i = 0; i < 4; i += 1) bytes[i] = length >>> (8 * i);
  bytes[4] = socket;
  return bytes;
}

/** Makes a frame of bytes that stand behind room for its head. */
export const sealFrame = (frame: Uint8Array, socket: number): Uint8Array =>
  putFrameHead(frame, frame.length - headSize, socket);

const nothing = new Uint8Array(0);

/** Puts frames together again that a pipe has cut anywhere. */
export class FrameReader {
  #rest: Uint8Array = nothing;

  push(chunk: Uint8Array): Frame[] {
    let bytes = chunk;
    if (this.#rest.length > 0) {
      // Of the kind that a pipe gives: what reads it is then compiled for one kind only.
      bytes = Buffer.allocUnsafe(this.#rest.length + chunk.length);
      bytes.set(this.#rest);
      bytes.set(chunk, this.#rest.length);
    }
    const frames: Frame[] = [];
    let at = 0;
    while (at + headSize <= bytes.length) {
      const end = at + headSize + readLe32(bytes, at);
      if (end > bytes.length) break;
      frames.push({ socket: bytes[at + 4] ?? 0, bytes: bytes.subarray(at + headSize, end) });
      at = end;
    }
    this.#rest = at === bytes.length ? nothing : bytes.subarray(at);
    return frames;
  }
}
