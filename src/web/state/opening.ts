/** Owns writes that may take the last group from devices: the pending confirmation, and the write after the answer. */
import { RingfenceError } from '../../client/error.ts';

export interface OpeningQuestion {
  /** What the server refused: it names the devices. */
  readonly refusal: RingfenceError;
  readonly answer: (isMeant: boolean) => void;
}

let current: OpeningQuestion | undefined;
const listeners = new Set<() => void>();

function show(question: OpeningQuestion | undefined): void {
  current = question;
  for (const listener of listeners) listener();
}

export const openingQuestion = {
  read: (): OpeningQuestion | undefined => current,
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

const ask = (refusal: RingfenceError): Promise<boolean> =>
  new Promise((resolve) => {
    current?.answer(false);
    show({
      refusal,
      answer: (isMeant) => {
        show(undefined);
        resolve(isMeant);
      },
    });
  });

/** Writes. Where that would leave devices with the default group, the person sees them and decides; a no throws what the server said. */
export async function writeOrAsk<T>(write: (asked: { readonly detach?: true }) => Promise<T>): Promise<T> {
  try {
    return await write({});
  } catch (error) {
    if (!(error instanceof RingfenceError) || error.code !== 'would_open' || !(await ask(error))) throw error;
    return write({ detach: true });
  }
}
