/** Owns a write that a user starts on a page: whether it is running, the question where the server refuses it until a person has seen why, its error, and the short message after it, with an undo. */
import { useMutation } from '@tanstack/react-query';
import { sentence } from '../components/sentence.ts';
import { RingfenceError } from '../../client/error.ts';
import { notifications } from '@mantine/notifications';
import { SmallButton } from '../components/page.tsx';

export interface Write<Given> {
  readonly start: (given: Given) => void;
  /** Starts a write that takes nothing, as a form does when it is submitted. */
  readonly submit: (event: { preventDefault(): void }) => void;
  readonly busy: boolean;
  /** What went wrong last, for a person. */
  readonly fault: string | undefined;
  /** Forgets what went wrong. */
  readonly forget: () => void;
}

/** The person saw why the server refused it, and left it at that: there is nothing more to say. */
const isDeclined = (error: unknown): boolean => error instanceof WriteDeclined;

/**
 * `work` is all of it: the request, and what the page does once it is answered. With a title for failures, these are also shown at the edge of the
 * page.
 */
export function useWrite<Given = void>(work: (given: Given) => Promise<unknown>, failureTitle?: string): Write<Given> {
  const { mutate, isPending, error, reset } = useMutation<void, unknown, Given>({
    mutationFn: async (given) => {
      // The answer is not returned: it may hold a secret, and the library keeps results for a while.
      await work(given);
    },
    // A browser that believes to be offline may still reach its server.
    networkMode: 'always',
    onError: (cause: unknown) => {
      if (failureTitle !== undefined && !isDeclined(cause)) failed(cause, failureTitle);
    },
  });
  const start = (given: Given): void => mutate(given);
  return {
    start,
    submit: (event) => {
      event.preventDefault();
      start(undefined as Given);
    },
    busy: isPending,
    fault: error === null || isDeclined(error) ? undefined : sentence(error),
    forget: () => {
      if (!isPending) reset();
    },
  };
}

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
class WriteDeclined extends Error {
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

const undoFor = 12_000;
const closeButtonProps = { 'aria-label': 'Close the message' };

export function notify(message: string, undo?: () => Promise<unknown>): void {
  const id = crypto.randomUUID();
  notifications.show({
    id,
    color: 'fence',
    autoClose: undo === undefined ? 5_000 : undoFor,
    withBorder: true,
    closeButtonProps,
    message:
      undo === undefined ? (
        message
      ) : (
        <div className="row between">
          <span>{message}</span>
          <SmallButton
            onClick={() => {
              notifications.hide(id);
              undo().then(
                () => notify('Undone.'),
                (error: unknown) => failed(error, 'It could not be undone'),
              );
            }}
          >
            Undo
          </SmallButton>
        </div>
      ),
  });
}

export function failed(error: unknown, title = 'Something went wrong'): void {
  notifications.show({
    color: 'red',
    title,
    message: sentence(error),
    autoClose: 10_000,
    withBorder: true,
    closeButtonProps,
  });
}
