/** Owns writes that the server refuses until a person has seen why: devices that would open, tests that would fail. It holds the one open question. */
import { RingfenceError } from '../../client/error.ts';

export interface RefusalQuestion {
  /** What the server refused: it names the devices or the tests. */
  readonly refusal: RingfenceError;
  readonly answer: (isMeant: boolean) => void;
}

let current: RefusalQuestion | undefined;
const listeners = new Set<() => void>();

function show(question: RefusalQuestion | undefined): void {
  current = question;
  for (const listener of listeners) listener();
}

export const refusalQuestion = {
  read: (): RefusalQuestion | undefined => current,
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

/** What a person has agreed to. */
export interface Agreed {
  readonly detach?: true;
  readonly skip_tests?: true;
}

/** What each refusal needs to be written all the same. */
const agreements: Readonly<Record<string, Agreed>> = {
  would_open: { detach: true },
  policy_test_failed: { skip_tests: true },
};

/** The person decided against the write after seeing why it was refused. */
export class WriteDeclined extends Error {
  override readonly name = 'WriteDeclined';
}

export interface Seen {
  /** What the person has agreed to already. */
  readonly agreed?: Agreed;
  /** Devices that the person has seen in a preview to be left with the default group. */
  readonly opened?: ReadonlySet<string>;
}

/** Whether the refusal names nothing that the person has not seen. */
const isSeen = ({ code, devices, moreDevices }: RingfenceError, opened: ReadonlySet<string> | undefined): boolean =>
  code === 'would_open' && moreDevices === 0 && devices.every((id) => opened?.has(id));

/**
 * Writes. Where devices would be left with the default group or policy tests would fail, the person sees them and decides; a no throws
 * `WriteDeclined`.
 */
export async function writeOrAsk<T>(
  write: (agreed: Agreed) => Promise<T>,
  { agreed = {}, opened }: Seen = {},
): Promise<T> {
  try {
    return await write(agreed);
  } catch (error) {
    const more = error instanceof RingfenceError ? agreements[error.code] : undefined;
    const isNew = more !== undefined && Object.keys(more).some((key) => !(key in agreed));
    if (!(error instanceof RingfenceError) || !isNew) throw error;
    if (!isSeen(error, opened) && !(await ask(error))) throw new WriteDeclined(error.message, { cause: error });
    return writeOrAsk(write, { agreed: { ...agreed, ...more }, ...(opened && { opened }) });
  }
}
