/** Owns the frames between the agent and its netlink helper. */

const headSize = 5;

/** One frame: bytes for, or of, the socket of this number (`helper-script.ts`). */
export interface Frame {
  readonly socket: number;
  readonly bytes: Uint8Array;
}

export function writeFrame({ socket, bytes }: Frame): Uint8Array {
  const frame = new Uint8Array(headSize + bytes.length);
  new DataView(frame.buffer).setUint32(0, bytes.length, true);
  frame[4] = socket;
  frame.set(bytes, headSize);
  return frame;
}

/** Puts frames together again that a pipe has cut anywhere. */
export class FrameReader {
  #rest: Uint8Array = new Uint8Array(0);

  push(chunk: Uint8Array): Frame[] {
    let bytes = chunk;
    if (this.#rest.length > 0) {
      bytes = new Uint8Array(this.#rest.length + chunk.length);
      bytes.set(this.#rest);
      bytes.set(chunk, this.#rest.length);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const frames: Frame[] = [];
    let at = 0;
    while (at + headSize <= bytes.length) {
      const end = at + headSize + view.getUint32(at, true);
      if (end > bytes.length) break;
      frames.push({ socket: view.getUint8(at + 4), bytes: bytes.subarray(at + headSize, end) });
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return frames;
  }
}
